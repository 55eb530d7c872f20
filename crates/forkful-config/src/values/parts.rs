//! Values that are lists, objects or texts with a grammar of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use forkful_core::date_format::DateFormat;
use forkful_core::logs::LineFormat;
use forkful_core::spec::{CronPattern, HealthProbe, WatchIgnore};

use super::{Checked, Refusal, count, duration, filled_text, flag, port, text, whole, words};
use crate::options::{FilterEnv, FlagOrPath, HealthOptions, WatchOption, WatchOptions};
use crate::tree::{Entry, Node, Value};

/// The key under which `evaluate.cjs` hands over a regular expression.
const REGEXP_KEY: &str = "$regexp";

/// A size: a number of bytes, or a text as `200M`.
pub(crate) fn bytes(node: &Node) -> Checked<u64> {
    const EXPECTED: &str = r#"a number of bytes, or a string such as "200M", "1.5G" or "500K""#;
    let bytes = match &node.value {
        Value::Number(number) => whole(node).and_then(|whole| u64::try_from(whole).ok()).or_else(|| {
            // A fraction of a byte is no size, but 1.5e9 is written so.
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

/// CPU: a number of cores, or a share of one as `150%`; in thousandths of a core.
pub(crate) fn cores(node: &Node) -> Checked<u32> {
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

/// `200M`, `1.5 GB`, `4096`: units of 1024, as PM2 has them.
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

/// A whole number from 1, larger than 32 bits too.
pub(crate) fn large_count(node: &Node) -> Checked<u64> {
    whole(node)
        .and_then(|number| u64::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| Refusal::new(node, "a whole number from 1"))
}

/// A duration that is not zero.
pub(crate) fn positive_duration(node: &Node) -> Checked<Duration> {
    let long = duration(node)?;
    if long.is_zero() { Err(Refusal::new(node, "more than 0 ms")) } else { Ok(long) }
}

/// A cron pattern; 0, `false` and `"0"` are none, with which PM2 ends one.
pub(crate) fn cron(node: &Node) -> Checked<Option<CronPattern>> {
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
    CronPattern::new(text.as_str())
        .map(Some)
        .map_err(|fault| Refusal::new(node, format!(r#"a cron pattern such as "0 3 * * *" ({fault})"#)))
}

/// What of the environment is left out.
pub(crate) fn filter_env(node: &Node) -> Checked<FilterEnv> {
    match &node.value {
        Value::Bool(true) => Ok(FilterEnv::Everything),
        Value::Bool(false) => Ok(FilterEnv::Nothing),
        // From the command line.
        Value::Text(text) if text == "true" => Ok(FilterEnv::Everything),
        Value::Text(text) if text == "false" => Ok(FilterEnv::Nothing),
        Value::List(items) if items.is_empty() => Ok(FilterEnv::Nothing),
        Value::List(_) => names(node).map(FilterEnv::Containing),
        Value::Text(name) if !name.is_empty() => Ok(FilterEnv::Named(name.clone())),
        _ => Err(Refusal::new(node, "true, a variable's name, or a list of texts that names contain")),
    }
}

pub(crate) fn variable_name(node: &Node) -> Checked<String> {
    let name = filled_text(node)?;
    if name.contains('=') { Err(Refusal::new(node, "a variable's name without `=`")) } else { Ok(name) }
}

/// `true`, `false` or a path.
pub(crate) fn flag_or_path(node: &Node) -> Checked<FlagOrPath> {
    if let Ok(flag) = flag(node) {
        return Ok(FlagOrPath::Flag(flag));
    }
    match filled_text(node) {
        Ok(path) => Ok(FlagOrPath::Path(path.into())),
        Err(_) => Err(Refusal::new(node, "true, false or a path")),
    }
}

/// `raw` or `json`.
pub(crate) fn log_type(node: &Node) -> Checked<LineFormat> {
    match &node.value {
        Value::Text(text) if text == "json" => Ok(LineFormat::Json),
        Value::Text(text) if text == "raw" => Ok(LineFormat::Raw),
        _ => Err(Refusal::new(node, r#""raw" or "json""#)),
    }
}

/// A form of dates; an empty one or `false` is none.
pub(crate) fn date_format(node: &Node) -> Checked<Option<DateFormat>> {
    match &node.value {
        Value::Bool(false) => Ok(None),
        Value::Text(text) if text.is_empty() => Ok(None),
        Value::Text(text) => DateFormat::new(text.as_str()).map(Some).map_err(|fault| {
            Refusal::new(node, format!(r#"a format such as "YYYY-MM-DD HH:mm:ss" ({fault})"#))
        }),
        _ => Err(Refusal::new(node, r#"a format such as "YYYY-MM-DD HH:mm:ss""#)),
    }
}

/// One text or a list of them.
fn one_or_more<T>(node: &Node, one: impl Fn(&Node) -> Checked<T>) -> Checked<Vec<T>> {
    match &node.value {
        Value::List(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| one(item).map_err(|refusal| refusal.below(&format!("[{index}]"))))
            .collect(),
        _ => one(node).map(|value| vec![value]).map_err(|mut refusal| {
            refusal.expected.push_str(", or a list");
            refusal
        }),
    }
}

/// One path or a list of them.
pub(crate) fn paths(node: &Node) -> Checked<Vec<PathBuf>> {
    one_or_more(node, |item| filled_text(item).map(PathBuf::from))
}

/// One name or a list of them.
pub(crate) fn names(node: &Node) -> Checked<Vec<String>> {
    one_or_more(node, filled_text)
}

pub(crate) fn watch(node: &Node) -> Checked<WatchOption> {
    match flag(node) {
        Ok(true) => Ok(WatchOption::Directory),
        Ok(false) => Ok(WatchOption::Off),
        Err(_) => match &node.value {
            Value::List(items) if items.is_empty() => Ok(WatchOption::Off),
            Value::Text(_) | Value::List(_) => paths(node).map(WatchOption::Paths),
            _ => Err(Refusal::new(node, "true, a path, or a list of paths")),
        },
    }
}

/// What is not watched.
pub(crate) fn watch_ignore(node: &Node) -> Checked<Vec<WatchIgnore>> {
    if matches!(node.value, Value::Bool(false)) {
        return Ok(Vec::new());
    }
    one_or_more(node, |item| match &item.value {
        Value::Table(entries) if entries.len() == 1 && entries[0].key == REGEXP_KEY => {
            regex_ignore(item, &text(&entries[0].node)?)
        }
        Value::Text(glob) if !glob.trim().is_empty() => {
            // Many copy PM2's own default, which is a regular expression in a text.
            if glob.contains(r"[\/\\]") || glob.contains(r"[\\/]") {
                return regex_ignore(item, glob);
            }
            ignore::gitignore::GitignoreBuilder::new("/")
                .add_line(None, glob)
                .map(|_| WatchIgnore::Glob(glob.clone()))
                .map_err(|_| Refusal::new(item, "a pattern as in .gitignore"))
        }
        _ => Err(Refusal::new(item, "a pattern as in .gitignore, or a regular expression")),
    })
}

fn regex_ignore(node: &Node, source: &str) -> Checked<WatchIgnore> {
    if regex::Regex::new(source).is_ok() {
        Ok(WatchIgnore::Regex(source.to_owned()))
    } else {
        let mut refusal = Refusal::new(node, "a regular expression without look-around and back-references");
        refusal.value = format!("/{source}/");
        Err(refusal)
    }
}

/// Options of the watcher. Those of chokidar that mean nothing here are let pass.
pub(crate) fn watch_options(node: &Node) -> Checked<WatchOptions> {
    let mut options = WatchOptions::default();
    for entry in table(node, "an object of watch options")? {
        let part = |refusal: Refusal| refusal.below(&format!(".{}", entry.key));
        match entry.key.as_str() {
            "followSymlinks" | "follow_symlinks" => {
                options.follow_links = Some(flag(&entry.node).map_err(part)?);
            }
            "usePolling" | "use_polling" => options.use_polling = flag(&entry.node).map_err(part)?,
            "interval" => options.interval = Some(positive_duration(&entry.node).map_err(part)?),
            "ignored" => options.ignored = watch_ignore(&entry.node).map_err(part)?,
            _ => {}
        }
    }
    Ok(options)
}

fn table<'a>(node: &'a Node, expected: &str) -> Checked<&'a [Entry]> {
    match &node.value {
        Value::Table(entries) => Ok(entries),
        _ => Err(Refusal::new(node, expected)),
    }
}

/// A health check: a path, a URL, `tcp`, or an object.
pub(crate) fn health(node: &Node) -> Checked<Option<HealthOptions>> {
    let shorthand = |probe| HealthOptions {
        probe,
        interval: None,
        timeout: None,
        start_period: None,
        failures: None,
        stuck_limit: None,
    };
    match &node.value {
        Value::Bool(false) => Ok(None),
        Value::Text(text) if text == "tcp" => Ok(Some(shorthand(HealthProbe::Tcp { port: None }))),
        Value::Text(_) => Ok(Some(shorthand(http_probe(node)?))),
        Value::Table(entries) => health_object(node, entries).map(Some),
        _ => Err(Refusal::new(node, r#"a path such as "/healthz", a URL, "tcp", or an object"#)),
    }
}

fn health_object(node: &Node, entries: &[Entry]) -> Checked<HealthOptions> {
    let known = ["http", "tcp", "command", "interval", "timeout", "start_period", "failures", "stuck_limit"];
    let mut given: BTreeMap<String, &Node> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
        let key = crate::keys::snake_case(&entry.key);
        if !known.contains(&key.as_str()) {
            let mut refusal = Refusal::new(&entry.node, format!("one of {}", known.join(", ")));
            refusal.value = format!("the key {}", crate::tree::quoted(&entry.key));
            return Err(refusal.below(&format!(".{}", entry.key)));
        }
        given.insert(key, &entry.node);
    }
    let part = |key: &str| {
        let key = format!(".{key}");
        move |refusal: Refusal| refusal.below(&key)
    };
    let time = |key: &str| given.get(key).map(|node| positive_duration(node).map_err(part(key))).transpose();
    let probes: Vec<&str> = known[..3].iter().copied().filter(|key| given.contains_key(*key)).collect();
    let probe = match probes.as_slice() {
        [] if given.contains_key("stuck_limit") => HealthProbe::Loop,
        ["http"] => http_probe(given["http"]).map_err(part("http"))?,
        ["tcp"] => match &given["tcp"].value {
            Value::Bool(true) => HealthProbe::Tcp { port: None },
            _ => HealthProbe::Tcp { port: Some(port(given["tcp"]).map_err(part("tcp"))?) },
        },
        ["command"] => {
            let words = words(given["command"]).map_err(part("command"))?;
            if words.is_empty() {
                return Err(Refusal::new(given["command"], "a command").below(".command"));
            }
            HealthProbe::Command { words }
        }
        _ => return Err(Refusal::new(node, "exactly one of http, tcp and command")),
    };
    let failures = given.get("failures").map(|node| match count(node) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Refusal::new(node, "a whole number from 1").below(".failures")),
    });
    Ok(HealthOptions {
        probe,
        interval: time("interval")?,
        timeout: time("timeout")?,
        start_period: given
            .get("start_period")
            .map(|node| duration(node).map_err(part("start_period")))
            .transpose()?,
        failures: failures.transpose()?,
        stuck_limit: time("stuck_limit")?,
    })
}

/// `/healthz`, or `http://127.0.0.1:3000/healthz` for another port.
fn http_probe(node: &Node) -> Checked<HealthProbe> {
    const EXPECTED: &str =
        r#"a path such as "/healthz", or a URL of this machine such as "http://127.0.0.1:3000/healthz""#;
    let refused = || Refusal::new(node, EXPECTED);
    let text = filled_text(node).map_err(|_| refused())?;
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(refused());
    }
    if text.starts_with('/') {
        return Ok(HealthProbe::Http { port: None, path: text });
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
    Ok(HealthProbe::Http { port: Some(port), path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

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
