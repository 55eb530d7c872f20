//! What is shown of a failed worker's stderr, on outputs of real runtimes. Each file of the folder beside this holds
//! the output, then a line `=== excerpt`, then what is shown. `UPDATE_DOCS=1` writes the second part.

use std::fs;
use std::path::Path;

use forkful_core::slot::Exit;
use forkful_core::stderr_excerpt::{
    Attempt, EXCERPT_LINES_MAX, cause, cause_of, excerpt, is_uncaught, next_step,
};
use proptest::prelude::*;

const MARK: &str = "\n=== excerpt\n";

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn shown(text: &str) -> Vec<String> {
    excerpt(&lines(text))
}

#[test]
fn outputs_of_real_runtimes_begin_with_the_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stderr_excerpt");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 30);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let (output, expected) = text.split_once(MARK).unwrap_or((&text, ""));
        let found = shown(output);
        assert!(cause(&found).is_some(), "{}: no cause in {found:#?}", path.display());
        let found = format!("{}\n", found.join("\n"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, format!("{output}{MARK}{found}")).unwrap();
        } else {
            assert_eq!(found, expected, "{}", path.display());
        }
    }
}

#[test]
fn only_an_error_that_ended_the_process_is_uncaught() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stderr_excerpt");
    let of = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        is_uncaught(&lines(text.split_once(MARK).unwrap().0))
    };
    for name in ["thrown.cjs", "text.cjs", "reject.cjs", "rej2.cjs", "missing.mjs", "port.cjs"] {
        assert!(of(&format!("node24-{name}.txt")), "{name}");
    }
    for name in ["node18-port.cjs.txt", "node26-missing.cjs.txt"] {
        assert!(of(name), "{name}");
    }
    let logged = "TypeError: x\n    at f (/srv/a.js:1:1)\n";
    let with_carets =
        format!("/srv/b.js:1\nlet = ;\n    ^\n\nSyntaxError: x\n    at f (/srv/a.js:1:1)\n{logged}bye");
    for text in [logged, with_carets.as_str(), "Node.js v24.21.0\nready", ""] {
        assert!(!is_uncaught(&lines(text)), "{text}");
    }
    assert!(!of("node24-custom.cjs.txt"), "the app caught and logged it");
}

#[test]
fn output_without_an_error_keeps_its_last_lines() {
    let text: String = (0..30).map(|number| format!("line {number}\n")).collect();
    let found = shown(&text);
    assert_eq!(found.len(), EXCERPT_LINES_MAX);
    assert_eq!((found[0].as_str(), found[19].as_str()), ("line 10", "line 29"));
    assert_eq!(cause(&found), None);
    let warning = "(node:1) [DEP0040] DeprecationWarning: The `punycode` module is deprecated.\nlistening";
    assert_eq!(shown(warning), lines(warning));
    assert_eq!(excerpt(&[]), Vec::<String>::new());
}

#[test]
fn the_last_line_is_the_cause_of_a_program_that_exits_with_a_code() {
    let of = |text: &str, exit: Exit| cause_of(&shown(text), &exit).map(str::to_owned);
    let failed = |text: &str| of(text, Exit::Code(1));
    assert_eq!(failed("DATABASE_URL is not set").as_deref(), Some("DATABASE_URL is not set"));
    assert_eq!(
        failed("connecting\nFATAL: cannot connect to redis\n---\n").as_deref(),
        Some("FATAL: cannot connect to redis")
    );
    assert_eq!(
        failed("TypeError: x\n    at f (/srv/a.js:1:1)\nbye").as_deref(),
        Some("TypeError: x"),
        "an error is the cause"
    );
    assert_eq!(failed(""), None);
    assert_eq!(failed(&"x".repeat(300)), None, "no message");
    assert_eq!(of("listening on 3000", Exit::Signal(9)), None, "who killed it did not ask it");
    assert_eq!(of("done", Exit::Code(0)), None);
    let hint =
        next_step(&failed("DATABASE_URL is not set").unwrap(), "/srv", Attempt::Start { app: "my api" })
            .unwrap();
    assert!(hint.text.contains("set `DATABASE_URL`"), "{}", hint.text);
}

#[test]
fn an_excerpt_has_no_characters_that_steer_a_terminal() {
    let told = shown("\u{1b}[31mError\u{1b}[0m: a\tb \u{202e}txt.\u{2066}\u{7}");
    assert_eq!(told, ["Error: a\tb \\u{202e}txt.\\u{2066}\\u{7}"]);
}

#[test]
fn the_message_survives_any_number_of_lines_behind_it() {
    let frames: String = (0..50).map(|number| format!("    at f{number} (/srv/a.js:{number}:1)\n")).collect();
    let found = shown(&format!("connecting to db:5432\nError: no database\n{frames}"));
    assert_eq!(found.len(), EXCERPT_LINES_MAX);
    assert_eq!(found[0], "Error: no database");
    assert_eq!(found[17..], ["    … 34 more lines", "before the error:", "connecting to db:5432"]);
}

#[test]
fn a_well_known_cause_has_a_next_step() {
    let steps = [
        (
            "Error: Cannot find module 'express'",
            "run `npm install` in /srv if package.json lists `express`, else `npm install express`",
        ),
        (
            "error: Cannot find module \"./db\"",
            "check the path `./db` in the line that loads it; it does not exist",
        ),
        (
            "ModuleNotFoundError: No module named 'flask'",
            "run `pip install flask`, or name the Python of the app's virtual environment with `--interpreter`",
        ),
        (
            "SyntaxError: Unexpected end of input",
            "correct the syntax error at the place shown above, then start the app again",
        ),
        (
            "SyntaxError [ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX]: TypeScript enum is not supported in strip-only mode",
            "Node.js removes types and does no more: compile the app to JavaScript, or run it with tsx",
        ),
        (
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            "raise the heap limit with `--node-args=--max-old-space-size=<MiB>`, or look for a leak",
        ),
    ];
    for (cause, step) in steps {
        assert_eq!(next_step(cause, "/srv", Attempt::Start { app: "my api" }).unwrap().text, step, "{cause}");
    }
    let step =
        next_step("Error: DATABASE_URL is not set", "/srv", Attempt::Start { app: "my api" }).unwrap().text;
    assert!(step.starts_with("set `DATABASE_URL` in `env` or `env_file` of the config"), "{step}");
    assert!(step.ends_with("`DATABASE_URL=… forkful restart 'my api' --update-env`"), "{step}");
    assert_eq!(
        next_step("Error [ERR_X_Y]: a value is required", "/srv", Attempt::Start { app: "my api" }),
        None
    );
    assert_eq!(next_step("TypeError: x is not a function", "/srv", Attempt::Start { app: "my api" }), None);
}

#[test]
fn a_failed_reload_is_to_be_reloaded_as_a_start_ends_the_old_version() {
    let reload = Attempt::Reload { app: "my api" };
    let steps = [
        (
            "SyntaxError: Unexpected end of input",
            "correct the syntax error at the place shown above, then reload it again with `forkful reload 'my api'`",
        ),
        (
            "Error: DATABASE_URL is not set",
            "set `DATABASE_URL` in `env` or `env_file` of the config, or `DATABASE_URL=… forkful reload 'my api' --update-env`",
        ),
    ];
    for (cause, step) in steps {
        assert_eq!(next_step(cause, "/srv", reload).unwrap().text, step, "{cause}");
    }
}

#[test]
fn frames_of_the_agent_are_folded() {
    let agent = "/srv/.forkful/agent-0123456789abcdef";
    let text = format!(
        "{agent}/loans.cjs:218\n      throw error\n      ^\n\nError: no database\n    at connect (/srv/app.js:3:9)\n    \
         at Server.listen ({agent}/loans.cjs:218:13)\n    at node:internal/main:1:1\n    at /srv/agent-7/x.cjs:1:1"
    );
    assert_eq!(
        shown(&text),
        [
            "Error: no database",
            "    at connect (/srv/app.js:3:9)",
            "    … 2 internal frames",
            "    at /srv/agent-7/x.cjs:1:1",
        ]
    );
}

proptest! {
    #[test]
    fn any_lines_give_a_bounded_excerpt_without_control_sequences(
        input in prop::collection::vec("( at|\u{1b}\\[3|\\^|~|[ a-zé:\u{1b}]|Error|node:|[0-9]|'){0,8}", 0..70)
    ) {
        let found = excerpt(&input);
        prop_assert!(found.len() <= EXCERPT_LINES_MAX);
        let escapes = found.iter().filter(|line| line.contains('\u{1b}')).count();
        prop_assert_eq!(escapes, 0);
    }
}
