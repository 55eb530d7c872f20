//! Kinds of values: what each takes, in words, as a schema and as a type of TypeScript. How one is read is in
//! [`values`](crate::values).

use serde_json::{Value, json};

/// What kind of value a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text, which the name of an app has its own rules for.
    Name,
    /// A text that is not empty.
    Text,
    /// The name of an environment variable.
    Variable,
    Path,
    /// A list of texts, or a text that is split as a shell would.
    Words,
    /// A number, `max` or a negative number; or the bounds of a number.
    Instances,
    /// `cluster` or `fork`.
    ExecMode,
    /// Milliseconds, or a text with a unit.
    Duration,
    /// The same; 0 is none.
    DurationOrNone,
    /// The same, but not 0.
    Period,
    /// A whole number from 0.
    Count,
    /// A whole number from 1.
    Positive,
    Port,
    /// `true` or `false`.
    Flag,
    /// One exit code or a list of them.
    ExitCodes,
    /// A signal's name or number.
    Signal,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// One of two names: `false` and `true` of the field.
    Switch([&'static str; 2]),
    /// An object of variables.
    Environment,
    /// Bytes, or a text with a unit.
    Bytes,
    /// Cores, or a share of one in percent.
    Cores,
    /// A cron pattern, or 0 for none.
    Cron,
    /// `true`, or what of the environment is left out.
    FilterEnv,
    /// A user or group, by name or id.
    User,
    /// `true`, or a path.
    FlagOrPath,
    /// A form of dates.
    DateFormat,
    /// `true`, or paths.
    Watch,
    /// Patterns of paths.
    WatchIgnore,
    /// Options of the watcher.
    WatchOptions,
    Health,
    /// What a new worker is asked.
    Warmup,
    /// Where alerts of incidents go.
    Alerts,
    /// Where metrics are sent for OpenTelemetry.
    Otlp,
    /// How log files are set aside.
    LogRotation,
    /// One path or a list of them.
    Paths,
    /// Names of apps.
    Names,
    /// Not read.
    Any,
}

/// A text that is a number of bytes, as a regular expression.
const BYTES: &str = r"^\s*[0-9.]+\s*([kKmMgGtT](i?[bB])?|[bB])?\s*$";

/// A text that is a number of workers or a range of them, as a regular expression.
const NUMBER_OF_WORKERS: &str = r"^(max|-?[0-9]+|[1-9][0-9]*\.\.(max|-?[1-9][0-9]*))$";

/// What a kind is in words, as a type of TypeScript, and as a JSON Schema.
pub struct Forms {
    pub words: String,
    pub typescript: String,
    pub schema: Value,
}

pub(super) fn forms(words: &str, typescript: &str, schema: Value) -> Forms {
    Forms { words: words.to_owned(), typescript: typescript.to_owned(), schema }
}

impl Kind {
    /// As a JSON Schema.
    pub fn schema(self) -> Value {
        self.forms().schema
    }

    /// All its forms.
    #[rustfmt::skip]
    pub fn forms(self) -> Forms {
        let text = || json!({ "type": "string" });
        let texts = || json!({ "type": "array", "items": { "type": "string" } });
        let list = || json!({ "anyOf": [text(), texts()] });
        let number = |pattern: &str| json!({ "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string", "pattern": pattern }] });
        let whole = |min: u32, max: u32| json!({ "type": "integer", "minimum": min, "maximum": max });
        let any = |values: &[Value]| json!({ "anyOf": values });
        let no = || json!({ "const": false });
        let number_or_text = |number: Value| json!({ "anyOf": [number, { "type": "string", "pattern": r"^\s*[0-9]+\s*$" }] });
        let words = || json!({ "anyOf": [{ "type": ["string", "number"] }, { "type": "array", "items": { "type": ["string", "number", "boolean"] } }] });
        match self {
            Self::Name | Self::Text | Self::Variable => forms("text", "string", json!({ "type": ["string", "number"] })),
            Self::User => forms("name or number", "string | number", json!({ "type": ["string", "number"] })),
            Self::Path => forms("path", "string", text()),
            Self::DateFormat => forms("\"YYYY-MM-DD HH:mm:ss\"", "string | false", any(&[text(), no()])),
            Self::Words => forms("list or text", "string | number | (string | number | boolean)[]", words()),
            Self::Paths => forms("path or list", "string | string[]", list()),
            Self::Names => forms("name or list", "string | string[]", list()),
            Self::WatchIgnore => forms("pattern or list", "string | RegExp | (string | RegExp)[] | false", any(&[text(), texts(), no()])),
            Self::Instances => forms("number, \"max\", negative number, or object", &format!("number | 'max' | string | {}", self.object_type()),
                json!({ "anyOf": [{ "type": "integer" }, { "type": "string", "pattern": NUMBER_OF_WORKERS }, self.object_schema()] })),
            Self::ExecMode => forms("\"cluster\" or \"fork\"", "'cluster' | 'fork' | 'cluster_mode' | 'fork_mode'",
                json!({ "enum": ["cluster", "fork", "cluster_mode", "fork_mode"] })),
            Self::Duration | Self::DurationOrNone | Self::Period =>
                forms("milliseconds, or \"10s\"", "number | string", number(r"^\s*[0-9.]+\s*(ms|s|m|min|h|d)?\s*$")),
            Self::Cores => forms("cores, or \"150%\"", "number | string", number(r"^\s*[0-9.]+\s*%?\s*$")),
            Self::Bytes => forms("bytes, or \"200M\"", "number | string", number(BYTES)),
            Self::Count | Self::Positive => forms("whole number", "number | string", number_or_text(json!({ "type": "integer", "minimum": 0 }))),
            Self::Port => forms("port", "number | string", number_or_text(whole(0, 65535))),
            Self::Flag => forms("true or false", "boolean", json!({ "type": "boolean" })),
            Self::ExitCodes => forms("exit code or list", "number | string | (number | string)[]",
                any(&[whole(0, 255), json!({ "type": "string", "pattern": "^[0-9, ]*$" }), json!({ "type": "array", "items": number_or_text(whole(0, 255)) })])),
            Self::Signal => forms("signal", "string | number", any(&[text(), whole(1, 64)])),
            Self::Choice(names) => choice(names, ", "),
            Self::Switch(names) => choice(&names, " or "),
            Self::Environment => forms("object", "Record<string, string | number | boolean | null | undefined>", json!({ "type": "object" })),
            Self::WatchOptions => forms("object", &self.object_type(), self.object_schema()),
            Self::Cron => forms("cron pattern, or 0", "string | 0 | false", any(&[text(), json!({ "enum": [0, false] })])),
            Self::FilterEnv => forms("true, name, or list", "boolean | string | string[]",
                any(&[json!({ "type": "boolean" }), text(), texts()])),
            Self::Watch => forms("true, path, or list", "boolean | string | string[]",
                any(&[json!({ "type": "boolean" }), text(), texts()])),
            Self::FlagOrPath => forms("true or path", "boolean | string", json!({ "type": ["boolean", "string"] })),
            Self::Health => forms("path, URL, or object", &format!("string | false | {}", self.object_type()), any(&[text(), no(), self.object_schema()])),
            Self::Warmup => forms("path, list, or object", &format!("string | string[] | false | {}", self.object_type()), any(&[list(), no(), self.object_schema()])),
            Self::Alerts => forms("URL, command, or object", &format!("string | string[] | false | {}", self.object_type()), any(&[list(), no(), self.object_schema()])),
            Self::Otlp => forms("URL, or object", &format!("string | false | {}", self.object_type()), any(&[text(), no(), self.object_schema()])),
            Self::LogRotation => forms("true, false, size, or object", &format!("boolean | string | {}", self.object_type()),
                any(&[json!({ "type": "boolean" }), json!({ "type": "string", "pattern": BYTES }), self.object_schema()])),
            Self::Any => forms("any", "unknown", json!({})),
        }
    }
}

/// One of some names.
fn choice(names: &[&str], separator: &str) -> Forms {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let types: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    forms(&quoted.join(separator), &types.join(" | "), json!({ "enum": names }))
}
