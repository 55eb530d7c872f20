//! From a value as the user wrote it to the type that an option has. Each function says what it
//! expected instead, in words that fit after "expected".

mod alerts;
mod instances;
mod otlp;
mod parts;
mod rotation;
mod warmup;

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::alerts::AlertPolicy;
use forkful_core::spec::{Mode, Named as _, StopSignal};
use forkful_core::words;
use serde_json::Value as Json;

use crate::error::{ConfigError, Place};
use crate::keys::{self, Kind};
use crate::tree::{Entry, Node, Spot, Value, quoted};

use alerts::alerts;
pub(crate) use instances::{Instances, Number, parse_instances};
use otlp::otlp;
pub use parts::parse_bytes;
use parts::{bytes, cores, count_from_1, cron, date_format, filter_env, flag_or_path, health};
pub(crate) use parts::{names, period};
use parts::{variable_name, watch, watch_ignore, watch_options};
use rotation::log_rotation;
pub use rotation::set_log_rotation;
use warmup::warmup;

/// The longest time that any option takes; a bound against a slip of the keyboard.
const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A value that is not what its key takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The part of the value that is at fault, as `[2]` or `.PORT`; empty for the whole.
    pub(crate) below: String,
    /// Where that part stands.
    pub(crate) at: Option<Spot>,
    pub(crate) value: String,
    pub(crate) expected: String,
    /// A key is at fault, and not its value; `expected` says which keys there are.
    pub(crate) is_unknown_key: bool,
}

impl Refusal {
    pub(crate) fn new(node: &Node, expected: impl Into<String>) -> Self {
        Self {
            below: String::new(),
            at: node.at,
            value: node.to_string(),
            expected: expected.into(),
            is_unknown_key: false,
        }
    }

    /// A value that should be a URL. What is said of it gets into logs, so `shown` gives a text without its secrets.
    pub(crate) fn of_url(node: &Node, expected: &str, shown: fn(&str) -> String) -> Self {
        let mut refusal = Self::new(node, expected);
        match &node.value {
            Value::Text(url) => refusal.value = quoted(&shown(url)),
            Value::List(_) => "a list".clone_into(&mut refusal.value),
            Value::Table(_) => "an object".clone_into(&mut refusal.value),
            _ => {}
        }
        refusal
    }

    /// A key that the object of this kind does not have.
    pub(crate) fn unknown_key(entry: &Entry, of: Kind) -> Self {
        let known = of.part_names();
        let expected = match keys::nearest(&keys::snake_case(&entry.key), known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("the keys are {}", known.join(", ")),
        };
        let at = entry.at.or(entry.node.at);
        Self { at, is_unknown_key: true, ..Self::new(&entry.node, expected) }
    }

    /// What is at fault, in words that fit after the key.
    pub(crate) fn told(&self) -> String {
        let Self { value, expected, .. } = self;
        if self.is_unknown_key {
            format!("is an unknown key; {expected}")
        } else {
            format!("is {value}; expected {expected}")
        }
    }

    pub(crate) fn below(mut self, part: &str) -> Self {
        self.below = format!("{part}{}", self.below);
        self
    }

    /// As a fault of the key at `place`.
    pub(crate) fn of(self, place: Place) -> ConfigError {
        let place = Place { at: self.at.or(place.at), key: format!("{}{}", place.key, self.below), ..place };
        ConfigError::at(place, self.told())
    }
}

/// An address that may have secrets only as a URL has them: before an `@`, or in a path or query.
fn shown_address(text: &str) -> String {
    let is_plain = !text.contains("://") && !text.contains(['@', '?', ';']);
    if is_plain { text.to_owned() } else { AlertPolicy::shown_webhook(text) }
}

type Checked<T> = Result<T, Refusal>;

/// Reads a value of a kind into the form in which it travels to the daemon.
pub(crate) fn read(kind: Kind, node: &Node) -> Checked<Json> {
    Ok(match kind {
        Kind::Name => text(node)?.into(),
        Kind::Text | Kind::Path | Kind::User => filled_text(node)?.into(),
        Kind::Variable => variable_name(node)?.into(),
        Kind::Words => words(node)?.into(),
        Kind::Instances => instances::instances(node)?.into(),
        Kind::ExecMode => exec_mode(node)?.name().into(),
        Kind::Duration => millis(duration(node)?),
        Kind::DurationOrNone => match duration(node)? {
            // PM2 takes 0 for what leaving it out means.
            Duration::ZERO => Json::Null,
            some => millis(some),
        },
        Kind::Period => millis(period(node)?),
        Kind::Count => count(node)?.into(),
        Kind::Positive => count_from_1(node)?.into(),
        Kind::Port => port(node)?.into(),
        Kind::Flag => flag(node)?.into(),
        Kind::ExitCodes => exit_codes(node)?.into(),
        Kind::Signal => signal(node)?.0.into(),
        Kind::Choice(names) => choice(node, names)?.into(),
        Kind::Switch(names) => (choice(node, &names)? == names[1]).into(),
        Kind::Bytes => bytes(node)?.into(),
        Kind::Cores => cores(node)?.into(),
        Kind::Cron => cron(node)?.into(),
        Kind::FilterEnv => filter_env(node)?,
        Kind::FlagOrPath => flag_or_path(node)?,
        Kind::DateFormat => date_format(node)?.into(),
        Kind::Watch => watch(node)?,
        Kind::WatchIgnore => watch_ignore(node)?.into(),
        Kind::WatchOptions => watch_options(node)?,
        Kind::Health => health(node)?,
        Kind::Warmup => warmup(node)?,
        Kind::Alerts => alerts(node)?,
        Kind::Otlp => otlp(node)?,
        Kind::LogRotation => log_rotation(node)?,
        Kind::Paths | Kind::Names => names(node)?.into(),
        // `env` has a place of its own, and `Any` is not read.
        Kind::Environment | Kind::Any => Json::Null,
    })
}

fn millis(duration: Duration) -> Json {
    (duration.as_millis() as u64).into()
}

/// A text, or a number taken as one.
pub(crate) fn text(node: &Node) -> Checked<String> {
    match &node.value {
        Value::Text(text) if text.contains('\0') => Err(Refusal::new(node, "a text without NUL characters")),
        Value::Text(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.text.clone()),
        _ => Err(Refusal::new(node, "a text")),
    }
}

/// A text that is not empty.
pub(crate) fn filled_text(node: &Node) -> Checked<String> {
    let text = text(node)?;
    if text.trim().is_empty() { Err(Refusal::new(node, "a text that is not empty")) } else { Ok(text) }
}

/// Each entry of a list.
fn each<T>(items: &[Node], one: impl Fn(&Node) -> Checked<T>) -> Checked<Vec<T>> {
    let entry = |(index, item)| one(item).map_err(|refusal: Refusal| refusal.below(&format!("[{index}]")));
    items.iter().enumerate().map(entry).collect()
}

/// A list of texts, or one text that is split as a shell would.
fn words(node: &Node) -> Checked<Vec<String>> {
    match &node.value {
        Value::List(items) => each(items, |item| match &item.value {
            Value::Bool(flag) => Ok(flag.to_string()),
            _ => text(item),
        }),
        Value::Text(line) => shell_words::split(line)
            .map_err(|_| Refusal::new(node, "a text whose quotes are closed, or a list of texts")),
        Value::Number(number) => Ok(vec![number.text.clone()]),
        _ => Err(Refusal::new(node, "a list of texts, or one text that is split as a shell would")),
    }
}

/// `true` or `false`.
pub(crate) fn flag(node: &Node) -> Checked<bool> {
    match &node.value {
        Value::Bool(flag) => Ok(*flag),
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        _ => Err(Refusal::new(node, "true or false")),
    }
}

/// A whole number from 0.
fn count(node: &Node) -> Checked<u32> {
    whole(node)
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| Refusal::new(node, "a whole number from 0"))
}

pub(crate) fn port(node: &Node) -> Checked<u16> {
    whole(node)
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| Refusal::new(node, "a port from 0 to 65535"))
}

fn whole(node: &Node) -> Option<i64> {
    match &node.value {
        Value::Number(number) => number.whole(),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A number of milliseconds, or a text with a unit.
fn duration(node: &Node) -> Checked<Duration> {
    const EXPECTED: &str = r#"a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h""#;
    let duration = match &node.value {
        Value::Number(number) => from_millis(number.value),
        Value::Text(text) => parse_duration(text),
        _ => None,
    };
    match duration {
        None => Err(Refusal::new(node, EXPECTED)),
        Some(long) if long > DURATION_MAX => Err(Refusal::new(node, "at most 30 days")),
        Some(duration) => Ok(duration),
    }
}

/// `10s`, `1.5 m`, `500`; a bare number is milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let millis_per_unit = match unit.trim_start() {
        "" | "ms" => 1.0,
        "s" => 1_000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    from_millis(number.parse::<f64>().ok()? * millis_per_unit)
}

fn from_millis(millis: f64) -> Option<Duration> {
    (millis.is_finite() && millis >= 0.0).then(|| Duration::from_millis(millis.round() as u64))
}

/// `cluster` or `fork`, with PM2's `_mode` allowed.
fn exec_mode(node: &Node) -> Checked<Mode> {
    match &node.value {
        Value::Text(text) if matches!(text.as_str(), "cluster" | "cluster_mode") => Ok(Mode::Cluster),
        Value::Text(text) if matches!(text.as_str(), "fork" | "fork_mode") => Ok(Mode::Fork),
        _ => Err(Refusal::new(node, r#""cluster" or "fork""#)),
    }
}

/// One of these names.
fn choice<'a>(node: &Node, names: &[&'a str]) -> Checked<&'a str> {
    let Value::Text(text) = &node.value else { return Err(Refusal::new(node, one_of(names))) };
    names.iter().find(|name| *name == text).copied().ok_or_else(|| Refusal::new(node, one_of(names)))
}

/// `"a", "b" or "c"`.
fn one_of(names: &[&str]) -> String {
    words::one_of(&names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>())
}

/// Exit codes: one, a list, or a text of several.
fn exit_codes(node: &Node) -> Checked<Vec<i32>> {
    const EXPECTED: &str = "an exit code from 0 to 255, or a list of them";
    let one = |node: &Node| {
        whole(node)
            .and_then(|code| u8::try_from(code).ok())
            .map(i32::from)
            .ok_or_else(|| Refusal::new(node, EXPECTED))
    };
    match &node.value {
        Value::List(items) => each(items, one),
        Value::Text(text) => text
            .split([',', ' '])
            .filter(|part| !part.is_empty())
            .map(|part| part.parse::<u8>().map(i32::from).map_err(|_| Refusal::new(node, EXPECTED)))
            .collect(),
        _ => one(node).map(|code| vec![code]),
    }
}

/// `SIGTERM`, `term`, `15`; `None` when there is no such signal.
pub fn parse_signal(text: &str) -> Option<StopSignal> {
    forkful_core::signals::number(text.trim()).map(StopSignal)
}

/// A signal by name or number.
fn signal(node: &Node) -> Checked<StopSignal> {
    text(node)
        .ok()
        .and_then(|text| parse_signal(&text))
        .ok_or_else(|| Refusal::new(node, r#"a signal such as "SIGTERM", or its number from 1 to 64"#))
}

/// Environment variables. Numbers and booleans become texts, lists and objects JSON, as in PM2;
/// `null` leaves the variable as it is.
pub(crate) fn environment(node: &Node) -> Checked<BTreeMap<String, String>> {
    let Value::Table(entries) = &node.value else {
        return Err(Refusal::new(node, "an object of variables and their values"));
    };
    let mut variables = BTreeMap::new();
    for entry in entries {
        let part = format!(".{}", entry.key);
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            let refusal = Refusal::new(&entry.node, "a variable's name without `=`, not empty");
            return Err(refusal.below(&part));
        }
        let value = match &entry.node.value {
            Value::Null => continue,
            Value::Bool(flag) => flag.to_string(),
            Value::Text(_) | Value::Number(_) => text(&entry.node).map_err(|refusal| refusal.below(&part))?,
            Value::List(_) | Value::Table(_) => entry.node.to_json().to_string(),
        };
        variables.insert(entry.key.clone(), value);
    }
    Ok(variables)
}
