//! The table itself, in the order in which documentation shows it.

use forkful_core::spec::{Balance, Named as _};

use super::Change::{Live, NewApp};
use super::Group::{Environment, Limits, Logs, Renew, Restart, Start, Stop, User, Workers};
use super::option::{flag, foreign, key, takes};
use super::{Kind, KnownKey};

#[rustfmt::skip]
pub(super) const KNOWN_KEYS: &[KnownKey] = &[
    key("script", Kind::Path, "", r#""server.js""#,
        "What to start: a file, a program in PATH, or a shell command line (a text with a space that is not a file).")
        .also(&["exec", "cmd", "command"]).changes(NewApp).decides(&["script"]),
    key("name", Kind::Name, "", r#""api""#, "Name of the app. By default the script's base name without its last extension.")
        .decides(&["name"]).option(takes("NAME", "The app's name; by default the script's without its extension").short('n')),
    key("args", Kind::Words, "[]", r#"["--port", "3000"]"#, "Arguments of the script.")
        .decides(&["args"]),
    key("instances", Kind::Instances, "1", r#""max""#,
        "Number of workers: a number, \"max\" (or 0) for one per usable core, or a negative number for that many fewer than the usable cores. `{ \"min\": 1, \"max\": 4 }` (or `\"1..4\"`) changes the number by the load.")
        .of(Workers).changes(Live).decides(&["instances", "autoscale"])
        .option(takes("NUMBER", "Number of workers: a number, `max` or 0 for one per core, -1 for one less, 1..4 by the load").short('i')),
    key("exec_mode", Kind::ExecMode, "", r#""cluster""#,
        "\"cluster\": workers share ports; \"fork\": they do not. By default \"cluster\" when `instances` is given and the app is a Node.js program, else \"fork\".")
        .of(Workers).decides(&["mode"]),
    key("execute_command", Kind::Flag, "false", "true", "Run in fork mode.")
        .of(Workers).decides(&["mode"]).option(flag("Run in fork mode").short('x')),
    key("interpreter", Kind::Text, "", r#""python3""#,
        "Program that runs the script, by name or path. \"none\" runs the script itself; \"node@22\" is the newest Node.js 22 of nvm. By default chosen by the script's extension.")
        .also(&["exec_interpreter"]).decides(&["program", "program_args", "script", "runtime"])
        .option(takes("PROGRAM", "Program that runs the script; `none` for the script itself")),
    key("node_args", Kind::Words, "[]", r#""--max-old-space-size=512""#, "Arguments of the interpreter.")
        .also(&["interpreter_args"]).decides(&["program_args"])
        .option(takes("ARGS", "Arguments of the interpreter, split as a shell does").alias("interpreter-args")),
    key("source_map_support", Kind::Flag, "", "true",
        "Run Node.js with `--enable-source-maps`: stack traces name the original sources. By default on when `<script>.map` exists.")
        .decides(&["program_args"]).option(flag("Stack traces name the sources")),
    key("cwd", Kind::Path, "", r#""./api""#, "Working directory, relative to the configuration file. By default the directory of that file.")
        .decides(&["cwd"]).option(takes("DIRECTORY", "Working directory; by default this one")),
    key("env", Kind::Environment, "{}", r#"{ "NODE_ENV": "production" }"#,
        "Environment variables, added to the environment of the caller. A block `env_<name>` is added when `--env <name>` is given.")
        .of(Environment),
    key("env_file", Kind::Paths, "[]", r#"".env""#,
        "`.env` files, relative to the working directory; `env` overrides them. They are read again at `resurrect`, and their values are never saved.")
        .also(&["env_files"]).of(Environment).changes(NewApp).option(takes("FILE", "A `.env` file; values of `--env` win. Repeatable").repeated()),
    key("filter_env", Kind::FilterEnv, "", r#"["AWS_"]"#,
        "Variables of the caller's environment to leave out: all (`true`), one (a name), or those whose names contain one of the texts of a list. By default none, but an app that runs as another user gets only the locale, PATH, TERM, TZ, NODE_ENV and PORT, unless this is `false`.")
        .of(Environment).changes(NewApp)
        .option(takes("TEXTS", "Leave out variables of this environment whose names contain one of these texts; `true` for all").commas().alone()),
    key("save_env", Kind::Flag, "false", "true",
        "Save the values of all variables of the caller's environment. By default only harmless ones such as PATH are saved.")
        .of(Environment).changes(NewApp),
    key("port", Kind::Port, "", "3000", "Sets the environment variable PORT.")
        .of(Workers),
    key("balance", Kind::Choice(Balance::NAMES), "\"auto\"", r#""auto""#, "How new connections are distributed over the workers of a cluster.")
        .of(Workers).is(&["balance"]).option(takes("MODE", "How connections are spread over the workers; auto by default")),
    key("slow_start", Kind::Duration, "\"0s\"", r#""30s""#,
        "Time in which the share of new connections of a worker that became ready rises to the full one.")
        .of(Workers).is(&["slow_start_ms"]).option(takes("DURATION", "Time in which a new worker's share of connections rises")),
    key("uid", Kind::User, "", r#""www-data""#, "User that the workers run as; needs root. By default the daemon's user.")
        .also(&["user"]).of(User).changes(NewApp).decides(&["run_as"])
        .option(takes("USER", "User that the workers run as; needs root").short('u').alias("user")),
    key("gid", Kind::User, "", r#""www-data""#, "Group that the workers run as. By default the user's group.")
        .also(&["group"]).of(User).changes(NewApp).decides(&["run_as"]).option(takes("GROUP", "Group that the workers run as")),
    key("low_ports", Kind::Flag, "false", "true",
        "Let an app that runs as another user (`uid`) listen on ports below 1024 in cluster mode, where the daemon of root binds them.")
        .of(User).is(&["low_ports"]).option(flag("Let an app of another user listen on ports below 1024")),
    key("agent", Kind::Flag, "true", "true",
        "Preload Forkful's agent into Node.js workers: exact drains, sockets lent to one instance, and metrics of the event loop, heap and requests.")
        .is(&["agent"]).negation("Do not preload the agent"),
    key("stall_threshold", Kind::Duration, "\"50ms\"", r#""100ms""#,
        "Note each time that the event loop of a worker stands still for so long, with the route and the function (`forkful stalls`); `0` notes none.")
        .is(&["stall_threshold_ms"]).option(takes("DURATION", "Event loops that stand still for so long are noted; 50ms by default, 0 for never")),
    key("metrics", Kind::Switch(["own", "merge"]), "\"own\"", r#""merge""#,
        "What a scrape of the app's own prom-client gives: `\"own\"` the values of the worker that answers, `\"merge\"` those of all workers together, by prom-client's rules.")
        .is(&["merge_metrics"]).option(takes("MODE", "merge: a scrape of the app's own metrics (prom-client) gives those of all workers")),
    key("otlp", Kind::Otlp, "false", r#""http://localhost:4318""#,
        "Where the app's metrics are sent for OpenTelemetry, as OTLP over HTTP: a URL, or an object. Headers come from `OTEL_EXPORTER_OTLP_HEADERS` in the app's environment.")
        .is(&["otlp"]).option(takes("URL", "Send the app's metrics to this receiver of OTLP over HTTP")),
    key("namespace", Kind::Text, "\"default\"", r#""shop""#, "Group of apps; commands accept its name in place of app names.")
        .decides(&["namespace"]).option(takes("NAME", "Group of apps that commands can address together")),
    key("name_prefix", Kind::Text, "", r#""eu""#, "Prefix of the name, joined by a colon.")
        .changes(NewApp),
    key("append_env_to_name", Kind::Flag, "false", "true", "Append the name of the chosen `env_<name>` block to the app's name.")
        .changes(NewApp),
    key("instance_var", Kind::Variable, "\"NODE_APP_INSTANCE\"", r#""WORKER""#, "Environment variable that holds the worker's slot, counted from 0.")
        .of(Environment).is(&["instance_var"]),
    key("increment_var", Kind::Variable, "", r#""PORT""#,
        "Environment variable from `env` that holds a number; it is one higher for each further worker.")
        .of(Environment).is(&["increment_var"]),
    key("pid_file", Kind::Path, "", r#""api.pid""#,
        "File that holds a worker's process id while the worker runs, relative to the working directory; `-<id>` is inserted before the extension.")
        .also(&["pid"]).decides(&["pid_file"]).option(takes("FILE", "File for a worker's process id").long("pid").short('p').alias("pid-file")),
    key("autostart", Kind::Flag, "true", "true", "Start the app when it is created; with `false` it is created stopped, and with `cron_restart` it starts at the next of these times.")
        .of(Start).is(&["autostart"]).negation("Add the app to the list without starting it"),
    key("wait_ready", Kind::Flag, "false", "true", "A worker is ready when it calls `process.send('ready')`; by default when it listens.")
        .of(Start).is(&["wait_ready"]).option(flag("The app says `process.send('ready')` when it is ready")),
    key("listen_timeout", Kind::Duration, "", r#""10s""#, "Time limit for a worker to become ready. By default, and with `0`, 3 s at a start, 30 s at a reload.")
        .of(Start).is(&["listen_timeout_ms"]).option(takes("DURATION", "Time for a worker to become ready (default 3 s, for a reload 30 s)")),
    key("warmup", Kind::Warmup, "false", r#"["/", "/api/items?page=1"]"#,
        "Requests that a new worker answers before it is ready and gets traffic: a path, a list of paths, or an object.")
        .of(Start).is(&["warmup"]).option(takes("PATH", "New workers answer this path before they get traffic")),
    key("compile_cache", Kind::Flag, "true", "true",
        "Keep compiled code of Node.js 22.1 and later in Forkful's folder, for all workers of the app (`NODE_COMPILE_CACHE`).")
        .of(Start).is(&["compile_cache"]).negation("Do not keep compiled code for the next start"),
    key("depends_on", Kind::Names, "[]", r#"["db"]"#, "Apps that must be ready before this app is started. Apps that run are restarted and reloaded without waiting for each other.")
        .of(Start).decides(&["depends_on"]).option(takes("NAMES", "Apps that must be ready before this app starts").commas()),
    key("kill_signal", Kind::Signal, "\"SIGINT\"", r#""SIGTERM""#, "Signal that asks a worker to stop.")
        .of(Stop).is(&["kill_signal"]).option(takes("SIGNAL", "First signal of a stop; SIGINT by default")),
    key("kill_timeout", Kind::Duration, "\"5s\"", r#""5s""#, "Time between that signal and SIGKILL; `0` is the default.")
        .of(Stop).is(&["kill_timeout_ms"]).option(takes("DURATION", "Time from the first signal to SIGKILL").short('k')),
    key("drain_timeout", Kind::Duration, "\"30s\"", r#""30s""#, "Time limit for requests in progress during a reload.")
        .of(Stop).is(&["drain_timeout_ms"]).option(takes("DURATION", "Time for open requests to finish at a reload")),
    key("shutdown_with_message", Kind::Flag, "false", "true", "Ask a worker to stop by `process.send('shutdown')` instead of a signal.")
        .of(Stop).is(&["shutdown_with_message"]).option(flag("Ask a worker to stop by a message instead of a signal")),
    key("treekill", Kind::Flag, "true", "false",
        "Send the stop signal to the worker's descendants too. Descendants that remain after the timeout are killed in any case.")
        .of(Stop).is(&["treekill"]).negation("Send the first signal of a stop to the worker alone, not to its descendants"),
    key("autorestart", Kind::Flag, "true", "true",
        "Restart a worker that exits. Unless `true` is given, a program that exits with code 0 right after its start (before it listens, and within `min_uptime`, at most 3 s) is finished, and is not restarted.")
        .of(Restart).is(&["autorestart", "restart_finished"]).negation("Do not restart workers that exit")
        .option(flag("Also restart programs that exit with code 0")),
    key("max_restarts", Kind::Count, "16", "16", "A worker is given up after this many unstable exits within 10 minutes, or within a longer time where each exit takes long.")
        .of(Restart).is(&["max_restarts"]).option(takes("NUMBER", "Unstable exits before restarts end")),
    key("min_uptime", Kind::Duration, "\"1s\"", r#""1s""#, "An exit after less uptime is unstable.")
        .of(Restart).is(&["min_uptime_ms"]).option(takes("DURATION", "An exit before this uptime counts as unstable")),
    key("restart_delay", Kind::Duration, "", "500", "Fixed delay before each restart. By default the delay grows from restart to restart.")
        .of(Restart).is(&["restart_delay_ms", "exp_backoff_restart_delay_ms"]).option(takes("DURATION", "Pause before each restart")),
    key("exp_backoff_restart_delay", Kind::DurationOrNone, "\"100ms\"", "100",
        "First delay before a restart; it grows with each consecutive restart, up to 15 s.")
        .of(Restart).is(&["exp_backoff_restart_delay_ms", "restart_delay_ms"]).yields_to("restart_delay")
        .option(takes("DURATION", "First step of a pause that grows with each restart")),
    key("max_restart_delay", Kind::Period, "\"15s\"", r#""5m""#, "Longest delay before a restart where the delay grows.")
        .of(Restart).is(&["max_restart_delay_ms"]).yields_to("restart_delay")
        .option(takes("DURATION", "Longest pause of those that grow; 15 s by default")),
    key("stop_exit_codes", Kind::ExitCodes, "[]", "[0]", "Exit codes after which a worker stays stopped.")
        .of(Restart).is(&["stop_exit_codes"]).option(takes("CODES", "Exit codes after which a worker stays stopped").commas()),
    key("watch", Kind::Watch, "false", r#"["src"]"#, "Reload when files change: in the working directory (`true`), or at the given paths. A path may be a pattern such as `src/*.js` (`**` is any number of folders), and `!` before it leaves it out.")
        .of(Renew).decides(&["watch"]).option(takes("PATHS", "Reload when files change: here, or at these paths").commas().alone().equals()),
    key("ignore_watch", Kind::WatchIgnore, "[]", r#"["uploads", "*.tmp"]"#,
        "Files that are not watched: patterns as in .gitignore (blanks separate those in one text), or regular expressions in a .js configuration. `node_modules`, files whose names begin with a dot, and what a `.gitignore` excludes are never watched; a path that `watch` names is.")
        .of(Renew).decides(&["watch"]).option(takes("PATTERNS", "Paths that are not watched").commas()),
    key("watch_delay", Kind::Duration, "\"100ms\"", "500", "Debounce before reloading: time without further changes.")
        .of(Renew).decides(&["watch"]).option(takes("SECONDS", "Debounce before reloading: seconds, or a string such as 500ms")),
    key("watch_options", Kind::WatchOptions, "{}", r#"{ "usePolling": true }"#,
        "Options of the watcher, as in chokidar.")
        .of(Renew).changes(NewApp).decides(&["watch"]),
    key("cron_restart", Kind::Cron, "0", r#""0 3 * * *""#,
        "Reload at these times: a cron pattern of 5 fields (from minutes) or 6 fields (from seconds); 0 for never.")
        .also(&["cron"]).of(Renew).is(&["cron_restart"]).option(takes("PATTERN", "Reload at these times; 0 for never").short('c').alias("cron")),
    key("max_memory_restart", Kind::Bytes, "", r#""200M""#, "Reload a worker whose process tree uses more memory.")
        .of(Renew).is(&["max_memory_bytes"]).option(takes("BYTES", "Reload workers that use more memory, such as 300M")),
    key("memory_max", Kind::Bytes, "", r#""512M""#,
        "Memory that all processes of the app together may use. The kernel kills a process that would use more. Needs a control group.")
        .of(Limits).is(&["memory_max_bytes"]).option(takes("BYTES", "Memory limit of all processes of the app together, such as 512M")),
    key("memory", Kind::Switch(["off", "auto"]), "\"off\"", r#""auto""#,
        "`\"auto\"` divides the memory that the app may use (`memory_max`, else the limit of the control group, else the machine's memory) over its workers: it sets the heap limit of Node.js, and a worker is replaced before its heap is full or the kernel kills it.")
        .of(Limits).is(&["memory_auto", "node_major"]).option(takes("MODE", "auto: divide the memory over the workers, and replace a worker in time")),
    key("cpu_max", Kind::Cores, "", "1.5",
        "CPU that all processes of the app together may use: cores, or a share of one core as `150%`. Needs a control group.")
        .of(Limits).is(&["cpu_max_millicores"]).option(takes("CORES", "CPU limit of all processes together, such as 1.5 or 150%")),
    key("max_requests", Kind::Positive, "", "100000", "Reload a worker after roughly this many requests.")
        .of(Renew).is(&["max_requests"]).option(takes("NUMBER", "Reload workers after roughly this number of requests")),
    key("max_age", Kind::Period, "", r#""1d""#, "Reload a worker after roughly this age.")
        .of(Renew).is(&["max_age_ms"]).option(takes("DURATION", "Reload workers after roughly this age")),
    key("health", Kind::Health, "false", r#""/healthz""#,
        "Health check of a worker: a path or URL to request, \"tcp\", or an object with one of `http`, `tcp` and `command`.")
        .of(Renew).is(&["health"]).option(takes("PATH", "Health check at this path or URL; `tcp` only connects")),
    key("alerts", Kind::Alerts, "false", r#"{ "webhook": "https://hooks.example.com/T1/B2", "on": ["crash_loop", "failed_reload"] }"#,
        "Where alerts of incidents go: a URL to which they are posted as JSON (https, or http to this machine), a command that gets the JSON on stdin, or an object.")
        .of(Restart).is(&["alerts"]).option(takes("URL|COMMAND", "Send alerts to this URL or command; `false` for none")),
    key("out_file", Kind::Path, "", r#""logs/out.log""#,
        "File for stdout, relative to the working directory; \"/dev/null\" for none. By default a file in Forkful's folder.")
        .also(&["out", "output", "out_log"]).of(Logs).decides(&["out_file"]).option(takes("FILE", "File for stdout").long("output").short('o')),
    key("error_file", Kind::Path, "", r#""logs/error.log""#,
        "File for stderr, relative to the working directory; \"/dev/null\" for none. By default a file in Forkful's folder.")
        .also(&["error", "err", "err_file", "err_log", "error_log"]).of(Logs).decides(&["error_file"])
        .option(takes("FILE", "File for stderr").long("error").short('e')),
    key("log_file", Kind::FlagOrPath, "false", "true", "Additional file for both streams of all workers: `true` for the default path, or a path.")
        .also(&["log"]).of(Logs).decides(&["log_file"]).option(takes("FILE", "One more file for both streams").long("log").short('l').alone()),
    key("merge_logs", Kind::Flag, "", "true",
        "One file per stream for all workers instead of one per worker. By default `true` for a single worker in fork mode.")
        .also(&["combine_logs"]).of(Logs).decides(&["merge_logs"]).option(flag("One file per stream for all workers")),
    key("time", Kind::Flag, "false", "true", "Prefix each log line with the time.")
        .of(Logs).is(&["time"]).option(flag("Begin each line with the time")),
    key("log_date_format", Kind::DateFormat, "", r#""YYYY-MM-DD HH:mm:ss""#,
        "Prefix each log line with the local time in this format (tokens of Moment.js and Day.js).")
        .of(Logs).is(&["log_date_format"]).option(takes("FORM", "Begin each line with the time in this form, as \"YYYY-MM-DD HH:mm:ss\"")),
    key("log_type", Kind::Switch(["raw", "json"]), "\"raw\"", r#""json""#, "Format of log lines: unchanged, or JSON with time, stream and app.")
        .of(Logs).is(&["log_json"]).option(takes("TYPE", "How lines are written: raw or json")),
    key("log_ansi", Kind::Switch(["keep", "strip"]), "\"keep\"", r#""strip""#,
        "Keep or strip colours and other terminal control sequences in log files.")
        .of(Logs).is(&["log_strip_ansi"]),
    key("log_rotate", Kind::LogRotation, "true", r#"{ "max_size": "50M", "keep": 5 }"#,
        "When log files are rotated: `true`, a size, or an object; `false` for never.")
        .of(Logs).is(&["log_rotate"]),
    key("disable_logs", Kind::Flag, "false", "true", "Write no log files; `forkful logs` still shows new lines.")
        .of(Logs).is(&["disable_logs"]).option(flag("Write no log files")),

    foreign("force", "belongs to the command line: `forkful start --force`"),
    foreign("kill_retry_time", "is not needed: the exit of a process is not polled"),
    foreign("write", "is not needed: `forkful init` writes a configuration"),
    foreign("windows_hide", "has no effect on this system"),
    foreign("disable_source_map_support", "is not needed: `source_map_support: false` turns source maps off"),
    foreign("post_update", "belongs to `pm2 pull`: use the hook `post-deploy` of `deploy`"),
    foreign("username", "is not needed: the system records the user"),
    foreign("vizion", "has no effect: version control is not inspected"),
    foreign("install_url", "has no effect outside PM2"),
    foreign("automation", "has no effect outside PM2"),
    foreign("pmx", "has no effect outside PM2"),
    foreign("io", "has no effect outside PM2"),
    foreign("trace", "has no effect outside PM2"),
    foreign("disable_trace", "has no effect outside PM2"),
    foreign("v8", "has no effect outside PM2"),
    foreign("event_loop_inspector", "has no effect outside PM2"),
    foreign("deep_monitoring", "has no effect outside PM2"),
];
