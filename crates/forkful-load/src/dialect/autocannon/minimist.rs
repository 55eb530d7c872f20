//! The way of JavaScript programs to read a command line: `--name value`, `--name=value`, `--no-name`, `-abc`,
//! `-c10`, `-c=10`, and `[ … ]` for the options of an option.

use super::Options;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Argument {
    /// By its long name.
    Option(String, Value),
    Operand(String),
}

/// What an option is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A switch, on or off.
    Switch(bool),
    Text(String),
    /// What stands in brackets.
    Group(Vec<String>),
}

impl Value {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Switch(_) | Self::Group(_) => "",
        }
    }

    pub(super) fn is_on(&self) -> bool {
        match self {
            Self::Switch(on) => *on,
            Self::Text(text) => text != "false",
            Self::Group(_) => true,
        }
    }
}

const SWITCHES: [&str; 12] = [
    "json",
    "n",
    "help",
    "renderLatencyTable",
    "renderProgressBar",
    "renderStatusCodes",
    "forever",
    "idReplacement",
    "excludeErrorStats",
    "onPort",
    "debug",
    "ignoreCoordinatedOmission",
];

/// Letters and other names of the options.
const NAMES: [(&str, &str); 39] = [
    ("c", "connections"),
    ("p", "pipelining"),
    ("t", "timeout"),
    ("d", "duration"),
    ("L", "sampleInt"),
    ("a", "amount"),
    ("j", "json"),
    ("l", "renderLatencyTable"),
    ("latency", "renderLatencyTable"),
    ("on-port", "onPort"),
    ("m", "method"),
    ("H", "headers"),
    ("header", "headers"),
    ("b", "body"),
    ("F", "form"),
    ("s", "servername"),
    ("B", "bailout"),
    ("i", "input"),
    ("M", "maxConnectionRequests"),
    ("O", "maxOverallRequests"),
    ("r", "connectionRate"),
    ("R", "overallRate"),
    ("C", "ignoreCoordinatedOmission"),
    ("D", "reconnectRate"),
    ("progress", "renderProgressBar"),
    ("statusCodes", "renderStatusCodes"),
    ("T", "title"),
    ("V", "verbose"),
    ("v", "version"),
    ("f", "forever"),
    ("I", "idReplacement"),
    ("S", "socketPath"),
    ("x", "excludeErrorStats"),
    ("E", "expectBody"),
    ("w", "workers"),
    ("W", "warmup"),
    ("h", "help"),
    ("warm-up", "warmup"),
    ("rate", "overallRate"),
];

fn long_name(given: &str) -> &str {
    NAMES.iter().find(|(name, _)| *name == given).map_or(given, |(_, long)| long)
}

fn is_switch(name: &str) -> bool {
    SWITCHES.contains(&name) || matches!(name, "version" | "verbose")
}

/// Reads a command line. `-- command` is what `--on-port` would start.
pub(super) fn read(argv: &[String]) -> Result<Vec<Argument>, String> {
    let mut arguments = Vec::new();
    let mut at = 0;
    while let Some(text) = argv.get(at) {
        at += 1;
        if text == "--" {
            arguments.push(Argument::Option("onPort".to_owned(), Value::Switch(true)));
            break;
        } else if let Some(name) = text.strip_prefix("--no-") {
            arguments.push(Argument::Option(long_name(name).to_owned(), Value::Switch(false)));
        } else if let Some(rest) = text.strip_prefix("--") {
            let (name, attached) = match rest.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (rest, None),
            };
            let value = value_of(long_name(name), attached, argv, &mut at)?;
            arguments.push(Argument::Option(long_name(name).to_owned(), value));
        } else if text.len() > 1 && text.starts_with('-') {
            letters(text, argv, &mut at, &mut arguments)?;
        } else {
            arguments.push(Argument::Operand(text.clone()));
        }
    }
    Ok(arguments)
}

fn letters(text: &str, argv: &[String], at: &mut usize, out: &mut Vec<Argument>) -> Result<(), String> {
    let mut rest = text[1..].chars();
    while let Some(letter) = rest.next() {
        let letter = letter.to_string();
        let name = long_name(&letter);
        let behind = rest.as_str();
        if behind.is_empty() || !is_switch(name) {
            let attached = (!behind.is_empty()).then(|| behind.strip_prefix('=').unwrap_or(behind));
            out.push(Argument::Option(name.to_owned(), value_of(name, attached, argv, at)?));
            return Ok(());
        }
        out.push(Argument::Option(name.to_owned(), Value::Switch(true)));
    }
    Ok(())
}

fn value_of(name: &str, attached: Option<&str>, argv: &[String], at: &mut usize) -> Result<Value, String> {
    if let Some(text) = attached {
        return Ok(Value::Text(text.to_owned()));
    }
    if is_switch(name) {
        return Ok(Value::Switch(true));
    }
    let Some(next) = argv.get(*at) else { return Err(format!("autocannon: {name} needs a value")) };
    *at += 1;
    if next != "[" {
        return Ok(Value::Text(next.clone()));
    }
    let inside = &argv[*at..];
    let Some(end) = inside.iter().position(|text| text == "]") else {
        return Err(format!("autocannon: {name} [ has no ]"));
    };
    *at += end + 1;
    Ok(Value::Group(inside[..end].to_vec()))
}

/// Connections and seconds of `-W [ -c 1 -d 3 ]`; what is not said is as in the test itself.
pub(super) fn warmup(value: &Value, options: &Options) -> Result<(u64, f64), String> {
    let (mut connections, mut duration) = (options.connections, options.duration);
    let Value::Group(inside) = value else { return Ok((connections, duration)) };
    for argument in read(inside)? {
        let bad = || "autocannon: warmup takes `[ -c N -d SECONDS ]`".to_owned();
        match argument {
            Argument::Option(name, value) if name == "connections" => {
                connections = value.text().parse().map_err(|_| bad())?;
            }
            Argument::Option(name, value) if name == "duration" => {
                duration = seconds(value.text()).ok_or_else(bad)?;
            }
            _ => return Err(bad()),
        }
    }
    Ok((connections, duration))
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
