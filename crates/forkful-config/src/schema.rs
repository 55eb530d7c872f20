//! Generates a JSON Schema from the table of keys, for editors.

use serde_json::{Map, Value, json};

use crate::keys::{Kind, KnownKey, Support, camel_case, known_keys, supported_keys};

/// A JSON Schema (draft 2020-12) of a configuration, for completion and checks in editors.
pub fn json_schema() -> Value {
    let mut properties = Map::new();
    for key in supported_keys() {
        let mut schema = key.kind.schema();
        schema["description"] = json!(key.doc);
        if !key.default.is_empty() {
            schema["default"] = serde_json::from_str(key.default).unwrap_or_else(|_| json!(key.default));
        }
        let example: Value = serde_json::from_str(key.example).unwrap_or_else(|_| json!(key.example));
        schema["examples"] = json!([example]);
        properties.insert(key.name.to_owned(), schema);
        for alias in spellings(key).into_iter().skip(1) {
            let of_alias = json!({
                "$ref": format!("#/$defs/app/properties/{}", key.name),
                "deprecated": true,
                "description": format!("Alias of `{}`.", key.name),
            });
            properties.entry(alias).or_insert(of_alias);
        }
    }
    let scripts: Vec<Value> = supported_keys()
        .filter(|key| key.name == "script")
        .flat_map(spellings)
        .map(|name| json!({ "required": [name] }))
        .collect();
    let foreign = known_keys().iter().filter(|key| key.support == Support::Foreign);
    for key in foreign {
        let ignored = json!({ "deprecated": true, "description": key.sentence() });
        for name in spellings(key) {
            properties.entry(name).or_insert_with(|| ignored.clone());
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Forkful configuration",
        "description": "forkful.config.json, or PM2's ecosystem.config.json",
        "anyOf": [{ "$ref": "#/$defs/file" }, { "$ref": "#/$defs/apps" }, { "$ref": "#/$defs/bare_app" }],
        "$defs": {
            "file": {
                "type": "object",
                "anyOf": [{ "required": ["apps"] }, { "required": ["static"] }],
                "properties": {
                    "$schema": { "type": "string" },
                    "apps": { "anyOf": [{ "$ref": "#/$defs/apps" }, { "$ref": "#/$defs/app" }] },
                    "deploy": { "type": "object", "additionalProperties": { "$ref": "#/$defs/deploy" } },
                    "static": { "type": "array", "items": { "$ref": "#/$defs/static" } },
                },
            },
            "apps": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/app" } },
            "bare_app": { "$ref": "#/$defs/app", "anyOf": scripts },
            "app": {
                "type": "object",
                "properties": properties,
                "patternProperties": { "^env_.+$": Kind::Environment.schema(), "^env[A-Z].*$": Kind::Environment.schema() },
                "additionalProperties": false,
            },
            "deploy": crate::deploy::json_schema(),
            "static": crate::statics::json_schema(),
        },
    })
}

/// A key's name and its other spellings.
fn spellings(key: &KnownKey) -> Vec<String> {
    let names = || std::iter::once(&key.name).chain(key.aliases);
    let mut all: Vec<String> = Vec::new();
    for name in names().map(|name| (*name).to_owned()).chain(names().map(|name| camel_case(name))) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

impl KnownKey {
    /// Its documentation; for a foreign key, the text of its message as a sentence.
    pub fn sentence(&self) -> String {
        match self.support {
            Support::Foreign => {
                let mut characters = self.doc.chars();
                let first = characters.next().map(char::to_uppercase).into_iter().flatten();
                format!("{}.", first.chain(characters).collect::<String>())
            }
            Support::Now => self.doc.to_owned(),
        }
    }
}
