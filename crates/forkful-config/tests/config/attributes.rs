//! Every attribute of PM2 and Forkful: its types, refused values, and its effect.

use std::path::Path;
use std::time::Duration;

use crate::common::{Place, app, fault, json, resolve_all, script};
use forkful_config::{
    Context, Format, NodeEvaluator, Support, json_schema, known_keys, load, parse, resolve,
};
use forkful_core::logs::{LineFormat, LogRotation, MinFree};
use forkful_core::spec::{HealthProbe, WatchIgnore};

fn resolved(place: &Place, text: &str) -> forkful_core::spec::AppSpec {
    let mut options = json(text).unwrap().apps.remove(0);
    options.origin = None;
    place.resolve(&options).unwrap().spec
}

#[test]
fn wrong_values_say_what_was_expected() {
    let one = |key: &str, value: &str| fault(&format!(r#"{{ "script": "a.js", "{key}": {value} }}"#));
    let all = [
        one("max_memory_restart", r#""lots""#),
        one("maxMemoryRestart", "0"),
        one("cron_restart", r#""61 * * * *""#),
        one("cron_restart", r#""every day""#),
        one("cron_restart", r#""0 0 31 2 *""#),
        one("watch", "3"),
        one("ignore_watch", r#"["ok", 3]"#),
        one("watch_options", "true"),
        one("watch_options", r#"{ "interval": "soon" }"#),
        one("watch_delay", r#""a while""#),
        one("filter_env", "3"),
        one("log_type", r#""xml""#),
        one("log_date_format", "3"),
        one("log_file", "{}"),
        one("max_requests", "0"),
        one("max_age", "0"),
        one("health", "3"),
        one("health", r#""https://example.com/""#),
        one("health", r#"{ "http": "/x", "tcp": 3 }"#),
        one("health", r#"{ "http": "/x", "intervall": 3 }"#),
        one("health", r#"{ "tcp": 70000 }"#),
        one("health", r#"{ "http": "/x", "failures": 0 }"#),
        one("depends_on", "{}"),
        one("instance_var", r#""A=B""#),
        one("autostart", r#""yes""#),
        one("env_file", "{}"),
        one("uid", "{}"),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    forkful.config.json:1:43: max_memory_restart is "lots"; expected a number of bytes, or a string such as "200M", "1.5G" or "500K"
    forkful.config.json:1:41: maxMemoryRestart is 0; expected more than 0 bytes
    forkful.config.json:1:37: cron_restart is "61 * * * *"; expected a cron pattern such as "0 3 * * *" ("61" is no minute, which is 0 to 59)
    forkful.config.json:1:37: cron_restart is "every day"; expected a cron pattern such as "0 3 * * *" (a cron pattern has 5 or 6 fields, not 2)
    forkful.config.json:1:37: cron_restart is "0 0 31 2 *"; expected a cron pattern such as "0 3 * * *" (no such date exists)
    forkful.config.json:1:30: watch is 3; expected true, a path, or a list of paths
    forkful.config.json:1:44: ignore_watch[1] is 3; expected a pattern as in .gitignore, or a regular expression
    forkful.config.json:1:38: watch_options is true; expected an object of watch options
    forkful.config.json:1:52: watch_options.interval is "soon"; expected a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h"
    forkful.config.json:1:36: watch_delay is "a while"; expected a number of milliseconds, or a string such as "500ms", "10s", "2m" or "1h"
    forkful.config.json:1:35: filter_env is 3; expected true, a variable's name, or a list of texts that names contain
    forkful.config.json:1:33: log_type is "xml"; expected "raw" or "json"
    forkful.config.json:1:40: log_date_format is 3; expected a format such as "YYYY-MM-DD HH:mm:ss"
    forkful.config.json:1:33: log_file is an object; expected true, false or a path
    forkful.config.json:1:37: max_requests is 0; expected a whole number from 1
    forkful.config.json:1:32: max_age is 0; expected more than 0 ms
    forkful.config.json:1:31: health is 3; expected a path such as "/healthz", a URL, "tcp", or an object
    forkful.config.json:1:31: health is "https://example.com/"; expected a path such as "/healthz", or a URL of this machine such as "http://127.0.0.1:3000/healthz"
    forkful.config.json:1:31: health is an object; expected exactly one of http, tcp and command
    forkful.config.json:1:47: health.intervall is an unknown key; did you mean `interval`?
    forkful.config.json:1:40: health.tcp is 70000; expected a port from 0 to 65535
    forkful.config.json:1:59: health.failures is 0; expected a whole number from 1
    forkful.config.json:1:35: depends_on is an object; expected a text, or a list
    forkful.config.json:1:37: instance_var is "A=B"; expected a variable's name without `=`
    forkful.config.json:1:34: autostart is "yes"; expected true or false
    forkful.config.json:1:33: env_file is an object; expected a text, or a list
    forkful.config.json:1:28: uid is an object; expected a text
    "#);
}

#[test]
fn sizes_times_and_patterns_arrive_in_the_spec() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let spec = resolved(
        &place,
        r#"{ "script": "a.js", "name": "api", "namePrefix": "eu", "namespace": "shop", "maxMemoryRestart": "200M",
            "cron": "0 3 * * *", "max_requests": 1e5, "maxAge": "1d", "autostart": false, "pid": "run/api.pid",
            "instanceVar": "SLOT", "increment_var": "PORT", "env": { "PORT": 3000 }, "treekill": false,
            "shutdownWithMessage": true, "depends_on": "db", "log": true, "log_type": "json",
            "log_date_format": "YYYY", "disable_logs": true, "source_map_support": true }"#,
    );
    assert_eq!((spec.name.as_str(), spec.namespace.as_str()), ("eu:api", "shop"));
    assert_eq!(spec.renewal.max_memory_bytes, Some(200 << 20));
    assert_eq!(spec.renewal.cron.unwrap().as_str(), "0 3 * * *");
    assert_eq!(spec.renewal.max_requests, Some(100_000));
    assert_eq!(spec.renewal.max_age.unwrap().as_secs(), 86_400);
    assert!(!spec.autostart && !spec.stop.whole_tree && spec.stop.by_message);
    assert_eq!(spec.pid_file.unwrap(), place.path().join("run/api.pid"));
    assert_eq!(
        (spec.variables.instance.as_str(), spec.variables.increment.as_deref()),
        ("SLOT", Some("PORT"))
    );
    assert_eq!(spec.depends_on[0].as_str(), "db");
    assert_eq!(spec.logs.combined_file.unwrap(), Path::new("/home/ann/.forkful/logs/eu-api.log"));
    assert_eq!((spec.logs.line_format, spec.logs.disabled), (LineFormat::Json, true));
    assert_eq!(spec.logs.date_format.unwrap().as_str(), "YYYY");
    assert_eq!(spec.launch.program_args, ["--enable-source-maps"]);
}

#[test]
fn what_the_daemon_would_refuse_is_refused_with_its_place() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let small = script("a.js").with("memory_max", 1024);
    insta::assert_snapshot!(place.shown(&place.resolve(&small).unwrap_err()), @"--memory-max is 1024; expected 1048576 to 18446744073709551615");
}

#[test]
fn what_ends_an_attribute_in_pm2_ends_it_here() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let spec = resolved(
        &place,
        r#"{ "script": "a.js", "cron_restart": 0, "watch": [], "log_date_format": "", "health": false, "log_file": false }"#,
    );
    assert_eq!((spec.renewal.cron, spec.watch, spec.health), (None, None, None));
    assert_eq!((spec.logs.combined_file, spec.logs.date_format), (None, None));
}

#[test]
fn watching_starts_at_the_working_directory() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    place.file("src/b.js", "");
    let watch = resolved(
        &place,
        r#"{ "script": "a.js", "watch": ["src", "/etc"], "ignore_watch": ["*.log", "[\\/\\\\]\\.|node_modules"],
            "watch_delay": 300, "watch_options": { "followSymlinks": false, "usePolling": true, "interval": 50,
            "ignored": "tmp", "awaitWriteFinish": true } }"#,
    )
    .watch
    .unwrap();
    assert_eq!(watch.paths, [place.path().join("src"), "/etc".into()]);
    assert_eq!(
        watch.ignore,
        [
            WatchIgnore::Glob("*.log".to_owned()),
            WatchIgnore::Regex(r"[\/\\]\.|node_modules".to_owned()),
            WatchIgnore::Glob("tmp".to_owned())
        ]
    );
    assert_eq!((watch.delay.as_millis(), watch.follow_links), (300, false));
    assert_eq!(watch.polling.unwrap().as_millis(), 50);
    let text = r#"{ "script": "a.js", "watch": true, "ignore_watch": "logs 'a b' \"*.tmp\" x\\ y [\\/\\\\]\\.|node_modules" }"#;
    let ignored = resolved(&place, text).watch.unwrap().ignore;
    let globs = ["logs", "a b", "*.tmp", r"x\ y"].map(|glob| WatchIgnore::Glob(glob.to_owned()));
    assert_eq!(ignored[..4], globs);
    assert_eq!(ignored[4..], [WatchIgnore::Regex(r"[\/\\]\.|node_modules".to_owned())]);
    let watch = resolved(&place, r#"{ "script": "a.js", "watch": true }"#).watch.unwrap();
    assert_eq!((watch.paths, watch.delay.as_millis()), (vec![place.path().to_owned()], 100));
}

#[test]
fn health_checks_have_a_short_and_a_long_form() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let health = |value: &str| {
        resolved(&place, &format!(r#"{{ "script": "a.js", "health": {value} }}"#)).health.unwrap()
    };
    assert_eq!(health(r#""/up?x=1""#).probe, HealthProbe::Http { port: None, path: "/up?x=1".to_owned() });
    assert_eq!(
        health(r#""http://127.0.0.1:81/up""#).probe,
        HealthProbe::Http { port: Some(81), path: "/up".to_owned() }
    );
    assert_eq!(health(r#""tcp""#).probe, HealthProbe::Tcp { port: None });
    assert_eq!(health(r#"{ "stuckLimit": "30s" }"#).probe, HealthProbe::Loop);
    let long = health(
        r#"{ "command": "./check 'a b'", "interval": "1s", "timeout": 200, "start_period": "5s", "failures": 2 }"#,
    );
    assert_eq!(long.probe, HealthProbe::Command { words: vec!["./check".to_owned(), "a b".to_owned()] });
    assert_eq!((long.interval.as_secs(), long.timeout.as_millis(), long.failures_max), (1, 200, 2));
    assert_eq!((long.start_period.as_secs(), long.stuck_limit), (5, None));
}

#[test]
fn the_environment_has_layers_and_remembers_where_values_came_from() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    place.file(".env", "A=file\nB=file\nSECRET=s3\n");
    let file = json(
        r#"{ "apps": [{ "script": "a.js", "cwd": ".", "env_file": ".env", "env": { "B": "env", "C": "env" },
            "filter_env": ["AWS_", "DROP"], "env_live": { "D": "live" } }],
            "deploy": { "live": { "host": "h", "repo": "r", "ref": "m", "path": "/x", "env": { "C": "deploy", "D": "deploy" } } } }"#,
    )
    .unwrap();
    let mut context = Context { env_name: Some("live".to_owned()), ..place.context() };
    for name in ["AWS_KEY", "DROP_IT", "A", "KEEP"] {
        context.caller_env.insert(name.to_owned(), "caller".to_owned());
    }
    let mut apps = file.apps;
    apps[0].origin = None;
    apps[0].remove("cwd");
    let launch = resolve_all(&apps, &context).unwrap().remove(0).spec.launch;
    let value = |name: &str| launch.env.get(name).map(String::as_str);
    assert_eq!(
        ["A", "B", "C", "D", "KEEP", "SECRET", "AWS_KEY", "DROP_IT"].map(value),
        [Some("file"), Some("env"), Some("deploy"), Some("live"), Some("caller"), Some("s3"), None, None]
    );
    let sources = &launch.env_sources;
    assert_eq!(sources.inherited.iter().collect::<Vec<_>>(), ["HOME", "KEEP", "PATH"]);
    assert_eq!(sources.from_files.iter().collect::<Vec<_>>(), ["A", "SECRET"]);
    assert_eq!(sources.files, [place.path().join(".env")]);
    for (filter, left) in [("true", 0), (r#""KEEP""#, 5), ("[]", 6)] {
        let mut options =
            app(&format!(r#"{{ "apps": [{{ "filter_env": {filter} }}] }}"#)).with("script", "a.js");
        options.put("interpreter", place.path().join("bin/node").display().to_string());
        options.origin = None;
        assert_eq!(
            resolve(&options, &Context { env_name: None, ..context.clone() }).unwrap().spec.launch.env.len(),
            left,
            "{filter}"
        );
    }
}

#[test]
fn the_name_of_a_deploy_target_may_be_chosen_without_a_block() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let resolved = |blocks: &str, name: &str| {
        let text = format!(
            r#"{{ "apps": [{{ "script": "a.js", "env": {{ "A": "1" }} {blocks} }}],
                "deploy": {{ "live": {{ "host": "h", "repo": "r", "ref": "m", "path": "/x" }} }} }}"#
        );
        let mut apps = json(&text).unwrap().apps;
        apps[0].origin = None;
        let context = Context { env_name: Some(name.to_owned()), ..place.context() };
        resolve_all(&apps, &context).map(|mut apps| apps.remove(0))
    };
    let plain = resolved("", "live").unwrap();
    assert_eq!(plain.spec.launch.env.get("A").map(String::as_str), Some("1"));
    assert!(plain.warnings.is_empty() && plain.spec.launch.env_sources.blocks.named.is_empty());
    let other = resolved(r#", "env_test": {}"#, "live").unwrap();
    assert_eq!(other.warnings.len(), 1, "it has blocks, and not this one");
    assert_eq!(resolved("", "lvie").unwrap().warnings.len(), 1, "neither a block nor a target");
}

#[test]
fn env_files_that_are_missing_or_wrong_are_explained() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    place.file("bad.env", "A=1\nB\n");
    let with = |file: &str| script("a.js").with("env_file", vec![file]);
    let shown = |file: &str| place.shown(&place.resolve(&with(file)).unwrap_err());
    insta::assert_snapshot!(shown("none.env"), @"
    --env-file cannot be read: DIR/none.env
    hint: paths of env_file start at the app's working directory
    ");
    insta::assert_snapshot!(shown("bad.env"), @"DIR/bad.env:2: expected NAME=value");
    let growing = script("a.js").with("increment_var", "PORT");
    insta::assert_snapshot!(place.shown(&place.resolve(&growing).unwrap_err()), @r#"
    --increment-var is "PORT", but that variable is not set
    hint: give `PORT` a number in `env`
    "#);
    let nobody = script("a.js").with("uid", "no-such-user");
    insta::assert_snapshot!(place.shown(&place.resolve(&nobody).unwrap_err()), @r#"--uid is "no-such-user", which is not a user of this system"#);
}

#[test]
fn a_chosen_block_may_be_part_of_the_name() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let mut apps = json(r#"{ "script": "a.js", "append_env_to_name": true, "env_live": {} }"#).unwrap().apps;
    apps[0].origin = None;
    let context = Context { env_name: Some("live".to_owned()), ..place.context() };
    assert_eq!(resolve_all(&apps, &context).unwrap()[0].spec.name.as_str(), "a-live");
    assert_eq!(resolve_all(&apps, &place.context()).unwrap()[0].spec.name.as_str(), "a");
}

#[test]
fn apps_that_wait_for_each_other_are_refused() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let apps = |text: &str| {
        let mut apps = json(text).unwrap().apps;
        apps.iter_mut().for_each(|app| app.origin = None);
        resolve_all(&apps, &place.context()).map(|_| ()).map_err(|error| error.to_string())
    };
    let circle = r#"{ "apps": [
        { "script": "a.js", "name": "a", "depends_on": "b" }, { "script": "a.js", "name": "b", "depends_on": ["x", "c"] },
        { "script": "a.js", "name": "c", "depends_on": "a" }, { "script": "a.js", "name": "x" }] }"#;
    insta::assert_snapshot!(apps(circle).unwrap_err(), @"--depends-on makes a circle: a waits for b waits for c waits for a");
    insta::assert_snapshot!(apps(r#"{ "script": "a.js", "name": "a", "depends_on": "a" }"#).unwrap_err(), @"--depends-on names the app itself");
    assert_eq!(apps(r#"{ "script": "a.js", "name": "a", "depends_on": "elsewhere" }"#), Ok(()));
}

#[test]
fn a_script_config_may_hold_regular_expressions() {
    let place = Place::new();
    let file = place.file(
        "forkful.config.js",
        "module.exports = { apps: [{ script: 'a.js', ignore_watch: [/\\.tmp$/, /UPLOADS|old.new/gisu, 'x'] }] }",
    );
    let evaluator = NodeEvaluator::new(place.path().to_owned(), std::env::vars().collect());
    let app = load(&file, &evaluator).unwrap().apps.remove(0);
    let ignored =
        serde_json::json!([{ "regex": r"\.tmp$" }, { "regex": "(?is)UPLOADS|old.new" }, { "glob": "x" }]);
    assert_eq!(app.get("ignore_watch"), Some(&ignored));
}

#[test]
fn numbers_that_are_none_are_refused_in_a_script_config() {
    let place = Place::new();
    let evaluator = NodeEvaluator::new(place.path().to_owned(), std::env::vars().collect());
    for (value, told) in [("Number('four')", "NaN"), ("Infinity", "Infinity"), ("-1 / 0", "-Infinity")] {
        let file = place.file(
            &format!("{told}.config.js"),
            &format!("module.exports = {{ script: 'a.js', max_restarts: {value} }}"),
        );
        let fault = load(&file, &evaluator).unwrap_err().to_string();
        assert!(fault.contains(&format!("max_restarts is \"{told}\"; expected")), "{fault}");
    }
    // A variable takes any text, and such a number would be one.
    let file = place.file(
        "env.config.js",
        "module.exports = { script: 'a.js', env: { PORT: Number('four'), A: 1 }, env_live: { B: Infinity } }",
    );
    let app = format!("{:?}", load(&file, &evaluator).unwrap().apps.remove(0));
    assert!(!app.contains("NaN") && !app.contains("Infinity") && app.contains("env_live"), "{app}");
}

#[test]
fn a_package_may_hold_apps() {
    for text in [
        r#"{ "name": "pkg", "version": "1.0.0", "pm2": { "script": "a.js" } }"#,
        r#"{ "name": "pkg", "forkful": [{ "script": "a.js" }], "pm2": [{ "script": "b.js" }] }"#,
        r#"{ "name": "pkg", "forkful": { "apps": [{ "script": "a.js" }] } }"#,
    ] {
        let file = parse(text, Format::Json, Path::new("package.json")).unwrap();
        assert_eq!(file.apps[0].text("script"), Some("a.js"), "{text}");
        assert!(file.warnings.is_empty(), "{text}: {:?}", file.warnings);
    }
    let place = Place::new();
    place.file("package.json", r#"{ "name": "pkg" }"#);
    assert_eq!(forkful_config::find_default(place.path()), None);
    let package = place.file("package.json", r#"{ "name": "pkg", "pm2": [] }"#);
    assert_eq!(forkful_config::find_default(place.path()), Some(package));
}

#[test]
fn rotation_is_on_unless_switched_off_and_every_part_can_be_changed() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let rotation = |value: &str| {
        resolved(&place, &format!(r#"{{ "script": "a.js", "log_rotate": {value} }}"#)).logs.rotation
    };
    let default = LogRotation::default();
    assert_eq!(rotation("true"), Some(default.clone()));
    assert_eq!(rotation("{}"), Some(default.clone()));
    assert_eq!(rotation("false"), None);
    assert_eq!(rotation(r#""50M""#), Some(LogRotation { max_size: Some(50 << 20), ..default.clone() }));
    let all = r#"{ "maxSize": "1.5M", "max_age": "2h", "keep": 3, "total": "1G", "compress": false, "min_free": "200M" }"#;
    let expected = LogRotation {
        max_size: Some(3 << 19),
        max_age: Some(Duration::from_secs(7200)),
        keep: 3,
        total: Some(1 << 30),
        compress: false,
        min_free: MinFree::Bytes(200 << 20),
    };
    assert_eq!(rotation(all), Some(expected));
    let off = rotation(r#"{ "max_size": false, "max_age": false, "total": 0, "min_free": false }"#).unwrap();
    assert_eq!((off.max_size, off.max_age, off.total, off.min_free), (None, None, None, MinFree::Bytes(0)));
    assert_eq!(rotation(r#"{ "min_free": "auto" }"#), Some(default));
    let all = [
        "5",
        r#"{ "max_sizes": "5M" }"#,
        r#"{ "max_size": "5" }"#,
        r#"{ "max_age": 5 }"#,
        r#"{ "keep": 100000 }"#,
        r#"{ "total": "much" }"#,
    ]
    .map(|value| fault(&format!(r#"{{ "script": "a.js", "log_rotate": {value} }}"#)));
    insta::assert_snapshot!(all.join("\n"), @r#"
    forkful.config.json:1:35: log_rotate is 5; expected true, false, or an object such as { "max_size": "10M", "keep": 5 }
    forkful.config.json:1:37: log_rotate.max_sizes is an unknown key; did you mean `max_size`?
    forkful.config.json:1:49: log_rotate.max_size is "5"; expected at least 4096 bytes, or false for no bound
    forkful.config.json:1:48: log_rotate.max_age is 5; expected at least a second, or false for never
    forkful.config.json:1:45: log_rotate.keep is 100000; expected at most 10000
    forkful.config.json:1:46: log_rotate.total is "much"; expected a number of bytes, or a string such as "200M", "1.5G" or "500K"
    "#);
}

/// Compares a generated file with the committed one; `UPDATE_DOCS=1` writes it instead.
fn is_up_to_date(path: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, wanted).unwrap();
    }
    let found = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is not what the code says; UPDATE_DOCS=1 writes it", path.display());
}

#[test]
fn the_schema_for_editors_is_what_the_code_says() {
    let text = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    is_up_to_date("docs/forkful.schema.json", &text);
    let properties = json_schema()["$defs"]["app"]["properties"].clone();
    for key in known_keys() {
        assert!(properties.get(key.name).is_some(), "{}", key.name);
    }
}

/// The keys as a table in Markdown, for `docs/FROM-PM2.md`.
fn attribute_table() -> String {
    let mut table =
        String::from("| key | aliases | value | default | meaning |\n| --- | --- | --- | --- | --- |\n");
    for key in known_keys() {
        let default = match key.support {
            Support::Foreign => "ignored".to_owned(),
            Support::Now if key.default.is_empty() => String::new(),
            Support::Now => format!("`{}`", key.default),
        };
        let aliases: Vec<String> = key.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let kind = if key.support == Support::Foreign { String::new() } else { key.kind.forms().words };
        let row = format!(
            "| `{}` | {} | {} | {default} | {} |\n",
            key.name,
            aliases.join(", "),
            kind.replace('|', "\\|"),
            key.sentence().replace('|', "\\|")
        );
        table.push_str(&row);
    }
    table
}

#[test]
fn the_table_of_attributes_is_what_the_code_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FROM-PM2.md");
    let text = fs_err::read_to_string(&page).unwrap();
    let (before, rest) =
        text.split_once("<!-- attributes -->\n").expect("the page has a place for the table");
    let (_, after) = rest.split_once("<!-- end of attributes -->").expect("and an end of it");
    let wanted =
        format!("{before}<!-- attributes -->\n{}<!-- end of attributes -->{after}", attribute_table());
    is_up_to_date("docs/FROM-PM2.md", &wanted);
}
