//! The daemon as a service: its notifications to a service manager, and the service files.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::sandbox::{Guarded, Sandbox};
use crate::settled::{settled, wait_until};
use insta::assert_snapshot;

/// A socket that receives the notifications, like a service manager.
fn ear(sandbox: &Sandbox) -> UnixDatagram {
    let ear = UnixDatagram::bind(sandbox.work().join("notify")).unwrap();
    ear.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    ear
}

/// Without messages about sockets, see `service_restart`.
fn heard(ear: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let length = ear.recv(&mut bytes).expect("nothing was told in time");
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    if text.starts_with("FDSTORE") { heard(ear) } else { text }
}

#[test]
fn a_service_brings_the_apps_back_says_that_it_is_ready_and_gives_signs_of_life() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "require('http').createServer(() => {}).listen(0);");
    sandbox.run(&["start", "server.js", "--name", "api"]);
    sandbox.run(&["kill"]);
    let ear = ear(&sandbox);
    let mut service = sandbox.command(&["daemon", "--resurrect"]);
    service.env("NOTIFY_SOCKET", sandbox.work().join("notify")).env("WATCHDOG_USEC", "400000");
    let mut service = Guarded::spawn(&mut service);
    assert_eq!(heard(&ear), "READY=1\nSTATUS=1 apps started");
    assert_snapshot!(settled(&sandbox.transcript(&["list"])), @"
    exit: 0
    --- stdout
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    assert_eq!(heard(&ear), "WATCHDOG=1");
    assert_eq!(heard(&ear), "WATCHDOG=1");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(service.child.id()).unwrap()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    while heard(&ear) != "STOPPING=1" {}
    assert!(service.child.wait().unwrap().success());
    // What ran at shutdown runs after the next boot.
    let state = fs_err::read_to_string(sandbox.home().join("state.json")).unwrap();
    assert!(state.contains("\"api\""), "{state}");
}

#[test]
fn values_that_are_not_saved_come_from_the_file_environment_that_the_daemon_reads() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "server.js",
        "require('fs').writeFileSync('token', String(process.env.TOKEN)); require('http').createServer(() => {}).listen(0);",
    );
    let token = || fs_err::read_to_string(sandbox.work().join("token")).unwrap_or_default();
    let mut start = sandbox.command(&["start", "server.js", "--name", "api"]);
    assert!(start.env("TOKEN", "of-the-caller").output().unwrap().status.success());
    wait_until(|| token() == "of-the-caller");
    sandbox.run(&["kill"]);
    let environment = sandbox.home().join("environment");
    let ear = ear(&sandbox);
    let boot = || {
        fs_err::remove_file(sandbox.work().join("token")).unwrap();
        let mut service = sandbox.command(&["daemon", "--resurrect"]);
        let service = Guarded::spawn(service.env("NOTIFY_SOCKET", sandbox.work().join("notify")));
        assert_eq!(heard(&ear), "READY=1\nSTATUS=1 apps started");
        wait_until(|| !token().is_empty());
        let told = token();
        sandbox.run(&["kill"]);
        while heard(&ear) != "STOPPING=1" {}
        drop(service);
        told
    };
    fs_err::write(&environment, "TOKEN='from the file'\n").unwrap();
    assert_eq!(boot(), "from the file");
    // A path that is not a file does not block anything.
    fs_err::remove_file(&environment).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &environment).unwrap();
    assert_eq!(boot(), "undefined");
}

#[test]
fn apps_in_the_foreground_tell_the_service_manager_too() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "require('http').createServer(() => {}).listen(0);");
    let ear = ear(&sandbox);
    let mut command = sandbox.command(&["run", "server.js", "-i", "2"]);
    command.env("NOTIFY_SOCKET", sandbox.work().join("notify"));
    let _run = Guarded::spawn(&mut command);
    assert_eq!(heard(&ear), "READY=1\nSTATUS=1 apps started");
}

#[test]
fn a_second_service_of_one_home_does_not_begin() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "require('http').createServer(() => {}).listen(0);");
    sandbox.run(&["start", "server.js"]);
    // The daemon's own messages begin with the time.
    let time = regex::Regex::new(r"(?m)^\d{4}-\d\d-\d\dT[\d:.]+Z ").unwrap();
    assert_snapshot!(time.replace_all(&sandbox.transcript(&["daemon", "--resurrect"]), "[time] "), @"
    exit: 4
    --- stderr
    [time] forkful: another daemon holds [sandbox]/home/forkful.lock
    error: another daemon holds [sandbox]/home/forkful.lock
    ");
}

#[test]
fn service_files_are_shown_and_need_rights() {
    let sandbox = Sandbox::new();
    let shown = |args: &[&str]| {
        let mut command = sandbox.command(args);
        let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
        sandbox
            .told(&output)
            .replace(env!("CARGO_BIN_EXE_forkful"), "[forkful]")
            .replace("User=root\n", "User=[user]\n")
    };
    let unit = shown(&["startup", "systemd", "--system", "--print"]);
    for line in [
        "Type=notify",
        "WatchdogSec=30",
        "ExecStart=[forkful] daemon --resurrect",
        "Environment=FORKFUL_HOME=[sandbox]/home",
    ] {
        assert!(unit.contains(&format!("{line}\n")), "{line} is not in {unit}");
    }
    // The system's service manager reads no file that a user may replace, and grants no capabilities that
    // were not requested.
    assert!(!unit.contains("EnvironmentFile") && !unit.contains("CAP_NET_BIND_SERVICE"), "{unit}");
    let low = shown(&["startup", "systemd", "--system", "--low-ports", "--print"]);
    assert!(low.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE\n"), "{low}");
    assert!(shown(&["startup", "openrc", "--print"]).contains("supervisor=supervise-daemon\n"));
    assert!(shown(&["startup", "launchd", "--print"]).contains("<key>KeepAlive</key>"));
    assert_snapshot!(shown(&["startup", "systemd", "--service-name", "a b"]), @r#"
    exit: 2
    --- stderr
    error: "a b" cannot be the name of a service

    hint: letters, digits, `-`, `_`, `.` and `@` are possible
    "#);
    for (options, fault) in [
        (&["openrc", "--low-ports"][..], "--low-ports needs a service of systemd"),
        (&["launchd", "--low-ports"], "--low-ports needs a service of systemd"),
        (&["launchd", "--wait-network"], "--wait-network does not work with launchd"),
    ] {
        let told = shown(&[&["startup"], options, &["--print"]].concat());
        assert!(told.starts_with("exit: 2") && told.contains(fault), "{told}");
    }
    assert_snapshot!(shown(&["startup", "systemd", "--user", "no-such-user"]), @"
    exit: 2
    --- stderr
    error: unknown user `no-such-user`

    hint: `getent passwd` lists them
    ");
    assert_snapshot!(shown(&["unstartup", "systemd", "--system", "--service-name", "forkful-not-there.service"]), @"
    exit: 0
    --- stdout
    /etc/systemd/system/forkful-not-there.service does not exist: nothing starts at boot
    ");
}
