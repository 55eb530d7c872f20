//! Parses a command line in the style of JavaScript programs: `--name value`, `--name=value`, `--no-name`,
//! `-abc`, `-c10`, `-c=10`, and `[ … ]` for nested options.

use super::Autocannon;
use crate::argv::{Options, Takes};

/// The value of a switch turned off by `--no-…`.
pub(super) const OFF: &str = "false";

pub(super) const OPTIONS: Options = Options {
    switches: "json|j n help|h renderLatencyTable|l|latency renderProgressBar|progress \
               renderStatusCodes|statusCodes forever|f idReplacement|I excludeErrorStats|x onPort|on-port debug \
               ignoreCoordinatedOmission|C version|v verbose|V",
    values: "connections|c pipelining|p timeout|t duration|d sampleInt|L amount|a method|m headers|H|header body|b \
             form|F servername|s bailout|B input|i maxConnectionRequests|M maxOverallRequests|O connectionRate|r \
             overallRate|R|rate reconnectRate|D title|T socketPath|S expectBody|E workers|w warmup|W|warm-up",
    attached: "",
    come_first: false,
};

/// A parsed command line: options by their long names, known or unknown, with their values.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) options: Vec<(String, String)>,
    pub(super) operands: Vec<String>,
}

/// The long name of an option, and whether it is a switch.
fn option(given: &str) -> (String, bool) {
    match OPTIONS.find(given) {
        Some((name, takes)) => (name.to_owned(), takes == Takes::Nothing),
        None => (given.to_owned(), false),
    }
}

/// Parses a command line. `-- command` is the command that `--on-port` would start.
pub(super) fn read(argv: &[String]) -> Result<Given, String> {
    let mut given = Given::default();
    let mut rest = argv;
    while let Some((text, behind)) = rest.split_first() {
        rest = behind;
        if text == "--" {
            given.options.push(("onPort".to_owned(), String::new()));
            break;
        } else if let Some(name) = text.strip_prefix("--no-") {
            given.options.push((option(name).0, OFF.to_owned()));
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, attached) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let (name, is_switch) = option(name);
            let value = match attached {
                Some(value) => value.to_owned(),
                None => next_value(&name, is_switch, &mut rest)?,
            };
            given.options.push((name, value));
        } else if text.len() > 1 && text.starts_with('-') {
            letters(text, &mut rest, &mut given)?;
        } else {
            given.operands.push(text.clone());
        }
    }
    Ok(given)
}

fn letters(text: &str, rest: &mut &[String], given: &mut Given) -> Result<(), String> {
    let mut letters = text[1..].chars();
    while let Some(letter) = letters.next() {
        let (name, is_switch) = option(&letter.to_string());
        let behind = letters.as_str();
        if behind.is_empty() || is_switch {
            let value = next_value(&name, is_switch, rest)?;
            given.options.push((name, value));
        } else {
            given.options.push((name, behind.strip_prefix('=').unwrap_or(behind).to_owned()));
            break;
        }
    }
    Ok(())
}

/// The value of an option from the following arguments: empty for a switch; a group with its brackets, joined
/// by spaces.
fn next_value(name: &str, is_switch: bool, rest: &mut &[String]) -> Result<String, String> {
    if is_switch {
        return Ok(String::new());
    }
    let (first, behind) = rest.split_first().ok_or_else(|| format!("autocannon: {name} needs a value"))?;
    let length = match first.as_str() {
        "[" => behind.iter().position(|text| text == "]").map(|end| end + 2),
        _ => Some(1),
    };
    let length = length.ok_or_else(|| format!("autocannon: {name} [ has no ]"))?;
    let (value, behind) = rest.split_at(length);
    *rest = behind;
    Ok(value.join(" "))
}

impl Autocannon {
    /// Connections and seconds of `-W [ -c 1 -d 3 ]`; the defaults are those of the main test.
    pub(super) fn warmup(&self, text: &str) -> Result<(u64, f64), String> {
        let bad = || "autocannon: warmup takes `[ -c N -d SECONDS ]`".to_owned();
        let (mut connections, mut duration) = (self.connections, self.duration);
        let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(bad)?;
        let argv: Vec<String> = inside.split_whitespace().map(str::to_owned).collect();
        let given = read(&argv)?;
        for (name, value) in &given.options {
            match name.as_str() {
                "connections" => connections = value.parse().map_err(|_| bad())?,
                "duration" => duration = seconds(value).ok_or_else(bad)?,
                _ => return Err(bad()),
            }
        }
        if given.operands.is_empty() { Ok((connections, duration)) } else { Err(bad()) }
    }
}

/// `10`, `0.5`, `30s`, `2m`, `1h`, `500ms`.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" | "sec" | "secs" | "seconds" => 1.0,
        "ms" => 0.001,
        "m" | "min" | "mins" | "minutes" => 60.0,
        "h" | "hours" => 3_600.0,
        _ => return None,
    };
    let value: f64 = digits.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value * factor)
}
