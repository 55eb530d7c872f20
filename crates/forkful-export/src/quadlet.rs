//! Podman's Quadlet: a container as a systemd unit (podman-systemd.unit(5)).

use crate::ExportError;
use crate::compose::health_script;
use crate::plan::{Plan, Probes};
use crate::units::{setting, variable, word};

/// Seconds from the end of the container to the end of its unit.
const UNIT_SECONDS: u64 = 10;

/// The file for `~/.config/containers/systemd/NAME.container`, or, for root, `/etc/containers/systemd`.
pub fn container(plan: &Plan) -> Result<String, ExportError> {
    let image = plan.image.as_ref().ok_or_else(|| ExportError::NoImage { app: plan.app.clone() })?;
    let mut text = plan.comment_of_container();
    text.push_str("[Unit]\n");
    text.push_str(&setting("Description", &format!("{}, run by Forkful", plan.name), ""));
    text.push_str("Wants=network-online.target\nAfter=network-online.target\n");
    for name in &plan.depends_on {
        text.push_str(&format!("Wants={name}.service\nAfter={name}.service\n"));
    }
    text.push_str("\n[Container]\n");
    text.push_str(&setting("ContainerName", &plan.name, ""));
    text.push_str(&setting("Image", &word(image), ""));
    let words: Vec<String> = plan.command(Probes::Local).iter().map(|figure| word(&figure.value)).collect();
    text.push_str(&setting("Exec", &words.join(" "), &plan.workers.source));
    for (name, value) in &plan.env {
        text.push_str(&setting("Environment", &variable(name, &value.value), &value.source));
    }
    text.extend(plan.user.map(|(uid, gid)| format!("User={uid}\nGroup={gid}\n")));
    if let Some(port) = &plan.port {
        text.push_str(&setting("PublishPort", &format!("{0}:{0}", port.value), &port.source));
    }
    text.push_str("ReadOnly=true\nTmpfs=/tmp\nDropCapability=all\nNoNewPrivileges=true\n");
    // Podman passes it unchanged to a shell.
    text.push_str(&setting("HealthCmd", &format!("node -e \"{}\"", health_script()), ""));
    text.push_str("HealthInterval=10s\nHealthTimeout=5s\nHealthRetries=3\n");
    text.push_str(&setting("HealthStartPeriod", &format!("{}s", plan.start.value), &plan.start.source));
    let stop = format!("--stop-timeout={}", plan.stop.value);
    text.push_str(&setting("PodmanArgs", &stop, &plan.stop.source));
    let memory = format!("--memory={}m", plan.memory.value.div_ceil(1 << 20));
    text.push_str(&setting("PodmanArgs", &memory, &plan.memory.source));
    if let Some(cpu) = &plan.cpu_max {
        let cpus = format!("--cpus={}", f64::from(cpu.value) / 1000.0);
        text.push_str(&setting("PodmanArgs", &cpus, &cpu.source));
    }
    text.push_str("\n[Service]\nRestart=always\n");
    let stop = (plan.stop.value + UNIT_SECONDS).to_string();
    text.push_str(&setting(
        "TimeoutStopSec",
        &stop,
        "the stop of the container, and some seconds for Podman",
    ));
    text.push_str("\n[Install]\nWantedBy=default.target\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::measured;
    use crate::plan::tests::{app, planned};

    #[test]
    fn a_container_of_an_app_that_was_measured() {
        let (spec, request) = app();
        insta::assert_snapshot!(container(&planned(&spec, &request, Some(&measured()))).unwrap());
    }

    #[test]
    fn without_an_image_there_is_no_container() {
        let (spec, mut request) = app();
        request.image = None;
        assert!(matches!(container(&planned(&spec, &request, None)), Err(ExportError::NoImage { .. })));
    }
}
