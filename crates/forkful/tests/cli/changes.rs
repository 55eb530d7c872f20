//! `restart` and `reload` with options other than those of the start, and what is kept of the environment.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, says, stdout};
use crate::settled::settled;

/// Answers with its environment; each start also prints it to the log.
const APP: &str = "
console.log(`A=${process.env.A} B=${process.env.B} C=${process.env.C} ${process.execArgv} ${process.argv.slice(2)}`);
require('node:http').createServer((_, response) => response.end()).listen(0, '127.0.0.1');
";

fn app() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    let output = sandbox
        .command(&["start", "app.js", "--name", "api", "--kill-timeout", "9s", "--", "x"])
        .env("A", "1")
        .env("B", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", sandbox.told(&output));
    sandbox
}

fn done(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> String {
    let output = sandbox.command(args).envs(env.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", sandbox.told(&output));
    sandbox.told(&output)
}

fn app_of(sandbox: &Sandbox, name: &str) -> Value {
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["list", "--json"]))).unwrap();
    let app = list["apps"].as_array().unwrap().iter().find(|app| app["definition"]["name"] == name);
    app.unwrap().clone()
}

fn definition(sandbox: &Sandbox, name: &str) -> Value {
    app_of(sandbox, name)["definition"].clone()
}

#[test]
fn the_environment_stays_unless_it_is_asked_for() {
    let sandbox = app();
    says(&sandbox, "api", "A=1 B=1 C=undefined  x");
    done(&sandbox, &["restart", "api"], &[("A", "2"), ("C", "2")]);
    says(&sandbox, "api", "A=1 B=1 C=undefined  x");
    let told = done(&sandbox, &["restart", "api", "--update-env"], &[("A", "2"), ("C", "2")]);
    says(&sandbox, "api", "A=2 B=1 C=2  x");
    assert!(told.contains("note: api: environment: added C; changed A\n"), "{told}");
    done(&sandbox, &["reload", "api", "--env", "B=3"], &[("A", "3")]);
    says(&sandbox, "api", "A=2 B=3 C=2  x");
    done(&sandbox, &["reload", "api", "-a", "--env", "B=4"], &[("A", "4"), ("B", "5")]);
    says(&sandbox, "api", "A=4 B=4 C=2  x");
}

#[test]
fn a_config_file_leaves_an_app_its_inherited_environment_and_interpreter_unless_it_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    sandbox
        .write("apps.json", r#"{ "apps": [{ "name": "api", "script": "app.js", "env": { "B": "file" } }] }"#);
    done(&sandbox, &["start", "apps.json"], &[("A", "1")]);
    says(&sandbox, "api", "A=1 B=file C=undefined");
    let program = definition(&sandbox, "api")["program"].clone();
    let pid = app_of(&sandbox, "api")["workers"][0]["pid"].clone();
    // Another directory with a Node.js is first in the PATH of the next commands.
    let bin = sandbox.work().with_file_name("bin");
    fs_err::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(program.as_str().unwrap(), bin.join("node")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let other = [("PATH", path.as_str()), ("C", "2")];
    for args in [["apply", "apps.json"], ["reload", "apps.json"]] {
        let told = done(&sandbox, &args, &other);
        assert!(!told.contains("removed A"), "{args:?}: {told}");
        assert_eq!(app_of(&sandbox, "api")["workers"][0]["pid"], pid, "{args:?}: {told}");
    }
    let told = done(&sandbox, &["restart", "apps.json", "--env", "prod"], &other);
    assert!(
        told.contains("warning: apps.json:1:12: apps[0] has no `env_prod`: it gets its `env` alone\n"),
        "{told}"
    );
    assert!(
        told.contains("note: api keeps its environment: C, PATH of this shell do not reach it"),
        "{told}"
    );
    says(&sandbox, "api", "A=1 B=file C=undefined");
    assert_eq!(definition(&sandbox, "api")["program"], program);
    done(&sandbox, &["start", "apps.json", "--update-env"], &other);
    says(&sandbox, "api", "A=undefined B=file C=2");
    assert_ne!(definition(&sandbox, "api")["program"], program);
}

#[test]
fn options_change_what_they_name_and_nothing_else() {
    let sandbox = app();
    let before = definition(&sandbox, "api");
    let told = done(
        &sandbox,
        &[
            "restart",
            "api",
            "--max-memory-restart",
            "200M",
            "-i",
            "2",
            "--node-args",
            "--no-warnings",
            "--",
            "y",
        ],
        &[],
    );
    assert_snapshot!(settled(&told), @"
    exit: 0
    --- stdout
    api restarted (2 workers)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    | 1 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    note: api: node_args: none → --no-warnings
    note: api: args: x → y
    note: api: exec_mode: fork → cluster
    note: api: max_memory_restart: none → 200M
    ");
    says(&sandbox, "0", "A=1 B=1 C=undefined --no-warnings y");
    let after = definition(&sandbox, "api");
    let changed: Vec<&String> = after
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, value)| before[key.as_str()] != **value)
        .map(|(key, _)| key)
        .collect();
    assert_eq!(changed, ["program_args", "args", "mode", "instances", "max_memory_bytes", "origins"]);
    done(&sandbox, &["reload", "0", "--node-args=null", "--kill-timeout", "5000", "-i", "1"], &[]);
    let last = definition(&sandbox, "api");
    assert_eq!((&last["program_args"], &last["kill_timeout_ms"]), (&json!([]), &5000.into()));
    assert_eq!((&last["instances"], &last["max_memory_bytes"]), (&1.into(), &(200 << 20).into()));
}

#[test]
fn alerts_go_to_a_url_or_a_command_that_an_option_names() {
    let sandbox = app();
    let secret = "T1-s3cret";
    let url = format!("https://hooks.example.com/{secret}");
    let told = done(&sandbox, &["restart", "api", "--alerts", &url], &[]);
    assert!(told.contains("note: api: alerts: none → https://hooks.example.com/[redacted]\n"), "{told}");
    let alerts = definition(&sandbox, "api")["alerts"].clone();
    assert_eq!(alerts["webhook"], "https://hooks.example.com/[redacted]");
    let described = done(&sandbox, &["describe", "api"], &[]);
    assert!(described.contains("https://hooks.example.com/[redacted]"), "{described}");
    done(&sandbox, &["reload", "api", "--alerts", "./notify.sh 'on call'"], &[]);
    let alerts = definition(&sandbox, "api")["alerts"].clone();
    assert_eq!((&alerts["command"], &alerts["webhook"]), (&json!(["./notify.sh", "on call"]), &Value::Null));
    done(&sandbox, &["restart", "api", "--alerts", "false"], &[]);
    assert_eq!(definition(&sandbox, "api")["alerts"], Value::Null);
    let refused = sandbox.run(&["start", "app.js", "--alerts", &format!("http://example.com/{secret}")]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = sandbox.told(&refused);
    assert!(refused.contains("--alerts") && refused.contains("https URL"), "{refused}");
    for text in [told, described, refused] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn watching_is_refined_and_ended() {
    let sandbox = app();
    let work = sandbox.work();
    let watch = |args: &[&str]| {
        done(&sandbox, &[&["restart", "api"], args].concat(), &[]);
        definition(&sandbox, "api")["watch"].clone()
    };
    let first = watch(&["--watch", "--ignore-watch", "*.tmp"]);
    assert_eq!(first["paths"], json!([work]));
    let second = watch(&["--watch-delay", "2"]);
    assert_eq!((&second["paths"], &second["delay_ms"]), (&first["paths"], &2000.into()));
    assert_eq!(second["ignore"], first["ignore"]);
    assert_ne!(watch(&["--ignore-watch", "data"])["ignore"], first["ignore"]);
    std::os::unix::fs::symlink(".", work.join("linked")).unwrap();
    assert_eq!(watch(&["--watch=none/../linked/../lib"])["paths"], json!([work.join("linked/../lib")]));
    assert_eq!(watch(&["--watch=false"]), Value::Null);
    assert_snapshot!(sandbox.transcript(&["restart", "api", "--ignore-watch", "data"]), @"
    exit: 2
    --- stderr
    error: `api` is not watched, so there is nothing to ignore or to wait for

    hint: add `--watch`
    ");
}

#[test]
fn an_app_can_be_renamed() {
    let sandbox = app();
    sandbox.write("other.js", "setInterval(() => {}, 1000);");
    done(&sandbox, &["start", "other.js"], &[]);
    let told = done(&sandbox, &["reload", "0", "--name", "web"], &[]);
    assert!(told.contains("note: api: name: api → web\n"), "{told}");
    says(&sandbox, "web", "A=1 B=1 C=undefined  x");
    let refused = [
        sandbox.transcript(&["restart", "web", "--name", "other"]),
        sandbox.transcript(&["restart", "all", "--name", "other"]),
        sandbox.transcript(&["restart", "web", "--env-file", ".env"]),
        sandbox.transcript(&["restart", "web", "--only", "web"]),
        sandbox.transcript(&["restart", "web", "--interpreter", "none"]),
    ];
    assert_snapshot!(refused.join(""), @"
    exit: 1
    --- stderr
    error: an app named `other` exists already

    hint: choose another name
    exit: 2
    --- stderr
    error: --name would give 2 apps the same name

    hint: rename them one by one
    exit: 2
    --- stderr
    error: --env-file cannot be changed of an app that exists

    hint: `forkful delete web` and start it again, or restart it with a config file that changes it
    exit: 2
    --- stderr
    error: --only selects apps of a config file, but no config file is named

    hint: name the config file, as in `forkful stop forkful.config.js --only api`
    exit: 2
    --- stderr
    error: app `web` cannot be changed so: [sandbox]/work/app.js is not executable

    hint: `chmod +x [sandbox]/work/app.js`, or name what runs it with `--interpreter`
    ");
}

#[test]
fn a_file_is_the_truth_also_with_options() {
    let sandbox = app();
    let config =
        r#"{ "apps": [{ "name": "api", "script": "app.js", "args": "z", "env": { "C": "file" } }] }"#;
    sandbox.write("forkful.config.json", config);
    let told =
        done(&sandbox, &["reload", "forkful.config.json", "--max-memory-restart", "100M"], &[("A", "9")]);
    says(&sandbox, "api", "A=1 B=1 C=file  z");
    assert!(told.contains("environment: added C\n"), "{told}");
    let after = definition(&sandbox, "api");
    // The command line once set 9 seconds; the file does not.
    assert_eq!((&after["kill_timeout_ms"], &after["max_memory_bytes"]), (&5000.into(), &(100 << 20).into()));
}

#[test]
fn a_file_may_want_fewer_workers_and_another_mode() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    let restart = |instances: u16, mode: &str| {
        let app = json!({ "name": "api", "script": "app.js", "instances": instances, "exec_mode": mode });
        sandbox.write("forkful.config.json", &json!({ "apps": [app] }).to_string());
        let told = done(&sandbox, &["restart", "forkful.config.json"], &[]);
        assert_eq!(stdout(&sandbox.run(&["pid", "api"])).lines().count(), usize::from(instances), "{told}");
    };
    restart(3, "cluster");
    restart(1, "fork");
    restart(3, "fork");
    restart(2, "fork");
    restart(1, "cluster");
}
