//! Makes `docs/output.schema.json` from the types that commands print with `--json`, and fails when the committed document is
//! another one. Each property of the document has the schema of a command's output; a test with the real command
//! (`tests/e2e/output-schema.test.mjs`) validates what is printed.
//!
//! The schemas of reports (`bench`, `compare`, `tune`, `experiment`) are made by the tests of forkful-lab.

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::openapi::{WRITE, admit_more, tidy_texts};
use crate::apply::ApplyReply;
use crate::conversation::{EnvironmentReply, WorkersReply};
use crate::dashboard::DashboardReply;
use crate::incidents::{Incident, IncidentList, IncidentSummary};
use crate::jlist::JlistEntry;
use crate::profile::HeapReply;
use crate::saved::{ClearReply, SaveReply};
use crate::stalls::StallsReply;
use crate::types::{AppList, AppOutcome, DoctorReply, Ping, Settings, ShownLine, Validated};

/// Made by the tests of forkful-lab.
const REPORTS: &str = include_str!("../../../forkful-lab/reports.schema.json");

/// Commands that print the results of an action.
const ACTIONS: [&str; 14] = [
    "delete",
    "flush",
    "import",
    "kill",
    "reload",
    "reloadLogs",
    "reset",
    "restart",
    "resurrect",
    "scale",
    "serve",
    "signal",
    "start",
    "stop",
];

/// The schemas of outputs, by command.
struct Outputs {
    schemas: SchemaGenerator,
    commands: Map<String, Value>,
}

impl Outputs {
    fn add<T: JsonSchema>(&mut self, command: &str) {
        let schema = self.schemas.subschema_for::<T>().to_value();
        let before = self.commands.insert(command.to_owned(), schema);
        assert!(before.is_none(), "{command} is there twice");
    }
}

/// The results of a command, app by app. HTTP 200 even if an app failed: see `ok`.
#[derive(JsonSchema)]
#[schemars(rename = "ActionReply")]
#[expect(dead_code, reason = "commands print only this part of the reply")]
struct Results {
    /// One entry per app matched by the targets.
    apps: Vec<AppOutcome>,
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let mut all = Outputs { schemas: settings.for_serialize().into_generator(), commands: Map::new() };
    for command in ACTIONS.into_iter().chain(["update"]) {
        all.add::<Results>(command);
    }
    all.add::<ApplyReply>("apply");
    all.add::<ClearReply>("cleardump");
    all.add::<DashboardReply>("dashboard");
    all.add::<AppList>("describe");
    all.add::<DoctorReply>("doctor");
    all.add::<EnvironmentReply>("env");
    all.add::<IncidentList>("events");
    all.add::<IncidentSummary>("events --follow");
    all.add::<Incident>("events --show");
    all.add::<Settings>("get");
    all.add::<HeapReply>("heap");
    all.add::<Vec<JlistEntry>>("jlist");
    all.add::<AppList>("list");
    all.add::<ShownLine<'static>>("logs");
    all.add::<Ping>("ping");
    all.add::<SaveReply>("save");
    all.add::<WorkersReply>("send");
    all.add::<StallsReply>("stalls");
    all.add::<WorkersReply>("trigger");
    all.add::<Validated>("validate");
    let Outputs { mut schemas, mut commands } = all;
    let mut definitions = schemas.take_definitions(true);
    let reports: Value = serde_json::from_str(REPORTS).unwrap();
    for (all, key) in [(&mut commands, "properties"), (&mut definitions, "$defs")] {
        for (name, schema) in reports[key].as_object().unwrap() {
            let before = all.insert(name.clone(), schema.clone());
            assert!(before.is_none_or(|before| before == *schema), "{name} is two things");
        }
    }
    definitions.sort_keys();
    definitions.values_mut().for_each(admit_more);
    commands.sort_keys();
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Output of Forkful's commands",
        "description": "What commands print with `--json`, by the command's name: `#/properties/list` is the schema of `forkful list --json`. \
             `jlist` prints JSON always. `events --follow` and `logs` are one line of it; `compare of reports` is of two saved ones. Durations are in milliseconds, times in milliseconds since the \
             Unix epoch, unless the key says otherwise. Programs should ignore keys that they do not know: new keys may be added.",
        "type": "object",
        "properties": commands,
        "$defs": definitions,
    });
    tidy_texts(&mut document);
    document
}

#[test]
fn the_committed_schema_of_outputs_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/output.schema.json");
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{} does not describe what commands print: run `{WRITE}=1 cargo test -p forkful-api`",
        path.display()
    );
}
