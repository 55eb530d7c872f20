//! Targets: ids, names, namespaces, patterns, scripts and config files, for every command that accepts them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::{Sandbox, done, stdout};
use crate::settled::wait_until;

const TICKER: &str = "console.log('ticking'); setInterval(() => {}, 1000);";

const CONFIG: &str = r#"{ "apps": [
    { "name": "api-1", "script": "api.js", "namespace": "web" },
    { "name": "api-2", "script": "api.js", "namespace": "web" },
    { "name": "2nd/mail", "script": "jobs/mail.js" }
] }"#;

/// Three apps: two with the same script in a namespace, and one whose name contains a slash.
fn three() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.work().join("jobs")).unwrap();
    sandbox.write("api.js", TICKER);
    sandbox.write("jobs/mail.js", TICKER);
    sandbox.write("forkful.config.json", CONFIG);
    done(&sandbox, &["start"]);
    sandbox
}

/// The names of the apps that a command acted on.
fn acted(sandbox: &Sandbox, args: &[&str]) -> String {
    let reply: Value = serde_json::from_str(&done(sandbox, &[args, &["--json"]].concat())).unwrap();
    let names: Vec<&str> =
        reply["apps"].as_array().unwrap().iter().map(|app| app["name"].as_str().unwrap()).collect();
    names.join(" ")
}

#[test]
fn each_kind_of_target_means_its_apps() {
    let sandbox = three();
    let script = sandbox.work().join("api.js");
    for (target, meant) in [
        ("api-1", "api-1"),
        ("1", "api-2"),
        ("01", "api-2"),
        ("web", "api-1 api-2"),
        ("default", "2nd/mail"),
        ("/^api-[12]$/", "api-1 api-2"),
        ("/mail/", "2nd/mail"),
        ("2nd/mail", "2nd/mail"),
        ("api.js", "api-1 api-2"),
        ("./jobs/../api.js", "api-1 api-2"),
        ("jobs/mail.js", "2nd/mail"),
        (script.to_str().unwrap(), "api-1 api-2"),
        ("forkful.config.json", "api-1 api-2 2nd/mail"),
        ("all", "api-1 api-2 2nd/mail"),
    ] {
        assert_eq!(acted(&sandbox, &["reset", target]), meant, "{target}");
    }
    assert_eq!(acted(&sandbox, &["reset", "/1$/", "2"]), "api-1 2nd/mail");
    assert_eq!(acted(&sandbox, &["reset", "web", "api-1", "0"]), "api-1 api-2");
    assert_eq!(acted(&sandbox, &["reset", "forkful.config.json", "--only", "api-2"]), "api-2");
}

#[test]
fn every_verb_takes_every_kind_of_target() {
    let sandbox = three();
    // Options that PM2's users add are accepted too.
    assert_eq!(acted(&sandbox, &["stop", "/^api/", "--watch"]), "api-1 api-2");
    assert_eq!(acted(&sandbox, &["restart", "api.js"]), "api-1 api-2");
    assert_eq!(acted(&sandbox, &["reload", "web", "jobs/mail.js", "-f"]), "api-1 api-2 2nd/mail");
    assert_eq!(acted(&sandbox, &["flush", "jobs/mail.js"]), "2nd/mail");
    assert_eq!(acted(&sandbox, &["signal", "SIGCONT", "/^api/"]), "api-1 api-2");
    assert_eq!(acted(&sandbox, &["scale", "/mail/", "2"]), "2nd/mail");
    assert_eq!(acted(&sandbox, &["scale", "jobs/mail.js", "-1"]), "2nd/mail");
    assert_eq!(done(&sandbox, &["id", "/^api/"]), "[ 0, 1 ]\n");
    assert_eq!(done(&sandbox, &["id", "1", "2nd/mail"]), "[ 1, 2 ]\n");
    assert_eq!(done(&sandbox, &["pid", "web"]).lines().count(), 2);
    assert!(done(&sandbox, &["env", "api.js"]).contains("api-2\n"));
    assert!(done(&sandbox, &["describe", "/mail/", "0"]).contains("2nd/mail (1 worker)"));
    assert_eq!(done(&sandbox, &["logs", "jobs/mail.js", "--nostream", "--raw"]), "ticking\n");
    assert_eq!(acted(&sandbox, &["delete", "forkful.config.json", "--only", "api-1"]), "api-1");
    let told = sandbox.transcript(&["stop", "forkful.config.json"]);
    assert!(told.starts_with("exit: 0\n") && told.contains("note: no app or worker `api-1`\n"), "{told}");
    assert_eq!(acted(&sandbox, &["delete", "jobs/mail.js", "/./"]), "api-2 2nd/mail");
    assert_eq!(sandbox.run(&["stop", "forkful.config.json"]).status.code(), Some(3));
}

#[test]
fn what_is_no_target_is_told() {
    let sandbox = three();
    let told = |args: &[&str]| {
        let text = sandbox.transcript(args);
        text.replace("there is `api-1`, `api-2`, `2nd/mail`", "there is […]")
    };
    let all = [
        told(&["restart", "/(/"]),
        told(&["stop", "/^x/"]),
        told(&["stop", "./other.js"]),
        told(&["stop", "web", "--only", "api-1"]),
        told(&["stop", "99999999999"]),
    ];
    assert_snapshot!(all.join(""), @"
    exit: 2
    --- stderr
    error: invalid regular expression /(/: unclosed group

    hint: a target between slashes is a pattern of names, as in '/^api-/'
    exit: 3
    --- stderr
    error: no app has a name that /^x/ matches

    hint: there is […]; `forkful list` shows them
    exit: 3
    --- stderr
    error: no app runs [sandbox]/work/other.js

    hint: there is […]; `forkful list` shows them
    exit: 2
    --- stderr
    error: --only selects apps of a config file, but no config file is named

    hint: name the config file, as in `forkful stop forkful.config.js --only api`
    exit: 3
    --- stderr
    error: no worker can have the id 99999999999
    ");
    // Also without a daemon.
    let empty = Sandbox::new();
    assert!(empty.transcript(&["logs", "/[/"]).starts_with("exit: 2\n"));
    assert!(empty.transcript(&["logs", "/x/"]).starts_with("exit: 3\n"));
}

#[test]
fn a_pattern_is_checked_for_other_clients_too() {
    let sandbox = three();
    let ask = |target: &str| {
        let body = format!(r#"{{"targets":["{target}"]}}"#);
        let mut socket = UnixStream::connect(sandbox.home().join("forkful.sock")).unwrap();
        write!(
            socket,
            "POST /v1/actions/reset HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        (reply.split(' ').nth(1).unwrap().to_owned(), reply)
    };
    let (status, reply) = ask("/a(/");
    assert_eq!(status, "400", "{reply}");
    assert!(reply.contains("is no regular expression: unclosed group"), "{reply}");
    let (status, reply) = ask("/^api/");
    assert_eq!(status, "200", "{reply}");
    assert!(reply.contains("api-1") && reply.contains("api-2") && !reply.contains("mail"), "{reply}");
}

#[test]
fn only_takes_names_with_commas_and_blanks_as_a_whole() {
    let sandbox = Sandbox::new();
    sandbox.write("ticker.js", TICKER);
    let app = |name: &str| format!(r#"{{ "name": "{name}", "script": "ticker.js" }}"#);
    let apps = ["a b", "c,d", "a", "e"].map(app).join(",");
    sandbox.write("forkful.config.json", &format!(r#"{{ "apps": [{apps}] }}"#));
    let started = acted(&sandbox, &["start", "forkful.config.json", "--only", "c,d", "--no-wait"]);
    assert_eq!(started, "c,d");
    done(&sandbox, &["start", "forkful.config.json", "--no-wait"]);
    for (only, meant) in
        [("a b", "a b"), ("c,d", "c,d"), ("a,e", "a e"), ("a e", "a e"), ("a b,e", "a b e"), ("e, a", "a e")]
    {
        assert_eq!(acted(&sandbox, &["reset", "forkful.config.json", "--only", only]), meant, "{only}");
    }
    assert_eq!(acted(&sandbox, &["reset", "forkful.config.json", "--only", "c,d", "--only", "e"]), "c,d e");
    let exported = sandbox.transcript(&["export", "systemd", "a b", "--no-port"]);
    assert!(exported.starts_with("exit: 0\n"), "{exported}");
    let missing = sandbox.transcript(&["apply", "forkful.config.json", "--only", "c,e"]);
    assert!(missing.contains("error: forkful.config.json has no app `c`"), "{missing}");
}

#[test]
fn a_name_with_a_comma_is_one_name() {
    let sandbox = Sandbox::new();
    sandbox.write("ticker.js", TICKER);
    for name in ["a,b", "a", r"c\,d"] {
        done(&sandbox, &["start", "ticker.js", "--name", name]);
    }
    wait_until(|| stdout(&sandbox.run(&["logs", "--nostream", "--raw"])).lines().count() == 3);
    for names in [vec!["a,b"], vec![r"c\,d"], vec!["a,b", "a"], vec![r"/[,]/"]] {
        let logs = done(&sandbox, &[&["logs", "--nostream", "--raw"], &names[..]].concat());
        assert_eq!(
            logs.lines().count(),
            if names == ["/[,]/"] { 2 } else { names.len() },
            "{names:?}: {logs}"
        );
    }
    assert_eq!(acted(&sandbox, &["stop", "a,b"]), "a,b");
    assert_eq!(acted(&sandbox, &["start", "a,b"]), "a,b");
}

#[test]
fn apps_of_a_file_are_stopped_also_when_they_could_not_be_started_from_it_any_more() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "console.log('here'); setInterval(() => {}, 1000);");
    sandbox.write("app.env", "A=1");
    let app = r#""script": "app.js", "env_file": "app.env", "name_prefix": "shop""#;
    let text = format!(r#"{{ "apps": [{{ "name": "api", {app} }}, {{ "name": "web", {app} }}] }}"#);
    sandbox.write("shop.config.json", &text);
    done(&sandbox, &["start", "shop.config.json"]);
    fs_err::remove_file(sandbox.work().join("app.env")).unwrap();
    fs_err::remove_file(sandbox.work().join("app.js")).unwrap();
    assert!(done(&sandbox, &["stop", "shop.config.json", "--only", "web"]).starts_with("shop:web stopped"));
    let logs = done(&sandbox, &["logs", "shop.config.json", "--nostream"]);
    assert!(logs.contains("shop:api") && logs.contains("shop:web"), "{logs}");
    let deleted = done(&sandbox, &["delete", "shop.config.json"]);
    assert!(deleted.contains("shop:api deleted") && deleted.contains("shop:web deleted"), "{deleted}");
}

#[test]
fn a_chosen_app_of_a_file_may_get_another_name() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    let apps =
        r#"{ "apps": [{ "name": "api", "script": "app.js" }, { "name": "api2", "script": "app.js" }] }"#;
    sandbox.write("two.config.json", apps);
    let told = done(&sandbox, &["start", "two.config.json", "--only", "api", "--name", "api2"]);
    assert!(told.starts_with("api2 started"), "{told}");
}
