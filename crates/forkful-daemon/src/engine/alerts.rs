//! Alerts: an app's command or webhook is told of an incident. Whether it is, is decided by `forkful_core::alerts`; nobody waits
//! for either.

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

use super::Back;
use super::starting::Starts;
use super::upkeep::{Helper, watch};
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
    /// Tells of an incident, if its app wants that and it was not told of such a one just now.
    pub(super) fn tell(&mut self, incident: Incident, spec: &AppSpec, starts: &mut Starts, now: Time) {
        let Some(policy) = &spec.alerts else { return };
        let (app, kind) = (incident.summary.app.clone(), incident.summary.kind);
        // Before it counts as told: the next of the kind has its chance.
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
    let (launch, mark, back) = (spec.launch.clone(), starts.give_mark(), starts.back());
    let helper = Helper { what: "alert", words, identity: Vec::new(), stdin: Some(stdin) };
    let (flight, started) = starts.start_helper(move |flight| helper.start(&launch, mark, flight));
    tokio::task::spawn_local(async move {
        let _under_way = under_way;
        let deadline = tokio::time::Instant::now() + timeout;
        let outcome = match tokio::time::timeout_at(deadline, started).await {
            Ok(Ok(Ok(child))) => {
                let outcome = watch(&child, mark, deadline, timeout).await;
                // The engine is gone only when the daemon ends.
                let _gone = back.send(Back::HelperEnded { pid: child.pid });
                outcome
            }
            Ok(Ok(Err(why))) => Err(why),
            Ok(Err(_)) => Err("no thread can be had to start its command".to_owned()),
            Err(_) => {
                flight.cancel();
                Err(format!("its command was not started within {} ms", timeout.as_millis()))
            }
        };
        log_failure(&app, "its command", outcome);
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
