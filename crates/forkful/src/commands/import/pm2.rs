//! Converts PM2's process list to a configuration as a user would write it.

mod identity;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::BitOr as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forkful_core::spec::environment::{has_secret_name, shown_arguments, shown_value};
use serde_json::{Map, Value, json};

use self::identity::{Identity, identity, other_environments, renamed};

/// The apps of PM2's list, with notes about them.
pub(super) struct Imported {
    /// Each as in a configuration file, with a name of its own.
    pub(super) apps: Vec<Value>,
    pub(super) notes: Vec<String>,
    /// What each app is in PM2, by its name here.
    pub(super) origins: BTreeMap<String, Origin>,
}

/// An app in PM2. Its name here may be another app's in another list of PM2: only its identity says whether two are the same.
pub(super) struct Origin {
    pub(super) name: String,
    pub(super) identity: Identity,
    /// Whether PM2 runs it, or will run it at a time of `cron_restart`.
    pub(super) is_in_use: bool,
}

/// Attributes for which PM2 uses the same name as in a configuration.
const SAME_NAME: &[&str] = &[
    "name",
    "namespace",
    "args",
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

/// The script of `pm2 serve` and of `script: "serve"`, which is left to the file server here.
const FILE_SERVER: &str = "/pm2/lib/API/Serve.js";

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

/// Processes of one name that run the same are the workers of one app. PM2 allows several apps of one name: all but the first get
/// another.
pub(super) fn config(processes: &[Value], home: &Path) -> Imported {
    let mut notes = Vec::new();
    let mut groups: Vec<Vec<&Value>> = Vec::new();
    let mut places: BTreeMap<Identity, usize> = BTreeMap::new();
    for process in processes {
        let Some(name) = process["name"].as_str() else { continue };
        if process["pmx_module"] == true {
            notes.push(format!(
                "{name} is a module of PM2 and is left out; logs are rotated here without one"
            ));
            continue;
        }
        let place = *places.entry(identity(process)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(process);
    }
    let mut names = Names::of(&groups);
    let (mut apps, mut origins) = (Vec::new(), BTreeMap::new());
    for processes in &groups {
        let mut app = app(processes, home);
        let given = app["name"].as_str().unwrap_or_default().to_owned();
        let name = names.unique(&given);
        if name != given {
            notes.push(renamed(processes[0], &name, &groups));
            app["name"] = json!(name);
        }
        notes.extend(drop_lost_patterns(&mut app));
        notes.extend(other_environments(processes, &name));
        let is_in_use = processes.iter().any(|process| is_in_use(process));
        origins.insert(name, Origin { name: given, identity: identity(processes[0]), is_in_use });
        apps.push(app);
    }
    Imported { apps, notes, origins }
}

/// The names of apps: those that are given away, and all that PM2 uses.
struct Names {
    of_pm2: BTreeSet<String>,
    taken: BTreeSet<String>,
}

impl Names {
    fn of(groups: &[Vec<&Value>]) -> Self {
        let of_pm2 = groups.iter().filter_map(|group| group[0]["name"].as_str()).map(str::to_owned).collect();
        Self { of_pm2, taken: BTreeSet::new() }
    }

    /// The name, with a number if another app has it.
    fn unique(&mut self, name: &str) -> String {
        let is_free = |name: &String| !self.of_pm2.contains(name) && !self.taken.contains(name);
        let unique = if self.taken.contains(name) {
            let mut numbered =
                (2..=2 + self.of_pm2.len() + self.taken.len()).map(|number| format!("{name}-{number}"));
            numbered.find(is_free).expect("there are more numbers than names")
        } else {
            name.to_owned()
        };
        self.taken.insert(unique.clone());
        unique
    }
}

/// Whether PM2 runs the process, or will run it.
fn is_in_use(process: &Value) -> bool {
    // "0" is for never.
    let has_times = process["cron_restart"].as_str().is_some_and(|pattern| !matches!(pattern, "" | "0"));
    has_times || !matches!(process["status"].as_str(), Some("stopped" | "errored"))
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
    let file_server = json!("serve");
    let mut app = Map::new();
    let mut put = |key: &str, value: &Value| {
        if !value.is_null() && *value != json!([]) {
            app.insert(key.to_owned(), value.clone());
        }
    };
    put("name", &first["name"]);
    let serves_files = first["pm_exec_path"].as_str().is_some_and(|path| path.ends_with(FILE_SERVER));
    put("script", if serves_files { &file_server } else { &first["pm_exec_path"] });
    put("cwd", &first["pm_cwd"]);
    if !serves_files {
        put("interpreter", &first["exec_interpreter"]);
        put("node_args", &first["node_args"]);
    }
    let is_cluster = first["exec_mode"] == "cluster_mode";
    put("exec_mode", &json!(if is_cluster { "cluster" } else { "fork" }));
    if is_cluster || processes.len() > 1 {
        put("instances", &json!(processes.len()));
    }
    for key in SAME_NAME.iter().filter(|key| **key != "name") {
        put(key, &first[*key]);
    }
    for (key, path) in [
        ("out_file", "pm_out_log_path"),
        ("error_file", "pm_err_log_path"),
        ("log_file", "pm_log_path"),
        ("pid_file", "pm_pid_path"),
    ] {
        put(key, &json!(file_of_all(first, path, home)));
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

/// A file for logs or process ids that the user has set. PM2's default paths are dropped, and so is the worker's number.
fn file_of_all(process: &Value, key: &str, home: &Path) -> Option<String> {
    let path = Path::new(process[key].as_str()?);
    if home_of(process).iter().map(PathBuf::as_path).chain([home]).any(|home| path.starts_with(home)) {
        return None;
    }
    let has_number = key == "pm_pid_path" || process["merge_logs"] != true;
    let stem = path.file_stem()?.to_str()?;
    let plain = pm_id(process).filter(|_| has_number).and_then(|id| stem.strip_suffix(&format!("-{id}")));
    let Some(plain) = plain else { return Some(path.display().to_string()) };
    let name = match path.extension() {
        Some(extension) => format!("{plain}.{}", extension.to_string_lossy()),
        None => plain.to_owned(),
    };
    Some(path.with_file_name(name).display().to_string())
}

/// The folder of the PM2 that started the process, which may be that of another user or machine.
fn home_of(process: &Value) -> Option<PathBuf> {
    let variable =
        |name: &str| process["env"][name].as_str().map(Path::new).filter(|path| path.parent().is_some());
    variable("PM2_HOME").map(Path::to_owned).or_else(|| Some(variable("HOME")?.join(".pm2")))
}

/// The worker's number. A dump has it only in the name of the file with the process id.
fn pm_id(process: &Value) -> Option<u64> {
    let of_file = || {
        let stem = Path::new(process["pm_pid_path"].as_str()?).file_stem()?.to_str()?;
        stem.rsplit_once('-')?.1.parse().ok()
    };
    process["pm_id"].as_u64().or_else(of_file)
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
pub(super) fn redact(apps: &mut [Value]) -> BTreeSet<String> {
    let mut masked = BTreeSet::new();
    for app in apps {
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
        redact(&mut imported.apps);
        assert_eq!(
            json!(imported.apps),
            json!([{
                "name": "api", "script": "/srv/a.js", "cwd": "/srv", "interpreter": "node", "exec_mode": "cluster",
                "instances": 2, "increment_var": "PORT", "kill_timeout": 3000, "ignore_watch": ["x"], "out_file": "/var/log/api.log",
                "env_live": { "A": "1" }, "env": { "PORT": 3000, "DB": "[redacted]" }, "filter_env": true,
            }])
        );
    }

    #[test]
    fn apps_of_one_name_are_all_imported() {
        let process = |name: &str, namespace: &str, script: &str, status: &str| json!({ "name": name, "namespace": namespace, "pm_exec_path": script, "exec_mode": "fork_mode", "status": status });
        let list = [
            process("api", "shop", "/srv/shop.js", "stopped"),
            process("api", "blog", "/srv/blog.js", "online"),
            process("api-2", "default", "/srv/two.js", "online"),
            process("api", "shop", "/srv/shop.js", "stopped"),
        ];
        let imported = config(&list, Path::new("/srv/pm/.pm2"));
        let told: Vec<_> =
            imported.apps.iter().map(|app| (&app["name"], &app["script"], &app["instances"])).collect();
        assert_eq!(
            json!(told),
            json!([
                ["api", "/srv/shop.js", 2],
                ["api-3", "/srv/blog.js", null],
                ["api-2", "/srv/two.js", null]
            ])
        );
        assert_eq!(
            imported.notes,
            [
                "PM2 has several apps named api, and names are unique here: the app with namespace blog, script /srv/blog.js is named \
                 api-3"
            ]
        );
        assert_eq!(in_use(&imported), ["api-2", "api-3"]);
    }

    fn in_use(imported: &Imported) -> Vec<&str> {
        let used = imported.origins.iter().filter(|(_, origin)| origin.is_in_use);
        used.map(|(name, _)| name.as_str()).collect()
    }

    /// The apps that two processes of one name are, and the notes about them.
    fn pair(one: &Value, other: &Value) -> (usize, Vec<String>) {
        let process = |more: &Value| {
            let mut process = json!({ "name": "api", "pm_exec_path": "/srv/a.js" });
            process.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            process
        };
        let imported = config(&[process(one), process(other)], Path::new("/srv/pm/.pm2"));
        (imported.apps.len(), imported.notes)
    }

    #[test]
    fn apps_of_one_name_that_run_or_listen_otherwise_are_not_one_app() {
        let none = json!({});
        for (one, other, told) in [
            (json!({ "env": { "PORT": 4601 } }), json!({ "env": { "PORT": "4602" } }), "PORT 4602"),
            (json!({ "env": { "PORT": 4601 } }), none.clone(), "no PORT"),
            (
                json!({ "env": { "PM2_SERVE_PORT": 1, "PM2_SERVE_PATH": "/a" } }),
                json!({ "env": { "PM2_SERVE_PORT": 2, "PM2_SERVE_PATH": "/b" } }),
                "PM2_SERVE_PORT 2, PM2_SERVE_PATH /b",
            ),
            (none.clone(), json!({ "node_args": ["--inspect"] }), "node_args --inspect"),
            (json!({ "exec_interpreter": "node" }), json!({ "exec_interpreter": "bun" }), "interpreter bun"),
            (none.clone(), json!({ "args": ["--token", "SEK", 1] }), "args --token [redacted] 1"),
            (none.clone(), json!({ "pm_cwd": "/srv" }), "folder /srv"),
        ] {
            let note = format!(
                "PM2 has several apps named api, and names are unique here: the app with {told} is named api-2"
            );
            assert_eq!(pair(&one, &other), (2, vec![note]));
        }
        for (one, other) in [
            (json!({ "env": { "PORT": 3000 } }), json!({ "env": { "PORT": "3000" } })),
            (
                json!({ "increment_var": "PORT", "env": { "PORT": 1 } }),
                json!({ "increment_var": "PORT", "env": { "PORT": 2 } }),
            ),
            (json!({ "node_args": [] }), none),
        ] {
            assert_eq!(pair(&one, &other), (1, vec![]));
        }
    }

    #[test]
    fn workers_that_differ_in_their_environment_are_told() {
        let env = |variables: Value| json!({ "instance_var": "N", "env": variables });
        let (apps, notes) = pair(
            &env(
                json!({ "QUEUE": "mail", "SIZE": 1, "N": 0, "unique_id": "a", "TERM": "x", "TOKEN": "SEK" }),
            ),
            &env(json!({ "QUEUE": "sms", "SIZE": "1", "N": 1, "unique_id": "b", "pm_id": 1 })),
        );
        assert_eq!(apps, 1);
        assert_eq!(
            notes,
            [
                "api: its workers in PM2 differ in QUEUE, TOKEN; here all of them have the values of the first: for other values, start an \
                 app with a name of its own"
            ]
        );
    }

    #[test]
    fn files_that_the_user_has_set_lose_the_worker_s_number() {
        let app = |more: Value| {
            let mut process =
                json!({ "name": "api", "pm_exec_path": "/srv/a.js", "env": { "HOME": "/srv/them" } });
            process.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let app = &config(&[process], Path::new("/srv/pm/.pm2")).apps[0];
            json!([app["out_file"], app["pid_file"]])
        };
        for (process, files) in [
            // As in a list, and as in a dump, which has no `pm_id`.
            (
                json!({ "pm_id": 3, "pm_out_log_path": "/v/api-3.log", "pm_pid_path": "/v/api-3.pid" }),
                ["/v/api.log", "/v/api.pid"],
            ),
            (
                json!({ "pm_out_log_path": "/v/api-3.log", "pm_pid_path": "/v/api-3.pid" }),
                ["/v/api.log", "/v/api.pid"],
            ),
            (
                json!({ "pm_out_log_path": "/v/api-3.log", "pm_pid_path": "/v/api-3.pid", "merge_logs": true }),
                ["/v/api-3.log", "/v/api.pid"],
            ),
        ] {
            assert_eq!(app(process), json!(files));
        }
        // The defaults of the importing user's PM2, of another user's, and of one with a folder of its own.
        for (home, env) in [
            ("/srv/pm/.pm2", json!({})),
            ("/srv/them/.pm2", json!({ "HOME": "/srv/them" })),
            ("/p", json!({ "PM2_HOME": "/p" })),
        ] {
            let process = json!({
                "pm_out_log_path": format!("{home}/logs/api-out-3.log"), "pm_pid_path": format!("{home}/pids/api-3.pid"), "env": env,
            });
            assert_eq!(app(process), json!([null, null]), "{home}");
        }
        let odd = json!({ "pm_out_log_path": "/v/api-3.log", "env": { "HOME": "", "PM2_HOME": "/" } });
        assert_eq!(app(odd), json!(["/v/api-3.log", null]));
    }

    #[test]
    fn files_served_by_pm2_are_served_by_the_file_server_here() {
        let process = json!({
            "name": "static", "pm_exec_path": "/usr/lib/node_modules/pm2/lib/API/Serve.js", "pm_cwd": "/srv/www", "exec_mode": "fork_mode",
            "exec_interpreter": "node", "node_args": ["--no-warnings"], "env": { "PM2_SERVE_PATH": "/srv/www", "PM2_SERVE_PORT": 8080 },
        });
        assert_eq!(
            config(&[process], Path::new("/srv/pm/.pm2")).apps,
            [json!({
                "name": "static", "script": "serve", "cwd": "/srv/www", "exec_mode": "fork",
                "env": { "PM2_SERVE_PATH": "/srv/www", "PM2_SERVE_PORT": 8080 }, "filter_env": true,
            })]
        );
    }

    #[test]
    fn secrets_are_masked_in_command_lines_and_in_values_that_are_no_text() {
        let mut apps = [
            json!({
                "name": "api", "script": "/srv/run --token=SEK", "args": ["--password", "SEK", 8080, "-c", "exec serve --key SEK"],
                "node_args": "--title=token=SEK", "out_file": "/var/log/token=1", "env_live": { "API_TOKEN": 1234 },
                "env": { "DB": { "host": "db", "password": "SEK" }, "SECRETS": ["SEK"], "LIST": [{ "token": "SEK" }], "PORT": 80 },
            }),
            json!({ "name": "plain", "args": ["a b", 1], "node_args": [], "env": { "DB": { "host": "db" } } }),
        ];
        let plain = apps[1].clone();
        let masked = redact(&mut apps);
        assert!(!json!(apps).to_string().contains("SEK"), "{apps:?}");
        let app = &apps[0];
        assert_eq!(app["script"], json!("/srv/run --token=[redacted]"));
        assert_eq!(app["out_file"], json!("/var/log/token=1"));
        assert_eq!(
            app["args"],
            json!(["--password", "[redacted]", "8080", "-c", "exec serve --key [redacted]"])
        );
        assert_eq!(app["env"]["DB"], json!({ "host": "db", "password": "[redacted]" }));
        assert_eq!((&app["env"]["PORT"], &app["env_live"]["API_TOKEN"]), (&json!(80), &json!("[redacted]")));
        assert_eq!(apps[1], plain);
        let names: Vec<&str> = masked.iter().map(String::as_str).collect();
        assert_eq!(names, ["API_TOKEN", "DB", "LIST", "SECRETS", "args", "node_args", "script"]);
    }

    #[test]
    fn a_job_that_pm2_shows_as_stopped_between_two_runs_waits_for_its_next_time() {
        let job = |status: &str| json!({ "name": "job", "pm_exec_path": "/srv/job.js", "exec_mode": "fork_mode", "status": status, "cron_restart": "0 3 * * *" });
        let imported = |status: &str| config(&[job(status)], Path::new("/srv/pm/.pm2")).apps[0].clone();
        assert_eq!(imported("stopped")["autostart"], json!(false));
        assert_eq!(imported("stopped")["cron_restart"], json!("0 3 * * *"));
        assert_eq!(imported("online")["autostart"], Value::Null);
        // It is not over for PM2.
        let waiting = config(&[job("stopped")], Path::new("/srv/pm/.pm2"));
        assert_eq!(in_use(&waiting), ["job"]);
        let mut never = job("stopped");
        never["cron_restart"] = json!("0");
        assert!(in_use(&config(&[never], Path::new("/srv/pm/.pm2"))).is_empty());
    }
}
