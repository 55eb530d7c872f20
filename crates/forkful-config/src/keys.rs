//! The one table of all keys that a configuration may have: reading, messages and documentation
//! come from it.

use crate::options::AppOptions;
use crate::tree::Node;
use crate::values::{self, Refusal};

/// What kind of value a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A path.
    Path,
    /// A list of texts, or a text that is split as a shell would.
    Words,
    /// A number, `max` or a negative number.
    Instances,
    /// `cluster` or `fork`.
    ExecMode,
    /// Milliseconds, or a text with a unit.
    Duration,
    /// A whole number from 0.
    Count,
    /// A port's number.
    Port,
    /// `true` or `false`.
    Flag,
    /// One exit code or a list of them.
    ExitCodes,
    /// A signal's name or number.
    Signal,
    /// A way of spreading connections.
    Balance,
    /// An object of variables.
    Environment,
    /// Not read.
    Any,
}

impl Kind {
    /// The kind in a few words, for tables of documentation.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Path => "path",
            Self::Words => "list or text",
            Self::Instances => "number, \"max\", negative number",
            Self::ExecMode => "\"cluster\" or \"fork\"",
            Self::Duration => "milliseconds, or \"10s\"",
            Self::Count => "whole number",
            Self::Port => "port",
            Self::Flag => "true or false",
            Self::ExitCodes => "exit code or list",
            Self::Signal => "signal",
            Self::Balance => "\"auto\", \"direct\", \"exact\", \"shared\", \"sticky\"",
            Self::Environment => "object",
            Self::Any => "any",
        }
    }
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It works.
    Now,
    /// PM2 has it and Forkful will; until then it is ignored with a warning.
    Later,
    /// PM2 has it, Forkful does not yet, and ignoring it would be unsafe: an error.
    Refused,
    /// PM2's own business: ignored, because it has no meaning here.
    Foreign,
}

type Setter = fn(&mut AppOptions, &Node) -> Result<(), Refusal>;

/// One key of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct KnownKey {
    /// The name, in `snake_case`; the same in camelCase is accepted.
    pub name: &'static str,
    /// Other names, of PM2.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// What becomes of it.
    pub support: Support,
    /// What it means; for keys that are not supported, what to do instead, or empty.
    pub doc: &'static str,
    /// A value as one would write it in JSON.
    pub example: &'static str,
    set: Option<Setter>,
}

/// All keys, in the order in which documentation shows them.
pub fn known_keys() -> &'static [KnownKey] {
    KNOWN_KEYS
}

const fn key(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    doc: &'static str,
    example: &'static str,
    set: Setter,
) -> KnownKey {
    KnownKey { name, aliases, kind, support: Support::Now, doc, example, set: Some(set) }
}

const fn unread(
    name: &'static str,
    aliases: &'static [&'static str],
    support: Support,
    doc: &'static str,
) -> KnownKey {
    KnownKey { name, aliases, kind: Kind::Any, support, doc, example: "", set: None }
}

const fn later(name: &'static str, aliases: &'static [&'static str]) -> KnownKey {
    unread(name, aliases, Support::Later, "")
}

const fn foreign(name: &'static str) -> KnownKey {
    unread(name, &[], Support::Foreign, "")
}

/// Puts a checked value into its field.
fn put<T>(field: &mut Option<T>, value: Result<T, Refusal>) -> Result<(), Refusal> {
    *field = Some(value?);
    Ok(())
}

#[rustfmt::skip]
const KNOWN_KEYS: &[KnownKey] = &[
    key("script", &["exec", "cmd", "command"], Kind::Path,
        "What is started: a file, a program in PATH, or a shell command line (when it holds a space and is no file).",
        r#""server.js""#, |o, v| put(&mut o.script, values::filled_text(v))),
    key("name", &[], Kind::Text,
        "The app's name; by default the script's base name without its last extension.",
        r#""api""#, |o, v| put(&mut o.name, values::text(v))),
    key("args", &[], Kind::Words, "Arguments of the script.",
        r#"["--port", "3000"]"#, |o, v| put(&mut o.args, values::words(v))),
    key("cwd", &[], Kind::Path,
        "Working directory, relative to the configuration file; by default that file's directory.",
        r#""./api""#, |o, v| put(&mut o.cwd, values::filled_text(v).map(Into::into))),
    key("instances", &[], Kind::Instances,
        "Number of workers; \"max\" or 0 is one per usable core, -1 one less than that.",
        r#""max""#, |o, v| put(&mut o.instances, values::instances(v))),
    key("exec_mode", &[], Kind::ExecMode,
        "Whether workers share ports; by default \"cluster\" when `instances` is given and the app is a Node.js program.",
        r#""cluster""#, |o, v| put(&mut o.exec_mode, values::exec_mode(v))),
    key("interpreter", &["exec_interpreter"], Kind::Text,
        "The program that runs the script, by name or path; \"none\" runs the script itself, \"node@22\" with nvm's newest Node.js 22. By default by the script's extension.",
        r#""python3""#, |o, v| put(&mut o.interpreter, values::filled_text(v))),
    key("node_args", &["interpreter_args"], Kind::Words, "Arguments of the interpreter.",
        r#""--max-old-space-size=512""#, |o, v| put(&mut o.node_args, values::words(v))),
    key("env", &[], Kind::Environment,
        "Environment variables, added to those of the caller. `env_<name>` blocks are added when the name is chosen.",
        r#"{ "NODE_ENV": "production" }"#, |o, v| { o.env = values::environment(v)?; Ok(()) }),
    key("port", &[], Kind::Port, "Sets the variable PORT.",
        "3000", |o, v| put(&mut o.port, values::port(v))),
    key("balance", &[], Kind::Balance, "How new connections are spread over the workers of a cluster.",
        r#""auto""#, |o, v| put(&mut o.balance, values::balance(v))),
    key("wait_ready", &[], Kind::Flag,
        "A worker is ready when it calls `process.send('ready')`, not when it listens.",
        "true", |o, v| put(&mut o.wait_ready, values::flag(v))),
    key("listen_timeout", &[], Kind::Duration, "How long a worker may take to become ready.",
        r#""10s""#, |o, v| put(&mut o.listen_timeout, values::duration(v))),
    key("kill_signal", &[], Kind::Signal, "The signal that asks a worker to stop.",
        r#""SIGTERM""#, |o, v| put(&mut o.kill_signal, values::signal(v))),
    key("kill_timeout", &[], Kind::Duration, "From that signal to SIGKILL.",
        r#""5s""#, |o, v| put(&mut o.kill_timeout, values::duration(v))),
    key("drain_timeout", &[], Kind::Duration, "At a reload, how long requests under way may take.",
        r#""30s""#, |o, v| put(&mut o.drain_timeout, values::duration(v))),
    key("autorestart", &[], Kind::Flag, "Whether a worker that exits is started again.",
        "true", |o, v| put(&mut o.autorestart, values::flag(v))),
    key("max_restarts", &[], Kind::Count, "Unstable exits after which a worker is given up.",
        "16", |o, v| put(&mut o.max_restarts, values::count(v))),
    key("min_uptime", &[], Kind::Duration, "An exit after a shorter life is unstable.",
        r#""1s""#, |o, v| put(&mut o.min_uptime, values::duration(v))),
    key("restart_delay", &[], Kind::Duration, "A fixed pause before each restart.",
        "500", |o, v| put(&mut o.restart_delay, values::duration(v))),
    key("exp_backoff_restart_delay", &[], Kind::Duration,
        "The first step of the pause that grows from restart to restart.",
        "100", |o, v| put(&mut o.exp_backoff_restart_delay, values::duration(v))),
    key("stop_exit_codes", &[], Kind::ExitCodes, "Exit codes after which a worker stays stopped.",
        "[0]", |o, v| put(&mut o.stop_exit_codes, values::exit_codes(v))),
    key("out_file", &["out", "output", "out_log"], Kind::Path,
        "File for stdout, relative to the working directory; \"/dev/null\" for none.",
        r#""logs/out.log""#, |o, v| put(&mut o.out_file, values::filled_text(v).map(Into::into))),
    key("error_file", &["error", "err", "err_file", "err_log", "error_log"], Kind::Path,
        "File for stderr, relative to the working directory; \"/dev/null\" for none.",
        r#""logs/error.log""#, |o, v| put(&mut o.error_file, values::filled_text(v).map(Into::into))),
    key("merge_logs", &["combine_logs"], Kind::Flag, "One file per stream for all workers instead of one per worker.",
        "true", |o, v| put(&mut o.merge_logs, values::flag(v))),
    key("time", &[], Kind::Flag, "Start each log line with the time.",
        "true", |o, v| put(&mut o.time, values::flag(v))),
    key("agent", &[], Kind::Flag,
        "Preload Forkful's small agent into Node.js workers: exact drains, and metrics.",
        "true", |o, v| put(&mut o.agent, values::flag(v))),

    unread("uid", &["user"], Support::Refused, "start the daemon as that user instead"),
    unread("gid", &["group"], Support::Refused, "start the daemon with that group instead"),
    later("append_env_to_name", &[]),
    later("autostart", &[]),
    later("cron_restart", &["cron"]),
    later("disable_logs", &[]),
    later("env_file", &[]),
    later("filter_env", &[]),
    later("ignore_watch", &[]),
    later("increment_var", &[]),
    later("instance_var", &[]),
    unread("log_date_format", &[], Support::Later, "`time: true` starts each line with the time"),
    unread("log_file", &["log"], Support::Later, "`out_file` and `error_file` may name the same file"),
    later("log_type", &[]),
    later("max_memory_restart", &[]),
    later("name_prefix", &[]),
    later("namespace", &[]),
    later("pid_file", &["pid"]),
    later("post_update", &[]),
    later("shutdown_with_message", &[]),
    later("watch", &[]),
    later("watch_delay", &[]),
    later("watch_options", &[]),
    foreign("automation"),
    foreign("deep_monitoring"),
    foreign("disable_source_map_support"),
    foreign("disable_trace"),
    foreign("event_loop_inspector"),
    foreign("execute_command"),
    foreign("force"),
    foreign("install_url"),
    foreign("io"),
    foreign("kill_retry_time"),
    foreign("pmx"),
    foreign("source_map_support"),
    foreign("trace"),
    foreign("treekill"),
    foreign("username"),
    foreign("v8"),
    foreign("vizion"),
    foreign("windows_hide"),
    foreign("write"),
];

impl KnownKey {
    /// Puts a value into the field that this key means; does nothing for a key that is not supported.
    pub(crate) fn set(&self, options: &mut AppOptions, node: &Node) -> Result<(), Refusal> {
        match self.set {
            Some(set) => set(options, node),
            None => Ok(()),
        }
    }
}

/// The key of this name or alias, in `snake_case` or camelCase.
pub(crate) fn find(written: &str) -> Option<&'static KnownKey> {
    let snake = snake_case(written);
    KNOWN_KEYS.iter().find(|key| key.name == snake || key.aliases.contains(&snake.as_str()))
}

/// The known name that is most like this one, when it is like enough to have been meant.
pub(crate) fn nearest_key(written: &str) -> Option<&'static str> {
    let names = KNOWN_KEYS.iter().filter(|key| key.support == Support::Now);
    nearest(
        &snake_case(written),
        names.flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied())),
    )
}

/// The candidate that is most like a word, when at most a third of its letters differ.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance_max = (word.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn snake_case(written: &str) -> String {
    let mut snake = String::with_capacity(written.len() + 4);
    for c in written.chars() {
        if c.is_ascii_uppercase() {
            if !snake.is_empty() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        } else {
            snake.push(c);
        }
    }
    snake
}
