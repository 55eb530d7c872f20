//! Makes `reports.schema.json` from the types of the reports that `bench`, `compare`, `tune` and `experiment` print with `--json`, and
//! fails when the committed file is another one. The tests of forkful-api put it into `docs/output.schema.json`.

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::document::{CompareDocument, TuneDocument};
use crate::experiment::Document;
use crate::experiment::catalogue::Description;
use crate::reports::ReportsDocument;

const WRITE: &str = "UPDATE_DOCS";

fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().to_value()
}

fn reports() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let mut schemas = settings.for_serialize().into_generator();
    let experiment = schema::<Document>(&mut schemas);
    let several = json!({ "type": "array", "items": experiment });
    let commands = Map::from_iter([
        ("bench".to_owned(), schema::<forkful_load::report::Document<'static>>(&mut schemas)),
        ("bench --search".to_owned(), schema::<forkful_load::search::Document>(&mut schemas)),
        ("compare".to_owned(), schema::<CompareDocument>(&mut schemas)),
        ("compare of reports".to_owned(), schema::<ReportsDocument>(&mut schemas)),
        ("experiment".to_owned(), json!({ "anyOf": [experiment, several] })),
        ("experiment list".to_owned(), schema::<Vec<Description>>(&mut schemas)),
        ("tune".to_owned(), schema::<TuneDocument>(&mut schemas)),
    ]);
    let mut definitions = schemas.take_definitions(true);
    definitions.sort_keys();
    let doubled: Vec<&String> = definitions.keys().filter(|name| name.ends_with(char::is_numeric)).collect();
    assert!(doubled.is_empty(), "two types have one name: {doubled:?}");
    json!({ "properties": commands, "$defs": definitions })
}

#[test]
fn the_committed_schema_of_reports_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports.schema.json");
    let text = serde_json::to_string_pretty(&reports()).unwrap() + "\n";
    if std::env::var_os(WRITE).is_some() {
        fs_err::write(&path, &text).unwrap();
    }
    let committed = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{} does not describe the reports: run `{WRITE}=1 cargo test -p forkful-lab schema`, then `{WRITE}=1 cargo test -p forkful-api`",
        path.display()
    );
}
