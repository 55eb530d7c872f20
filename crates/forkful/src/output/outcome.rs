//! The results of an action: a line on stdout for each app that succeeded, an error on stderr for each that
//! failed.

use std::fmt::Write as _;

use forkful_api::types::{ActionReply, AppOutcome, Scaled};

use super::failure;
use super::format::{count, visible};
use super::paint::Paint;
use crate::exit::{Exit, See};

/// Lines for stdout, one per successful app; `done` is the past participle of the action.
pub(crate) fn done_lines(reply: &ActionReply, done: &str, paint: Paint) -> String {
    let mut text = String::new();
    for app in reply.apps.iter().filter(|app| app.ok) {
        let workers = match app.pm_ids.len() {
            _ if let Some(Scaled { from, to }) = app.scaled => {
                format!(" from {from} to {}", count(usize::from(to), "worker"))
            }
            0 => String::new(),
            number => format!(" ({})", count(number, "worker")),
        };
        let done = match app {
            AppOutcome { unchanged: true, pm_ids, .. } if pm_ids.is_empty() => {
                "exists already, nothing to do"
            }
            AppOutcome { unchanged: true, .. } => "unchanged, left running",
            AppOutcome { finished: true, .. } => "finished",
            _ => done,
        };
        writeln!(text, "{} {done}{workers}", paint.bold(&visible(&app.name)))
            .expect("a String takes everything");
    }
    text
}

/// Prints notes and failed apps to stderr.
pub(crate) fn tell(reply: &ActionReply) {
    for app in &reply.apps {
        for note in &app.notes {
            super::note(&format!("{}: {note}", app.name));
        }
    }
    for app in reply.apps.iter().filter(|app| !app.ok) {
        super::talk(&failed_text(app, Paint::stderr()));
    }
}

fn failed_text(app: &AppOutcome, paint: Paint) -> String {
    let error = app.error.as_deref().unwrap_or("did not succeed");
    let hint = app.hint.as_deref().map(|hint| (hint, See::from(app.see.clone())));
    failure::text(paint, &format!("{}: {error}", app.name), &[], &app.stderr_tail, hint)
}

/// The exit code for these results.
pub(crate) fn exit(reply: &ActionReply) -> Exit {
    if reply.apps.iter().all(|app| app.ok) { Exit::Done } else { Exit::Failed }
}
