//! The documentation pages that errors link to.

use serde_json::Value;

use crate::sandbox::{Sandbox, stdout};

/// The address below an error's hint, without the site's base; empty if there is none.
fn page(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.run(args);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("\nhint: "), "{args:?}: {told}");
    let see = told.lines().find_map(|line| line.strip_prefix("see: "));
    let see = see.unwrap_or_else(|| panic!("{args:?} names no page: {told}"));
    see.strip_prefix(forkful_core::pages::SITE).unwrap_or(see).to_owned()
}

#[test]
fn a_hint_names_the_page_that_says_more() {
    let sandbox = Sandbox::new();
    sandbox.write("none.json", "{}");
    let of = |args: &[&str]| page(&sandbox, args);
    let found = [
        ("an app that does not exist", of(&["stop", "nope"])),
        ("the same by another command", of(&["describe", "nope"])),
        ("a script that does not exist", of(&["start", "nope.js"])),
        ("no config file", of(&["start"])),
        ("an option that another program has", of(&["bench", "--nope", "http://127.0.0.1:1/"])),
        ("a command of PM2", of(&["plus"])),
        ("a value of a key", of(&["validate", "none.json"])),
        ("a deployment without a block", of(&["deploy", "production", "setup"])),
        ("a command that is nearly right", of(&["strat", "app.js"])),
        ("an option that is nearly right", of(&["start", "--instnaces", "2"])),
        ("a value that is nearly right", of(&["completion", "bsah"])),
        ("a value that is none of those", of(&["completion", "tcsh"])),
        ("a value of a key that is nearly right", of(&["start", "app.js", "--balance", "lest"])),
        ("an argument too many", of(&["ping", "all"])),
        ("an argument too few", of(&["scale", "api"])),
        ("two options that exclude each other", of(&["run", "app.js", "--log-prefix", "--no-log-prefix"])),
    ];
    let line = |(what, page): &(&str, String)| format!("{what}: {page}");
    let told: Vec<String> = found.iter().map(line).collect();
    let told: Vec<&str> = told.iter().map(|line| line.trim_end()).collect();
    let told = told.join("\n");
    insta::assert_snapshot!(told, @"
    an app that does not exist: cli#which-apps-a-command-means
    the same by another command: cli#which-apps-a-command-means
    a script that does not exist: troubleshooting#a-script-or-its-interpreter-is-not-found
    no config file: config
    an option that another program has: cli#forkful-bench
    a command of PM2: from-pm2#commands
    a value of a key: config
    a deployment without a block: config
    a command that is nearly right: cli
    an option that is nearly right: cli#forkful-start
    a value that is nearly right: cli#forkful-completion
    a value that is none of those: cli#forkful-completion
    a value of a key that is nearly right: cli#forkful-start
    an argument too many: cli#forkful-ping
    an argument too few: cli#forkful-scale
    two options that exclude each other: cli#forkful-run
    ");
}

#[test]
fn json_has_the_page_too() {
    let sandbox = Sandbox::new();
    sandbox.write("none.json", "{}");
    let faults: Value =
        serde_json::from_str(&stdout(&sandbox.run(&["validate", "--json", "none.json"]))).unwrap();
    let fault = &faults["faults"][0];
    assert!(fault["hint"].is_string(), "{faults}");
    assert_eq!(fault["see"], format!("{}config", forkful_core::pages::SITE), "{faults}");
}
