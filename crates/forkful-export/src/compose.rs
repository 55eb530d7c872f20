//! Compose: one file with a service for each app, for one machine (<https://compose-spec.io>).
//!
//! A service has one container: its workers use the machine's cores, and two containers could not publish the
//! same port.

use serde::Serialize;

use crate::plan::{PROBES_PORT, Plan, Probes};
use crate::yaml::{self, as_map};
use crate::{ExportError, Figure};

#[derive(Serialize)]
struct File {
    #[serde(serialize_with = "as_map")]
    services: Vec<(String, Service)>,
}

#[derive(Serialize)]
struct Service {
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// Without an image, the file's folder is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    build: Option<&'static str>,
    command: Vec<Figure<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    environment: Vec<(String, Figure<String>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<Figure<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    depends_on: Vec<(String, Condition)>,
    restart: &'static str,
    stop_grace_period: Figure<String>,
    healthcheck: HealthCheck,
    read_only: bool,
    tmpfs: [&'static str; 1],
    cap_drop: [&'static str; 1],
    security_opt: [&'static str; 1],
    deploy: Deploy,
}

#[derive(Serialize)]
struct Condition {
    condition: &'static str,
}

#[derive(Serialize)]
struct HealthCheck {
    test: [String; 4],
    interval: &'static str,
    timeout: &'static str,
    retries: u32,
    start_period: Figure<String>,
}

#[derive(Serialize)]
struct Deploy {
    resources: Resources,
}

#[derive(Serialize)]
struct Resources {
    limits: Amounts,
    reservations: Amounts,
}

#[derive(Serialize)]
struct Amounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<Figure<String>>,
    memory: Figure<String>,
}

/// A Node.js script, because every image has Node.js, that queries Forkful from inside the container. It is
/// unchanged by a shell inside double quotes.
pub(crate) fn health_script() -> String {
    format!(
        "fetch('http://127.0.0.1:{PROBES_PORT}/readyz').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"
    )
}

/// The whole file.
pub fn file(plans: &[Plan]) -> Result<String, ExportError> {
    let names: Vec<&str> = plans.iter().map(|plan| plan.app.as_str()).collect();
    let text = yaml::document(
        &names.join(", "),
        &File { services: plans.iter().map(|plan| (plan.name.clone(), service(plan))).collect() },
    )?;
    Ok(plans.iter().map(Plan::comment_of_container).collect::<String>() + &text)
}

fn service(plan: &Plan) -> Service {
    let cores = |cpu: &u32| format!("{}", f64::from(*cpu) / 1000.0);
    let memory = plan.memory.map(|bytes| format!("{}M", bytes.div_ceil(1 << 20)));
    let limit = Figure::new(memory.value.clone(), "as the reservation: memory cannot be taken back");
    let text = |figure: &Figure<String>| figure.map(|text| interpolated(text));
    Service {
        image: plan.image.clone(),
        build: plan.image.is_none().then_some("."),
        command: plan.command(Probes::Local).iter().map(text).collect(),
        environment: plan.env.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        user: plan.user.map(|(uid, gid)| format!("{uid}:{gid}")),
        ports: plan.port.iter().map(|port| port.map(|port| format!("{port}:{port}"))).collect(),
        depends_on: plan
            .depends_on
            .iter()
            .map(|name| (name.clone(), Condition { condition: "service_healthy" }))
            .collect(),
        restart: "unless-stopped",
        stop_grace_period: plan.stop.map(|seconds| format!("{seconds}s")),
        healthcheck: HealthCheck {
            test: ["CMD".to_owned(), "node".to_owned(), "-e".to_owned(), health_script()],
            interval: "10s",
            timeout: "5s",
            retries: 3,
            start_period: plan.start.map(|seconds| format!("{seconds}s")),
        },
        read_only: true,
        tmpfs: ["/tmp"],
        cap_drop: ["ALL"],
        security_opt: ["no-new-privileges:true"],
        deploy: Deploy {
            resources: Resources {
                limits: Amounts { cpus: plan.cpu_max.as_ref().map(|cpu| cpu.map(cores)), memory: limit },
                reservations: Amounts { cpus: Some(plan.cpu.map(cores)), memory },
            },
        },
    }
}

/// A text in which Compose does not expand variables.
fn interpolated(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::measured;
    use crate::plan::tests::{app, planned};

    #[test]
    fn apps_are_services_of_one_file() {
        let (mut spec, mut request) = app();
        request.env.insert("GREETING".to_owned(), "$HOME: hello".to_owned());
        let api = planned(&spec, &request, Some(&measured()));
        spec.name = forkful_core::spec::AppName::new("Web site").unwrap();
        (request.image, request.env) = (None, std::collections::BTreeMap::new());
        let mut web = planned(&spec, &request, None);
        web.depends_on = vec!["api".to_owned()];
        insta::assert_snapshot!(file(&[api, web]).unwrap());
    }
}
