//! The statements of `docs/FROM-PM2.md` about commands.

use std::path::Path;

use crate::sandbox::{Sandbox, stdout};

/// The first four cells of a table's rows.
pub(crate) fn rows(table: &str) -> Vec<[String; 4]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FROM-PM2.md");
    let text = fs_err::read_to_string(page).unwrap();
    let begin = format!("<!-- {table} -->");
    let table = text.split(&begin).nth(1).unwrap().split(&format!("<!-- end of {table} -->")).next().unwrap();
    let cell = |text: &str| text.trim().trim_matches('`').to_owned();
    table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            [cell(cells[1]), cell(cells[2]), cell(cells[3]), cell(cells[4])]
        })
        .collect()
}

/// All visible commands, from the completion.
pub(crate) fn verbs(sandbox: &Sandbox) -> Vec<String> {
    let offered = stdout(&sandbox.run(&["complete", "--", ""]));
    let verbs: Vec<String> =
        offered.lines().filter_map(|line| line.split_once('\t')).map(|(verb, _)| verb.to_owned()).collect();
    assert!(verbs.len() > 40, "{offered}");
    verbs
}

#[test]
fn commands_that_work_exist_and_those_that_exist_are_told_of() {
    let sandbox = Sandbox::new();
    let rows = rows("commands");
    assert!(rows.len() > 40);
    for [pm2, ours, state, _] in &rows {
        if state == "works" {
            let help = sandbox.run(&[ours, "--help"]);
            assert_eq!(help.status.code(), Some(0), "{ours}");
        } else {
            // A command that exists must no longer be listed as missing.
            assert_ne!(sandbox.run(&[pm2, "--help"]).status.code(), Some(0), "{pm2} exists, but is {state}");
        }
    }
    for verb in verbs(&sandbox) {
        assert!(rows.iter().any(|[_, ours, ..]| *ours == verb), "{verb} is not in the table");
    }
}

#[test]
fn options_are_taken_or_answered_as_the_page_says() {
    let sandbox = Sandbox::new();
    let rows = rows("options");
    assert!(rows.len() > 60);
    for [option, value, state, _] in &rows {
        // A script that does not exist: errors in the options are reported first.
        let given = [option.as_str(), value.as_str()];
        let given = if value.is_empty() { &given[..1] } else { &given[..] };
        let told = sandbox.transcript(&[&["start", "no-such-script.js"], given].concat());
        assert!(told.starts_with("exit: 2\n"), "{option}: {told}");
        let is_taken = told.contains("script \"no-such-script.js\" does not exist");
        assert_eq!(is_taken, state != "gone", "{option} is {state}: {told}");
        let is_answered = told.contains(&format!("error: `{option}` ")) && told.contains("\nhint: ");
        assert_eq!(is_answered, state == "gone", "{option} is {state}: {told}");
    }
    let help = stdout(&sandbox.run(&["start", "--help"]));
    // Without options of every command, and options that exist only for PM2's users.
    let is_hidden = |option: &str| ["--silent", "--no-color", "--mini-list", "--sort"].contains(&option);
    for [option, ..] in rows.iter().filter(|row| row[2] == "works" && !is_hidden(&row[0])) {
        assert!(help.contains(option.as_str()), "{option}");
    }
}

#[test]
fn a_command_that_is_gone_is_answered_with_one_sentence() {
    let sandbox = Sandbox::new();
    let told: Vec<String> = rows("commands")
        .iter()
        .filter(|row| row[2] == "gone")
        .map(|row| {
            let told = sandbox.transcript(&[&row[0], "api"]);
            let told = told.strip_prefix("exit: 2\n--- stderr\nerror: ").unwrap_or(&told).to_owned();
            told.replace("\n\nhint: ", "\n    ")
        })
        .collect();
    insta::assert_snapshot!(told.concat(), @r#"
    `install` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `module:install` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `uninstall` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `module:uninstall` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `module:update` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `module:generate` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `package` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `publish` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `module:publish` belongs to PM2's modules, of which Forkful has none
        log rotation is built in (`log_rotate`); a program of your own is an app: `forkful start`
    `autoinstall` does not work in PM2 either
        `npm install` installs what an app needs
    `install-otel` would install packages by itself
        install OpenTelemetry with npm, and load it with `--node-args "--require …"`
    `uninstall-otel` would install packages by itself
        install OpenTelemetry with npm, and load it with `--node-args "--require …"`
    `pull` needs version control in the daemon
        `forkful deploy` brings new code to an app, and back to the version before with `revert`
    `forward` needs version control in the daemon
        `forkful deploy` brings new code to an app, and back to the version before with `revert`
    `backward` needs version control in the daemon
        `forkful deploy` brings new code to an app, and back to the version before with `revert`
    `plus` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `register` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `login` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `logout` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `link` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `unlink` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `interact` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `open` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `monitor` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `unmonitor` belongs to PM2's online service; Forkful has no account and sends nothing anywhere
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `web` does not exist; current versions of PM2 do not have it either
        `forkful list` and `forkful describe` show apps, `forkful jlist` and `GET /v1/events` tell other programs
    `deepUpdate` would install packages by itself
        `npm install -g forkful` installs a version
    `logrotate` is not needed: log files are set aside by size and age by default
        the key `log_rotate` says when; `forkful reloadLogs` serves another program that moves files
    `profile:mem` looks into PM2's own JavaScript
        `forkful heap api` takes a heap snapshot of an app's worker
    `profile:cpu` looks into PM2's own JavaScript
        `forkful doctor api --profile` takes a CPU profile of an app's worker
    `inspect` does not exist
        `forkful start app.js --node-args=--inspect` opens an app's inspector
    `imonit` was PM2's older terminal page
        `forkful monit`
    `slist` does not exist
        `forkful report` describes the system
    `sysinfos` does not exist
        `forkful report` describes the system
    `gracefulReload` is what `reload` always does
        `forkful reload`
    `create` does not exist
        `forkful init` writes a first config file
    `examples` does not exist
        `forkful <command> --help` shows examples
    "#);
}

#[test]
fn each_name_of_a_command_is_the_command() {
    let sandbox = Sandbox::new();
    for (command, others) in [
        ("restart", &["startOrRestart"][..]),
        ("reload", &["startOrReload", "startOrGracefulReload"]),
        ("delete", &["del"]),
        ("list", &["ls", "l", "ps", "status"]),
        ("describe", &["desc", "info", "show"]),
        ("dashboard", &["dash"]),
        ("logs", &["log"]),
        ("reloadLogs", &["reload-logs"]),
        ("signal", &["sendSignal"]),
        ("update", &["updatePM2"]),
        ("save", &["dump"]),
        ("conf", &["config"]),
        ("init", &["ecosystem"]),
        ("serve", &["expose"]),
    ] {
        let help = sandbox.transcript(&[command, "--help"]);
        assert!(help.starts_with("exit: 0\n"), "{command}: {help}");
        for other in others {
            assert_eq!(sandbox.transcript(&[other, "--help"]), help, "{other}");
        }
    }
}
