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
            _ if let Some(scaled) = app.scaled => scaled_by(scaled),
            0 => String::new(),
            number => format!(" ({})", count(number, "worker")),
        };
        let done = match app {
            AppOutcome { unchanged: true, pm_ids, .. } if pm_ids.is_empty() => {
                "exists already, nothing to do"
            }
            AppOutcome { unchanged: true, .. } => "unchanged, left running",
            AppOutcome { finished: true, .. } => "finished",
            AppOutcome { scaled: Some(Scaled { from, to }), .. } if from == to => "has",
            _ => done,
        };
        writeln!(text, "{} {done}{workers}", paint.bold(&visible(&app.name)))
            .expect("a String takes everything");
    }
    text
}

fn scaled_by(Scaled { from, to }: Scaled) -> String {
    let workers = count(usize::from(to), "worker");
    if from == to { format!(" {workers} already") } else { format!(" from {from} to {workers}") }
}

/// The apps of a command that waited, without those of which no worker was started; then those.
pub(crate) fn without_resting(reply: ActionReply) -> (ActionReply, ActionReply) {
    let is_resting = |app: &AppOutcome| app.ok && !app.unchanged && app.pm_ids.is_empty();
    let (resting, others) = reply.apps.into_iter().partition(is_resting);
    (ActionReply::of(others), ActionReply::of(resting))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(json: serde_json::Value) -> AppOutcome {
        let mut all = serde_json::json!({
            "name": "web", "ok": true, "pm_ids": [], "error": null, "hint": null, "notes": [], "stderr_tail": [],
        });
        if let (Some(all), serde_json::Value::Object(given)) = (all.as_object_mut(), json) {
            all.extend(given);
        }
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn a_line_says_what_has_become_of_an_app() {
        for (given, done, line) in [
            (serde_json::json!({ "pm_ids": [0, 1] }), "started", "web started (2 workers)"),
            (serde_json::json!({ "pm_ids": [0], "finished": true }), "reloaded", "web finished (1 worker)"),
            (
                serde_json::json!({ "scaled": { "from": 4, "to": 5 } }),
                "scaled",
                "web scaled from 4 to 5 workers",
            ),
            (serde_json::json!({ "scaled": { "from": 4, "to": 4 } }), "scaled", "web has 4 workers already"),
        ] {
            let reply = ActionReply::of(vec![outcome(given)]);
            assert_eq!(done_lines(&reply, done, Paint::plain()), format!("{line}\n"));
        }
    }

    #[test]
    fn an_app_without_a_started_worker_rests() {
        let reply = ActionReply::of(vec![
            outcome(serde_json::json!({ "name": "online", "pm_ids": [3] })),
            outcome(serde_json::json!({ "name": "resting" })),
            outcome(serde_json::json!({ "name": "failed", "ok": false })),
            outcome(serde_json::json!({ "name": "as before", "unchanged": true })),
        ]);
        let (others, resting) = without_resting(reply);
        let names = |reply: &ActionReply| reply.apps.iter().map(|app| app.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&others), ["online", "failed", "as before"]);
        assert_eq!(names(&resting), ["resting"]);
    }
}
