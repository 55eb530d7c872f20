//! Configs in JavaScript and TypeScript, evaluated by the real `node` in this machine's PATH.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Place, lines};
use forkful_config::{ConfigFile, JsEvaluator, NodeEvaluator, caller_environment, load};

fn evaluator(place: &Place) -> NodeEvaluator {
    NodeEvaluator::new(place.path().to_owned(), caller_environment().0)
}

fn read(place: &Place, name: &str, text: &str) -> Result<ConfigFile, String> {
    let path = place.file(name, text);
    load(&path, &evaluator(place)).map_err(|error| place.shown(&error))
}

fn node_version() -> (u32, u32) {
    let output = Command::new("node").arg("--version").output().expect("these tests need node in PATH");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.trim().trim_start_matches('v').split('.').map(|part| part.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn every_way_to_export_apps_works() {
    let place = Place::new();
    let apps = "[{ script: 'a.js', instances: 'max', env: { N: 1, F() {}, U: undefined } }]";
    for (name, text) in [
        ("a.config.js", format!("module.exports = {{ apps: {apps} }}")),
        ("b.config.cjs", format!("exports.apps = {apps}")),
        ("c.config.cjs", format!("module.exports = {apps}")),
        ("d.config.cjs", format!("module.exports = () => ({{ apps: {apps} }})")),
        ("e.config.cjs", format!("module.exports = Promise.resolve({{ apps: {apps} }})")),
        (
            "f.config.cjs",
            format!(
                "Object.defineProperty(exports, '__esModule', {{ value: true }}); exports.default = {{ apps: {apps} }}"
            ),
        ),
        ("g.config.mjs", format!("export default {{ apps: {apps} }}")),
        ("h.config.mjs", format!("export const apps = {apps}; export const deploy = {{}}")),
        ("i.config.mjs", format!("export default async () => ({{ apps: {apps} }})")),
        ("j.config.mjs", format!("const apps = await Promise.resolve({apps}); export default apps[0]")),
    ] {
        let file = read(&place, name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(file.warnings, [], "{name}");
        let app = &file.apps[0];
        assert_eq!(app.text("script"), Some("a.js"), "{name}");
        assert_eq!(app.text("instances"), Some("max"), "{name}");
        assert_eq!(app.env, BTreeMap::from([("N".to_owned(), "1".to_owned())]), "{name}");
    }
}

#[test]
fn what_a_config_prints_is_not_taken_for_its_result() {
    let place = Place::new();
    let text = "console.log('{\"value\":1}'); console.error('to stderr');\n\
                require('fs').writeSync(1, 'raw\\n');\n\
                setInterval(() => {}, 1000);\n\
                module.exports = { script: 'a.js', cwd: process.cwd() }";
    let file = read(&place, "a.config.cjs", text).unwrap();
    assert_eq!(file.apps[0].text("script"), Some("a.js"));
    assert_eq!(
        file.apps[0].path("cwd").map(|cwd| cwd.canonicalize().unwrap()),
        Some(place.path().canonicalize().unwrap())
    );
    assert_eq!(file.output, "{\"value\":1}\nto stderr\nraw\n");
}

#[test]
fn a_large_export_arrives_whole() {
    let place = Place::new();
    let text = "module.exports = { apps: Array.from({ length: 3000 }, (_, i) => ({ name: 'app-' + i, script: 'a.js', env: { LONG: 'x'.repeat(500) } })) }";
    assert_eq!(read(&place, "a.config.cjs", text).unwrap().apps.len(), 3000);
}

#[test]
fn faults_name_file_line_column_and_what_node_says() {
    let place = Place::new();
    let faults = [
        ("a.config.cjs", "const x = 1\nconst y = ;\n"),
        ("b.config.mjs", "const x = 1\n\nexport default { apps: ] }\n"),
        ("c.config.cjs", "const x = 1\nfunction f() {\n  throw new Error('no database\\nat all')\n}\nf()\n"),
        ("d.config.mjs", "\n\nnothing.here\n"),
        ("e.config.mjs", "import './absent.mjs'\n"),
        ("f.config.cjs", "throw 'a text'\n"),
        ("g.config.cjs", "module.exports = async () => { throw new TypeError('late') }\n"),
        ("h.config.cjs", "process.exit(0)\n"),
        ("i.config.cjs", "console.error('fatal: no token'); process.exit(3)\n"),
        ("j.config.cjs", "module.exports = { script: 10n }\n"),
        ("k.config.cjs", "const a = {}; a.a = a; module.exports = { script: 'x', env: a }\n"),
        ("l.config.cjs", "module.exports = new Promise(() => {})\n"),
        ("m.config.cjs", "exports.app = []\n"),
        ("n.config.cjs", "module.exports = { apps: [{ script: 'a.js', instances: 'two' }] }\n"),
        ("o.config.cjs", "module.exports = { script: 'x', env: { A: 'x'.repeat(5 << 20) } }\n"),
        ("p.config.cjs", "import fs from 'node:fs'\nmodule.exports = {}\n"),
        ("q.config.mjs", "module.exports = {}\n"),
    ];
    let messages: Vec<_> =
        faults.iter().map(|(name, text)| read(&place, name, text).expect_err(name)).collect();
    // V8's part of the message differs between versions of Node; our part does not.
    insta::assert_snapshot!(lines(&messages), @r#"
    DIR/a.config.cjs:2:11: SyntaxError: Unexpected token ';'
    DIR/b.config.mjs:3:24: SyntaxError: Unexpected token ']'
    DIR/c.config.cjs:3:9: Error: no database
    DIR/d.config.mjs:3:1: ReferenceError: nothing is not defined
    DIR/e.config.mjs: Error: Cannot find module 'DIR/absent.mjs' imported from DIR/e.config.mjs
    hint: install what it imports
    DIR/f.config.cjs: it threw a text
    DIR/g.config.cjs:1:38: TypeError: late
    DIR/h.config.cjs: ended the evaluation without exporting anything
    hint: it must not call process.exit, and its promises must settle
    DIR/i.config.cjs: ended the evaluation without exporting anything (fatal: no token)
    hint: it must not call process.exit, and its promises must settle
    DIR/j.config.cjs: TypeError: Do not know how to serialize a BigInt
    DIR/k.config.cjs: TypeError: Converting circular structure to JSON
    DIR/l.config.cjs: ended the evaluation without exporting anything
    hint: it must not call process.exit, and its promises must settle
    DIR/m.config.cjs: there is neither `apps` nor a `script`
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    DIR/n.config.cjs:1:56: apps[0].instances is "two"; expected a number, "max" or a negative number
    DIR/o.config.cjs: exports more than 4 MiB
    DIR/p.config.cjs:1:1: SyntaxError: Cannot use import statement outside a module
    hint: give an ES module the extension .mjs, or set "type": "module" in package.json
    DIR/q.config.mjs:1:18: there is neither `apps` nor a `script`
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    "#);
}

#[test]
fn a_config_that_waits_is_ended_with_what_it_started() {
    let place = Place::new();
    let text = "const { spawn } = require('child_process');\n\
                const child = spawn('sleep', ['600'], { stdio: 'inherit' });\n\
                require('fs').writeFileSync('pid', String(child.pid));\n\
                for (;;) {}";
    let path = place.file("a.config.cjs", text);
    let impatient = evaluator(&place).with_timeout(Duration::from_secs(5));
    let error = load(&path, &impatient).unwrap_err();
    insta::assert_snapshot!(place.shown(&error), @r#"
    DIR/a.config.cjs: was not evaluated within 5 s
    hint: a configuration should not wait for anything
    "#);
    let pid = fs_err::read_to_string(place.path().join("pid")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_running(&pid) {
        assert!(Instant::now() < deadline, "the child {pid} of the config lives on");
        std::thread::yield_now();
    }
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    let state = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_missing_node_is_explained() {
    let place = Place::new();
    let path = place.file("a.config.js", "");
    let env = BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]);
    let error = load(&path, &NodeEvaluator::new(place.path().to_owned(), env)).unwrap_err();
    insta::assert_snapshot!(place.shown(&error), @r#"
    DIR/a.config.js: needs `node` to be evaluated, which is not in PATH
    hint: install Node.js, or write the configuration as JSON, YAML or TOML
    "#);
}

#[test]
fn typescript_is_evaluated_by_a_node_that_can() {
    let place = Place::new();
    let text = "const name: string = 'typed'\nexport default { apps: [{ script: 'a.ts', name }] }\n";
    let path = place.file("a.config.ts", text);
    place.file("package.json", r#"{ "type": "module" }"#);
    let (major, minor) = node_version();
    let result = evaluator(&place).evaluate(&path);
    if (major, minor) >= (23, 6) || (major == 22 && minor >= 18) {
        let file = load(&path, &evaluator(&place)).unwrap();
        assert_eq!(file.apps[0].text("name"), Some("typed"));
        assert_eq!(result.unwrap().value["apps"][0]["name"], "typed");
    } else {
        let message = result.unwrap_err().message;
        assert!(message.contains("needs Node.js 22.18 or newer"), "{message}");
    }
}

#[test]
fn a_relative_path_is_evaluated_from_the_callers_directory() {
    // Only the name: the working directory of this test is the crate's, which has no such file.
    let place = Place::new();
    let error = load(Path::new("absent.config.js"), &evaluator(&place)).unwrap_err();
    insta::assert_snapshot!(place.shown(&error), @r#"
    cannot read absent.config.js
    hint: name a script or a configuration file; `forkful.config.js` is the usual one
    "#);
}
