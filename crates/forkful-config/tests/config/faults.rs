//! The message of every error of a configuration.

use std::path::Path;

use crate::common::{Place, fault, json, lines, load_data, show};
use forkful_config::{AppOptions, Format, parse};

/// A value in an app, on line 4 of a file.
fn value_fault(key: &str, value: &str) -> String {
    fault(&format!("{{\n  \"apps\": [{{\n    \"script\": \"a.js\",\n    \"{key}\": {value}\n  }}]\n}}"))
}

#[test]
fn a_wrong_value_names_file_line_key_value_and_what_was_expected() {
    let faults = [
        ("instances", r#""two""#),
        ("instances", "0.5"),
        ("instances", "2000"),
        ("instances", "[2]"),
        ("exec_mode", r#""clustr""#),
        ("kill_timeout", r#""10 parsecs""#),
        ("killTimeout", "-1"),
        ("listen_timeout", r#""9999h""#),
        ("kill_signal", r#""SIGSTOPP""#),
        ("kill_signal", "65"),
        ("max_restarts", "1.5"),
        ("wait_ready", r#""yes""#),
        ("args", r#""it's""#),
        ("args", r#"["a", {}]"#),
        ("env", r#""A=1""#),
        ("env", r#"{ "A B=": 1 }"#),
        ("env_production", "[]"),
        ("stop_exit_codes", "[0, 256]"),
        ("port", "70000"),
        ("balance", r#""fair""#),
        ("cwd", r#""""#),
        ("exec_interpreter", "true"),
        ("out_file", "true"),
    ];
    let messages: Vec<_> = faults.iter().map(|(key, value)| value_fault(key, value)).collect();
    insta::assert_snapshot!(lines(&messages), @r#"
    forkful.config.json:4:18: apps[0].instances is "two"; expected a number, "max" or a negative number
    forkful.config.json:4:18: apps[0].instances is 0.5; expected a number, "max" or a negative number
    forkful.config.json:4:18: apps[0].instances is 2000; expected at most 1024
    forkful.config.json:4:18: apps[0].instances is a list; expected a number, "max" or a negative number
    forkful.config.json:4:18: apps[0].exec_mode is "clustr"; expected "cluster" or "fork"
    forkful.config.json:4:21: apps[0].kill_timeout is "10 parsecs"; expected a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h"
    forkful.config.json:4:20: apps[0].killTimeout is -1; expected a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h"
    forkful.config.json:4:23: apps[0].listen_timeout is "9999h"; expected at most 30 days
    forkful.config.json:4:20: apps[0].kill_signal is "SIGSTOPP"; expected a signal such as "SIGTERM", or its number from 1 to 64
    forkful.config.json:4:20: apps[0].kill_signal is 65; expected a signal such as "SIGTERM", or its number from 1 to 64
    forkful.config.json:4:21: apps[0].max_restarts is 1.5; expected a whole number from 0
    forkful.config.json:4:19: apps[0].wait_ready is "yes"; expected true or false
    forkful.config.json:4:13: apps[0].args is "it's"; expected a text whose quotes are closed, or a list of texts
    forkful.config.json:4:19: apps[0].args[1] is an object; expected a text
    forkful.config.json:4:12: apps[0].env is "A=1"; expected an object of variables and their values
    forkful.config.json:4:22: apps[0].env.A B= is 1; expected a variable's name without `=`, not empty
    forkful.config.json:4:23: apps[0].env_production is a list; expected an object of variables and their values
    forkful.config.json:4:28: apps[0].stop_exit_codes[1] is 256; expected an exit code from 0 to 255, or a list of them
    forkful.config.json:4:13: apps[0].port is 70000; expected a port from 0 to 65535
    forkful.config.json:4:16: apps[0].balance is "fair"; expected "auto", "direct", "exact", "least", "shared" or "sticky"
    forkful.config.json:4:12: apps[0].cwd is ""; expected a text that is not empty
    forkful.config.json:4:25: apps[0].exec_interpreter is true; expected a text
    forkful.config.json:4:17: apps[0].out_file is true; expected a text
    "#);
}

#[test]
fn a_fault_in_several_lines_names_the_line_of_the_part() {
    let text = "apps:\n- script: a.js\n  args:\n    - one\n    - two:\n        three\n";
    let error = parse(text, Format::Yaml, Path::new("f.yaml")).unwrap_err();
    insta::assert_snapshot!(show(&error), @"f.yaml:5:7: apps[0].args[1] is an object; expected a text");
    let text = "[[apps]]\nscript = 'a.js'\n\n[[apps]]\nscript = 'b.js'\nmin_uptime = 'soon'\n";
    let error = parse(text, Format::Toml, Path::new("f.toml")).unwrap_err();
    insta::assert_snapshot!(show(&error), @r#"f.toml:6:14: apps[1].min_uptime is "soon"; expected a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h""#);
}

#[test]
fn a_document_without_apps_says_what_one_looks_like() {
    let messages: Vec<_> = [
        "",
        "null",
        "3",
        "{}",
        r#"{ "name": "x", "dependencies": {} }"#,
        r#"{ "apps": [] }"#,
        r#"{ "apps": 3 }"#,
        r#"{ "apps": ["server.js"] }"#,
    ]
    .iter()
    .map(|text| fault(text))
    .collect();
    insta::assert_snapshot!(lines(&messages), @r#"
    forkful.config.json: there is nothing in it
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    forkful.config.json:1:1: there is nothing in it
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    forkful.config.json:1:1: there is 3 instead of apps
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    forkful.config.json:1:1: there is neither `apps` nor a `script`
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    forkful.config.json:1:1: there is neither `apps` nor a `script`
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    forkful.config.json:1:11: apps is an empty list
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    forkful.config.json:1:11: apps is 3; expected a list of apps
    forkful.config.json:1:12: apps[0] is "server.js"; expected an object that describes an app
    "#);
}

#[test]
fn a_broken_text_names_its_line() {
    let faults = [
        (Format::Json, "{\n  \"apps\": [\n    { \"script\": \"a.js\"\n  ]\n}"),
        (Format::Json, "{ \"script\": \"a.js\" } }"),
        (Format::Json, "{\n  \"script\" \"a.js\" }"),
        (Format::Json, "{\n  \"script\": \"a.js }"),
        (Format::Json, "{ \"script\": \"a.js\"\n  \"name\": \"a\" }"),
        (Format::Yaml, "apps:\n  - script: a.js\n   name: x\n"),
        (Format::Yaml, "script: a.js\nscript: b.js\n"),
        (Format::Yaml, "script: a.js\n---\nscript: b.js\n"),
        (Format::Yaml, "script: *nothing\n"),
        (Format::Toml, "[[apps]]\nscript = a.js\n"),
        (Format::Toml, "[[apps]]\nscript = 'a.js'\nscript = 'b.js'\n"),
    ];
    let messages: Vec<_> = faults
        .iter()
        .map(|(format, text)| {
            let name = format!("f.{format:?}").to_lowercase();
            show(&parse(text, *format, Path::new(&name)).unwrap_err())
        })
        .collect();
    insta::assert_snapshot!(lines(&messages), @r#"
    f.json:4:3: unexpected token in object
    f.json:1:22: text cannot contain more than one JSON value
    f.json:2:12: expected colon after the string or word in object property
    f.json:2:13: unterminated string literal
    f.json:1:19: expected comma
    f.yaml:3:4: while parsing a block collection, did not find expected '-' indicator
    f.yaml:2:1: the key "script" is given twice
    f.yaml:2:1: there is more than one document
    f.yaml:1:9: alias references unknown anchor
    f.toml:2:10: string values must be quoted, expected literal string
    f.toml:3:1: duplicate key
    "#);
}

#[test]
fn one_thing_said_twice_is_refused() {
    insta::assert_snapshot!(fault("{ \"script\": \"a.js\",\n \"exec\": \"b.js\" }"), @"
    forkful.config.json:2:2: exec is given twice, the other time as `script`
    hint: keep one of the two
    ");
    insta::assert_snapshot!(fault("{ \"script\": \"a.js\",\n \"script\": \"b.js\" }"), @"
    forkful.config.json:2:2: script is given twice, the other time as `script`
    hint: keep one of the two
    ");
    // As PM2's users have it: the key and its alias, alike.
    let alike = r#"{ "script": "a.js", "merge_logs": true, "combine_logs": true }"#;
    assert!(parse(alike, Format::Json, Path::new("f.json")).is_ok());
    let told = fault(&alike.replace("s\": true }", "s\": false }"));
    assert!(told.contains("combine_logs is given twice, the other time as `merge_logs`"), "{told}");
    insta::assert_snapshot!(fault("[{ \"script\": \"a.js\" },\n{ \"script\": \"b/a.js\" }]"), @r#"
    forkful.config.json:2:1: [1] has the name "a", which another app has already
    hint: give each app its own `name`; for more workers of one app use `instances`
    "#);
    insta::assert_snapshot!(fault("[{ \"script\": \"a.js\" },\n{ \"script\": \"b.js\", \"name\": \"a\" }]"), @r#"
    forkful.config.json:2:1: [1] has the name "a", which another app has already
    hint: give each app its own `name`; for more workers of one app use `instances`
    "#);
}

#[test]
fn deployments_are_checked_too() {
    let deploy = |block: &str| {
        let text = format!(r#"{{ "apps": [{{ "script": "a.js" }}], "deploy": {{ "live": {block} }} }}"#);
        show(&json(&text).unwrap().deploy_targets().unwrap_err())
    };
    insta::assert_snapshot!(deploy(r#"{ "host": "h", "repo": "r", "ref": "main" }"#), @"forkful.config.json:1:55: deploy.live is incomplete; expected the key `path` in it");
    insta::assert_snapshot!(deploy(r#"{ "host": "-oProxyCommand=x", "repo": "r", "ref": "main", "path": "/x" }"#), @r#"forkful.config.json:1:65: deploy.live.host is "-oProxyCommand=x"; expected one word that does not begin with `-`"#);
    insta::assert_snapshot!(deploy(r#"{ "host": "h", "repo": "r", "ref": "main", "path": "x/y" }"#), @r#"forkful.config.json:1:106: deploy.live.path is "x/y"; expected an absolute folder such as /srv/app"#);
    insta::assert_snapshot!(deploy(r#"{ "hots": "h" }"#), @"forkful.config.json:1:65: deploy.live.hots is an unknown key; expected `host`, or another key of a deployment");
}

#[test]
fn unknown_keys_are_warnings() {
    let text = r#"{
  "app": [],
  "deploy": {},
  "static": [],
  "instances": 2,
  "apps": [{
    "script": "a.js",
    "intances": 4,
    "maxRestart": 3,
    "zzz": 1,
    "pidFile": "a.pid",
    "treekill": false,
    "log_date_format": "YYYY",
    "vizion": false,
    "namespace": null
  }]
}"#;
    let file = json(text).unwrap();
    insta::assert_snapshot!(lines(&file.warnings), @"
    forkful.config.json:2:3: app is an unknown key, ignored; did you mean `apps`?
    forkful.config.json:5:3: instances belongs into an app, not beside `apps`: ignored
    forkful.config.json:8:5: apps[0].intances is an unknown key, ignored; did you mean `instances`?
    forkful.config.json:9:5: apps[0].maxRestart is an unknown key, ignored; did you mean `max_restarts`?
    forkful.config.json:10:5: apps[0].zzz is an unknown key, ignored
    forkful.config.json:14:5: apps[0].vizion has no effect: version control is not inspected: ignored
    ");
    assert_eq!(file.apps[0].get("instances"), None);
}

#[test]
fn files_that_cannot_be_configs() {
    let place = Place::new();
    let missing = load_data(&place.path().join("none.json")).unwrap_err();
    let directory = place.path().join("dir.json");
    fs_err::create_dir_all(&directory).unwrap();
    let directory = load_data(&directory).unwrap_err();
    let large = load_data(&place.file("large.json", &" ".repeat((1 << 20) + 1))).unwrap_err();
    let latin = place.path().join("latin.yaml");
    fs_err::write(&latin, b"script: a.js\nname: \xe4\n").unwrap();
    let latin = load_data(&latin).unwrap_err();
    let unknown = load_data(&place.file("x.ini", "")).unwrap_err();
    let messages = [missing, directory, large, latin, unknown].map(|error| place.shown(&error));
    insta::assert_snapshot!(lines(&messages), @r#"
    cannot read DIR/none.json
    hint: name a script or a configuration file; `forkful.config.js` is the usual one
    cannot read DIR/dir.json
    DIR/large.json has 1048577 bytes; a configuration has at most 1048576
    DIR/latin.yaml:2: the text is not UTF-8
    cannot tell the format of DIR/x.ini by its name
    hint: known are .js, .cjs, .mjs, .ts, .json, .yaml, .yml and .toml
    "#);
}

#[test]
fn an_anchor_bomb_is_refused() {
    let levels: Vec<_> = (1..9)
        .map(|level| format!("a{level}: &a{level} [{}]", format!("*a{}, ", level - 1).repeat(10)))
        .collect();
    let text = format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{}\nscript: a.js\n", levels.join("\n"));
    let message = show(&parse(&text, Format::Yaml, Path::new("f.yaml")).unwrap_err());
    insta::assert_snapshot!(message, @"f.yaml:5:45: the document is nested too deep, or unfolds to more than any configuration needs");
}

#[test]
fn options_of_the_command_line_have_the_same_messages() {
    let mut options = AppOptions::default();
    let messages: Vec<_> = [("instances", "0.5"), ("kill_timeout", "soon"), ("balance", "x"), ("nmae", "x")]
        .iter()
        .map(|(key, value)| show(&options.set(key, value).unwrap_err()))
        .collect();
    insta::assert_snapshot!(lines(&messages), @r#"
    --instances is "0.5"; expected a number, "max" or a negative number
    --kill-timeout is "soon"; expected a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h"
    --balance is "x"; expected "auto", "direct", "exact", "least", "shared" or "sticky"
    --nmae is "x"; expected a known option
    "#);
    options.set("stop_exit_codes", "0,143 2").unwrap();
    options.set("max_restarts", "3").unwrap();
    options.set("wait_ready", "true").unwrap();
    assert_eq!(
        options,
        AppOptions::default()
            .with("stop_exit_codes", vec![0, 143, 2])
            .with("max_restarts", 3)
            .with("wait_ready", true)
    );
}

#[test]
fn directories_to_serve_are_apps() {
    let text = r#"{
  "static": [
    { "path": "public", "port": "3000", "spa": true, "directory": "x", "ftpp": true },
    { "name": "docs", "path": "docs", "host": "0.0.0.0", "basic_auth": { "username": "ann", "password": "pw" } }
  ],
  "apps": [{ "script": "serve", "env": { "PM2_SERVE_PORT": 9000 } }, { "script": "serve", "interpreter": "none", "name": "x" }]
}"#;
    let file = json(text).unwrap();
    insta::assert_snapshot!(lines(&file.warnings), @"
    forkful.config.json:3:54: static[0].directory has no effect: ignored
    forkful.config.json:3:72: static[0].ftpp is an unknown key, ignored; did you mean `ftp`?
    ");
    let shown: Vec<String> = file
        .apps
        .iter()
        .map(|app| format!("{:?} {} {:?}", app.declared_name(), app.serves_files, app.env))
        .collect();
    insta::assert_snapshot!(lines(&shown), @r#"
    Some("static-page-server-9000") true {"PM2_SERVE_PORT": "9000"}
    Some("x") false {}
    Some("static-page-server-3000") true {"PM2_SERVE_PATH": "public", "PM2_SERVE_PORT": "3000", "PM2_SERVE_SPA": "true"}
    Some("docs") true {"PM2_SERVE_BASIC_AUTH": "true", "PM2_SERVE_BASIC_AUTH_PASSWORD": "pw", "PM2_SERVE_BASIC_AUTH_USERNAME": "ann", "PM2_SERVE_HOST": "0.0.0.0", "PM2_SERVE_PATH": "docs"}
    "#);
    assert_eq!(json(r#"{ "static": [{ "path": "." }] }"#).unwrap().apps.len(), 1);
    let told = [
        r#"{ "static": 1, "apps": [] }"#,
        r#"{ "static": [] }"#,
        r#"{ "static": ["public"] }"#,
        r#"{ "static": [{ "port": 70000 }] }"#,
        r#"{ "static": [{ "basic_auth": true }] }"#,
        r#"{ "static": [{ "basic_auth": { "username": "a", "password": "" } }] }"#,
        r#"{ "static": [{ "path": "a" }, { "path": "b" }] }"#,
    ]
    .map(|text| show(&json(text).unwrap_err()));
    insta::assert_snapshot!(lines(&told), @r#"
    forkful.config.json:1:3: static is 1; expected a list of objects such as { "path": "public", "port": 8080 }
    forkful.config.json:1:1: there is neither `apps` nor a `script`
    hint: a configuration is { "apps": [{ "script": "app.js" }] }
    forkful.config.json:1:14: static[0] is "public"; expected an object such as { "path": "public", "port": 8080 }
    forkful.config.json:1:24: static[0].port is 70000; expected a port from 0 to 65535
    forkful.config.json:1:30: static[0].basic_auth is true; expected an object such as { "username": "ann", "password": "…" }
    forkful.config.json:1:61: static[0].basic_auth.password is ""; expected a text that is not empty
    forkful.config.json:1:31: static[1] has the name "static-page-server-8080", which another app has already
    hint: give each app its own `name`; for more workers of one app use `instances`
    "#);
}
