//! Makes `openapi.json` from the routes and the types, and fails when the committed document is another one.
//!
//! It exists in tests alone, so that the program carries neither schemas nor descriptions. What is required of a
//! request differs from what is certain in a reply (fields with a default), so a type that travels in both
//! directions has two schemas when they differ; the one of replies ends in `Output`.

mod operations;

use std::path::PathBuf;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::routes::Route;
use crate::types::{API_VERSION, ErrorCode, REQUEST_BYTES_MAX};
use operations::{Operation, Reply};

/// Set to anything, the document is written instead of compared.
pub(super) const WRITE: &str = "UPDATE_DOCS";

/// Where schemas are in the document.
const SCHEMAS: &str = "#/components/schemas/";

/// The schemas of one direction each.
struct Schemas {
    requests: SchemaGenerator,
    replies: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            replies: settings().for_serialize().into_generator(),
        }
    }

    /// All schemas by name, and the names of those that are another one in replies.
    fn take(mut self) -> (Map<String, Value>, Vec<String>) {
        let mut all = self.requests.take_definitions(true);
        let mut replies = self.replies.take_definitions(true);
        replies.values_mut().for_each(admit_more);
        let mut both: Vec<String> = replies
            .iter()
            .filter(|(name, schema)| all.get(*name).is_some_and(|own| own != *schema))
            .map(|(name, _)| name.clone())
            .collect();
        // What holds one that has two has two itself.
        loop {
            let holders: Vec<String> = replies
                .iter()
                .filter(|(name, schema)| {
                    all.contains_key(*name) && !both.contains(name) && mentions(schema, &both)
                })
                .map(|(name, _)| name.clone())
                .collect();
            if holders.is_empty() {
                break;
            }
            both.extend(holders);
        }
        for (name, mut schema) in replies {
            point_to_output(&mut schema, &both);
            let name = if both.contains(&name) { format!("{name}Output") } else { name };
            all.insert(name, schema);
        }
        all.sort_keys();
        (all, both)
    }
}

/// A reply may hold keys that are not known yet.
pub(super) fn admit_more(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if keys.get("additionalProperties") == Some(&Value::Bool(false)) {
                keys.shift_remove("additionalProperties");
            }
            keys.values_mut().for_each(admit_more);
        }
        Value::Array(items) => items.iter_mut().for_each(admit_more),
        _ => {}
    }
}

fn mentions(schema: &Value, names: &[String]) -> bool {
    match schema {
        Value::Object(keys) => keys.iter().any(|(key, value)| {
            key == "$ref"
                && value
                    .as_str()
                    .is_some_and(|path| names.iter().any(|name| path == format!("{SCHEMAS}{name}")))
                || mentions(value, names)
        }),
        Value::Array(items) => items.iter().any(|item| mentions(item, names)),
        _ => false,
    }
}

/// Makes references to the named schemas ones to their form in replies.
fn point_to_output(value: &mut Value, names: &[String]) {
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                match value {
                    Value::String(path) if key == "$ref" => {
                        if names.iter().any(|name| *path == format!("{SCHEMAS}{name}")) {
                            path.push_str("Output");
                        }
                    }
                    other => point_to_output(other, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point_to_output(item, names)),
        _ => {}
    }
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    let mut replies = Vec::new();
    for &route in Route::ALL {
        let operation = Operation::of(route, &mut schemas);
        let method = route.method().as_str().to_lowercase();
        replies.push((route.path(), method.clone()));
        let path = paths.entry(route.path()).or_insert_with(|| json!({}));
        path[method] = described(route, operation);
    }
    let error = schemas.replies.subschema_for::<crate::types::ErrorReply>();
    let (schemas, both) = schemas.take();
    for (path, method) in replies {
        point_to_output(&mut paths[path][&method]["responses"], &both);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Forkful",
            "version": API_VERSION.to_string(),
            "summary": "The daemon's API",
            "description": format!(
                "HTTP/1.1 over the unix socket `$FORKFUL_HOME/forkful.sock`, which accepts only its user and root. \
                 Bodies are JSON of at most {REQUEST_BYTES_MAX} bytes. Durations are in milliseconds, times in milliseconds \
                 since the Unix epoch. Unknown keys in a request are refused; clients should ignore unknown keys in a \
                 reply. Requests without an operation are answered with 400, and a request that is not HTTP closes the connection."
            ),
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "servers": [{
            "url": "http://localhost",
            "description": "Over the unix socket; the host is ignored: curl --unix-socket $FORKFUL_HOME/forkful.sock http://localhost/v1/ping",
        }],
        "security": [],
        "tags": [
            { "name": "apps", "description": "Apps and their state" },
            { "name": "workers", "description": "Communicating with workers, and watching them" },
            { "name": "state", "description": "The state that is restored after a reboot" },
            { "name": "daemon", "description": "The daemon itself" },
        ],
        "paths": paths,
        "components": { "responses": refusals(&error.to_value()), "schemas": schemas },
    });
    tidy_texts(&mut document);
    document
}

fn described(route: Route, operation: Operation) -> Value {
    let mut parameters = operation.path;
    parameters.extend(operation.query);
    let mut responses = Map::new();
    responses.insert("200".into(), reply(operation.reply));
    for code in operation.refusals {
        responses.insert(
            status(*code).into(),
            json!({ "$ref": format!("#/components/responses/{}", name_of(*code)) }),
        );
    }
    let mut description = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    });
    if !parameters.is_empty() {
        description["parameters"] = json!(parameters);
    }
    if let Some(schema) = operation.request {
        assert_eq!(route.method(), "POST");
        description["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    description["responses"] = Value::Object(responses);
    description
}

fn reply(reply: Reply) -> Value {
    match reply {
        Reply::Json { description, schema } => {
            json!({ "description": description, "content": { "application/json": { "schema": schema } } })
        }
        Reply::Text { description, media } => {
            let mut content = Map::new();
            for kind in media {
                content.insert((*kind).to_owned(), json!({ "schema": { "type": "string" } }));
            }
            json!({ "description": description, "content": content })
        }
        Reply::Lines { description, line } => json!({
            "description": description,
            "content": { "application/x-ndjson": { "schema": { "type": "string" }, "x-line": line } },
        }),
        Reply::Events { description, events } => {
            let events: Map<String, Value> =
                events.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
            json!({
                "description": description,
                "content": { "text/event-stream": { "schema": { "type": "string" }, "x-events": events } },
            })
        }
    }
}

fn status(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::BadRequest => "400",
        ErrorCode::NoSuchTarget => "404",
        ErrorCode::Conflict => "409",
        ErrorCode::Internal => "500",
    }
}

fn name_of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::BadRequest => "BadRequest",
        ErrorCode::NoSuchTarget => "NoSuchTarget",
        ErrorCode::Conflict => "Conflict",
        ErrorCode::Internal => "Internal",
    }
}

fn refusals(error: &Value) -> Value {
    let of = |code: ErrorCode, description: &str| {
        let schema = json!({ "allOf": [error, { "properties": { "code": { "const": code } } }] });
        let body =
            json!({ "description": description, "content": { "application/json": { "schema": schema } } });
        (name_of(code).to_owned(), body)
    };
    let all = [
        of(ErrorCode::BadRequest, "The request makes no sense; nothing was done"),
        of(
            ErrorCode::NoSuchTarget,
            "There is no app or worker of that name or id, or nothing that was saved",
        ),
        of(ErrorCode::Conflict, "It cannot be done as things are; nothing was done"),
        of(ErrorCode::Internal, "The daemon is at fault, or it is ending"),
    ];
    Value::Object(all.into_iter().collect())
}

/// Comments of the sources as texts for readers of the document: one line, links without their ends, JSON's words.
pub(super) fn tidy_texts(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                match value {
                    Value::String(text) if key == "description" => *text = tidied(text),
                    other => tidy_texts(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy_texts),
        _ => {}
    }
}

fn tidied(text: &str) -> String {
    let mut rest = text.replace('\n', " ").replace("`None`", "`null`");
    while let Some(start) = rest.find("[`") {
        let end = start + rest[start..].find("`]").expect("a link in a comment ends");
        let name = rest[start + 1..=end].to_owned();
        let mut after = end + 2;
        if rest[after..].starts_with('(') {
            after += rest[after..].find(')').expect("the end of a link ends") + 1;
        }
        rest.replace_range(start..after, &name);
    }
    rest
}

#[test]
fn the_committed_document_is_the_one_that_the_code_makes() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let differs = committed.lines().zip(made.lines()).position(|(committed, made)| committed != made);
    assert!(
        committed == made,
        "openapi.json and the code differ from line {} on: `{WRITE}=1 cargo test -p forkful-api openapi` writes it anew",
        differs.map_or(committed.lines().count().min(made.lines().count()), |line| line) + 1
    );
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = document();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in schemas.keys() {
        assert!(text.contains(&format!("\"{SCHEMAS}{name}\"")), "{name} is not used");
    }
    let references = text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    for pointer in references {
        assert!(document.pointer(pointer).is_some(), "{pointer} is not there");
    }
}

#[test]
fn comments_become_plain_texts() {
    assert_eq!(tidied("As in [`A`](b::A);\n`None` is [`C`]."), "As in `A`; `null` is `C`.");
}
