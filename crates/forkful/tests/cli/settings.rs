//! `set`, `get` and related commands; commands of PM2 that do not exist here.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::sandbox::{Guarded, Sandbox, done};
use insta::assert_snapshot;
use serde_json::Value;

#[test]
fn settings_are_kept_shown_without_secrets_and_forgotten() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["get"]), @"exit: 0");
    assert_snapshot!(sandbox.transcript(&["set", "pm2-logrotate:max_size", "50M"]), @"
    exit: 0
    --- stdout
    pm2-logrotate:max_size 50M
    --- stderr
    note: applies to apps without `log_rotate` that are started from now on
    ");
    assert_snapshot!(sandbox.transcript(&["set", "mailer.password", "s3cret"]), @"
    exit: 0
    --- stdout
    mailer:password [redacted]
    --- stderr
    note: `mailer:password`: saved; `forkful get` shows it; no app has this name
    ");
    done(&sandbox, &["multiset", "pm2-logrotate:retain 5 mailer:from 'Ann Other'"]);
    assert_snapshot!(sandbox.transcript(&["get"]), @"
    exit: 0
    --- stdout
    mailer:from Ann Other
    mailer:password [redacted]
    pm2-logrotate:max_size 50M
    pm2-logrotate:retain 5
    ");
    assert_snapshot!(sandbox.transcript(&["conf", "pm2-logrotate"]), @"
    exit: 0
    --- stdout
    pm2-logrotate:max_size 50M
    pm2-logrotate:retain 5
    ");
    assert_eq!(done(&sandbox, &["get", "mailer.password"]), "s3cret\n");
    assert_eq!(done(&sandbox, &["config", "mailer:from"]), "Ann Other\n");
    let all: Value = serde_json::from_str(&done(&sandbox, &["get", "--json"])).unwrap();
    assert_eq!(all["mailer:password"], "[redacted]");
    let file = sandbox.home().join("settings.json");
    assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let kept: Value = serde_json::from_str(&fs_err::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(kept["mailer:password"], "s3cret");
    assert_snapshot!(sandbox.transcript(&["unset", "mailer:from"]), @"
    exit: 0
    --- stdout
    mailer:from unset
    ");
    assert_snapshot!(sandbox.transcript(&["unset", "mailer:from"]), @"
    exit: 1
    --- stderr
    error: `mailer:from` is not set

    hint: `forkful get` shows all settings
    ");
    assert_snapshot!(sandbox.transcript(&["get", "none:such"]), @"
    exit: 1
    --- stderr
    error: `none:such` is not set

    hint: `forkful get` shows all settings; `forkful set` sets one
    ");
    done(&sandbox, &["unset", "all"]);
    assert_eq!(done(&sandbox, &["conf"]), "");
    let mut left: Vec<_> =
        fs_err::read_dir(sandbox.home()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["settings.json", "settings.lock"]);
}

#[test]
fn settings_that_make_no_sense_change_nothing() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["multiset", "a:b 1 pm2-logrotate:max_size huge"]), @r#"
    exit: 2
    --- stderr
    error: pm2-logrotate:max_size is "huge"; expected a number of bytes, or a string such as "200M", "1.5G" or "500K"
    "#);
    assert_snapshot!(sandbox.transcript(&["multiset", "a:b"]), @r#"
    exit: 2
    --- stderr
    error: "a:b" has a key without a value

    hint: write keys and values in turn, as in `forkful multiset "a:b 1 a:c 2"`
    "#);
    assert_snapshot!(sandbox.transcript(&["set", "", "x"]), @r#"
    exit: 2
    --- stderr
    error: invalid key ""; expected 1 to 256 letters without spaces

    hint: a key is a module and a name, as in `forkful set pm2-logrotate:max_size 50M`
    "#);
    assert_eq!(done(&sandbox, &["get"]), "");
    fs_err::write(sandbox.home().join("settings.json"), "{").unwrap();
    assert_snapshot!(sandbox.transcript(&["get"]), @"
    exit: 2
    --- stderr
    error: the settings cannot be read
    caused by: [sandbox]/home/settings.json is not a valid settings file
    caused by: EOF while parsing an object at line 1 column 1

    hint: fix or remove [sandbox]/home/settings.json
    ");
    sandbox.write("app.js", "setInterval(() => {}, 1000)");
    let start = sandbox.run(&["start", "app.js", "--no-wait"]);
    assert_eq!(start.status.code(), Some(0));
    assert_snapshot!(String::from_utf8_lossy(&start.stderr).replace(sandbox.home().to_str().unwrap(), "[home]"), @"warning: the settings cannot be read: [home]/settings.json is not a valid settings file: EOF while parsing an object at line 1 column 1; log files are rotated by the defaults");
}

#[test]
fn settings_of_log_rotation_are_the_defaults_of_new_apps() {
    let sandbox = Sandbox::new();
    done(&sandbox, &["set", "pm2-logrotate:max_size", "50M"]);
    done(&sandbox, &["set", "log_rotate:keep", "5"]);
    sandbox.write("app.js", "setInterval(() => {}, 1000)");
    sandbox.write("own.json", r#"[{ "name": "own", "script": "app.js", "log_rotate": { "keep": 7 } }]"#);
    done(&sandbox, &["start", "app.js"]);
    done(&sandbox, &["start", "own.json"]);
    let list: Value = serde_json::from_str(&done(&sandbox, &["list", "--json"])).unwrap();
    let rotation = |app: usize| &list["apps"][app]["definition"]["log_rotate"];
    assert_eq!(
        (rotation(0)["max_size_bytes"].as_u64(), rotation(0)["keep"].as_u64()),
        (Some(50 << 20), Some(5))
    );
    assert_eq!(
        (rotation(1)["max_size_bytes"].as_u64(), rotation(1)["keep"].as_u64()),
        (Some(10 << 20), Some(7))
    );
}

#[test]
fn as_many_log_files_are_kept_as_with_pm2s_module_and_settings_without_effect_say_so() {
    let sandbox = Sandbox::new();
    done(&sandbox, &["multiset", "pm2-logrotate:max_size 400M pm2-logrotate:retain 30"]);
    assert_snapshot!(sandbox.transcript(&["set", "pm2-logrotate:rotateInterval", "0 0 * * *"]), @"
    exit: 0
    --- stdout
    pm2-logrotate:rotateInterval 0 0 * * *
    --- stderr
    note: `pm2-logrotate:rotateInterval`: saved, without an effect: log files are rotated by their size, and when they are as old as `log_rotate:max_age` says
    ");
    sandbox.write("app.js", "setInterval(() => {}, 1000)");
    let total = |name: &str| {
        done(&sandbox, &["start", "app.js", "--force", "--name", name]);
        let list: Value = serde_json::from_str(&done(&sandbox, &["list", "--json"])).unwrap();
        let app = list["apps"].as_array().unwrap().iter().find(|app| app["definition"]["name"] == name);
        app.unwrap()["definition"]["log_rotate"]["total_bytes"].as_u64()
    };
    assert_eq!(total("a"), None);
    done(&sandbox, &["set", "log_rotate:total", "1G"]);
    assert_eq!(total("b"), Some(1 << 30));
}

#[test]
fn commands_of_pm2_that_are_not_here_say_what_to_use_instead() {
    let sandbox = Sandbox::new();
    let words = [
        "plus",
        "register",
        "login",
        "logout",
        "link",
        "unlink",
        "interact",
        "monitor",
        "unmonitor",
        "open",
        "web",
        "install-otel",
        "uninstall-otel",
        "install",
        "module:install",
        "uninstall",
        "module:uninstall",
        "module:update",
        "module:generate",
        "package",
        "publish",
        "module:publish",
        "autoinstall",
        "deepUpdate",
        "pull",
        "forward",
        "backward",
        "logrotate",
        "profile:mem",
        "profile:cpu",
        "inspect",
        "imonit",
        "slist",
        "sysinfos",
        "gracefulReload",
        "create",
        "examples",
    ];
    let mut told = String::new();
    for word in words {
        // With any other arguments.
        for more in [&[][..], &["x", "y"], &["--help"], &["--install-all"]] {
            let output = sandbox.command(&[word]).args(more).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{word} {more:?}");
            assert!(output.stdout.is_empty(), "{word} {more:?}");
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(text.starts_with(&format!("error: `{word}` ")) && text.contains("\n\nhint: "), "{text}");
            if more.is_empty() {
                assert!(
                    text.ends_with("\nsee: https://forkful.github.io/forkful/from-pm2#commands\n"),
                    "{text}"
                );
                let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("see: "));
                lines.for_each(|line| told.extend([line, "\n"]));
            }
        }
    }
    assert_snapshot!(told, @r#"
    error: `plus` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `register` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `login` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `logout` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `link` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `unlink` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `interact` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `monitor` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `unmonitor` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `open` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `web` does not exist; current versions of PM2 do not have it either
    hint: `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    error: `install-otel` would install packages by itself
    hint: install OpenTelemetry with npm, and load it with `--node-args "--require …"`
    error: `uninstall-otel` would install packages by itself
    hint: install OpenTelemetry with npm, and load it with `--node-args "--require …"`
    error: `install` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `module:install` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `uninstall` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `module:uninstall` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `module:update` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `module:generate` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `package` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `publish` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `module:publish` belongs to PM2's modules, of which Forkful has none
    hint: log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    error: `autoinstall` does not work in PM2 either
    hint: `npm install` installs what an app needs
    error: `deepUpdate` would install packages by itself
    hint: `npm install -g forkful` installs a version
    error: `pull` needs version control in the daemon
    hint: `forkful deploy` brings new code to an app, and back to the version before with `revert`
    error: `forward` needs version control in the daemon
    hint: `forkful deploy` brings new code to an app, and back to the version before with `revert`
    error: `backward` needs version control in the daemon
    hint: `forkful deploy` brings new code to an app, and back to the version before with `revert`
    error: `logrotate` is not needed: log files are set aside by size and age by default
    hint: the key `log_rotate` says when; `forkful reloadLogs` serves another program that moves files
    error: `profile:mem` looks into PM2's own JavaScript
    hint: `forkful heap api` takes a heap snapshot of an app's worker
    error: `profile:cpu` looks into PM2's own JavaScript
    hint: `forkful doctor api --profile` takes a CPU profile of an app's worker
    error: `inspect` does not exist
    hint: `forkful start app.js --node-args=--inspect` opens an app's inspector
    error: `imonit` was PM2's older terminal page
    hint: `forkful monit`
    error: `slist` does not exist
    hint: `forkful report` describes the system
    error: `sysinfos` does not exist
    hint: `forkful report` describes the system
    error: `gracefulReload` is what `reload` always does
    hint: `forkful reload`
    error: `create` does not exist
    hint: `forkful init` writes a first config file
    error: `examples` does not exist
    hint: `forkful <command> --help` shows examples
    "#);
    // An unknown word gets the usual message.
    assert!(sandbox.transcript(&["pluss"]).contains("unknown command 'pluss'"));
}

#[test]
fn settings_that_are_changed_at_the_same_time_are_all_kept() {
    let sandbox = Sandbox::new();
    done(&sandbox, &["set", "before:key", "x"]);
    let keys: Vec<String> = (0..20).map(|number| format!("mailer:key-{number}")).collect();
    let spawn =
        |args: &[&str]| Guarded::spawn(sandbox.command(args).stdout(Stdio::null()).stderr(Stdio::null()));
    let mut at_once: Vec<Guarded> = keys.iter().map(|key| spawn(&["set", key, "1"])).collect();
    at_once.push(spawn(&["unset", "before:key"]));
    for command in &mut at_once {
        assert!(command.child.wait().unwrap().success());
    }
    let kept: Value = serde_json::from_str(&done(&sandbox, &["get", "--json"])).unwrap();
    let kept: Vec<&String> = kept.as_object().unwrap().keys().collect();
    let mut wanted: Vec<&String> = keys.iter().collect();
    wanted.sort();
    assert_eq!(kept, wanted);
    // Only the lock file is left.
    let files = fs_err::read_dir(sandbox.home()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<_> = files.filter(|name| name.to_string_lossy().starts_with("settings")).collect();
    files.sort();
    assert_eq!(files, ["settings.json", "settings.lock"]);
}
