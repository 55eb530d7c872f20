//! Alerts: incidents are sent to an app's command or webhook. `forkful_core::alerts` decides which incidents. Nothing waits for a
//! command or a webhook.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use forkful_api::incidents::{Alert, Incident};
use forkful_core::Time;
use forkful_core::alerts::AlertBook;
use forkful_core::spec::AppSpec;
use forkful_os::{identity, memory_file};
use hyper::body::Bytes;

use super::starting::Starts;
use super::upkeep::Helper;
use crate::webhook;

/// Commands and requests under way; further alerts are left out, and the log says so.
const UNDER_WAY_MAX: usize = 16;

/// What the engine keeps for this.
#[derive(Debug, Default)]
pub(crate) struct AlertDesk {
    book: AlertBook,
    under_way: Rc<Cell<usize>>,
}

/// Counts something under way until it is dropped.
struct UnderWay(Rc<Cell<usize>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl AlertDesk {
    /// Sends an alert for an incident, unless the app wants none or its last alert of this kind is too recent.
    pub(super) fn tell(&mut self, incident: Incident, spec: &AppSpec, starts: &mut Starts, now: Time) {
        let Some(policy) = &spec.alerts else { return };
        let (app, kind) = (incident.summary.app.clone(), incident.summary.kind);
        // Checked before `step`, so that an alert without room does not start the pause until the next of its kind.
        let channels = usize::from(policy.webhook.is_some()) + usize::from(!policy.command.is_empty());
        if self.under_way.get() + channels > UNDER_WAY_MAX {
            log_line!("forkful: {app}: an alert is left out: {} others are under way", self.under_way.get());
            return;
        }
        let Some(left_out) = self.book.step(&app, kind, policy, now) else { return };
        let alert = Alert::new(incident, left_out, identity::host_name().unwrap_or_default());
        let body = Bytes::from(serde_json::to_vec(&alert).expect("our own types always have a JSON form"));
        if let Some(url) = policy.webhook.clone() {
            let under_way = self.begin();
            let (app, body, timeout) = (app.clone(), body.clone(), policy.timeout);
            tokio::task::spawn_local(async move {
                let _under_way = under_way;
                log_failure(&app, "its webhook", webhook::post(&url, body, timeout).await);
            });
        }
        if !policy.command.is_empty() {
            run(policy.command.clone(), &body, spec, policy.timeout, starts, self.begin());
        }
    }

    fn begin(&self) -> UnderWay {
        self.under_way.set(self.under_way.get() + 1);
        UnderWay(Rc::clone(&self.under_way))
    }
}

/// Runs the command as the app's user, in its directory and with its environment.
fn run(
    words: Vec<String>,
    body: &[u8],
    spec: &AppSpec,
    timeout: Duration,
    starts: &mut Starts,
    under_way: UnderWay,
) {
    let app = spec.name.to_string();
    let stdin = match stdin_of(body) {
        Ok(stdin) => stdin,
        Err(error) => return log_failure(&app, "its command", Err(error.to_string())),
    };
    let helper = Helper { what: "alert", words, identity: Vec::new(), stdin: Some(stdin) };
    let outcome = helper.run(spec.launch.clone(), timeout, starts);
    tokio::task::spawn_local(async move {
        let _under_way = under_way;
        log_failure(&app, "its command", outcome.await);
    });
}

/// A file in memory, read from its beginning: a command that does not read holds nobody up.
fn stdin_of(body: &[u8]) -> std::io::Result<OwnedFd> {
    let file = memory_file::create("forkful-alert", body.len() as u64)?;
    memory_file::write_at(&file, 0, body)?;
    Ok(file)
}

fn log_failure(app: &str, whom: &str, outcome: Result<(), String>) {
    if let Err(why) = outcome {
        log_line!("forkful: {app}: an alert did not reach {whom}: {why}");
    }
}
