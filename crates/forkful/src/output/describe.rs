//! All details of an app, as lines of a key and a value.

mod settings;

use std::fmt::Write as _;

use forkful_api::types::{AppDefinition, AppView, ModeKind, Status, WorkerView};
use forkful_core::metrics::METRICS;
use forkful_core::outgoing::{HostLoad, HostUse};
use forkful_core::spec::AppSpec;
use forkful_core::words::shell_word;

use super::format::{bound, bytes, count, quoted, span, utc, visible};
use super::paint::Paint;
use super::stalls;
use super::table::{status_of, workers_of};

/// Width of the key column.
const KEY_WIDTH: usize = 16;

/// Width of the key column of settings.
const SETTING_WIDTH: usize = 26;

/// The widest value of a setting with which others are aligned.
const GIVEN_WIDTH_MAX: usize = 30;

/// The width for values in 80 columns.
const VALUE_WIDTH: usize = 80 - KEY_WIDTH - 3;

/// An app and its workers.
pub(crate) fn app(app: &AppView, now_ms: u64, show_env: bool, paint: Paint) -> String {
    let mut redacted = app.definition.clone();
    redacted.redact_secrets();
    let definition = &redacted;
    let mut lines = Lines { text: String::new(), paint };
    lines.title(&format!("{} ({})", definition.name, workers_of(app.workers.len(), definition.autoscale)));
    lines.pair("mode", &mode(definition));
    lines.pair("program", &command(definition));
    lines.pair("arguments", &words(&definition.args));
    lines.pair("working dir", &definition.cwd);
    lines.pair("created", &format!("{} UTC", utc(app.created_at_ms)));
    lines.pair("listening", &app.listening.join(", "));
    for note in &app.notes {
        lines.words("note", note);
    }
    lines.pair("restart", &restart(definition));
    lines.pair("gives up", &gives_up(definition));
    lines.pair("ready", &ready(definition));
    lines.pair("stop", &stop(definition));
    lines.pair("memory_max", &memory_max(app));
    if let Some(plan) = &app.memory_plan {
        lines.words("memory", &plan.text);
    }
    if let Some(last) = &app.last_scaling {
        lines.words("scaling", last);
    }
    lines.pair("cpu_max", &cpu_max(app));
    lines.environment(app, show_env);
    lines.names("missing", &missing(app));
    for dispatch in &app.dispatch {
        lines.pair(
            "dispatch",
            &format!(
                "{}: {}, {} handed over, {} rescued, {} lost, {} suspected, {} steered",
                dispatch.address,
                dispatch.mode,
                dispatch.handed_over,
                dispatch.rescued,
                dispatch.lost,
                dispatch.suspected,
                dispatch.steered
            ),
        );
    }
    for host in &app.outgoing {
        lines.pair("outgoing", &outgoing(host));
    }
    if let Some(cost) = &app.stalls {
        let command = format!("`forkful stalls {}`", shell_word(&definition.name));
        lines.pair("stalls", &format!("{} ({command})", stalls::summary(cost)));
    }
    lines.settings(definition);
    for worker in &app.workers {
        lines.worker(worker, now_ms);
        if worker.status == Status::Errored {
            let again = format!("mend the cause, then `forkful restart {}`", shell_word(&definition.name));
            lines.pair("what to do", &again);
        }
    }
    lines.text
}

/// `db:5432: 40 connections of 4 workers, at most 10 of one`.
fn outgoing(load: &HostLoad) -> String {
    let HostLoad { host, connections, workers, most, refused, limit } = load;
    let mut text = format!(
        "{host}: {} of {}, at most {most} of one",
        count(*connections as usize, "connection"),
        count((*workers).into(), "worker")
    );
    if *refused > 0 {
        write!(text, "; it refused {refused}").expect("a String takes everything");
    }
    if let Some(limit) = limit.filter(|limit| *limit > 0) {
        write!(text, ", with {limit} open").expect("a String takes everything");
    }
    text
}

/// `db:5432=10`.
fn to_host(host: &HostUse) -> String {
    format!("{}={}", host.host, host.connections)
}

/// Variables that the app had from a shell and lacks now, because their values were not saved.
fn missing(app: &AppView) -> Vec<String> {
    let inherited = app.definition.env_sources.inherited.iter();
    inherited.filter(|name| !app.env_names.contains(name)).cloned().collect()
}

/// A limit and its use; empty for an app without a limit.
fn memory_max(app: &AppView) -> String {
    let Some(most) = app.definition.memory_max_bytes else { return String::new() };
    match app.usage.as_ref().and_then(|usage| usage.memory_bytes) {
        Some(used) => format!("{} for all processes, {} used", bytes(most), bytes(used)),
        None => format!("{} for all processes", bytes(most)),
    }
}

fn cpu_max(app: &AppView) -> String {
    let Some(most) = app.definition.cpu_max_millicores else { return String::new() };
    let most = format!("{} cores for all processes", f64::from(most) / 1000.0);
    match app.usage.as_ref().and_then(|usage| usage.cpu_percent) {
        Some(used) => format!("{most}, {:.2} used", used / 100.0),
        None => most,
    }
}

fn mode(definition: &AppDefinition) -> String {
    match definition.mode {
        ModeKind::Cluster => format!("cluster, balance {}", definition.balance),
        ModeKind::Fork => "fork".to_owned(),
    }
}

fn command(definition: &AppDefinition) -> String {
    let mut all = vec![definition.program.clone()];
    all.extend(definition.program_args.iter().cloned());
    all.extend(definition.script.iter().cloned());
    words(&all)
}

fn words(words: &[String]) -> String {
    shell_words::join(words)
}

fn restart(definition: &AppDefinition) -> String {
    if !definition.autorestart {
        return "never".to_owned();
    }
    let mut text = "after each exit".to_owned();
    if let Some(delay) = definition.restart_delay_ms {
        write!(text, ", pause {}", bound(delay)).expect("a String takes everything");
    }
    if !definition.stop_exit_codes.is_empty() {
        let codes: Vec<String> = definition.stop_exit_codes.iter().map(ToString::to_string).collect();
        write!(text, ", not after exit code {}", codes.join(", ")).expect("a String takes everything");
    }
    text
}

/// `10 min`, `1 s`, `500 ms`.
fn words_bound(milliseconds: u64) -> String {
    let text = bound(milliseconds);
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    format!("{number} {}", if unit == "m" { "min" } else { unit })
}

/// Empty for an app that is not restarted.
fn gives_up(definition: &AppDefinition) -> String {
    if !definition.autorestart {
        return String::new();
    }
    let window = AppSpec::try_from(definition.clone()).map_or(definition.restart_window_ms, |spec| {
        u64::try_from(spec.unstable_window().as_millis()).unwrap_or(u64::MAX)
    });
    format!(
        "after {} in {}, each after less than {}",
        count(definition.max_restarts as usize, "exit"),
        words_bound(window),
        words_bound(definition.min_uptime_ms)
    )
}

fn ready(definition: &AppDefinition) -> String {
    let how = match (definition.wait_ready, definition.mode) {
        (true, _) => "when it says so",
        (false, ModeKind::Cluster) => "when it listens",
        (false, ModeKind::Fork) => "when it runs",
    };
    match definition.listen_timeout_ms {
        Some(timeout) => format!("{how}, within {}", bound(timeout)),
        None => how.to_owned(),
    }
}

fn stop(definition: &AppDefinition) -> String {
    let asked = if definition.shutdown_with_message {
        "the message `shutdown`"
    } else {
        forkful_core::signals::words(definition.kill_signal)
    };
    format!(
        "{asked}, killed after {}, {} to drain at a reload",
        bound(definition.kill_timeout_ms),
        bound(definition.drain_timeout_ms)
    )
}

struct Lines {
    text: String,
    paint: Paint,
}

impl Lines {
    fn add(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a String takes everything");
    }

    fn title(&mut self, title: &str) {
        let title = self.paint.bold(&visible(title));
        self.add(&title);
    }

    /// A key and its value; nothing if the value is empty.
    fn pair(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            let key = self.paint.dim(&format!("{key:KEY_WIDTH$}"));
            self.add(&format!("  {key} {}", visible(value).replace('\n', "\\n")));
        }
    }

    /// A key and several short values, as many per line as fit into 80 columns.
    fn names(&mut self, key: &str, names: &[String]) {
        let mut line = String::new();
        let mut key = key;
        for name in names {
            if !line.is_empty() && line.chars().count() + 1 + name.chars().count() > VALUE_WIDTH {
                self.pair(std::mem::take(&mut key), &std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(name);
        }
        self.pair(key, &line);
    }

    /// A sentence, wrapped to as many lines as needed.
    fn words(&mut self, key: &str, text: &str) {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        self.names(key, &words);
    }

    /// The number of variables and their sources; with their names if requested.
    fn environment(&mut self, app: &AppView, show_env: bool) {
        let sources = &app.definition.env_sources;
        let origin = app.definition.origins.get("env").or_else(|| app.definition.origins.get("port"));
        let given: Vec<&String> = app
            .env_names
            .iter()
            .filter(|name| !sources.inherited.contains(*name) && !sources.from_files.contains(*name))
            .collect();
        let mut parts = Vec::new();
        if !given.is_empty() {
            let names: Vec<&str> = given.iter().map(|name| name.as_str()).collect();
            let place = origin.map_or(String::new(), |origin| format!(" ({origin})"));
            parts.push(format!("{}{place}", names.join(", ")));
        }
        if !sources.from_files.is_empty() {
            let files: Vec<String> = sources.files.iter().map(|file| file.display().to_string()).collect();
            parts.push(format!("{} from {}", sources.from_files.len(), files.join(", ")));
        }
        if !sources.inherited.is_empty() {
            let hint = if show_env { "" } else { " (--show-env)" };
            parts.push(format!("{} inherited{hint}", sources.inherited.len()));
        }
        self.pair("environment", &parts.join("; "));
        if show_env {
            self.names("", &app.env_names);
        }
    }

    /// Given settings first, with their source; then the defaults, by group.
    fn settings(&mut self, definition: &AppDefinition) {
        let all = settings::settings(definition);
        let (given, defaults): (Vec<_>, Vec<_>) = all.iter().partition(|setting| setting.origin.is_some());
        if !given.is_empty() {
            self.add("");
            self.title("  settings");
        }
        let width = given.iter().map(|setting| setting.value.chars().count()).max().unwrap_or_default();
        let width = width.min(GIVEN_WIDTH_MAX);
        for setting in given {
            let origin = setting.origin.as_deref().unwrap_or_default();
            let key = self.paint.dim(&format!("{:SETTING_WIDTH$}", setting.key));
            let origin = self.paint.dim(&visible(origin));
            self.add(&format!("  {key} {:width$}  {origin}", visible(&setting.value)));
        }
        self.add("");
        self.title("  defaults");
        let mut groups: Vec<&str> = defaults.iter().map(|setting| setting.group).collect();
        groups.dedup();
        for group in groups {
            let of_group =
                defaults.iter().filter(|setting| setting.group == group && setting.value != "none");
            let texts: Vec<String> =
                of_group.map(|setting| format!("{}={}", setting.key, visible(&setting.value))).collect();
            self.names(group, &texts);
            let off: Vec<&str> = defaults
                .iter()
                .filter(|setting| setting.group == group && setting.value == "none")
                .map(|setting| setting.key)
                .collect();
            if !off.is_empty() {
                let names: Vec<String> = std::iter::once("not set:").chain(off).map(str::to_owned).collect();
                self.names(if texts.is_empty() { group } else { "" }, &names);
            }
        }
    }

    fn worker(&mut self, worker: &WorkerView, now_ms: u64) {
        self.add("");
        self.title(&format!("  worker {} (slot {})", worker.pm_id, worker.slot));
        self.pair("status", &status_of(worker.status, worker.blocked_ms));
        self.pair("reason", worker.reason.as_deref().unwrap_or_default());
        if let Some(pid) = worker.pid {
            self.pair("pid", &pid.to_string());
            if let Some(started_at_ms) = worker.started_at_ms {
                let uptime = span(now_ms.saturating_sub(started_at_ms));
                self.pair("uptime", &format!("{uptime}, since {} UTC", utc(started_at_ms)));
            }
            self.pair("cpu", &format!("{:.1}%", worker.cpu_percent));
            self.pair("memory", &bytes(worker.memory_bytes));
        }
        let unstable = match worker.unstable_restarts {
            0 => String::new(),
            number => format!(" ({number} unstable)"),
        };
        let crashes = match worker.crashes {
            0 => String::new(),
            1 => ", 1 crash".to_owned(),
            number => format!(", {number} crashes"),
        };
        self.pair("restarts", &format!("{}{crashes}{unstable}", worker.restarts));
        self.pair("last renewal", worker.renewed.as_deref().unwrap_or_default());
        self.pair("health", worker.health_fault.as_deref().unwrap_or_default());
        for (metric, label) in METRICS.iter().filter_map(|metric| Some((metric, metric.label?))) {
            let value = worker.metrics.get(metric.name);
            self.pair(label, &value.map(|value| metric.display(*value)).unwrap_or_default());
        }
        let outgoing: Vec<String> = worker.outgoing.iter().map(to_host).collect();
        self.names("outgoing", &outgoing);
        for (name, metric) in &worker.reports.metrics {
            let unit = metric.more.get("unit").and_then(serde_json::Value::as_str).unwrap_or_default();
            let value = match &metric.value {
                serde_json::Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            self.pair("metric", format!("{name}: {value} {unit}").trim_end());
        }
        let actions: Vec<String> =
            worker.reports.actions.iter().map(|action| action.action_name.clone()).collect();
        self.names("actions", &actions);
        self.pair("last exit", worker.last_exit.as_deref().unwrap_or_default());
        self.pair("stdout file", &worker.out_log_path);
        self.pair("stderr file", &worker.error_log_path);
        self.pair("log fault", worker.log_fault.as_deref().unwrap_or_default());
        if worker.dropped_log_lines > 0 {
            self.pair("lost log lines", &worker.dropped_log_lines.to_string());
        }
        if !worker.stderr_tail.is_empty() {
            self.pair("stderr", "the last lines:");
            for line in &worker.stderr_tail {
                self.add(&format!("    {}", quoted(line)));
            }
        }
    }
}
