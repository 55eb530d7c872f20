//! The keys of the objects that some keys take: `health`, `warmup`, `alerts`, `otlp`, `log_rotate`, `instances` and `watch_options`.
//! The schema, the types for JavaScript, the reference and the messages about unknown keys come from here; what the values mean is in
//! [`values`](crate::values).

use forkful_core::incidents::IncidentKind;
use forkful_core::logs::LogRotation;
use forkful_core::spec::{Named as _, WARMUP_REQUESTS_MAX};
use serde_json::{Map, Value, json};

use super::kind::{Forms, Kind, forms};

/// One key of an object.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub name: &'static str,
    /// What it takes.
    pub forms: fn() -> Forms,
    /// As JSON; empty for none.
    pub default: &'static str,
    pub doc: &'static str,
    pub is_required: bool,
}

const fn part(name: &'static str, forms: fn() -> Forms, default: &'static str, doc: &'static str) -> Part {
    Part { name, forms, default, doc, is_required: false }
}

impl Part {
    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

#[rustfmt::skip]
const HEALTH: &[Part] = &[
    part("http", || Kind::Text.forms(), "", "Path, or URL of this machine, to request. A status from 200 to 399 is healthy."),
    part("tcp", port_or_true, "", "Port to connect to; `true` for the port on which the worker listens."),
    part("command", || Kind::Words.forms(), "", "Command whose exit code 0 means healthy."),
    part("interval", || Kind::Period.forms(), "\"10s\"", "Time from one check to the next."),
    part("timeout", || Kind::Period.forms(), "\"5s\"", "A check that takes longer has failed."),
    part("start_period", || Kind::Duration.forms(), "\"0s\"", "No checks are made for this time after a start."),
    part("failures", || Kind::Positive.forms(), "3", "After this many failed checks in a row the worker is replaced."),
    part("stuck_limit", || Kind::Period.forms(), "", "A worker whose event loop is blocked for this long is killed."),
];

#[rustfmt::skip]
const WARMUP: &[Part] = &[
    part("path", || Kind::Paths.forms(), "", "Path that a new worker answers."),
    part("paths", || Kind::Paths.forms(), "", "The same for several paths."),
    part("requests", requests, "10", "Number of requests to each path."),
    part("timeout", || Kind::Period.forms(), "\"10s\"", "After this time the worker gets traffic, whatever it has answered."),
];

#[rustfmt::skip]
const ALERTS: &[Part] = &[
    part("webhook", || Kind::Text.forms(), "", "URL to which alerts are posted as JSON: https, or http to this machine."),
    part("command", || Kind::Words.forms(), "", "Command that gets the alert as JSON on stdin."),
    part("on", incidents, "", "Kinds of incidents that are told; by default all faults."),
    part("every", || Kind::Period.forms(), "\"5m\"", "Alerts of a kind are no more frequent; at least 10 s."),
    part("timeout", || Kind::Period.forms(), "\"10s\"", "Longest time of a request or command; at most 60 s."),
];

#[rustfmt::skip]
const OTLP: &[Part] = &[
    part("endpoint", || Kind::Text.forms(), "", "URL of the receiver, without a password and a query.").required(),
    part("interval", || Kind::Period.forms(), "\"60s\"", "Time from one message to the next; at least 1 s."),
];

#[rustfmt::skip]
const LOG_ROTATION: &[Part] = &[
    part("max_size", bytes_or_false, "\"10M\"", "A file that would grow beyond it is rotated first; `false` for no limit."),
    part("max_age", duration_or_false, "\"1d\"", "A file whose first line is older is rotated before the next line; `false` for never."),
    part("keep", keep, "14", "How many rotated files of each log file are kept."),
    part("total", bytes_or_false, "\"500M\"", "Maximum size of all log files of the app together; the oldest rotated files are removed first."),
    part("compress", || Kind::Flag.forms(), "true", "Compress rotated files with gzip."),
    part("min_free", min_free, "\"auto\"",
        "While the file system has less free space, lines are dropped and counted; \"auto\" is 2 % of its size, at most 1 GiB; `false` for no minimum."),
];

#[rustfmt::skip]
const INSTANCES: &[Part] = &[
    part("min", || whole(1, u32::MAX), "1", "Least number of workers."),
    part("max", most, "", "Largest number of workers: a number, \"max\", or a negative number for that many fewer than the usable cores.").required(),
];

#[rustfmt::skip]
const WATCH_OPTIONS: &[Part] = &[
    part("follow_symlinks", || Kind::Flag.forms(), "true", "Watch what symbolic links point to."),
    part("use_polling", || Kind::Flag.forms(), "false", "Compare the files again and again, where the kernel reports no changes."),
    part("interval", || Kind::Period.forms(), "\"300ms\"", "Time from one comparison to the next."),
    part("ignored", || Kind::WatchIgnore.forms(), "", "Patterns of paths whose changes do not count."),
];

impl Kind {
    /// The keys of the object that it takes; none if it takes no object, or one with any keys.
    pub fn parts(self) -> &'static [Part] {
        match self {
            Self::Health => HEALTH,
            Self::Warmup => WARMUP,
            Self::Alerts => ALERTS,
            Self::Otlp => OTLP,
            Self::LogRotation => LOG_ROTATION,
            Self::Instances => INSTANCES,
            Self::WatchOptions => WATCH_OPTIONS,
            _ => &[],
        }
    }

    /// Their names.
    pub(crate) fn part_names(self) -> Vec<&'static str> {
        self.parts().iter().map(|part| part.name).collect()
    }

    /// Its object has other keys too, which mean nothing here.
    pub fn takes_other_parts(self) -> bool {
        self == Self::WatchOptions
    }

    /// Its object as a JSON Schema.
    pub(super) fn object_schema(self) -> Value {
        let mut properties = Map::new();
        for part in self.parts() {
            let mut schema = (part.forms)().schema;
            schema["description"] = json!(part.doc);
            if !part.default.is_empty() {
                schema["default"] =
                    serde_json::from_str(part.default).unwrap_or_else(|_| json!(part.default));
            }
            for name in [part.name.to_owned(), super::camel_case(part.name)] {
                properties.insert(name, schema.clone());
            }
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        let required: Vec<&str> =
            self.parts().iter().filter(|part| part.is_required).map(|part| part.name).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if !self.takes_other_parts() {
            schema["additionalProperties"] = json!(false);
        }
        schema
    }

    /// Its object as a type of TypeScript, for a place that is indented by two spaces.
    pub(super) fn object_type(self) -> String {
        let mut text = "{\n".to_owned();
        for part in self.parts() {
            let optional = if part.is_required { "" } else { "?" };
            let of = (part.forms)().typescript;
            text.push_str(&format!("    /** {} */ {}{optional}: {of};\n", part.doc, part.name));
        }
        if self.takes_other_parts() {
            text.push_str("    [option: string]: unknown;\n");
        }
        text.push_str("  }");
        text
    }
}

fn whole(least: u32, most: u32) -> Forms {
    let schema = json!({ "type": "integer", "minimum": least, "maximum": most });
    forms("whole number", "number", schema)
}

fn requests() -> Forms {
    whole(1, WARMUP_REQUESTS_MAX)
}

fn keep() -> Forms {
    whole(0, LogRotation::KEEP_MAX)
}

fn port_or_true() -> Forms {
    forms("port, or true", "number | true", json!({ "type": ["integer", "boolean"] }))
}

fn incidents() -> Forms {
    let kind = json!({ "enum": IncidentKind::NAMES });
    let names: Vec<String> = IncidentKind::NAMES.iter().map(|name| format!("'{name}'")).collect();
    let names = names.join(" | ");
    let schema = json!({ "anyOf": [kind, { "type": "array", "items": kind }] });
    forms("kind or list", &format!("{names} | ({names})[]"), schema)
}

fn or_false(kind: Kind) -> Forms {
    let Forms { words, typescript, schema } = kind.forms();
    let schema = json!({ "anyOf": [schema, { "const": false }] });
    forms(&format!("{words}, or false"), &format!("{typescript} | false"), schema)
}

fn bytes_or_false() -> Forms {
    or_false(Kind::Bytes)
}

fn duration_or_false() -> Forms {
    or_false(Kind::Duration)
}

fn min_free() -> Forms {
    let schema = json!({ "anyOf": [Kind::Bytes.schema(), { "enum": ["auto", true, false] }] });
    forms("bytes, \"200M\", \"auto\", or false", "number | string | boolean", schema)
}

fn most() -> Forms {
    let text = json!({ "type": "string", "pattern": "^(max|-?[1-9][0-9]*)$" });
    forms("number or \"max\"", "number | 'max' | string", json!({ "anyOf": [{ "type": "integer" }, text] }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Node;
    use crate::values::read;

    /// Objects with what they must have.
    fn least() -> [(Kind, Value); 6] {
        [
            (Kind::Health, json!({ "http": "/" })),
            (Kind::Warmup, json!({ "paths": ["/"] })),
            (Kind::Alerts, json!({ "command": ["notify"] })),
            (Kind::Otlp, json!({ "endpoint": "http://localhost:4318" })),
            (Kind::LogRotation, json!({})),
            (Kind::Instances, json!({ "max": 4 })),
        ]
    }

    #[test]
    fn a_default_is_what_leaving_the_key_out_means() {
        for (kind, object) in least() {
            let without = read(kind, &Node::from_json(&object)).unwrap();
            for part in kind.parts().iter().filter(|part| !part.default.is_empty()) {
                let mut object = object.clone();
                object[part.name] = serde_json::from_str(part.default).unwrap();
                let with = read(kind, &Node::from_json(&object)).unwrap();
                assert_eq!(with, without, "{kind:?}.{}", part.name);
            }
        }
    }

    #[test]
    fn every_key_is_read_in_both_spellings_and_no_other_one() {
        for (kind, object) in least() {
            let is_unknown = |name: &str| {
                let mut object = object.clone();
                object[name] = json!({ "wrong": "value" });
                let refusal = read(kind, &Node::from_json(&object)).unwrap_err();
                refusal.is_unknown_key && refusal.below == format!(".{name}")
            };
            for part in kind.parts() {
                assert!(!is_unknown(part.name), "{kind:?}.{}", part.name);
                assert!(!is_unknown(&super::super::camel_case(part.name)), "{kind:?}.{}", part.name);
            }
            assert!(is_unknown("other"), "{kind:?}");
        }
    }
}
