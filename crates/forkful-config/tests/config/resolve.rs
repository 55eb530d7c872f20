//! What is executed, where and with which environment, for all that a user may name as a script.

use std::path::Path;
use std::time::Duration;

use crate::common::{NoEvaluator, Place, app, json, lines, resolve_all, script};
use forkful_config::{AppOptions, Context, Format, parse, resolve};
use forkful_core::spec::{AppName, AppSpec, Mode, Named as _, RestartDelay};

#[test]
fn with_only_some_apps_chosen_the_faults_of_others_are_warnings() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let text = r#"{ "apps": [
        { "name": "good", "script": "a.js" },
        { "name": "gone", "script": "missing.js" },
        { "name": "odd", "script": "a.js", "instances": {} }
    ] }"#;
    let path = place.file("some.json", text);
    let context = place.context();
    let load = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let file = forkful_config::load_only(&path, &NoEvaluator, &only)?;
        let (resolved, warnings) =
            forkful_config::resolve_only(file.apps, &only, &AppOptions::default(), &context)?;
        let told = file.warnings.iter().chain(&warnings).map(ToString::to_string).collect::<Vec<_>>();
        let names: Vec<_> = resolved.iter().map(|app| app.spec.name.to_string()).collect();
        Ok::<_, forkful_config::ConfigError>((names, told))
    };
    let (names, told) = load(&["good"]).unwrap();
    assert_eq!(names, ["good"]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("instances") && told[1].contains("missing.js"), "{told:?}");
    assert!(told.iter().all(|text| text.contains("--only leaves out")), "{told:?}");
    assert!(load(&["good", "gone"]).is_err());
    assert!(load(&["odd"]).is_err());
    assert!(load(&[]).is_err());
}

#[test]
fn the_number_of_workers_counts_usable_cores() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    for (text, expected) in [
        ("1", 1),
        ("3", 3),
        ("max", 4),
        ("0", 4),
        ("-1", 3),
        ("-3", 1),
        ("-4", 1),
        ("-100", 1),
        ("-9999999999999", 1),
        ("1024", 1024),
    ] {
        let options = script("a.js").with("instances", text);
        let resolved = place.resolve(&options).unwrap();
        assert_eq!(resolved.spec.instances, expected, "{text}");
        assert_eq!(resolved.spec.mode, Mode::Cluster, "{text}");
        // More workers than cores, or a number that leaves no core for a worker.
        let is_odd = expected > 4 || matches!(text, "-4" | "-100" | "-9999999999999");
        assert_eq!(resolved.warnings.len(), usize::from(is_odd), "{text}");
    }
    let shown: Vec<_> = ["0.5", "two", "", "1025", "-", "max+1"]
        .iter()
        .map(|text| {
            let options = script("a.js").with("instances", *text);
            place.shown(&place.resolve(&options).unwrap_err())
        })
        .collect();
    insta::assert_snapshot!(lines(&shown), @r#"
    --instances is "0.5"; expected a number, "max" or a negative number
    --instances is "two"; expected a number, "max" or a negative number
    --instances is ""; expected a number, "max" or a negative number
    --instances is "1025"; expected at most 1024
    --instances is "-"; expected a number, "max" or a negative number
    --instances is "max+1"; expected a number, "max" or a negative number
    "#);
    let context = Context {
        usable_cores: 1,
        cores_reason: Some("a cgroup allows 1.5 CPUs".to_owned()),
        ..place.context()
    };
    let options = script("a.js").with("instances", "8");
    insta::assert_snapshot!(lines(&resolve(&options, &context).unwrap().warnings), @r#"--instances gives 8 workers, but only 1 core can be used (because a cgroup allows 1.5 CPUs): more workers than cores share the same time and answer no faster"#);
}

#[test]
fn what_is_said_of_many_apps_is_one_line() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let apps = |count: usize| {
        let app = |n| format!(r#"{{"name": "a{n}", "script": "a.js", "instances": 2}}"#);
        format!(r#"{{"apps": [{}]}}"#, (0..count).map(app).collect::<Vec<_>>().join(", "))
    };
    let context = Context { usable_cores: 1, ..place.context() };
    let folded = |count| {
        let file = parse(&apps(count), Format::Json, &place.path().join("f.json")).unwrap();
        let warnings = file.apps.iter().flat_map(|app| resolve(app, &context).unwrap().warnings);
        forkful_config::folded(&warnings.collect::<Vec<_>>())
    };
    let said = "gives 2 workers, but only 1 core can be used: more workers than cores share the same time and answer no faster";
    for (count, others) in
        [(1, ""), (2, " (the same in 1 other place)"), (100, " (the same in 99 other places)")]
    {
        let lines = folded(count);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("apps[0].instances"), "{lines:?}");
        assert!(lines[0].ends_with(&format!("{said}{others}")), "{lines:?}");
    }
}

#[test]
fn the_mode_is_cluster_when_instances_are_given_and_the_app_is_node() {
    let place = Place::new();
    place.fake_programs(&["node", "python3"]);
    place.file("a.js", "");
    place.file("b.py", "");
    for (name, instances, exec_mode, expected) in [
        ("a.js", None, None, Mode::Fork),
        ("a.js", Some("1"), None, Mode::Cluster),
        ("a.js", Some("2"), Some(Mode::Fork), Mode::Fork),
        ("a.js", None, Some(Mode::Cluster), Mode::Cluster),
        ("b.py", Some("2"), None, Mode::Fork),
        ("b.py", Some("2"), Some(Mode::Cluster), Mode::Fork),
    ] {
        let mut options = script(name);
        for (key, value) in [("instances", instances), ("exec_mode", exec_mode.map(Mode::name))] {
            value.into_iter().for_each(|value| options.put(key, value));
        }
        let spec = place.resolve(&options).unwrap().spec;
        assert_eq!(spec.mode, expected, "{name} {instances:?} {exec_mode:?}");
        assert_eq!(spec.logs.merge, expected == Mode::Fork && instances.is_none());
    }
}

const WITH_BLOCKS: &str = r#"{
  "apps": [
    { "script": "a.js", "port": 80, "env": { "A": "env", "B": "env" }, "env_production": { "B": "production", "PORT": "90" } },
    { "script": "b.js", "env_staging": {} }
  ]
}"#;

#[test]
fn later_environments_win_over_earlier_ones() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    place.file("b.js", "");
    let config = place.file("forkful.config.json", WITH_BLOCKS);
    let file = parse(WITH_BLOCKS, Format::Json, &config).unwrap();
    let mut context = place.context();
    for name in ["A", "B", "C", "PORT", "NODE_UNIQUE_ID"] {
        context.caller_env.insert(name.to_owned(), "caller".to_owned());
    }
    let env_of = |context: &Context| {
        let app = resolve_all(&file.apps, context).unwrap().swap_remove(0);
        ["A", "B", "C", "PORT", "NODE_UNIQUE_ID"]
            .map(|name| app.spec.launch.env.get(name).cloned().unwrap_or_else(|| "-".to_owned()))
            .join(" ")
    };
    assert_eq!(env_of(&context), "env env caller 80 -");
    context.env_name = Some("production".to_owned());
    assert_eq!(env_of(&context), "env production caller 90 -");
    let others = resolve_all(&file.apps, &context).unwrap();
    insta::assert_snapshot!(place.neutral(&lines(&others[1].warnings)), @"DIR/forkful.config.json:4:5: apps[1] has no `env_production` (there is env_staging): it gets its `env` alone");
    context.env_name = Some("prod".to_owned());
    let shown = |app: &AppOptions| place.neutral(&lines(&resolve(app, &context).unwrap().warnings));
    insta::assert_snapshot!(file.apps.iter().map(shown).collect::<Vec<_>>().join("\n"), @"
    DIR/forkful.config.json:3:5: apps[0] has no `env_prod` (there is env_production): it gets its `env` alone
    DIR/forkful.config.json:4:5: apps[1] has no `env_prod` (there is env_staging): it gets its `env` alone
    ");
    assert_eq!(env_of(&context), "env env caller 80 -");
    insta::assert_snapshot!(shown(&script("a.js")), @"the command line has no `env_prod`: it gets its `env` alone");
}

#[test]
fn paths_of_a_config_start_at_its_directory() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("project/a.js", "");
    place.file("project/sub/b.js", "");
    let text = r#"[
      { "script": "./a.js", "out_file": "logs/./a.log", "error_file": "~/a.log" },
      { "script": "b.js", "cwd": "sub", "out_file": "../b.log", "error_file": "NULL" },
      { "script": "a.js", "name": "c", "cwd": "sub" }
    ]"#;
    let file = parse(text, Format::Json, Path::new("project/forkful.config.json")).unwrap();
    let shown: Vec<_> = resolve_all(&file.apps, &place.context())
        .unwrap()
        .iter()
        .map(|app| {
            let AppSpec { launch, logs, .. } = &app.spec;
            format!(
                "{} {} {:?} {:?}",
                launch.cwd.display(),
                launch.script.clone().unwrap(),
                logs.out_file,
                logs.error_file
            )
        })
        .collect();
    insta::assert_snapshot!(place.neutral(&lines(&shown)), @r#"
    DIR/project DIR/project/a.js Some("DIR/project/logs/a.log") Some("/home/ann/a.log")
    DIR/project/sub DIR/project/sub/b.js Some("DIR/project/b.log") Some("/dev/null")
    DIR/project/sub DIR/project/a.js None None
    "#);
}

#[test]
fn the_command_line_wins_over_a_config_and_has_its_own_paths() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("project/a.js", "");
    fs_err::create_dir_all(place.path().join("elsewhere")).unwrap();
    let text = "{ \"script\": \"a.js\", \"name\": \"old\", \"instances\": 2, \"cwd\": \".\",\n \"env\": { \"A\": 1, \"B\": 1 } }";
    let file = parse(text, Format::Json, Path::new("project/forkful.config.json")).unwrap();
    let mut options = file.apps[0].clone();
    let mut over = AppOptions::default()
        .with("name", "new")
        .with("cwd", "elsewhere")
        .with("out_file", "out.log")
        .with("instances", "four");
    over.env.insert("B".to_owned(), "2".to_owned());
    let block = [("B".to_owned(), "block".to_owned())];
    options.env_blocks.insert("x".to_owned(), block.into());
    let chosen = Context { env_name: Some("x".to_owned()), ..place.context() };
    options.overlay(over);
    insta::assert_snapshot!(place.shown(&place.resolve(&options).unwrap_err()), @r#"--instances is "four"; expected a number, "max" or a negative number"#);
    options.set("instances", "3").unwrap();
    let spec = place.resolve(&options).unwrap().spec;
    assert_eq!(spec.name.as_str(), "new");
    assert_eq!(spec.instances, 3);
    assert_eq!(spec.launch.cwd, place.path().join("elsewhere"));
    assert_eq!(spec.launch.script, Some(place.path().join("project/a.js").display().to_string()));
    assert_eq!(spec.logs.out_file, Some(place.path().join("out.log")));
    assert_eq!((spec.launch.env["A"].as_str(), spec.launch.env["B"].as_str()), ("1", "2"));
    assert_eq!(resolve(&options, &chosen).unwrap().spec.launch.env["B"], "2");
}

#[test]
fn a_port_variable_of_the_command_line_wins_over_the_port_of_a_config() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let port = |variable: Option<&str>, key: Option<&str>| {
        let mut options = app(r#"{ "script": "a.js", "port": 3000 }"#);
        let mut over = AppOptions::default();
        over.env.extend(variable.map(|value| ("PORT".to_owned(), value.to_owned())));
        key.map(|value| over.set("port", value)).transpose().unwrap();
        options.overlay(over);
        place.resolve(&options).unwrap().spec.launch.env["PORT"].clone()
    };
    assert_eq!(port(Some("4000"), None), "4000");
    assert_eq!(port(None, None), "3000");
    assert_eq!(port(Some("4000"), Some("5000")), "5000");
}

#[test]
fn options_of_the_command_line_apply_to_the_apps_that_are_chosen_by_their_names_in_the_file() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let file =
        json(r#"{ "apps": [{ "script": "a.js", "name": "api" }, { "script": "a.js", "name": "other" }] }"#);
    let over = AppOptions::default().with("name", "other").with("kill_timeout", 1);
    let only = ["api".to_owned()];
    let (resolved, _) =
        forkful_config::resolve_only(file.unwrap().apps, &only, &over, &place.context()).unwrap();
    let names: Vec<&str> = resolved.iter().map(|app| app.spec.name.as_str()).collect();
    assert_eq!(names, ["other"]);
    assert_eq!(resolved[0].spec.stop.kill_timeout, Duration::from_millis(1));
}

const PREFIXED: &str = r#"{ "apps": [
    { "script": "a.js", "name": "db", "name_prefix": "shop", "append_env_to_name": true, "env_live": {} },
    { "script": "a.js", "name_prefix": "shop", "depends_on": ["db", "shop:db-live", "cache", "elsewhere"] },
    { "script": "missing.js", "name": "cache", "name_prefix": "shop" }
] }"#;

#[test]
fn apps_that_come_first_are_named_as_in_their_file_and_get_their_full_names() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let context = Context { env_name: Some("live".to_owned()), ..place.context() };
    let only = ["a".to_owned()];
    let over = AppOptions::default();
    let apps = json(PREFIXED).unwrap().apps;
    let (resolved, _) = forkful_config::resolve_only(apps, &only, &over, &context).unwrap();
    let names: Vec<&str> = resolved[0].spec.depends_on.iter().map(AppName::as_str).collect();
    assert_eq!(names, ["shop:db-live", "shop:cache", "elsewhere"]);

    let text = r#"{ "apps": [{ "script": "a.js", "name": "a", "name_prefix": "p", "depends_on": "b" },
        { "script": "a.js", "name": "b", "name_prefix": "p", "depends_on": "a" }] }"#;
    let circle = resolve_all(&json(text).unwrap().apps, &place.context()).unwrap_err();
    assert!(circle.to_string().ends_with("makes a circle: p:a waits for p:b waits for p:a"), "{circle}");
}

#[test]
fn the_names_of_the_apps_of_a_file_are_known_without_what_the_apps_need() {
    let place = Place::new();
    let text = r#"{ "apps": [{ "script": "gone.js", "name_prefix": "shop", "env_file": "gone.env", "cwd": "gone" },
        { "script": "serve", "env_file": "gone.env" }, { "script": "gone.js", "name": "all" }] }"#;
    let apps = json(text).unwrap().apps;
    let names = |only: &[String]| forkful_config::full_names(&apps, only, &place.context());
    assert_eq!(names(&[]).unwrap(), ["shop:gone", "static-page-server-8080"]);
    assert_eq!(names(&["gone".to_owned()]).unwrap(), ["shop:gone"]);
    assert!(names(&["all".to_owned()]).is_err());
    // A server of files is named after its port, which its environment may say.
    place.file("gone.env", "PM2_SERVE_PORT=9000");
    assert_eq!(names(&[]).unwrap(), ["shop:gone", "static-page-server-9000"]);
}

#[test]
fn a_link_to_the_current_release_stays_a_link() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("releases/1/app.js", "");
    std::os::unix::fs::symlink("releases/1", place.path().join("current")).unwrap();
    let resolved = |name| place.neutral(&place.resolve(&script(name)).unwrap().spec.launch.script.unwrap());
    assert_eq!(resolved("./current/app.js"), "DIR/current/app.js");
    assert_eq!(resolved("bin/.././current/app.js"), "DIR/current/app.js");
    // Where the link leads, not where it stands.
    assert_eq!(resolved("current/../1/app.js"), "DIR/current/../1/app.js");
}

#[test]
fn names_of_one_command_differ() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let apps = [script("a.js"), script("a.js").with("name", "a")];
    insta::assert_snapshot!(place.shown(&resolve_all(&apps, &place.context()).unwrap_err()), @r#"
    the command line has the name "a", which another app has already
    hint: give each app its own `name`; for more workers of one app use `instances`
    "#);
}

#[test]
fn restart_delays_follow_pm2s_meaning() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let delay = |text: &str| {
        let mut options = app(text);
        options.origin = None;
        let resolved = place.resolve(&options).unwrap();
        (resolved.spec.restart.delay, lines(&resolved.warnings))
    };
    let millis = Duration::from_millis;
    let growing = |initial, max| RestartDelay::Exponential { initial: millis(initial), max: millis(max) };
    assert_eq!(delay(r#"{ "script": "a.js" }"#).0, growing(100, 15_000));
    assert_eq!(delay(r#"{ "script": "a.js", "exp_backoff_restart_delay": 0 }"#).0, growing(100, 15_000));
    assert_eq!(
        delay(r#"{ "script": "a.js", "exp_backoff_restart_delay": "250ms" }"#).0,
        growing(250, 15_000)
    );
    assert_eq!(delay(r#"{ "script": "a.js", "expBackoffRestartDelay": "20s" }"#).0, growing(20_000, 20_000));
    assert_eq!(delay(r#"{ "script": "a.js", "max_restart_delay": "5m" }"#).0, growing(100, 300_000));
    assert_eq!(delay(r#"{ "script": "a.js", "restart_delay": 500 }"#).0, RestartDelay::Fixed(millis(500)));
    let (both, warnings) = delay(
        r#"{ "script": "a.js", "restart_delay": 500, "exp_backoff_restart_delay": 100, "max_restart_delay": 1 }"#,
    );
    assert_eq!(both, RestartDelay::Fixed(millis(500)));
    insta::assert_snapshot!(warnings, @"
    --exp-backoff-restart-delay is ignored, because `restart_delay` is given too
    --max-restart-delay is ignored, because `restart_delay` is given too
    ");
}

#[test]
fn everything_said_in_a_config_arrives_in_the_spec() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("a.js", "");
    let text = r#"{ "script": "a.js", "wait_ready": true, "listen_timeout": "7s", "kill_signal": "SIGTERM",
        "kill_timeout": 1600, "drain_timeout": "1m", "autorestart": false, "max_restarts": 3, "min_uptime": "5s",
        "stop_exit_codes": 0, "merge_logs": true, "time": true, "balance": "direct", "agent": false }"#;
    let mut options = json(text).unwrap().apps.remove(0);
    options.origin = None;
    let spec = place.resolve(&options).unwrap().spec;
    let shown = format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?} agent {}",
        spec.readiness, spec.stop, spec.restart, spec.logs, spec.balance, spec.agent
    );
    insta::assert_snapshot!(shown, @"
    Readiness { wait_ready: true, listen_timeout: Some(7s) }
    StopPolicy { signal: StopSignal(15), kill_timeout: 1.6s, drain_timeout: 60s, by_message: false, whole_tree: true }
    RestartPolicy { autorestart: false, restart_finished: false, max_restarts: 3, window: 600s, min_uptime: 5s, delay: Exponential { initial: 100ms, max: 15s }, stop_exit_codes: [0] }
    LogSpec { out_file: None, error_file: None, combined_file: None, disabled: false, merge: true, time: true, date_format: None, line_format: Raw, ansi: Keep, rotation: Some(LogRotation { max_size: Some(10485760), max_age: Some(86400s), keep: 14, total: Some(524288000), compress: true, min_free: ByDisk }) }
    Direct agent false
    ");
}
