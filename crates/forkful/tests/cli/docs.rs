//! `docs/FROM-PM2.md` says of commands what is so.

use std::path::Path;

use crate::sandbox::{Sandbox, stdout};

/// The rows of the table of commands: PM2's word, ours, the state.
fn rows() -> Vec<[String; 3]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FROM-PM2.md");
    let text = fs_err::read_to_string(page).unwrap();
    let table =
        text.split("<!-- commands -->").nth(1).unwrap().split("<!-- end of commands -->").next().unwrap();
    let cell = |text: &str| text.trim().trim_matches('`').to_owned();
    table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            [cell(cells[1]), cell(cells[2]), cell(cells[3])]
        })
        .collect()
}

#[test]
fn commands_that_work_exist_and_those_that_exist_are_told_of() {
    let sandbox = Sandbox::new();
    let rows = rows();
    assert!(rows.len() > 40);
    for [pm2, ours, state] in &rows {
        if state == "works" {
            let help = sandbox.run(&[ours, "--help"]);
            assert_eq!(help.status.code(), Some(0), "{ours}");
        } else {
            // A command that has come is no longer one that is missing.
            assert_ne!(sandbox.run(&[pm2, "--help"]).status.code(), Some(0), "{pm2} exists, but is {state}");
        }
    }
    let help = stdout(&sandbox.run(&["--help"]));
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let verbs = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for verb in verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help") {
        assert!(rows.iter().any(|[_, ours, _]| ours == verb), "{verb} is not in the table");
    }
}
