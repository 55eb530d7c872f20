//! A check finds all errors of a configuration at once, each with its location, and agrees with a start.

use forkful_config::{Context, Format, Report, check, check_text, json_schema, known_keys};

use crate::common::{NoEvaluator, Place, app, lines, script, show};

fn checked(place: &Place, text: &str, format: Format) -> Report {
    check_text(text.to_owned(), format, &place.path().join("f"), &place.context())
}

fn shown(place: &Place, report: &Report) -> String {
    let faults: Vec<String> = report.faults.iter().map(show).collect();
    place.neutral(&lines(&faults))
}

#[test]
fn all_faults_of_a_file_are_found_at_once() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let text = r#"{
  "apps": [
    { "script": "a.js", "instances": "two", "env": { "A": { "b": 1 } }, "max_restarts": -1 },
    { "script": "missing.js", "name": "b", "kill_timeout": "soon" },
    { "script": 7.5, "cwd": "", "name": "c" },
    "d.js",
    { "script": "a.js" }
  ],
  "deploy": { "live": { "host": "-x", "repo": "r", "ref": "main", "path": "srv" } }
}"#;
    let report = checked(&place, text, Format::Json);
    insta::assert_snapshot!(shown(&place, &report), @r#"
    DIR/f:3:38: apps[0].instances is "two"; expected a number, "max" or a negative number
    DIR/f:3:59: apps[0].env.A is an object; expected a string, a number, true or false
    DIR/f:3:89: apps[0].max_restarts is -1; expected a whole number from 0
    DIR/f:4:7: apps[1].script "missing.js" does not exist in DIR
    hint: a script is a file, a program in PATH, or a quoted command line
    DIR/f:4:60: apps[1].kill_timeout is "soon"; expected a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h"
    DIR/f:5:29: apps[2].cwd is ""; expected a text that is not empty
    DIR/f:6:5: apps[3] is "d.js"; expected an object that describes an app
    DIR/f:7:5: apps[4] has the name "a", which another app has already
    hint: give each app its own `name`; for more workers of one app use `instances`
    DIR/f:9:33: deploy.live.host is "-x"; expected one word that does not begin with `-`
    DIR/f:9:75: deploy.live.path is "srv"; expected an absolute folder such as /srv/app
    "#);
    // A start stops at the first error, and says how to see the others.
    let error = forkful_config::parse(text, Format::Json, &place.path().join("f")).unwrap_err();
    insta::assert_snapshot!(place.shown(&error), @r#"
    DIR/f:3:38: apps[0].instances is "two"; expected a number, "max" or a negative number
    hint: `forkful validate` shows all faults
    "#);
}

#[test]
fn a_place_is_the_value_in_every_format() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let texts = [
        (Format::Json, "{ \"script\": \"a.js\",\n  \"größe\": 1, \"instances\": \"two\" }", "\"two\""),
        (Format::Yaml, "apps:\n  - script: a.js\n    instances: two\n", "two"),
        (Format::Toml, "[[apps]]\nscript = 'a.js'\ninstances = 'two'\n", "'two'"),
    ];
    for (format, text, value) in texts {
        let report = checked(&place, text, format);
        let at = report.faults[0].place().unwrap().at.unwrap();
        assert_eq!(&text[at.start..at.end], value, "{format:?}");
        let line = text.lines().nth(at.line - 1).unwrap();
        let column = line[..line.find(value).unwrap()].chars().count() + 1;
        assert_eq!(at.column, Some(column), "{format:?}");
    }
}

#[test]
fn an_app_that_must_run_before_and_is_not_in_the_file_is_told() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let text = r#"{ "apps": [
  { "script": "a.js", "name": "web", "depends_on": ["api", "db", "broken"] },
  { "script": "a.js", "name": "api" },
  { "script": "missing.js", "name": "broken" }
] }"#;
    let report = checked(&place, text, Format::Json);
    let warnings: Vec<String> =
        report.warnings.iter().map(|warning| place.neutral(&warning.to_string())).collect();
    insta::assert_snapshot!(lines(&warnings), @"DIR/f:2:38: apps[0].depends_on names `db`, which is not in this file: start `db` first");
}

#[test]
fn a_block_that_no_app_has_is_told_once() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let text = r#"{ "apps": [{ "script": "a.js", "name": "a", "env_prod": {} }, { "script": "a.js", "name": "b" }] }"#;
    let context = Context { env_name: Some("prd".to_owned()), ..place.context() };
    let report = check_text(text.to_owned(), Format::Json, &place.path().join("f"), &context);
    insta::assert_snapshot!(shown(&place, &report), @"
    DIR/f: apps has no `env_prd`
    hint: there is env_prod
    ");
    assert_eq!(report.warnings, []);
}

#[test]
fn a_negative_number_of_workers_that_leaves_none_is_wrong_and_still_starts_one() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let with = |instances: &str| format!(r#"{{ "script": "a.js", "instances": {instances} }}"#);
    let report = checked(&place, &with("-5"), Format::Json);
    insta::assert_snapshot!(shown(&place, &report), @r#"DIR/f:1:21: instances is -5; expected -1 to -3, "max", or a number from 1: 4 cores are usable on this machine"#);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    assert!(checked(&place, &with("-3"), Format::Json).faults.is_empty());

    let mut one_core = place.context();
    one_core.usable_cores = 1;
    let of_one = |instances: &str| {
        check_text(with(instances), Format::Json, &place.path().join("f"), &one_core).faults.len()
    };
    assert_eq!((of_one("-1"), of_one("-2")), (0, 1));

    let mut options = app(&with("-5"));
    options.origin = None;
    let resolved = place.resolve(&options).unwrap();
    assert_eq!(resolved.spec.instances, 1);
    insta::assert_snapshot!(lines(&resolved.warnings), @"--instances is -5, and 4 cores are usable on this machine: 1 worker is started");
}

#[test]
fn a_file_that_cannot_be_read_or_parsed_has_one_fault() {
    let place = Place::new();
    let missing = check(&place.path().join("no.json"), &NoEvaluator, &place.context());
    assert_eq!(missing.faults.len(), 1);
    let path = place.file("bad.json", "{ \"apps\": [\n  { \"script\" \"a.js\" } ] }");
    let report = check(&path, &NoEvaluator, &place.context());
    insta::assert_snapshot!(shown(&place, &report), @"DIR/bad.json:2:14: expected colon after the string or word in object property");
    assert!(report.text.contains("a.js"));
}

#[test]
fn the_schema_has_the_defaults_that_resolution_uses_and_marks_aliases() {
    let schema = json_schema();
    let properties = &schema["$defs"]["app"]["properties"];
    assert_eq!(properties["max_restarts"]["default"], 16);
    assert_eq!(properties["maxRestarts"]["deprecated"], true);
    assert_eq!(properties["exec"]["$ref"], "#/$defs/app/properties/script");
    assert_eq!(properties["exec"]["default"], serde_json::Value::Null);

    // Each default, given explicitly, changes nothing.
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let plain = place.resolve(&script("a.js")).unwrap().spec;
    for key in known_keys().iter().filter(|key| !key.default.is_empty()) {
        // `instances` in a configuration also selects the mode; an explicit `autorestart` has an effect.
        if matches!(key.name, "instances" | "autorestart") {
            continue;
        }
        let text = format!(r#"{{ "script": "a.js", "{}": {} }}"#, key.name, key.default);
        let mut options = app(&text);
        options.origin = None;
        let mut spec = place.resolve(&options).unwrap().spec;
        if key.name == "exp_backoff_restart_delay" {
            assert_eq!(spec.restart.delay, plain.restart.delay);
        }
        spec.launch.env_sources = plain.launch.env_sources.clone();
        assert!(spec == plain, "`{}` is not {} by default:\n{spec:#?}\n{plain:#?}", key.name, key.default);
    }
}
