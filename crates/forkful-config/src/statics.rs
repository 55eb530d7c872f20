//! The section `static` of a configuration: directories that are served as files over HTTP, each by a
//! separate app. `script: "serve"` in an app has the same effect.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Place, Warning};
use crate::faults::Faults;
use crate::keys::{self, Kind};
use crate::options::{AppOptions, KeyOrigin, Origin, join_key};
use crate::tree::{Node, Value};
use crate::values::{self, Refusal};

/// The key of the section.
pub(crate) const SECTION: &str = "static";

/// The script name of the built-in file server.
pub(crate) const SCRIPT: &str = "serve";

/// Keys of an entry, the variable for each, and what it means.
const KEYS: &[(&str, Kind, &str, &str)] = &[
    ("port", Kind::Port, "PM2_SERVE_PORT", "Port to listen on; 8080 by default."),
    ("host", Kind::Text, "PM2_SERVE_HOST", "Address to listen on; 127.0.0.1 by default, 0.0.0.0 for all."),
    ("path", Kind::Text, "PM2_SERVE_PATH", "Directory; that of the file by default."),
    ("spa", Kind::Flag, "PM2_SERVE_SPA", "Answer paths without a file with the home page."),
    ("ftp", Kind::Flag, "PM2_SERVE_FTP", "List the files of directories without an index.html."),
    ("cors", Kind::Flag, "PM2_SERVE_CORS", "Let pages of other origins read the files (CORS)."),
    ("homepage", Kind::Text, "PM2_SERVE_HOMEPAGE", "The home page; /index.html by default."),
];

/// The apps of the section, if there is one.
pub(crate) fn apps(
    tree: &Node,
    path: &Path,
    warnings: &mut Vec<Warning>,
    faults: &mut Faults,
) -> Vec<AppOptions> {
    let Some(section) = tree.get(SECTION).filter(|section| !section.node.is_null()) else {
        return Vec::new();
    };
    let mut reader = Reader { path, warnings, faults };
    match &section.node.value {
        Value::List(items) => {
            let entries = items.iter().enumerate();
            entries.filter_map(|(index, item)| reader.entry(item, &format!("{SECTION}[{index}]"))).collect()
        }
        Value::Table(_) => reader.entry(&section.node, SECTION).into_iter().collect(),
        _ => {
            let expected = r#"a list of objects such as { "path": "public", "port": 8080 }"#;
            let refusal = Refusal { at: section.at, ..Refusal::new(&section.node, expected) };
            faults.add(refusal.of(Place::in_file(path, None, SECTION)));
            Vec::new()
        }
    }
}

struct Reader<'a> {
    path: &'a Path,
    warnings: &'a mut Vec<Warning>,
    faults: &'a mut Faults,
}

impl Reader<'_> {
    fn entry(&mut self, node: &Node, at: &str) -> Option<AppOptions> {
        let Value::Table(entries) = &node.value else {
            let refusal = Refusal::new(node, r#"an object such as { "path": "public", "port": 8080 }"#);
            self.faults.add(refusal.of(Place::in_file(self.path, None, at)));
            return None;
        };
        let mut options = AppOptions { serves_files: true, ..AppOptions::of_script(SCRIPT) };
        let mut given = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
            let place = Place::in_file(self.path, entry.at, join_key(at, &entry.key));
            let refused = |refusal: Refusal| refusal.of(place.clone());
            let name = keys::snake_case(&entry.key);
            match name.as_str() {
                "name" => {
                    if let Some(name) = self.faults.take(values::filled_text(&entry.node).map_err(refused)) {
                        options.put("name", name);
                    }
                    given.insert(name, KeyOrigin { written: entry.key.clone(), at: entry.at });
                }
                "basic_auth" => {
                    let login = self.faults.take(login(&entry.node).map_err(refused));
                    options.env.extend(login.unwrap_or_default());
                }
                "monitor" | "directory" => {
                    let message = "has no effect: ignored".to_owned();
                    self.warnings.push(Warning { place, message });
                }
                _ => match KEYS.iter().find(|(known, ..)| *known == name) {
                    Some((_, kind, variable, _)) => {
                        let value = variable_value(*kind, &entry.node).map_err(refused);
                        options
                            .env
                            .extend(self.faults.take(value).map(|value| ((*variable).to_owned(), value)));
                    }
                    None => {
                        let known = KEYS.iter().map(|(name, ..)| *name).chain(["name", "basic_auth"]);
                        let message = crate::file::unknown(keys::nearest(&name, known));
                        self.warnings.push(Warning { place, message });
                    }
                },
            }
        }
        options.origin =
            Some(Origin { file: self.path.to_owned(), app: at.to_owned(), at: node.at, keys: given });
        Some(options)
    }
}

/// The value of a variable.
fn variable_value(kind: Kind, node: &Node) -> Result<String, Refusal> {
    values::read(kind, node).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// `{ username, password }`.
fn login(node: &Node) -> Result<BTreeMap<String, String>, Refusal> {
    let half = |key: &str| {
        let Some(entry) = node.get(key) else {
            return Err(Refusal::new(node, r#"an object such as { "username": "ann", "password": "…" }"#));
        };
        // The value is a secret.
        values::filled_text(&entry.node).map_err(|refusal| refusal.below(&format!(".{key}")))
    };
    Ok(BTreeMap::from([
        ("PM2_SERVE_BASIC_AUTH".to_owned(), "true".to_owned()),
        ("PM2_SERVE_BASIC_AUTH_USERNAME".to_owned(), half("username")?),
        ("PM2_SERVE_BASIC_AUTH_PASSWORD".to_owned(), half("password")?),
    ]))
}

/// The default name of an app that serves files.
pub(crate) fn default_name(env: &BTreeMap<String, String>) -> String {
    const PORT_DEFAULT: &str = "8080";
    let port = env.get("PM2_SERVE_PORT").map_or(PORT_DEFAULT, String::as_str);
    format!("static-page-server-{port}")
}

/// A note for users of PM2, which listens on all addresses.
pub(crate) fn address_warning(options: &AppOptions, env: &BTreeMap<String, String>) -> Option<Warning> {
    let is_silent = env.get("PM2_SERVE_HOST").is_none_or(String::is_empty);
    (options.serves_files && is_silent).then(|| Warning {
        place: options.app_place(),
        message: "is served to this machine alone (PM2 listens on all addresses): \
                  `host`, or the variable PM2_SERVE_HOST, is the address; 0.0.0.0 is all"
            .to_owned(),
    })
}

/// The schema of an entry, for editors.
pub(crate) fn json_schema() -> serde_json::Value {
    use serde_json::json;
    let mut properties = serde_json::Map::new();
    let name = "The app's name; static-page-server-PORT by default.";
    properties.insert("name".to_owned(), json!({ "type": "string", "description": name }));
    for (name, kind, _, doc) in KEYS {
        let mut schema = match kind {
            Kind::Port => json!({ "type": ["integer", "string"] }),
            Kind::Text => json!({ "type": "string" }),
            other => other.schema(),
        };
        schema["description"] = json!(doc);
        properties.insert((*name).to_owned(), schema);
    }
    let text = json!({ "type": "string" });
    let doc = "Object with the `username` and `password` that visitors must enter.";
    let login = json!({ "type": "object", "description": doc, "required": ["username", "password"], "properties": { "username": text, "password": text } });
    properties.insert("basic_auth".to_owned(), login);
    json!({ "type": "object", "properties": properties })
}
