//! Configurations in each format: a small one, and one with all options as comments.

use std::fmt::Write as _;

use forkful_config::{Support, known_keys};
use serde_json::{Value, json};

use super::InitKind;
use super::entry::Entry;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `module.exports = …`
    CommonJs,
    /// `export default …`
    Module,
    /// JSON; with comments if all options are shown.
    Json,
    Yaml,
    Toml,
}

/// One key of the app.
struct Line {
    doc: &'static str,
    key: &'static str,
    value: Value,
    /// Whether it is active; otherwise it is a comment.
    is_on: bool,
}

/// The text of a configuration for one app.
pub(super) fn config(syntax: Syntax, kind: InitKind, entry: &Entry) -> String {
    let mut lines = lines(entry);
    if kind == InitKind::Simple {
        lines.retain(|line| line.is_on);
    }
    let body = body(syntax, &lines, kind == InitKind::Full);
    let deploy = if kind == InitKind::Full { deploy(syntax) } else { String::new() };
    match syntax {
        Syntax::CommonJs => format!("module.exports = {{\n  apps: [{{\n{body}  }}]{deploy}\n}}\n"),
        Syntax::Module => format!("export default {{\n  apps: [{{\n{body}  }}]{deploy}\n}}\n"),
        Syntax::Json => format!("{{\n  \"apps\": [{{\n{body}  }}]{deploy}\n}}\n"),
        Syntax::Yaml => format!("apps:\n{body}{deploy}"),
        Syntax::Toml => format!("[[apps]]\n{body}{deploy}"),
    }
}

fn lines(entry: &Entry) -> Vec<Line> {
    let known = |name: &str| known_keys().iter().find(|key| key.name == name);
    let doc = |name: &str| known(name).map_or("", |key| key.doc);
    let on = |key: &'static str, value: Value| Line { doc: doc(key), key, value, is_on: true };
    let mut lines = vec![on("script", json!(entry.script))];
    if !entry.args.is_empty() {
        lines.push(on("args", json!(entry.args)));
    }
    lines.push(Line { is_on: entry.is_script, ..on("instances", json!("max")) });
    let first: Vec<&str> = lines.iter().map(|line| line.key).collect();
    let shown = known_keys().iter().filter(|key| key.support != Support::Foreign);
    let others: Vec<Line> = shown
        .filter(|key| key.name != "env" && !first.contains(&key.name))
        .map(|key| Line {
            doc: key.doc,
            key: key.name,
            value: serde_json::from_str(key.example).unwrap_or_else(|_| json!(key.example)),
            is_on: false,
        })
        .collect();
    lines.extend(others);
    lines.push(on("env", json!({ "NODE_ENV": "development" })));
    lines.push(Line { doc: "", ..on("env_production", json!({ "NODE_ENV": "production" })) });
    lines
}

fn body(syntax: Syntax, lines: &[Line], has_docs: bool) -> String {
    let (indent, comment) = match syntax {
        Syntax::CommonJs | Syntax::Module | Syntax::Json => ("    ", "//"),
        Syntax::Yaml => ("    ", "#"),
        Syntax::Toml => ("", "#"),
    };
    let mut text = String::new();
    let last_on = lines.iter().rposition(|line| line.is_on);
    for (index, line) in lines.iter().enumerate() {
        if has_docs && !line.doc.is_empty() {
            let gap = if index == 0 { "" } else { "\n" };
            writeln!(text, "{gap}{indent}{comment} {}", line.doc).expect("a String takes everything");
        }
        let is_last = Some(index) == last_on;
        let pair = match syntax {
            Syntax::CommonJs | Syntax::Module => {
                format!("{}: {}{}", line.key, javascript(&line.value, indent), if is_last { "" } else { "," })
            }
            Syntax::Json => {
                format!("\"{}\": {}{}", line.key, flow(&line.value), if is_last { "" } else { "," })
            }
            Syntax::Yaml => format!("{}: {}", line.key, flow(&line.value)),
            Syntax::Toml => format!("{} = {}", line.key, toml(&line.value)),
        };
        // The first key of a YAML app follows the dash of the list.
        let indent = if syntax == Syntax::Yaml && line.key == "script" { "  - " } else { indent };
        let pair = if line.is_on {
            pair
        } else {
            format!("{comment} {}", pair.replace('\n', &format!("\n{indent}{comment} ")))
        };
        writeln!(text, "{indent}{pair}").expect("a String takes everything");
    }
    text
}

/// A value in usual JavaScript style; an object of variables spans several lines.
fn javascript(value: &Value, indent: &str) -> String {
    match value {
        Value::Object(map) if map.values().all(Value::is_string) && map.contains_key("NODE_ENV") => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{indent}  {key}: {}", javascript(value, indent)))
                .collect();
            format!("{{\n{}\n{indent}}}", pairs.join(",\n"))
        }
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{}: {}", javascript_text(key), javascript(value, indent))
            };
            format!("{{ {} }}", map.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| javascript(item, indent)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => javascript_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A text between single quotes. JSON escapes all else that needs it.
fn javascript_text(text: &str) -> String {
    let json = json!(text).to_string();
    let inner = json[1..json.len() - 1].replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{inner}'")
}

/// A value as JSON on one line, which is also YAML.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", json!(key), flow(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn toml(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// An example of `deploy`, as a comment.
fn deploy(syntax: Syntax) -> String {
    let comment = match syntax {
        Syntax::CommonJs | Syntax::Module | Syntax::Json => "//",
        Syntax::Yaml | Syntax::Toml => "#",
    };
    let example = match syntax {
        Syntax::CommonJs | Syntax::Module => {
            "deploy: {\n  production: {\n    user: 'node',\n    host: ['one.example.com', 'two.example.com'],\n    \
             ref: 'origin/main',\n    repo: 'git@example.com:you/app.git',\n    path: '/srv/app',\n    \
             'post-deploy': 'npm ci && forkful reload forkful.config.js --env production',\n    \
             health: 'http://127.0.0.1:3000/healthz',\n    rollback: true\n  }\n}"
        }
        Syntax::Json | Syntax::Yaml => {
            "\"deploy\": { \"production\": { \"user\": \"node\", \"host\": [\"one.example.com\"], \"ref\": \"origin/main\",\n  \
             \"repo\": \"git@example.com:you/app.git\", \"path\": \"/srv/app\", \"post-deploy\": \"npm ci && forkful reload all\" } }"
        }
        Syntax::Toml => {
            "[deploy.production]\nuser = \"node\"\nhost = [\"one.example.com\"]\nref = \"origin/main\"\n\
             repo = \"git@example.com:you/app.git\"\npath = \"/srv/app\"\npost-deploy = \"npm ci && forkful reload all\""
        }
    };
    let indent = if matches!(syntax, Syntax::Yaml | Syntax::Toml) { "" } else { "  " };
    let separator = match syntax {
        Syntax::CommonJs | Syntax::Module => ",\n",
        Syntax::Json => ",\n",
        Syntax::Yaml | Syntax::Toml => "\n",
    };
    let mut text = format!(
        "{separator}{indent}{comment} `forkful deploy production setup`, then `forkful deploy production`."
    );
    for line in example.lines() {
        write!(text, "\n{indent}{comment} {line}").expect("a String takes everything");
    }
    if indent.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forkful_config::Format;

    use super::*;

    #[test]
    fn what_is_written_in_a_data_format_is_read_again() {
        let entry = Entry { script: "it's.js".to_owned(), args: vec!["-p".to_owned()], is_script: true };
        for (syntax, format) in
            [(Syntax::Json, Format::Json), (Syntax::Yaml, Format::Yaml), (Syntax::Toml, Format::Toml)]
        {
            for kind in [InitKind::Simple, InitKind::Full] {
                let text = config(syntax, kind, &entry);
                let file = forkful_config::parse(&text, format, Path::new("f")).unwrap();
                assert_eq!(file.warnings, [], "{text}");
                let app = &file.apps[0];
                assert_eq!(app.text("script"), Some("it's.js"));
                assert_eq!(app.env["NODE_ENV"], "development");
                assert_eq!(app.env_blocks["production"]["NODE_ENV"], "production");
            }
            // Every commented key can be enabled.
            let text = config(syntax, InitKind::Full, &entry);
            let comment = if syntax == Syntax::Json { "// " } else { "# " };
            for key in known_keys().iter().filter(|key| key.support != Support::Foreign) {
                let has = [
                    format!("{comment}{} = ", key.name),
                    format!("{comment}{}: ", key.name),
                    format!("{comment}\"{}\": ", key.name),
                ];
                let is_on = matches!(key.name, "script" | "args" | "instances" | "env");
                assert!(
                    is_on || has.iter().any(|start| text.contains(start)),
                    "{syntax:?} has no {}",
                    key.name
                );
            }
        }
        let json = config(Syntax::Json, InitKind::Simple, &entry);
        let args = json!(["it's", "say \"hi\"", "a\\b\nc", 1, { "k'": null }]);
        assert_eq!(javascript(&args, ""), r#"['it\'s', 'say "hi"', 'a\\b\nc', 1, { 'k\'': null }]"#);
        assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
    }
}
