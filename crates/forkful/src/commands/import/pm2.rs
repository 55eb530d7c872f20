//! Converts PM2's process list to a configuration as a user would write it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::BitOr as _;
use std::path::Path;
use std::process::{Command, Stdio};

use forkful_core::spec::environment::{has_secret_name, shown_arguments, shown_value};
use serde_json::{Map, Value, json};

/// A configuration with notes about it.
pub(super) struct Imported {
    pub(super) config: Value,
    pub(super) notes: Vec<String>,
}

/// Attributes for which PM2 uses the same name as in a configuration.
const SAME_NAME: &[&str] = &[
    "name",
    "namespace",
    "args",
    "node_args",
    "instance_var",
    "increment_var",
    "max_memory_restart",
    "kill_timeout",
    "listen_timeout",
    "wait_ready",
    "shutdown_with_message",
    "autorestart",
    "autostart",
    "stop_exit_codes",
    "min_uptime",
    "max_restarts",
    "restart_delay",
    "exp_backoff_restart_delay",
    "cron_restart",
    "watch",
    "ignore_watch",
    "watch_options",
    "watch_delay",
    "log_type",
    "log_date_format",
    "merge_logs",
    "disable_logs",
    "time",
    "treekill",
    "source_map_support",
    "uid",
    "gid",
];

/// PM2's own variables in an app's environment.
const OWN_VARIABLES: &[&str] = &[
    "unique_id",
    "NODE_APP_INSTANCE",
    "pm_id",
    "PM2_HOME",
    "PM2_USAGE",
    "PM2_JSON_PROCESSING",
    "PM2_INTERACTOR_PROCESSING",
];

/// Variables of the shell that started PM2, which are useless to an app.
const SHELL_VARIABLES: &[&str] =
    &["_", "OLDPWD", "PWD", "SHLVL", "TERM", "COLORTERM", "LS_COLORS", "LESSOPEN", "LESSCLOSE"];

/// Whether a PM2 with this folder is running. Otherwise, asking it would start one.
pub(super) fn is_running(home: &Path) -> bool {
    let pid = fs_err::read_to_string(home.join("pm2.pid")).unwrap_or_default();
    let is_alive =
        pid.trim().parse::<u32>().is_ok_and(|pid| Path::new("/proc").join(pid.to_string()).exists());
    is_alive && home.join("rpc.sock").exists()
}

/// The list of a running PM2.
pub(super) fn ask(home: &Path, bytes_max: u64) -> Result<Vec<Value>, String> {
    let mut child = Command::new("pm2")
        .args(["jlist", "--silent"])
        .env("PM2_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "`pm2` is not in PATH".to_owned(),
            _ => format!("`pm2 jlist` failed: {error}"),
        })?;
    let mut text = String::new();
    let read = child.stdout.take().map(|pipe| pipe.take(bytes_max).read_to_string(&mut text));
    let status = child.wait().map_err(|error| error.to_string())?;
    if let Some(Err(error)) = read {
        return Err(error.to_string());
    }
    // Banners and warnings may precede the list, on separate lines.
    let list = text.lines().rev().find(|line| line.starts_with('[')).unwrap_or_default();
    if !status.success() || list.is_empty() {
        return Err(format!("`pm2 jlist` ended with {status} and no list"));
    }
    let list: Vec<Value> = serde_json::from_str(list).map_err(|error| format!("its list: {error}"))?;
    Ok(list.into_iter().map(|mut process| process["pm2_env"].take()).filter(Value::is_object).collect())
}

/// The list written by `pm2 save`.
pub(super) fn read_dump(path: &Path, bytes_max: u64) -> io::Result<Vec<Value>> {
    let mut text = String::new();
    fs_err::File::open(path)?.take(bytes_max).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// One app per name; processes with the same name are its workers.
pub(super) fn config(processes: &[Value], home: &Path) -> Imported {
    let mut notes = Vec::new();
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for process in processes {
        let Some(name) = process["name"].as_str() else { continue };
        if process["pmx_module"] == true {
            notes.push(format!(
                "{name} is a module of PM2 and is left out; logs are rotated here without one"
            ));
            continue;
        }
        let group = groups.entry(name.to_owned()).or_default();
        if group.is_empty() {
            order.push(name.to_owned());
        }
        group.push(process);
    }
    let mut apps: Vec<Value> = order.iter().map(|name| app(&groups[name], home)).collect();
    for app in &mut apps {
        notes.extend(drop_lost_patterns(app));
    }
    Imported { config: json!({ "apps": apps }), notes }
}

/// PM2 writes regular expressions as `{}`.
fn drop_lost_patterns(app: &mut Value) -> Option<String> {
    let patterns = app.get_mut("ignore_watch")?.as_array_mut()?;
    let all = patterns.len();
    patterns.retain(serde_json::Value::is_string);
    let lost = patterns.len() < all;
    if patterns.is_empty() {
        app.as_object_mut()?.remove("ignore_watch");
    }
    let name = app["name"].as_str().unwrap_or_default();
    lost.then(|| {
        format!("{name}: PM2 does not keep regular expressions of `ignore_watch`: start it from its own config to have them")
    })
}

fn app(processes: &[&Value], home: &Path) -> Value {
    let first = processes[0];
    let mut app = Map::new();
    let mut put = |key: &str, value: &Value| {
        if !value.is_null() && *value != json!([]) {
            app.insert(key.to_owned(), value.clone());
        }
    };
    put("name", &first["name"]);
    put("script", &first["pm_exec_path"]);
    put("cwd", &first["pm_cwd"]);
    put("interpreter", &first["exec_interpreter"]);
    let is_cluster = first["exec_mode"] == "cluster_mode";
    put("exec_mode", &json!(if is_cluster { "cluster" } else { "fork" }));
    if is_cluster || processes.len() > 1 {
        put("instances", &json!(processes.len()));
    }
    for key in SAME_NAME.iter().filter(|key| **key != "name") {
        put(key, &first[*key]);
    }
    for (key, path) in
        [("out_file", "pm_out_log_path"), ("error_file", "pm_err_log_path"), ("log_file", "pm_log_path")]
    {
        put(key, &json!(log_file(first, path, home)));
    }
    // PM2 shows a job with a cron pattern as stopped between two runs: it starts at the next time.
    if processes.iter().all(|process| process["status"] == "stopped") {
        put("autostart", &json!(false));
    }
    let blocks = first
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.starts_with("env_") && value.is_object());
    for (key, value) in blocks {
        put(key, value);
    }
    put("env", &Value::Object(environment(processes)));
    // `env` contains the environment of PM2's caller; the caller of this command is not involved.
    put("filter_env", &json!(true));
    Value::Object(app)
}

/// A log file set by the user. PM2's default paths are dropped, and so is the worker's number.
fn log_file(process: &Value, key: &str, home: &Path) -> Option<String> {
    let path = Path::new(process[key].as_str()?);
    if path.starts_with(home) {
        return None;
    }
    let merged = process["merge_logs"] == true;
    let stem = path.file_stem()?.to_str()?;
    let ending = process["pm_id"].as_u64().map(|id| format!("-{id}"));
    let plain =
        match ending.filter(|_| !merged).and_then(|ending| stem.strip_suffix(&ending).map(str::to_owned)) {
            None => return Some(path.display().to_string()),
            Some(plain) => plain,
        };
    let name = match path.extension() {
        Some(extension) => format!("{plain}.{}", extension.to_string_lossy()),
        None => plain,
    };
    Some(path.with_file_name(name).display().to_string())
}

/// The app's variables, without PM2's own. For a variable that increases from worker to worker, the lowest
/// value is used.
fn environment(processes: &[&Value]) -> Map<String, Value> {
    let first = processes[0];
    let name = first["name"].as_str().unwrap_or_default();
    let increment = first["increment_var"].as_str();
    let instance = first["instance_var"].as_str();
    let mut env = Map::new();
    for (key, value) in first["env"].as_object().into_iter().flatten() {
        // PM2 leaves `<name>: {}` behind for every app.
        let is_own = OWN_VARIABLES.contains(&key.as_str())
            || Some(key.as_str()) == instance
            || (key == name && (value == "{}" || *value == json!({})));
        if is_own || SHELL_VARIABLES.contains(&key.as_str()) || value.is_null() {
            continue;
        }
        env.insert(key.clone(), value.clone());
    }
    if let Some(key) = increment {
        let number = |process: &&Value| {
            let value = &process["env"][key];
            value.as_i64().or_else(|| value.as_str()?.parse().ok())
        };
        if let Some(least) = processes.iter().filter_map(number).min() {
            env.insert(key.to_owned(), json!(least));
        }
    }
    env
}

/// Masks the values of secrets; returns the names of variables and keys that have some.
pub(super) fn redact(config: &mut Value) -> BTreeSet<String> {
    let mut masked = BTreeSet::new();
    for app in config["apps"].as_array_mut().into_iter().flatten() {
        for (key, value) in app.as_object_mut().into_iter().flatten() {
            if key == "env" || key.starts_with("env_") {
                let variables = value.as_object_mut().into_iter().flatten();
                let secrets = variables.filter_map(|(name, value)| redact_value(name, value).then_some(name));
                masked.extend(secrets.cloned());
            } else if matches!(key.as_str(), "script" | "args" | "node_args") && redact_arguments(value) {
                masked.insert(key.clone());
            }
        }
    }
    masked
}

/// Masks the secrets in the value of a variable; whether it has some. The parts of an object have names of their own.
fn redact_value(name: &str, value: &mut Value) -> bool {
    let text = match &mut *value {
        Value::Object(parts) if !has_secret_name(name) => {
            return parts.iter_mut().map(|(name, part)| redact_value(name, part)).fold(false, bool::bitor);
        }
        Value::Array(items) if !has_secret_name(name) => {
            return items.iter_mut().map(|item| redact_value(name, item)).fold(false, bool::bitor);
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let shown = shown_value(name, &text);
    if shown == text {
        return false;
    }
    *value = json!(shown);
    true
}

/// Masks the secrets in a command line, or a list of arguments; whether it has some.
fn redact_arguments(value: &mut Value) -> bool {
    let shown = match &*value {
        Value::String(line) => json!(shown_line(line)),
        Value::Array(items) => {
            let word = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            let words: Vec<String> = items.iter().map(word).collect();
            let shown = shown_arguments(&words);
            // The argument of `sh -c` is a command line.
            let shown = shown.into_iter().zip(&words);
            let shown = shown.map(|(shown, word)| if shown == *word { shown_line(word) } else { shown });
            let shown: Vec<String> = shown.collect();
            if shown == words { value.clone() } else { json!(shown) }
        }
        other => other.clone(),
    };
    let is_masked = shown != *value;
    *value = shown;
    is_masked
}

fn shown_line(line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    shown_arguments(&words).join(" ")
}

#[cfg(test)]
mod tests {
    mod fuzz;

    use super::*;

    #[test]
    fn processes_of_one_name_are_workers_of_one_app() {
        let process = |id: u64, port: &str| {
            json!({
                "name": "api", "pm_id": id, "pm_exec_path": "/srv/a.js", "pm_cwd": "/srv", "exec_mode": "cluster_mode",
                "exec_interpreter": "node", "node_args": [], "status": "online", "increment_var": "PORT",
                "pm_out_log_path": format!("/var/log/api-{id}.log"), "pm_err_log_path": format!("/srv/pm/.pm2/logs/api-error-{id}.log"),
                "kill_timeout": 3000, "vizion": true, "ignore_watch": ["x", {}], "env_live": { "A": "1" },
                "env": { "PORT": port, "api": "{}", "unique_id": "x", "PM2_HOME": "/srv/pm/.pm2", "DB": "postgres://u:p@h/d", "SHLVL": "1" },
            })
        };
        let module = json!({ "name": "pm2-logrotate", "pmx_module": true });
        let mut imported =
            config(&[process(0, "3001"), process(1, "3000"), module], Path::new("/srv/pm/.pm2"));
        assert_eq!(imported.notes.len(), 2);
        redact(&mut imported.config);
        assert_eq!(
            imported.config,
            json!({ "apps": [{
                "name": "api", "script": "/srv/a.js", "cwd": "/srv", "interpreter": "node", "exec_mode": "cluster",
                "instances": 2, "increment_var": "PORT", "kill_timeout": 3000, "ignore_watch": ["x"], "out_file": "/var/log/api.log",
                "env_live": { "A": "1" }, "env": { "PORT": 3000, "DB": "[redacted]" }, "filter_env": true,
            }] })
        );
    }

    #[test]
    fn secrets_are_masked_in_command_lines_and_in_values_that_are_no_text() {
        let mut config = json!({ "apps": [{
            "name": "api", "script": "/srv/run --token=SEK", "args": ["--password", "SEK", 8080, "-c", "exec serve --key SEK"],
            "node_args": "--title=token=SEK", "out_file": "/var/log/token=1", "env_live": { "API_TOKEN": 1234 },
            "env": { "DB": { "host": "db", "password": "SEK" }, "SECRETS": ["SEK"], "LIST": [{ "token": "SEK" }], "PORT": 80 },
        }, { "name": "plain", "args": ["a b", 1], "node_args": [], "env": { "DB": { "host": "db" } } }] });
        let plain = config["apps"][1].clone();
        let masked = redact(&mut config);
        assert!(!config.to_string().contains("SEK"), "{config}");
        let app = &config["apps"][0];
        assert_eq!(app["script"], json!("/srv/run --token=[redacted]"));
        assert_eq!(app["out_file"], json!("/var/log/token=1"));
        assert_eq!(
            app["args"],
            json!(["--password", "[redacted]", "8080", "-c", "exec serve --key [redacted]"])
        );
        assert_eq!(app["env"]["DB"], json!({ "host": "db", "password": "[redacted]" }));
        assert_eq!((&app["env"]["PORT"], &app["env_live"]["API_TOKEN"]), (&json!(80), &json!("[redacted]")));
        assert_eq!(config["apps"][1], plain);
        let names: Vec<&str> = masked.iter().map(String::as_str).collect();
        assert_eq!(names, ["API_TOKEN", "DB", "LIST", "SECRETS", "args", "node_args", "script"]);
    }

    #[test]
    fn a_job_that_pm2_shows_as_stopped_between_two_runs_waits_for_its_next_time() {
        let job = |status: &str| json!({ "name": "job", "pm_exec_path": "/srv/job.js", "exec_mode": "fork_mode", "status": status, "cron_restart": "0 3 * * *" });
        let imported =
            |status: &str| config(&[job(status)], Path::new("/srv/pm/.pm2")).config["apps"][0].clone();
        assert_eq!(imported("stopped")["autostart"], json!(false));
        assert_eq!(imported("stopped")["cron_restart"], json!("0 3 * * *"));
        assert_eq!(imported("online")["autostart"], Value::Null);
    }
}
