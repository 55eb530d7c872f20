//! Values that are lists, objects or texts with their own grammar.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::date_format::DateFormat;
use forkful_core::spec::environment::shown_path;
use forkful_core::spec::{CronPattern, HEALTH_FAILURES_DEFAULT};
use serde_json::{Value as Json, json};

use super::{Checked, Refusal, count, duration, each, filled_text, flag, millis, port, text, whole, words};
use crate::keys::Kind;
use crate::tree::{Entry, Node, Value};

/// Polling interval without kernel notifications, equal to chokidar's for most files.
const POLLING_INTERVAL: Duration = Duration::from_millis(300);
const HEALTH_INTERVAL: Duration = Duration::from_secs(10);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// The key with which `evaluate.cjs` represents a regular expression.
const REGEXP_KEY: &str = "$regexp";

/// A size: a number of bytes, or a text such as `200M`.
pub(super) fn bytes(node: &Node) -> Checked<u64> {
    const EXPECTED: &str = r#"a number of bytes, or a string such as "200M", "1.5G" or "500K""#;
    let bytes = match &node.value {
        Value::Number(number) => whole(node).and_then(|whole| u64::try_from(whole).ok()).or_else(|| {
            // A fraction of a byte is not a size, but 1.5e9 is allowed.
            (number.value >= 1.0 && number.value < 9e15).then(|| number.value.round() as u64)
        }),
        Value::Text(text) => parse_bytes(text),
        _ => None,
    };
    match bytes {
        None => Err(Refusal::new(node, EXPECTED)),
        Some(0) => Err(Refusal::new(node, "more than 0 bytes")),
        Some(bytes) => Ok(bytes),
    }
}

/// CPU: a number of cores, or a share of one core such as `150%`; in thousandths of a core.
pub(super) fn cores(node: &Node) -> Checked<u32> {
    const EXPECTED: &str = r#"a number of cores as 1.5, or a text as "150%", from 0.01 to 4096"#;
    let cores = match &node.value {
        Value::Number(number) => Some(number.value),
        Value::Text(text) => {
            let text = text.trim();
            match text.strip_suffix('%') {
                Some(percent) => percent.trim_end().parse::<f64>().ok().map(|percent| percent / 100.0),
                None => text.parse().ok(),
            }
        }
        _ => None,
    };
    let cores = cores.filter(|cores| (0.01..=4096.0).contains(cores)).ok_or(Refusal::new(node, EXPECTED))?;
    Ok((cores * 1000.0).round() as u32)
}

/// `200M`, `1.5 GB`, `4096`: units of 1024, as in PM2.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * f64::from(1_u32 << 10).powi(shift / 10);
    (bytes.is_finite() && bytes < 9e15).then(|| bytes.round() as u64)
}

/// A whole number from 1, which may exceed 32 bits.
pub(super) fn count_from_1(node: &Node) -> Checked<u64> {
    whole(node)
        .and_then(|number| u64::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| Refusal::new(node, "a whole number from 1"))
}

/// A duration that is not zero.
pub(crate) fn period(node: &Node) -> Checked<Duration> {
    let long = duration(node)?;
    if long.is_zero() { Err(Refusal::new(node, "more than 0 ms")) } else { Ok(long) }
}

/// A cron pattern; 0, `false` and `"0"` mean none, as in PM2.
pub(super) fn cron(node: &Node) -> Checked<Option<String>> {
    let is_off = match &node.value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.value == 0.0,
        Value::Text(text) => text == "0",
        _ => false,
    };
    if is_off {
        return Ok(None);
    }
    let Value::Text(text) = &node.value else {
        return Err(Refusal::new(node, r#"a cron pattern such as "0 3 * * *", or 0 for none"#));
    };
    let fault = match CronPattern::new(text.as_str()) {
        Ok(pattern) if pattern.has_points() => return Ok(Some(text.clone())),
        Ok(_) => "no such date exists".to_owned(),
        Err(fault) => fault.to_string(),
    };
    Err(Refusal::new(node, format!(r#"a cron pattern such as "0 3 * * *" ({fault})"#)))
}

/// Which environment variables are omitted: `true` for all, a variable's name, or texts that names contain;
/// `false` for none.
pub(super) fn filter_env(node: &Node) -> Checked<Json> {
    match &node.value {
        Value::List(items) if items.is_empty() => Ok(json!(false)),
        Value::List(_) => Ok(names(node)?.into()),
        Value::Text(name) if !name.is_empty() => Ok(flag(node).map_or_else(|_| json!(name), Json::Bool)),
        _ => flag(node).map(Json::Bool).map_err(|_| {
            Refusal::new(node, "true, a variable's name, or a list of texts that names contain")
        }),
    }
}

pub(super) fn variable_name(node: &Node) -> Checked<String> {
    let name = filled_text(node)?;
    if name.contains('=') { Err(Refusal::new(node, "a variable's name without `=`")) } else { Ok(name) }
}

/// `true`, `false` or a path.
pub(super) fn flag_or_path(node: &Node) -> Checked<Json> {
    if let Ok(flag) = flag(node) {
        return Ok(flag.into());
    }
    filled_text(node).map(Json::from).map_err(|_| Refusal::new(node, "true, false or a path"))
}

/// A date format; an empty one or `false` means none.
pub(super) fn date_format(node: &Node) -> Checked<Option<String>> {
    match &node.value {
        Value::Bool(false) => Ok(None),
        Value::Text(text) if text.is_empty() => Ok(None),
        Value::Text(text) => DateFormat::new(text.as_str()).map(|_| Some(text.clone())).map_err(|fault| {
            Refusal::new(node, format!(r#"a format such as "YYYY-MM-DD HH:mm:ss" ({fault})"#))
        }),
        _ => Err(Refusal::new(node, r#"a format such as "YYYY-MM-DD HH:mm:ss""#)),
    }
}

/// One text or a list of them.
fn one_or_more<T>(node: &Node, one: impl Fn(&Node) -> Checked<T>) -> Checked<Vec<T>> {
    match &node.value {
        Value::List(items) => each(items, one),
        _ => one(node).map(|value| vec![value]).map_err(|mut refusal| {
            refusal.expected.push_str(", or a list");
            refusal
        }),
    }
}

/// One name or path, or a list of them.
pub(crate) fn names(node: &Node) -> Checked<Vec<String>> {
    one_or_more(node, filled_text)
}

/// `true` for the working directory, `false`, or paths.
pub(super) fn watch(node: &Node) -> Checked<Json> {
    if let Ok(flag) = flag(node) {
        return Ok(flag.into());
    }
    match &node.value {
        Value::List(items) if items.is_empty() => Ok(json!(false)),
        Value::Text(_) | Value::List(_) => Ok(names(node)?.into()),
        _ => Err(Refusal::new(node, "true, a path, or a list of paths")),
    }
}

/// Ignored patterns in the format of `WatchIgnore`.
pub(super) fn watch_ignore(node: &Node) -> Checked<Vec<Json>> {
    if matches!(node.value, Value::Bool(false)) {
        return Ok(Vec::new());
    }
    let parts = match &node.value {
        Value::Text(text) => blank_separated(text),
        _ => Vec::new(),
    };
    if !parts.is_empty() {
        let item = |part| Node { at: node.at, value: Value::Text(part) };
        return parts.into_iter().map(|part| ignored(&item(part))).collect();
    }
    one_or_more(node, ignored)
}

/// The parts of a text that blanks separate. Quotes, and a backslash before a blank, keep a part together.
fn blank_separated(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut quote, mut is_escaped) = (None, false);
    for c in text.chars() {
        let part = parts.last_mut().expect("there is always a part");
        match quote {
            Some(open) if c == open => quote = None,
            None if (c == '"' || c == '\'') && part.is_empty() => quote = Some(c),
            None if c.is_whitespace() && !is_escaped => parts.push(String::new()),
            _ => part.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// One pattern in the format of `WatchIgnore`.
fn ignored(item: &Node) -> Checked<Json> {
    match &item.value {
        Value::Table(entries) if entries.len() == 1 && entries[0].key == REGEXP_KEY => {
            regex_ignore(item, &text(&entries[0].node)?)
        }
        Value::Text(glob) if !glob.trim().is_empty() => {
            // Many users copy PM2's own default, which is a regular expression in a text.
            if glob.contains(r"[\/\\]") || glob.contains(r"[\\/]") {
                return regex_ignore(item, glob);
            }
            ignore::gitignore::GitignoreBuilder::new("/")
                .add_line(None, glob)
                .map(|_| json!({ "glob": glob }))
                .map_err(|_| Refusal::new(item, "a pattern as in .gitignore"))
        }
        _ => Err(Refusal::new(item, "a pattern as in .gitignore, or a regular expression")),
    }
}

fn regex_ignore(node: &Node, source: &str) -> Checked<Json> {
    if regex::Regex::new(source).is_ok() {
        Ok(json!({ "regex": source }))
    } else {
        let mut refusal = Refusal::new(node, "a regular expression without look-around and back-references");
        refusal.value = format!("/{source}/");
        Err(refusal)
    }
}

/// Options of the watcher: `follow_links`, `polling_ms` and `ignore` of `Watch`. Options of chokidar without
/// a meaning here are accepted.
pub(super) fn watch_options(node: &Node) -> Checked<Json> {
    let mut options = json!({});
    let (mut polls, mut interval) = (false, POLLING_INTERVAL);
    for entry in table(node, "an object of watch options")? {
        let part = |refusal: Refusal| refusal.below(&format!(".{}", entry.key));
        match entry.key.as_str() {
            "followSymlinks" | "follow_symlinks" => {
                options["follow_links"] = flag(&entry.node).map_err(part)?.into();
            }
            "usePolling" | "use_polling" => polls = flag(&entry.node).map_err(part)?,
            "interval" => interval = period(&entry.node).map_err(part)?,
            "ignored" => options["ignore"] = watch_ignore(&entry.node).map_err(part)?.into(),
            _ => {}
        }
    }
    if polls {
        options["polling_ms"] = millis(interval);
    }
    Ok(options)
}

fn table<'a>(node: &'a Node, expected: &str) -> Checked<&'a [Entry]> {
    match &node.value {
        Value::Table(entries) => Ok(entries),
        _ => Err(Refusal::new(node, expected)),
    }
}

/// A health check in the format of `HealthCheck`, from a path, a URL, `tcp`, or an object; null for none.
pub(super) fn health(node: &Node) -> Checked<Json> {
    let shorthand = |probe: Json| {
        json!({
            "probe": probe, "interval_ms": millis(HEALTH_INTERVAL), "timeout_ms": millis(HEALTH_TIMEOUT),
            "start_period_ms": 0, "failures_max": HEALTH_FAILURES_DEFAULT,
        })
    };
    match &node.value {
        Value::Bool(false) => Ok(Json::Null),
        Value::Text(text) if text == "tcp" => Ok(shorthand(tcp_probe(None))),
        Value::Text(_) => Ok(shorthand(http_probe(node)?)),
        Value::Table(entries) => health_object(node, entries, shorthand),
        _ => {
            let expected = r#"a path such as "/healthz", a URL, "tcp", or an object"#;
            Err(Refusal::of_url(node, expected, shown_path))
        }
    }
}

fn tcp_probe(port: Option<u16>) -> Json {
    json!({ "tcp": { "port": port } })
}

fn health_object(node: &Node, entries: &[Entry], with: impl Fn(Json) -> Json) -> Checked<Json> {
    let known = Kind::Health.part_names();
    let mut given: BTreeMap<String, &Node> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
        let key = crate::keys::snake_case(&entry.key);
        if !known.contains(&key.as_str()) {
            return Err(Refusal::unknown_key(entry, Kind::Health).below(&format!(".{}", entry.key)));
        }
        given.insert(key, &entry.node);
    }
    let part = |key: &str| {
        let key = format!(".{key}");
        move |refusal: Refusal| refusal.below(&key)
    };
    let probes: Vec<&str> =
        ["http", "tcp", "command"].into_iter().filter(|key| given.contains_key(*key)).collect();
    let probe = match probes.as_slice() {
        [] if given.contains_key("stuck_limit") => json!("loop"),
        ["http"] => http_probe(given["http"]).map_err(part("http"))?,
        ["tcp"] => match &given["tcp"].value {
            Value::Bool(true) => tcp_probe(None),
            _ => tcp_probe(Some(port(given["tcp"]).map_err(part("tcp"))?)),
        },
        ["command"] => {
            let words = words(given["command"]).map_err(part("command"))?;
            if words.is_empty() {
                return Err(Refusal::new(given["command"], "a command").below(".command"));
            }
            json!({ "command": { "words": words } })
        }
        _ => return Err(Refusal::new(node, "exactly one of http, tcp and command")),
    };
    let mut health = with(probe);
    for key in ["interval", "timeout", "start_period", "stuck_limit"] {
        if let Some(node) = given.get(key) {
            let long = if key == "start_period" { duration(node) } else { period(node) };
            health[format!("{key}_ms")] = millis(long.map_err(part(key))?);
        }
    }
    if let Some(node) = given.get("failures") {
        let number = count(node).ok().filter(|number| *number > 0);
        let refusal = || Refusal::new(node, "a whole number from 1").below(".failures");
        health["failures_max"] = number.ok_or_else(refusal)?.into();
    }
    Ok(health)
}

/// `/healthz`, or `http://127.0.0.1:3000/healthz` for another port.
fn http_probe(node: &Node) -> Checked<Json> {
    const EXPECTED: &str =
        r#"a path such as "/healthz", or a URL of this machine such as "http://127.0.0.1:3000/healthz""#;
    let refused = || Refusal::of_url(node, EXPECTED, shown_path);
    let text = filled_text(node).map_err(|_| refused())?;
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(refused());
    }
    if text.starts_with('/') {
        return Ok(json!({ "http": { "port": null, "path": text } }));
    }
    let rest = text.strip_prefix("http://").ok_or_else(refused)?;
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().map_err(|_| refused())?),
        None => (authority, 80),
    };
    if !matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "0.0.0.0" | "") {
        return Err(refused());
    }
    Ok(json!({ "http": { "port": port, "path": path } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_health_check_is_shown_without_its_secrets() {
        let refused = |value: Json| health(&Node::from_json(&value)).unwrap_err().value;
        let url = "http://example.com/h?token=s3cret";
        assert_eq!(refused(json!(url)), r#""http://example.com/h?token=[redacted]""#);
        assert_eq!(refused(json!("http://u:s3cret@localhost/h")), r#""[redacted]""#);
        assert_eq!(refused(json!([url])), "a list");
        assert_eq!(refused(json!("healthz")), r#""healthz""#);
    }

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, expected) in [
            ("200M", Some(209_715_200)),
            ("1.5 GB", Some(1_610_612_736)),
            ("500k", Some(512_000)),
            ("4096", Some(4096)),
            ("1T", Some(1 << 40)),
            ("M", None),
            ("12 apples", None),
            ("-1M", None),
            ("999999999T", None),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }
}
