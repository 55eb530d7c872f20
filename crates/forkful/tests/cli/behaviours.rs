//! Attributes of logs, names and signals, checked by the output of real workers.

use regex::Regex;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, done};
use crate::settled::wait_until;

/// Prints how it was started and which signal ends it.
const APP: &str = r"
console.log('\x1b[31mred\x1b[0m');
console.error('a fault');
console.log(process.execArgv.includes('--enable-source-maps') ? 'with maps' : 'without maps');
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { console.log(signal); process.exit(); });
setInterval(() => {}, 1000);
";

/// The app's stdout at its start.
const OUT: &str = "\u{1b}[31mred\u{1b}[0m\nwithout maps\n";

/// Apps of that script, with these attributes.
fn started(apps: &[Value], options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    let mut apps = apps.to_vec();
    for app in &mut apps {
        app["script"] = json!("app.js");
    }
    sandbox.write("forkful.config.json", &json!({ "apps": apps }).to_string());
    done(&sandbox, &[&["start"], options].concat());
    sandbox
}

fn log(sandbox: &Sandbox, name: &str) -> String {
    fs_err::read_to_string(sandbox.home().join("logs").join(name)).unwrap_or_default()
}

fn names(sandbox: &Sandbox) -> Vec<String> {
    let workers: Vec<Value> = serde_json::from_str(&done(sandbox, &["jlist"])).unwrap();
    workers.iter().map(|worker| worker["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lines_are_written_as_attributes_say() {
    let sandbox = started(
        &[
            json!({ "name": "kept" }),
            json!({ "name": "stripped", "log_ansi": "strip" }),
            json!({ "name": "dated", "log_date_format": "YYYY [year]" }),
            json!({ "name": "json", "log_type": "json" }),
            json!({ "name": "combined", "log_file": "all.log" }),
            json!({ "name": "silent", "disable_logs": true }),
            json!({ "name": "mapped", "source_map_support": true }),
        ],
        &[],
    );
    wait_until(|| log(&sandbox, "kept-out.log") == OUT);
    wait_until(|| log(&sandbox, "kept-error.log") == "a fault\n");
    wait_until(|| log(&sandbox, "stripped-out.log") == "red\nwithout maps\n");
    wait_until(|| log(&sandbox, "mapped-out.log").ends_with("\nwith maps\n"));
    let dated = Regex::new(r"^\d{4} year: \x1b\[31mred\x1b\[0m\n\d{4} year: without maps\n$").unwrap();
    wait_until(|| dated.is_match(&log(&sandbox, "dated-out.log")));

    wait_until(|| log(&sandbox, "json-error.log").ends_with('\n'));
    let line: Value = serde_json::from_str(&log(&sandbox, "json-error.log")).unwrap();
    assert_eq!(
        (&line["message"], &line["type"], &line["app_name"]),
        (&json!("a fault"), &json!("err"), &json!("json"))
    );

    let combined = || fs_err::read_to_string(sandbox.work().join("all.log")).unwrap_or_default();
    wait_until(|| combined().contains("a fault\n") && combined().contains("without maps\n"));

    // Its output was received, but there is no file.
    wait_until(|| done(&sandbox, &["describe", "silent"]).contains("online"));
    let files =
        fs_err::read_dir(sandbox.home().join("logs")).unwrap().map(|entry| entry.unwrap().file_name());
    let of_silent: Vec<_> = files.filter(|name| name.to_string_lossy().starts_with("silent")).collect();
    assert!(of_silent.is_empty(), "{of_silent:?}");
}

#[test]
fn a_stop_sends_the_signal_that_is_asked_for() {
    let sandbox =
        started(&[json!({ "name": "usual" }), json!({ "name": "other", "kill_signal": "SIGTERM" })], &[]);
    // The handlers exist once the lines before them are printed.
    wait_until(|| ["usual", "other"].iter().all(|app| log(&sandbox, &format!("{app}-out.log")) == OUT));
    done(&sandbox, &["stop", "all"]);
    wait_until(|| log(&sandbox, "usual-out.log").ends_with("\nSIGINT\n"));
    wait_until(|| log(&sandbox, "other-out.log").ends_with("\nSIGTERM\n"));
}

#[test]
fn names_have_what_goes_before_and_after_them() {
    let sandbox = started(
        &[
            json!({ "name": "first", "name_prefix": "eu" }),
            json!({ "name": "second", "append_env_to_name": true, "env_production": { "A": "1" } }),
        ],
        &["--env", "production"],
    );
    assert_eq!(names(&sandbox), ["eu:first", "second-production"]);
}

#[test]
fn a_script_with_a_map_beside_it_runs_with_source_maps() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    sandbox.write("app.js.map", "{}");
    done(&sandbox, &["start", "app.js"]);
    wait_until(|| log(&sandbox, "app-out.log").ends_with("\nwith maps\n"));
}

#[test]
fn what_a_python_program_prints_is_in_its_log_at_once() {
    if !std::process::Command::new("python3").arg("--version").output().is_ok_and(|out| out.status.success())
    {
        eprintln!("skipped: there is no python3");
        return;
    }
    let sandbox = Sandbox::new();
    // To a pipe, a program with buffered output writes nothing before it exits.
    sandbox.write("app.py", "import time\nprint('printed')\ntime.sleep(1000)\n");
    done(&sandbox, &["start", "app.py"]);
    wait_until(|| log(&sandbox, "app-out.log") == "printed\n");
}
