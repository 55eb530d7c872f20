//! systemd: a service unit for an app on one machine, without Forkful's daemon (systemd.service(5)).

use std::path::PathBuf;

use crate::plan::Plan;
use crate::units::{path, setting, variable, word};

/// The machine that the unit is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Path of the `forkful` program.
    pub program: PathBuf,
    /// The base directory of the app's paths.
    pub folder: PathBuf,
    /// The user that the app runs as, unless configured; `None` is root.
    pub user: Option<String>,
    /// The search path for programs.
    pub path: String,
}

/// Restrictions that do not affect Node.js apps. Excluded are `MemoryDenyWriteExecute`, which breaks the JIT,
/// options that hide files from the app, and `PrivateDevices`, `ProtectClock` and `ProtectKernelTunables`, which take devices
/// (serial ports, GPUs) and a writable `/sys` (GPIO) from it.
const HARDENING: [&str; 6] = [
    "NoNewPrivileges",
    "ProtectKernelModules",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "LockPersonality",
    "ProtectHostname",
];

/// The unit file for `/etc/systemd/system/NAME.service`.
pub fn unit(plan: &Plan, host: &Host) -> String {
    let mut text = plan.comment();
    text.push_str("[Unit]\n");
    text.push_str(&setting("Description", &format!("{}, run by Forkful", plan.name), ""));
    text.push_str("Wants=network-online.target\nAfter=network-online.target\n");
    for name in &plan.depends_on {
        text.push_str(&format!("Wants={name}.service\nAfter={name}.service\n"));
    }
    text.push_str("\n[Service]\nType=exec\n");
    text.push_str(&service(plan, host));
    text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    text
}

fn service(plan: &Plan, host: &Host) -> String {
    let mut text = String::new();
    let user = plan.user.map(|(uid, _)| uid.to_string()).or_else(|| host.user.clone());
    text.extend(user.map(|user| setting("User", &user, "")));
    text.extend(plan.user.map(|(_, gid)| setting("Group", &gid.to_string(), "")));
    text.push_str(&setting("WorkingDirectory", &path(&host.folder.display().to_string()), ""));
    text.push_str(&setting(
        "Environment",
        &variable("PATH", &host.path),
        "where this command found programs",
    ));
    for (name, value) in &plan.env {
        text.push_str(&setting("Environment", &variable(name, &value.value), &value.source));
    }
    let mut words = vec![host.program.display().to_string(), "run".to_owned()];
    words.extend(plan.run.iter().cloned());
    let workers = plan.workers_of_machine.as_ref();
    if let Some(workers) = workers {
        words.extend(["-i".to_owned(), workers.value.to_string()]);
    }
    let line: Vec<String> = words.iter().map(|text| word(text)).collect();
    text.push_str(&setting(
        "ExecStart",
        &line.join(" "),
        workers.map_or("workers: instances of the configuration", |workers| workers.source.as_str()),
    ));
    text.push_str("Restart=on-failure\nRestartSec=1\n");
    text.push_str("# Forkful passes the signal on, and ends what is left.\nKillMode=mixed\n");
    text.push_str(&setting("TimeoutStopSec", &plan.stop.value.to_string(), &plan.stop.source));
    if plan.is_memory_known {
        text.push_str(&setting("MemoryMax", &plan.memory.value.to_string(), &plan.memory.source));
    }
    if let Some(cpu) = &plan.cpu_max {
        text.push_str(&setting("CPUQuota", &format!("{}%", cpu.value.div_ceil(10)), &cpu.source));
    }
    text.push_str(
        "# A worker that the kernel kills for lack of memory is started again.\nOOMPolicy=continue\n",
    );
    text.push_str(
        "# For `memory_max` and `cpu_max` of the configuration.\nDelegate=yes\nLimitNOFILE=1048576\n",
    );
    if plan.port.as_ref().is_some_and(|port| port.value < 1024) {
        text.push_str("# The port is below 1024.\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n");
    }
    text.extend(HARDENING.map(|right| format!("{right}=yes\n")));
    text.push_str("ProtectSystem=full\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::measured;
    use crate::plan::tests::{app, planned};

    fn host() -> Host {
        Host {
            program: "/usr/local/bin/forkful".into(),
            folder: "/srv/100% mine".into(),
            user: Some("ann".to_owned()),
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
        }
    }

    #[test]
    fn a_unit_for_an_app_that_was_measured() {
        let (spec, request) = app();
        insta::assert_snapshot!(unit(&planned(&spec, &request, Some(&measured())), &host()));
    }

    #[test]
    fn what_is_not_known_is_no_limit() {
        let (spec, mut request) = app();
        request.env.insert("GREETING".to_owned(), "100% \"you\"\nUser=root".to_owned());
        let text = unit(&planned(&spec, &request, None), &host());
        assert!(!text.contains("MemoryMax") && !text.contains(" -i "), "{text}");
        assert!(text.contains(r#"Environment="GREETING=100%% \"you\"\nUser=root""#), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("User=")).count(), 1, "{text}");
    }
}
