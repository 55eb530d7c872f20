//! `forkful export`: its output, files and errors. `tests/` checks whether platforms accept the manifests.

use crate::sandbox::{Sandbox, stdout};
use insta::assert_snapshot;

fn with_config() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "throw new Error('export starts nothing');\n");
    sandbox.write(
        "forkful.config.json",
        r#"{ "apps": [{ "name": "api", "script": "app.js", "port": 3000 }, { "name": "jobs", "script": "app.js" }] }"#,
    );
    sandbox
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let sandbox = with_config();
    assert_snapshot!(sandbox.transcript(&["export", "kubernetes", "--image", "a:1"]), @"
    exit: 2
    --- stderr
    error: app `jobs` has no port, so that nothing can send requests to it

    hint: set `port` in the configuration, or say `--port 3000`; `--no-port` is for an app that takes no connections, `--only NAME` exports the others
    ");
    assert_snapshot!(sandbox.transcript(&["export", "kubernetes", "api"]), @"
    exit: 2
    --- stderr
    error: app `api` has no image

    hint: say `--image registry.example.com/app:1.0`; docs/DOCKER.md shows how an image is built
    ");
    assert_snapshot!(sandbox.transcript(&["export", "kubernetes", "nothing", "--image", "a:1"]), @"
    exit: 2
    --- stderr
    error: forkful.config.json has no app `nothing`

    hint: there is api, jobs
    ");
    assert_snapshot!(sandbox.transcript(&["export", "kubernetes", "api", "--image", "a:1", "--metric", "rate=often"]), @"
    exit: 2
    --- stderr
    error: invalid value 'rate=often' for '--metric <NAME=VALUE>': expected NAME=VALUE, with a number such as 400, 2.5 or 500m as the value

    hint: the command's `--help` describes its options
    ");
    assert_snapshot!(sandbox.transcript(&["export", "kubernetes", "api", "--image", "a:1", "--env", "API_TOKEN=x"]), @"
    exit: 2
    --- stderr
    error: `--env API_TOKEN` looks like a secret, and a manifest must not contain secrets

    hint: let the platform set API_TOKEN from its own store of secrets
    ");
    assert_snapshot!(Sandbox::new().transcript(&["export", "kubernetes"]), @"
    exit: 2
    --- stderr
    error: [sandbox]/work contains no config file

    hint: name a config file or a script, or write one with `forkful init`
    ");
    assert!(!sandbox.home().exists(), "no daemon is started");
}

#[test]
fn files_of_others_are_overwritten_only_by_force() {
    let sandbox = with_config();
    let export = ["export", "kubernetes", "api", "--image", "a:1", "--out", "manifests"];
    assert_snapshot!(sandbox.transcript(&export), @"
    exit: 0
    --- stdout
    manifests/api.yaml is written
    ");
    let text = fs_err::read_to_string(sandbox.work().join("manifests/api.yaml")).unwrap();
    assert_eq!(text, stdout(&sandbox.run(&export[..5])));
    assert_eq!(sandbox.run(&export).status.code(), Some(0), "its own files it may replace");
    sandbox.write("manifests/api.yaml", "kind: Mine\n");
    assert_snapshot!(sandbox.transcript(&export), @"
    exit: 1
    --- stderr
    error: manifests/api.yaml exists, and `forkful export` did not write it

    hint: `--force` overwrites it
    ");
    let forced = [&export[..], &["--force"]].concat();
    assert_eq!(sandbox.run(&forced).status.code(), Some(0));
}

#[test]
fn what_was_measured_is_read_and_what_cannot_be_is_told() {
    let sandbox = with_config();
    let export = ["export", "kubernetes", "api", "--image", "a:1"];
    assert!(stdout(&sandbox.run(&export)).contains("# Nothing was measured"));
    let measured = r#"{ "version": 1, "apps": { "api": { "forkful": "0.1.0", "created_at_ms": 1795478400000, "command": "forkful tune",
        "route": "GET /", "machine": { "cores": 2, "cpu": "x", "node": "v24.1.0" }, "workers": 2, "pool": 4, "pool_matters": false,
        "candidates": [{ "workers": 2, "per_second": 880.0, "cpu_per_request_us": 2130.0, "memory_bytes": 104857600, "p99_at_70_ms": 12.25 }] } } }"#;
    sandbox.write("forkful.measured.json", measured);
    let text = stdout(&sandbox.run(&export));
    assert!(text.contains("cpu: 1900m # 1.87 cores at saturation, measured"), "{text}");
    assert!(text.contains("memory: 160Mi # 1.5 x 100 MiB at saturation, measured"), "{text}");
    sandbox.write("forkful.measured.json", &measured.replace("\"version\": 1", "\"version\": 2"));
    assert_snapshot!(sandbox.transcript(&export), @"
    exit: 2
    --- stderr
    error: cannot use forkful.measured.json
    caused by: it has version 2, and this program knows version 1

    hint: remove it, and measure again with `forkful tune … --save`
    ");
}

#[test]
fn several_files_on_stdout_are_told_apart_and_one_is_the_file_itself() {
    let sandbox = with_config();
    let both = stdout(&sandbox.run(&["export", "systemd", "--port", "3000"]));
    let names: Vec<&str> = both.lines().filter(|line| line.ends_with(".service")).collect();
    assert_eq!(names, ["# api.service", "# jobs.service"], "{both}");
    let one = stdout(&sandbox.run(&["export", "systemd", "api"]));
    assert!(one.starts_with("# api: made by `forkful export`"), "{one}");
    assert!(one.contains(&format!("WorkingDirectory={}", sandbox.work().display())), "{one}");
    let written = sandbox.run(&["export", "compose", "--port", "3000", "--out", "."]);
    assert_eq!(stdout(&written), "./compose.yaml is written\n");
    for (platform, name) in [("nomad", "api.nomad.hcl"), ("quadlet", "api.container")] {
        let export = sandbox.run(&["export", platform, "api", "--image", "a:1", "--out", "files"]);
        assert_eq!(stdout(&export), format!("files/{name} is written\n"));
    }
}

#[test]
fn a_printed_command_listens_where_the_manifest_says() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    drop(taken);
    sandbox.write("app.js", "console.log(process.env.PORT, process.env.LOG_LEVEL);\n");
    sandbox.write(
        "forkful.config.json",
        r#"{ "apps": [{ "name": "api", "script": "app.js", "port": 3055, "env": { "LOG_LEVEL": "info" },
            "env_live": { "LOG_LEVEL": "warn" }, "autorestart": false }] }"#,
    );
    let text = stdout(&sandbox.run(&[
        "export",
        "systemd",
        "--port",
        &port,
        "--env",
        "LOG_LEVEL=debug",
        "--env",
        "live",
    ]));
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let words = shell_words::split(line).unwrap();
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let output = sandbox.command(&arguments).env("PORT", &port).env("LOG_LEVEL", "debug").output().unwrap();
    assert_eq!(stdout(&output), format!("{port} debug\n"), "{text}");
}

#[test]
fn a_unit_of_a_config_elsewhere_names_its_whole_path() {
    let sandbox = with_config();
    let file = sandbox.work().join("forkful.config.json");
    let file = file.to_str().unwrap();
    let unit =
        sandbox.command(&["export", "systemd", file, "--only", "api"]).current_dir("/").output().unwrap();
    let unit = stdout(&unit);
    assert!(unit.contains(&format!(" run {file} --only api\n")), "{unit}");
    let image = stdout(&sandbox.run(&["export", "quadlet", file, "--only", "api", "--image", "a:1"]));
    assert!(image.contains("run forkful.config.json --only api"), "{image}");
}

#[test]
fn a_user_is_kept_whoever_exports() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    for (uid, line) in [("0", "runAsUser: 0"), ("61003", "runAsUser: 61003")] {
        let config =
            format!(r#"{{ "apps": [{{ "script": "app.js", "port": 3000, "uid": {uid}, "gid": {uid} }}] }}"#);
        sandbox.write("forkful.config.json", &config);
        let text = stdout(&sandbox.run(&["export", "kubernetes", "--image", "a:1"]));
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn an_app_may_have_a_dot_in_its_name_and_an_image_no_space() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    sandbox.write(
        "forkful.config.json",
        r#"{ "apps": [{ "name": "api.v2", "script": "app.js", "port": 3000 }] }"#,
    );
    let text = stdout(&sandbox.run(&["export", "systemd", "api.v2"]));
    assert!(text.contains("--only api.v2"), "{text}");
    for image in ["", "a b"] {
        let told = sandbox.transcript(&["export", "kubernetes", "api.v2", "--image", image]);
        assert!(told.starts_with("exit: 2") && told.contains("expected an image without spaces"), "{told}");
    }
}
