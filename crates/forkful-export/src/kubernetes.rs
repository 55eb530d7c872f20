//! Kubernetes: `Deployment`, `Service`, `HorizontalPodAutoscaler` and `PodDisruptionBudget` of an app.
//!
//! The fields are those of the API's `apps/v1`, `v1`, `autoscaling/v2` and `policy/v1`; `tests/kubernetes`
//! validates the text with the API server's own code. Kubernetes' own features are used for rollouts, for the
//! delay for load balancers (`preStop`) and for replicas.

mod objects;

use crate::plan::{PROBES_PORT, Plan, Probes};
use crate::{ExportError, Figure, yaml};
use objects::{
    Container, Deployment, DeploymentSpec, EmptyDir, EnvVar, ExecSecurity, HorizontalPodAutoscaler, HttpGet,
    LabelSelector, Lifecycle, Metadata, Metric, Mount, ObjectReference, PodDisruptionBudget, PodSecurity,
    PodSpec, PodTemplate, Port, Probe, Resources, Rolling, Service, ServicePort, Spread, Sysctl, Volume,
};

/// The user of the official Node.js images, as a number: from a name, Kubernetes cannot tell that it is not
/// root.
const USER: u32 = 1000;

/// The port of the Service.
const SERVICE_PORT: u16 = 80;

/// Unprivileged users may bind lower ports only if a sysctl allows it.
const FREE_PORTS: u16 = 1024;

/// The name of the app's port.
const HTTP: &str = "http";

/// All objects of an app, as documents of one YAML file.
pub fn manifest(plan: &Plan) -> Result<String, ExportError> {
    let mut text: String = plan.comment_with_tradeoff();
    let mut documents = vec![yaml::document(&plan.app, &deployment(plan)?)?];
    if plan.port.is_some() {
        documents.push(yaml::document(&plan.app, &service(plan))?);
    }
    if plan.replicas_max.value > plan.replicas.value {
        documents.push(yaml::document(&plan.app, &autoscaler(plan))?);
    }
    documents.push(yaml::document(&plan.app, &budget(plan))?);
    text.push_str(&documents.join("---\n"));
    Ok(text)
}

fn metadata(plan: &Plan) -> Metadata {
    Metadata { name: Some(plan.name.clone()), labels: labels(plan) }
}

fn labels(plan: &Plan) -> [(&'static str, String); 1] {
    [("app.kubernetes.io/name", plan.name.clone())]
}

fn selector(plan: &Plan) -> LabelSelector {
    LabelSelector { match_labels: labels(plan) }
}

fn deployment(plan: &Plan) -> Result<Deployment, ExportError> {
    let is_scaled = plan.replicas_max.value > plan.replicas.value;
    Ok(Deployment {
        api_version: "apps/v1",
        kind: "Deployment",
        metadata: metadata(plan),
        spec: DeploymentSpec {
            // With an autoscaler, a number here would reset its work at each `kubectl apply`.
            replicas: (!is_scaled).then(|| plan.replicas.clone()),
            selector: selector(plan),
            strategy: Rolling::with(
                Figure::new(0, "the old pods stay until a new one is ready"),
                Figure::new(1, ""),
            ),
            template: PodTemplate {
                metadata: Metadata { name: None, labels: labels(plan) },
                spec: pod(plan)?,
            },
        },
    })
}

fn pod(plan: &Plan) -> Result<PodSpec, ExportError> {
    let is_low = plan.port.as_ref().is_some_and(|port| port.value < FREE_PORTS);
    let (uid, gid) = match plan.user {
        Some((uid, gid)) => (Figure::new(uid, "the user of the configuration"), Some(gid)),
        None => (Figure::new(USER, "`node` in the official images of Node.js"), None),
    };
    Ok(PodSpec {
        termination_grace_period_seconds: plan.grace(),
        automount_service_account_token: false,
        topology_spread_constraints: ["kubernetes.io/hostname", "topology.kubernetes.io/zone"].map(|key| {
            Spread {
                max_skew: 1,
                topology_key: key,
                when_unsatisfiable: "ScheduleAnyway",
                label_selector: selector(plan),
                match_label_keys: ["pod-template-hash"],
            }
        }),
        security_context: PodSecurity {
            run_as_non_root: uid.value != 0,
            run_as_user: uid,
            run_as_group: gid,
            seccomp_profile: objects::Seccomp { kind: "RuntimeDefault" },
            sysctls: is_low
                .then(|| Sysctl {
                    name: "net.ipv4.ip_unprivileged_port_start",
                    value: Figure::new("0".to_owned(), "the port is below 1024"),
                })
                .into_iter()
                .collect(),
        },
        containers: [container(plan)?],
        volumes: [Volume { name: "tmp", empty_dir: EmptyDir {} }],
    })
}

fn container(plan: &Plan) -> Result<Container, ExportError> {
    let image = plan.image.clone().ok_or_else(|| ExportError::NoImage { app: plan.app.clone() })?;
    let memory = plan.memory.map(|bytes| format!("{}Mi", bytes.div_ceil(1 << 20)));
    let millicores =
        |cpu: &u32| if cpu.is_multiple_of(1000) { (cpu / 1000).to_string() } else { format!("{cpu}m") };
    let probes = Port { name: "probes", container_port: Figure::new(PROBES_PORT, "forkful run --probes") };
    let app = plan.port.clone().map(|port| Port { name: HTTP, container_port: port });
    let pre_stop = plan.delay.map(|seconds| i64::try_from(*seconds).unwrap_or(i64::MAX));
    Ok(Container {
        name: plan.name.clone(),
        image,
        command: plan.command(Probes::Open).iter().map(|word| word.map(|text| unexpanded(text))).collect(),
        env: plan
            .env
            .iter()
            .map(|(name, value)| EnvVar { name: name.clone(), value: value.map(|text| unexpanded(text)) })
            .collect(),
        ports: app.into_iter().chain([probes]).collect(),
        resources: Resources::new(
            plan.cpu.map(millicores),
            plan.cpu_max.as_ref().map(|cpu| cpu.map(millicores)),
            memory,
        ),
        startup_probe: probe("/startupz", 1, plan.start.clone()),
        readiness_probe: probe("/readyz", 2, Figure::new(3, "")),
        liveness_probe: probe(
            "/livez",
            10,
            Figure::new(3, "all workers are gone or blocked for so many periods"),
        ),
        lifecycle: (plan.delay.value > 0).then(|| Lifecycle::sleep(pre_stop)),
        security_context: ExecSecurity::default(),
        volume_mounts: [Mount { name: "tmp", mount_path: "/tmp" }],
    })
}

/// A text in which Kubernetes does not expand `$(NAME)`: `$$` stands for `$`.
fn unexpanded(text: &str) -> String {
    text.replace('$', "$$")
}

fn probe(path: &'static str, period_seconds: u32, failure_threshold: Figure<u32>) -> Probe {
    Probe {
        http_get: HttpGet { path, port: "probes" },
        period_seconds,
        timeout_seconds: 2,
        failure_threshold,
    }
}

fn service(plan: &Plan) -> Service {
    Service {
        api_version: "v1",
        kind: "Service",
        metadata: metadata(plan),
        spec: objects::ServiceSpec {
            selector: labels(plan),
            session_affinity: plan.sticky.then(|| Figure::new("ClientIP".to_owned(), "balance: sticky")),
            ports: [ServicePort { name: HTTP, port: SERVICE_PORT, target_port: HTTP }],
        },
    }
}

fn autoscaler(plan: &Plan) -> HorizontalPodAutoscaler {
    let own = plan.metrics.iter().map(|(name, value)| Metric::pods(name, value));
    HorizontalPodAutoscaler {
        api_version: "autoscaling/v2",
        kind: "HorizontalPodAutoscaler",
        metadata: metadata(plan),
        spec: objects::AutoscalerSpec {
            scale_target_ref: ObjectReference {
                api_version: "apps/v1",
                kind: "Deployment",
                name: plan.name.clone(),
            },
            min_replicas: plan.replicas.clone(),
            max_replicas: plan.replicas_max.clone(),
            metrics: std::iter::once(Metric::cpu(plan.load_percent.clone())).chain(own).collect(),
        },
    }
}

fn budget(plan: &Plan) -> PodDisruptionBudget {
    PodDisruptionBudget {
        api_version: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata: metadata(plan),
        spec: objects::BudgetSpec {
            max_unavailable: Figure::new(1, "a drained node takes one pod at a time"),
            selector: selector(plan),
            unhealthy_pod_eviction_policy: "AlwaysAllow",
        },
    }
}

#[cfg(test)]
mod tests {
    use forkful_core::spec::RunAs;

    use super::*;
    use crate::measured::tests::measured;
    use crate::plan::tests::{app, planned};

    fn lines(text: &str, start: &str) -> Vec<String> {
        text.lines().map(str::trim).filter(|line| line.starts_with(start)).map(str::to_owned).collect()
    }

    #[test]
    fn an_app_that_was_measured() {
        let (spec, mut request) = app();
        request.metrics = vec![("http_requests_per_second".to_owned(), "400".to_owned())];
        let text = manifest(&planned(&spec, &request, Some(&measured()))).unwrap();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn without_an_image_there_is_no_manifest() {
        let (spec, request) = app();
        let plan = Plan { image: None, ..planned(&spec, &request, None) };
        assert_eq!(manifest(&plan), Err(ExportError::NoImage { app: "api".to_owned() }));
    }

    #[test]
    fn an_app_without_a_port_has_no_service_and_no_pre_stop() {
        let (spec, mut request) = app();
        request.no_port = true;
        let text = manifest(&planned(&spec, &request, None)).unwrap();
        let kinds = ["Deployment", "HorizontalPodAutoscaler", "Deployment", "PodDisruptionBudget"];
        assert_eq!(
            lines(&text, "kind:"),
            kinds.map(|kind| format!("kind: {kind}")),
            "the second is what is scaled"
        );
        assert!(!text.contains("preStop:"), "{text}");
    }

    #[test]
    fn a_fixed_number_of_pods_has_no_autoscaler() {
        let (spec, mut request) = app();
        (request.replicas, request.replicas_max) = (Some(3), Some(3));
        let text = manifest(&planned(&spec, &request, None)).unwrap();
        assert_eq!(lines(&text, "replicas:"), ["replicas: 3 # --replicas"]);
        assert!(!text.contains("HorizontalPodAutoscaler"), "{text}");
    }

    #[test]
    fn low_ports_users_and_stickiness_are_told_to_the_platform() {
        let (mut spec, mut request) = app();
        spec.balance = forkful_core::spec::Balance::Sticky;
        spec.launch.run_as = Some(RunAs { uid: 33, gid: 34, groups: Vec::new() });
        request.port = Some(80);
        let text = manifest(&planned(&spec, &request, None)).unwrap();
        assert_eq!(lines(&text, "sessionAffinity"), ["sessionAffinity: ClientIP # balance: sticky"]);
        assert_eq!(lines(&text, "runAs").len(), 3, "{text}");
        assert_eq!(lines(&text, "- name: net.ipv4").len(), 1, "{text}");
        assert_eq!(lines(&text, "- name: PORT").len(), 1, "the app is told the port of --port");
    }

    #[test]
    fn what_users_write_stays_a_text() {
        let (spec, mut request) = app();
        let hostile = "a: b # c\n- d: \"e\"\u{7}";
        request.env.insert("GREETING".to_owned(), hostile.to_owned());
        request.file = "x\nkind: Pod".to_owned();
        let text = manifest(&planned(&spec, &request, None)).unwrap();
        assert_eq!(lines(&text, "kind: Pod"), ["kind: PodDisruptionBudget"], "{text}");
        assert!(
            text.lines().any(|line| line.trim().starts_with(r#"value: "a: b # c\n- d: \"e\"\a""#)),
            "{text}"
        );
    }

    #[test]
    fn variables_are_not_expanded_in_values_and_commands() {
        let (spec, mut request) = app();
        request.env.insert("PRICE".to_owned(), "$$5 $(HOME) $HOME".to_owned());
        request.run[0] = "$(HOME).config.js".to_owned();
        let text = manifest(&planned(&spec, &request, None)).unwrap();
        assert_eq!(lines(&text, "value: $$$$5"), ["value: $$$$5 $$(HOME) $$HOME # --env"]);
        assert_eq!(lines(&text, "- $"), ["- $$(HOME).config.js"]);
    }
}
