//! The service files for systemd, `OpenRC` and launchd, from the templates in this folder. Nothing is read or
//! written here.

use std::path::PathBuf;

use forkful_export::units::{variable, word};

/// The contents of a service file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    /// The service's name.
    pub(super) name: String,
    /// Path of this program.
    pub(super) program: PathBuf,
    /// `$FORKFUL_HOME` of the user.
    pub(super) home: PathBuf,
    /// The user's home directory.
    pub(super) user_home: PathBuf,
    /// The user that it runs as; `None` for a user's own service.
    pub(super) user: Option<String>,
    /// The search path for programs.
    pub(super) path: String,
    /// Wait for the network.
    pub(super) wait_network: bool,
    /// Apps may listen on ports below 1024.
    pub(super) low_ports: bool,
}

/// Time from the first signal until everything has stopped; workers' kill timeouts fit within it.
const STOP_SECONDS: u32 = 90;

/// systemd's watchdog timeout; the daemon notifies it every half of it.
const WATCHDOG_SECONDS: u32 = 30;

/// A systemd unit (systemd.service(5), systemd.exec(5)).
pub(super) fn systemd(service: &Service) -> String {
    let is_own = service.user.is_none();
    let target = if is_own { "default.target" } else { "multi-user.target" };
    let network = if service.wait_network {
        "Wants=network-online.target\nAfter=network-online.target\n"
    } else {
        "After=network.target\n"
    };
    let user = service.user.as_ref().map(|user| format!("User={user}\n")).unwrap_or_default();
    let program = word(&service.program.display().to_string());
    let home = variable("FORKFUL_HOME", &service.home.display().to_string());
    let path = variable("PATH", &service.path);
    let low_ports =
        if service.low_ports && !is_own { "AmbientCapabilities=CAP_NET_BIND_SERVICE\n" } else { "" };
    // Restrictions that do not affect a manager of Node.js apps. Excluded are MemoryDenyWriteExecute, which
    // breaks the JIT, options that hide files from the apps, ProtectControlGroups, which makes the groups
    // read-only that `Delegate` gives us (apps with limits would not start), ProtectClock, which closes all
    // devices such as serial ports and GPUs, and ProtectKernelTunables, which makes /sys read-only (GPIO).
    let hardening = if is_own {
        "NoNewPrivileges=yes\n"
    } else {
        "NoNewPrivileges=yes\nProtectSystem=full\nProtectKernelModules=yes\n\
         RestrictRealtime=yes\nRestrictSUIDSGID=yes\nLockPersonality=yes\n"
    };
    format!(
        include_str!("templates/systemd.service"),
        network = network,
        user = user,
        home = home,
        path = path,
        program = program,
        watchdog = WATCHDOG_SECONDS,
        stop = STOP_SECONDS,
        hardening = hardening,
        low_ports = low_ports,
        target = target,
    )
}

/// An `OpenRC` service script (openrc-run(8)).
pub(super) fn openrc(service: &Service) -> String {
    let user = service.user.as_deref().unwrap_or("root");
    let after = if service.wait_network { "need net" } else { "after net" };
    format!(
        include_str!("templates/openrc.sh"),
        program = shell(&service.program.display().to_string()),
        user = user,
        stop = STOP_SECONDS,
        home = shell(&service.home.display().to_string()),
        user_home = shell(&service.user_home.display().to_string()),
        path = shell(&service.path),
        after = after,
    )
}

/// A launchd property list (launchd.plist(5)).
pub(super) fn launchd(service: &Service) -> String {
    let user = service.user.as_ref().map_or_else(String::new, |user| {
        format!("  <key>UserName</key>\n  <string>{}</string>\n", xml(user))
    });
    format!(
        include_str!("templates/launchd.plist"),
        name = xml(&service.name),
        user = user,
        program = xml(&service.program.display().to_string()),
        home = xml(&service.home.display().to_string()),
        path = xml(&service.path),
        stop = STOP_SECONDS,
    )
}

fn shell(text: &str) -> String {
    shell_words::quote(text).into_owned()
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn service(user: Option<&str>) -> Service {
        Service {
            name: "forkful".to_owned(),
            program: "/usr/local/bin/forkful".into(),
            home: "/home/ann/.forkful".into(),
            user_home: "/home/ann".into(),
            user: user.map(str::to_owned),
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            wait_network: user.is_some(),
            low_ports: false,
        }
    }

    #[test]
    fn a_unit_of_the_system_runs_as_its_user_and_may_do_little() {
        assert_snapshot!(systemd(&service(Some("ann"))), @"
        # Written by `forkful startup`; `forkful unstartup` removes it.
        [Unit]
        Description=Forkful, which keeps Node.js apps up
        Wants=network-online.target
        After=network-online.target
        StartLimitIntervalSec=0

        [Service]
        Type=notify
        NotifyAccess=main
        User=ann
        Environment=FORKFUL_HOME=/home/ann/.forkful
        Environment=PATH=/usr/local/bin:/usr/bin:/bin
        # The daemon reads values that are not saved from $FORKFUL_HOME/environment, as its user.
        ExecStart=/usr/local/bin/forkful daemon --resurrect
        ExecReload=/usr/local/bin/forkful reload all
        Restart=on-failure
        RestartSec=1
        WatchdogSec=30
        TimeoutStartSec=120
        TimeoutStopSec=90
        KillMode=mixed
        LimitNOFILE=1048576
        FileDescriptorStoreMax=512
        OOMPolicy=continue
        Delegate=yes
        NoNewPrivileges=yes
        ProtectSystem=full
        ProtectKernelModules=yes
        RestrictRealtime=yes
        RestrictSUIDSGID=yes
        LockPersonality=yes

        [Install]
        WantedBy=multi-user.target
        ");
    }

    #[test]
    fn a_unit_of_ones_own_has_no_user() {
        assert_snapshot!(systemd(&service(None)), @"
        # Written by `forkful startup`; `forkful unstartup` removes it.
        [Unit]
        Description=Forkful, which keeps Node.js apps up
        After=network.target
        StartLimitIntervalSec=0

        [Service]
        Type=notify
        NotifyAccess=main
        Environment=FORKFUL_HOME=/home/ann/.forkful
        Environment=PATH=/usr/local/bin:/usr/bin:/bin
        # The daemon reads values that are not saved from $FORKFUL_HOME/environment, as its user.
        ExecStart=/usr/local/bin/forkful daemon --resurrect
        ExecReload=/usr/local/bin/forkful reload all
        Restart=on-failure
        RestartSec=1
        WatchdogSec=30
        TimeoutStartSec=120
        TimeoutStopSec=90
        KillMode=mixed
        LimitNOFILE=1048576
        FileDescriptorStoreMax=512
        OOMPolicy=continue
        Delegate=yes
        NoNewPrivileges=yes

        [Install]
        WantedBy=default.target
        ");
    }

    #[test]
    fn low_ports_are_for_services_that_ask_for_them() {
        let asked = |user| systemd(&Service { low_ports: true, ..service(user) });
        assert!(asked(Some("ann")).contains("\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n"));
        // A user's own service manager cannot grant capabilities.
        assert!(!asked(None).contains("CAP_"));
    }

    #[test]
    fn no_path_ends_a_word_or_a_line_of_a_unit() {
        let home = "/srv/a b%h\n[Service]\nUser=root\\x\"'$HOME";
        let strange = Service {
            home: home.into(),
            program: "/opt/a b/$x%n/forkful".into(),
            path: "/usr/bin:/opt/x y:/opt/100%".to_owned(),
            ..service(Some("ann"))
        };
        let unit = systemd(&strange);
        for line in [
            r#"Environment="FORKFUL_HOME=/srv/a b%%h\n[Service]\nUser=root\\x\"\'$HOME""#,
            r#"Environment="PATH=/usr/bin:/opt/x y:/opt/100%%""#,
            r#"ExecStart="/opt/a b/$$x%%n/forkful" daemon --resurrect"#,
        ] {
            assert!(unit.lines().any(|found| found == line), "{line} is not in\n{unit}");
        }
        assert_eq!(unit.matches("User=").count(), 2, "one line and a part of a value:\n{unit}");
        assert!(!unit.lines().any(|line| line == "User=root"), "{unit}");
        let script = openrc(&strange);
        let words = shell_words::split(&script).unwrap();
        assert!(words.contains(&format!("FORKFUL_HOME={home}")), "{script}");
    }

    #[test]
    fn other_systems_have_their_own_files() {
        assert_snapshot!(openrc(&service(Some("ann"))), @r#"
        #!/sbin/openrc-run
        # Written by `forkful startup`; `forkful unstartup` removes it.
        description="Forkful, which keeps Node.js apps up"
        supervisor=supervise-daemon
        command=/usr/local/bin/forkful
        command_args="daemon --resurrect"
        command_user=ann
        retry="TERM/90/KILL/5"
        respawn_delay=1
        export FORKFUL_HOME=/home/ann/.forkful
        export HOME=/home/ann
        export PATH=/usr/local/bin:/usr/bin:/bin

        depend() {
        	need net
        }
        "#);
        let strange = Service { home: "/srv/a & b/.forkful".into(), ..service(None) };
        assert_snapshot!(launchd(&strange), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0">
        <dict>
          <key>Label</key>
          <string>forkful</string>
          <key>ProgramArguments</key>
          <array>
            <string>/usr/local/bin/forkful</string>
            <string>daemon</string>
            <string>--resurrect</string>
          </array>
          <key>EnvironmentVariables</key>
          <dict>
            <key>FORKFUL_HOME</key>
            <string>/srv/a &amp; b/.forkful</string>
            <key>PATH</key>
            <string>/usr/local/bin:/usr/bin:/bin</string>
          </dict>
          <key>RunAtLoad</key>
          <true/>
          <key>KeepAlive</key>
          <dict>
            <key>SuccessfulExit</key>
            <false/>
          </dict>
          <key>ExitTimeOut</key>
          <integer>90</integer>
          <key>StandardErrorPath</key>
          <string>/srv/a &amp; b/.forkful/daemon.log</string>
        </dict>
        </plist>
        "#);
        assert!(openrc(&strange).contains("FORKFUL_HOME='/srv/a & b/.forkful'"));
    }
}
