//! `import pm2` imports the apps of PM2.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use crate::settled::settled;

const SERVER: &str = "require('http').createServer((q, r) => r.end('ok')).listen(0);";

/// As PM2 7.0.3 writes it, reduced to what the apps need.
const DUMP: &str = r#"[
  { "name": "api", "exec_mode": "cluster_mode", "pm_exec_path": "[work]/server.js", "pm_cwd": "[work]", "exec_interpreter": "node",
    "node_args": [], "instance_var": "NODE_APP_INSTANCE", "kill_timeout": 3000, "autostart": true, "autorestart": true, "treekill": true,
    "pmx": true, "vizion": true, "km_link": false, "status": "online", "namespace": "shop", "unique_id": "4f1c",
    "pm_out_log_path": "[pm2]/logs/api-out-0.log", "pm_err_log_path": "[pm2]/logs/api-error-0.log", "pm_pid_path": "[pm2]/pids/api-0.pid",
    "env": { "PATH": "[path]", "HOME": "/root", "API_TOKEN": "abc", "PM2_HOME": "[pm2]", "unique_id": "4f1c", "api": "{}" } },
  { "name": "api", "exec_mode": "cluster_mode", "pm_exec_path": "[work]/server.js", "pm_cwd": "[work]", "exec_interpreter": "node",
    "node_args": [], "status": "online", "namespace": "shop", "unique_id": "5a2d",
    "env": { "PATH": "[path]", "HOME": "/root", "API_TOKEN": "abc", "PM2_HOME": "[pm2]", "unique_id": "5a2d", "api": "{}" } },
  { "name": "shell", "exec_mode": "fork_mode", "pm_exec_path": "[work]/loop.sh", "pm_cwd": "[work]", "exec_interpreter": "bash",
    "args": ["a b"], "merge_logs": true, "status": "stopped", "pm_out_log_path": "[work]/shell.log", "env": { "PATH": "[path]" } },
  { "name": "pm2-logrotate", "pmx_module": true, "pm_exec_path": "/x.js", "env": {} }
]"#;

/// A PM2 that seems to run: its process and its socket exist. `pm2` in PATH writes down what it is asked, and answers with the list.
struct FakePm2<'a> {
    sandbox: &'a Sandbox,
    home: std::path::PathBuf,
    _socket: std::os::unix::net::UnixListener,
}

impl<'a> FakePm2<'a> {
    /// Runs these apps; each needs a script `<name>.js`.
    fn runs(sandbox: &'a Sandbox, apps: &[&str]) -> Self {
        let work = sandbox.work();
        let home = work.join("pm2");
        fs_err::create_dir(&home).unwrap();
        fs_err::create_dir(work.join("bin")).unwrap();
        fs_err::write(home.join("pm2.pid"), std::process::id().to_string()).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(home.join("rpc.sock")).unwrap();
        let work = work.display();
        let app = |(id, name): (usize, &&str)| {
            serde_json::json!({
                "name": name, "pm_id": id, "pm_exec_path": format!("{work}/{name}.js"), "pm_cwd": work.to_string(), "exec_mode": "fork_mode",
                "exec_interpreter": "node", "status": "online", "env": { "PATH": std::env::var("PATH").unwrap() },
            })
        };
        let dump: Vec<_> = apps.iter().enumerate().map(app).collect();
        let list: Vec<_> = dump.iter().map(|app| serde_json::json!({ "pm2_env": app })).collect();
        sandbox.write("dump.json", &serde_json::json!(dump).to_string());
        sandbox.write("list.json", &serde_json::json!(list).to_string());
        let fake = sandbox.work().join("bin/pm2");
        let script = format!(
            "#!/bin/sh\necho \"$1\" >> {work}/asked\ntest \"$1\" = kill && exec rm {0}/pm2.pid {0}/rpc.sock\ncat {work}/list.json\n",
            home.display()
        );
        forkful_testkit::write_executable(&fake, &script);
        Self { sandbox, home, _socket: socket }
    }

    fn import(&self, args: &[&str]) -> String {
        let mut command = self.sandbox.command(&["import", "pm2"]);
        let path =
            format!("{}:{}", self.sandbox.work().join("bin").display(), std::env::var("PATH").unwrap());
        let output = command.args(args).env("PM2_HOME", &self.home).env("PATH", path).output().unwrap();
        settled(&self.sandbox.told(&output))
    }

    fn was_ended(&self) -> bool {
        fs_err::read_to_string(self.sandbox.work().join("asked")).unwrap_or_default().contains("kill")
    }
}

#[test]
fn nothing_runs_twice_while_pm2_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("job.js", "require('fs').appendFileSync('runs', 'x'); setInterval(() => {}, 1000);");
    let pm2 = FakePm2::runs(&sandbox, &["job"]);
    assert_snapshot!(pm2.import(&[]), @"
    exit: 0
    --- stdout
    job imported, stopped
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | job | fork | - | - | 0 | stopped | - | - |
    --- stderr
    note: PM2 still runs these apps, so they are imported stopped and nothing runs twice; end PM2 with `pm2 kill`, then `forkful start all`; `forkful import pm2 --stop-pm2` does both
    ");
    // A dump says nothing about whether PM2 runs.
    assert!(sandbox.transcript(&["delete", "job"]).starts_with("exit: 0"));
    let from_file = pm2.import(&["--file", "dump.json"]);
    assert!(from_file.contains("exit: 0\n--- stdout\njob imported, stopped"), "{from_file}");
    assert!(!sandbox.work().join("runs").exists(), "the job ran a second time");
    // What the note names starts what was imported.
    let both = pm2.import(&["--file", "dump.json", "--stop-pm2"]);
    assert!(both.contains("exit: 0") && both.contains("online") && pm2.was_ended(), "{both}");
}

#[test]
fn pm2_is_not_stopped_while_it_runs_apps_that_are_not_imported() {
    let sandbox = Sandbox::new();
    sandbox.write("one.js", SERVER);
    let pm2 = FakePm2::runs(&sandbox, &["one", "gone", "two"]);
    assert_snapshot!(pm2.import(&["--stop-pm2", "--only", "one"]), @"
    exit: 2
    --- stderr
    error: --stop-pm2 would also end apps of PM2 that are not imported: gone, two

    hint: import them too, or end them first with `pm2 stop NAME` (`pm2 delete NAME` if they have `cron_restart`); without --stop-pm2, apps are imported stopped and PM2 goes on
    ");
    // Nor an app that cannot be imported.
    sandbox.write("two.js", SERVER);
    let told = pm2.import(&["--stop-pm2"]);
    assert!(told.starts_with("exit: 2\n") && told.contains("that are not imported: gone\n"), "{told}");
    assert!(!pm2.was_ended());
    sandbox.write("gone.js", SERVER);
    let told = pm2.import(&["--stop-pm2"]);
    assert!(told.starts_with("exit: 0\n") && pm2.was_ended(), "{told}");
}

#[test]
fn pm2_is_not_stopped_while_it_runs_another_app_of_an_imported_name() {
    let sandbox = Sandbox::new();
    sandbox.write("api.js", SERVER);
    sandbox.write("old.js", SERVER);
    let pm2 = FakePm2::runs(&sandbox, &["api"]);
    let saved = fs_err::read_to_string(sandbox.work().join("dump.json")).unwrap();
    sandbox.write("saved.json", &saved.replace("api.js", "old.js"));
    let told = pm2.import(&["--file", "saved.json", "--stop-pm2"]);
    assert!(told.starts_with("exit: 2\n") && !pm2.was_ended(), "{told}");
    let named = "that are not imported: api (it is another app than the imported one of this name)\n";
    assert!(told.contains(named), "{told}");
    // A dump of the app that runs.
    let told = pm2.import(&["--file", "dump.json", "--stop-pm2"]);
    assert!(told.starts_with("exit: 0\n") && pm2.was_ended(), "{told}");
}

#[test]
fn the_apps_of_pm2_are_taken_over_from_its_dump() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    sandbox.write("loop.sh", "while true; do sleep 1; done\n");
    assert_snapshot!(sandbox.transcript(&["import", "pm2"]), @"
    exit: 3
    --- stderr
    error: no PM2 is running with its folder at [sandbox]/.pm2, and it has saved nothing

    hint: `pm2 save` writes a dump; --home or PM2_HOME names another folder
    ");
    let pm2 = sandbox.work().join("pm2");
    let dump = DUMP
        .replace("[work]", &sandbox.work().display().to_string())
        .replace("[pm2]", &pm2.display().to_string())
        .replace("[path]", &std::env::var("PATH").unwrap());
    fs_err::create_dir(&pm2).unwrap();
    fs_err::write(pm2.join("dump.pm2"), dump).unwrap();
    let import = |args: &[&str]| {
        let mut command = sandbox.command(&["import", "pm2"]);
        let output = command.args(args).env("PM2_HOME", &pm2).output().unwrap();
        settled(&sandbox.told(&output).replace(&std::env::var("PATH").unwrap(), "[path]"))
    };
    assert_snapshot!(import(&["--dry-run"]), @r#"
    exit: 0
    --- stdout
    {
      "apps": [
        {
          "name": "api",
          "script": "[sandbox]/work/server.js",
          "cwd": "[sandbox]/work",
          "interpreter": "node",
          "exec_mode": "cluster",
          "instances": 2,
          "namespace": "shop",
          "instance_var": "NODE_APP_INSTANCE",
          "kill_timeout": 3000,
          "autorestart": true,
          "autostart": true,
          "treekill": true,
          "env": {
            "PATH": "[path]",
            "HOME": "/root",
            "API_TOKEN": "[redacted]"
          },
          "filter_env": true
        },
        {
          "name": "shell",
          "script": "[sandbox]/work/loop.sh",
          "cwd": "[sandbox]/work",
          "interpreter": "bash",
          "exec_mode": "fork",
          "args": [
            "a b"
          ],
          "merge_logs": true,
          "out_file": "[sandbox]/work/shell.log",
          "autostart": false,
          "env": {
            "PATH": "[path]"
          },
          "filter_env": true
        }
      ]
    }
    --- stderr
    note: pm2-logrotate is a module of PM2 and is left out; logs are rotated here without one
    note: values of secrets are masked: API_TOKEN; `--show-env` prints them
    "#);
    assert_snapshot!(import(&[]), @"
    exit: 0
    --- stdout
    api imported (2 workers)
    shell imported
    | id | name | namespace | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | shop | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api | shop | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 2 | shell | default | fork | - | - | 0 | stopped | - | - |
    --- stderr
    note: pm2-logrotate is a module of PM2 and is left out; logs are rotated here without one
    ");
    assert_snapshot!(import(&[]), @"
    exit: 0
    --- stdout
    | id | name | namespace | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | shop | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api | shop | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 2 | shell | default | fork | - | - | 0 | stopped | - | - |
    --- stderr
    note: pm2-logrotate is a module of PM2 and is left out; logs are rotated here without one
    note: api: exists already, left unchanged
    note: shell: exists already, left unchanged
    ");
    fs_err::write(pm2.join("dump.pm2"), "[").unwrap();
    assert_snapshot!(import(&[]), @"
    exit: 2
    --- stderr
    error: cannot read [sandbox]/work/pm2/dump.pm2
    caused by: EOF while parsing a list at line 1 column 1

    hint: it must be what `pm2 save` wrote
    ");
}

#[test]
fn an_app_that_cannot_be_imported_does_not_keep_the_others_back() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let work = sandbox.work().display().to_string();
    let app = |name: &str, script: &str| {
        serde_json::json!({
            "name": name, "pm_exec_path": format!("{work}/{script}"), "pm_cwd": work, "exec_mode": "fork_mode",
            "exec_interpreter": "node", "status": "stopped", "env": { "PATH": std::env::var("PATH").unwrap() },
        })
    };
    let list = [app("api", "server.js"), app("old", "gone.js"), app("7", "server.js")];
    sandbox.write("dump.json", &serde_json::json!(list).to_string());
    let told = sandbox.transcript(&["import", "pm2", "--file", "dump.json"]);
    assert!(told.starts_with("exit: 1\n--- stdout\napi imported"), "{told}");
    assert!(
        told.contains("warning: old is not imported: script \"")
            && told.contains("/gone.js\" does not exist"),
        "{told}"
    );
    assert!(told.contains("warning: 7 is not imported: name cannot be \"7\": a number"), "{told}");
    let none = sandbox.transcript(&["import", "pm2", "--file", "dump.json", "--only", "old"]);
    assert!(none.starts_with("exit: 2\n"), "{none}");
    assert!(none.contains("error: old: script \""), "{none}");
    let tried = sandbox.transcript(&["import", "pm2", "--file", "dump.json", "--dry-run"]);
    assert!(tried.starts_with("exit: 1\n"), "{tried}");
    assert!(tried.contains("warning: old is not imported: script \""), "{tried}");
    assert!(tried.contains("\"name\": \"api\"") && !tried.contains("\"name\": \"old\""), "{tried}");
    let unknown = sandbox.transcript(&["import", "pm2", "--file", "dump.json", "--only", "other"]);
    assert!(unknown.contains("error: dump.json contains no app named other"), "{unknown}");
}

#[test]
fn names_that_pm2_does_not_have_are_told() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let work = sandbox.work().display().to_string();
    let app = |name: &str| {
        serde_json::json!({
            "name": name, "pm_exec_path": format!("{work}/server.js"), "pm_cwd": work, "exec_mode": "fork_mode",
            "status": "stopped", "env": {},
        })
    };
    sandbox.write("dump.json", &serde_json::json!([app("job"), app("api")]).to_string());
    for dry in [&["--dry-run"][..], &[]] {
        let import = |only: &str| {
            sandbox.transcript(&[&["import", "pm2", "--file", "dump.json", "--only", only], dry].concat())
        };
        let told = import("nosuch");
        assert!(told.starts_with("exit: 3\n") && told.contains("contains no app named nosuch"), "{told}");
        let told = import("job,nosuch");
        assert!(told.starts_with("exit: 1\n"), "{told}");
        assert!(told.contains("warning: --only nosuch: dump.json contains no app of this name"), "{told}");
        assert!(told.contains("job") && !told.contains("api"), "{told}");
    }
    sandbox.write("dump.json", "[]");
    let told = sandbox.transcript(&["import", "pm2", "--file", "dump.json", "--dry-run"]);
    assert!(told.starts_with("exit: 3\n") && told.contains("dump.json contains no apps"), "{told}");
}

#[test]
fn warnings_about_apps_of_pm2_name_the_app_and_its_key() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let work = sandbox.work().display().to_string();
    let app = |name: &str, watch: &str| {
        serde_json::json!({
            "name": name, "pm_exec_path": format!("{work}/server.js"), "pm_cwd": work, "exec_mode": "fork_mode",
            "exec_interpreter": "node", "status": "stopped", "watch": [watch],
            "env": { "PATH": std::env::var("PATH").unwrap() },
        })
    };
    sandbox.write("dump.json", &serde_json::json!([app("one", "."), app("two", "gone")]).to_string());
    let told = sandbox.transcript(&["import", "pm2", "--file", "dump.json"]);
    assert!(told.contains("warning: two: watch"), "{told}");
}

#[test]
fn a_pm2_that_runs_and_cannot_be_asked_is_told_so() {
    let sandbox = Sandbox::new();
    let pm2 = sandbox.work().join("pm2");
    fs_err::create_dir(&pm2).unwrap();
    fs_err::write(pm2.join("pm2.pid"), std::process::id().to_string()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(pm2.join("rpc.sock")).unwrap();
    let mut command = sandbox.command(&["import", "pm2"]);
    let output = command.env("PM2_HOME", &pm2).env("PATH", "/nowhere").output().unwrap();
    assert_snapshot!(sandbox.told(&output), @"
    exit: 1
    --- stderr
    error: PM2 runs, but cannot be asked: `pm2` is not in PATH

    hint: put `pm2` into PATH, or run `npx pm2 save`
    ");
}
