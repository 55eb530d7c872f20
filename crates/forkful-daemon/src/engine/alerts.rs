//! Alerts: incidents are sent to an app's command or webhook. `forkful_core::alerts` decides which incidents. Nothing waits for a
//! command or a webhook.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use forkful_api::incidents::{Alert, Incident};
use forkful_core::Time;
use forkful_core::alerts::{AlertBook, NotSent, UnderWay};
use forkful_core::spec::AppSpec;
use forkful_os::{identity, memory_file};
use hyper::body::Bytes;

use super::starting::Starts;
use super::upkeep::Helper;
use crate::webhook;

/// What the engine keeps for this.
#[derive(Debug, Default)]
pub(crate) struct AlertDesk {
    book: Rc<RefCell<AlertBook>>,
    under_way: Rc<RefCell<UnderWay>>,
}

/// One way of an alert is under way until this is dropped.
struct Way {
    app: String,
    under_way: Rc<RefCell<UnderWay>>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.under_way.borrow_mut().end(&self.app);
    }
}

impl AlertDesk {
    /// Sends an alert for an incident, unless the app wants none or its last alert of this kind is too recent.
    pub(super) fn tell(&mut self, incident: Incident, spec: &AppSpec, starts: &mut Starts, now: Time) {
        let Some(policy) = &spec.alerts else { return };
        let (app, kind) = (incident.summary.app.clone(), incident.summary.kind);
        let step = self.book.borrow_mut().step((&app, kind), policy, &mut self.under_way.borrow_mut(), now);
        let left_out = match step {
            Ok(left_out) => left_out,
            Err(NotSent::Unwanted | NotSent::TooSoon) => return,
            Err(NotSent::NoRoom(others)) => {
                log_line!("forkful: {app}: an alert is left out: {others} others of this app are under way");
                return;
            }
        };
        let way = || Way { app: app.clone(), under_way: Rc::clone(&self.under_way) };
        let mut ways: Vec<Way> = std::iter::repeat_with(way).take(policy.ways()).collect();
        let alert = Alert::new(incident, left_out, identity::host_name().unwrap_or_default());
        let body = Bytes::from(serde_json::to_vec(&alert).expect("our own types always have a JSON form"));
        let ran = (!policy.command.is_empty())
            .then(|| (ways.pop(), run(policy.command.clone(), &body, spec, policy.timeout, starts)));
        let posted = policy.webhook.clone().map(|url| (ways.pop(), url));
        let (timeout, book) = (policy.timeout, Rc::clone(&self.book));
        tokio::task::spawn_local(async move {
            let posted = async {
                let (_way, url) = posted?;
                Some(reached(&app, "its webhook", webhook::post(&url, body, timeout).await))
            };
            let ran = async {
                let (_way, outcome) = ran?;
                Some(reached(&app, "its command", outcome.await))
            };
            let (posted, ran) = tokio::join!(posted, ran);
            if posted != Some(true) && ran != Some(true) {
                book.borrow_mut().undelivered(&app, kind, now, left_out);
            }
        });
    }

    /// An app is deleted.
    pub(super) fn forget(&self, app: &str) {
        self.book.borrow_mut().forget(app);
    }
}

/// Runs the command as the app's user, in its directory and with its environment.
fn run(
    words: Vec<String>,
    body: &[u8],
    spec: &AppSpec,
    timeout: Duration,
    starts: &mut Starts,
) -> impl Future<Output = Result<(), String>> + use<> {
    let started = stdin_of(body).map(|stdin| {
        let helper = Helper { what: "alert", words, identity: Vec::new(), stdin: Some(stdin) };
        helper.run(spec.launch.clone(), timeout, starts)
    });
    async { started.map_err(|error| error.to_string())?.await }
}

/// A file in memory, read from its beginning: a command that does not read holds nobody up.
fn stdin_of(body: &[u8]) -> std::io::Result<OwnedFd> {
    let file = memory_file::create("forkful-alert", body.len() as u64)?;
    memory_file::write_at(&file, 0, body)?;
    Ok(file)
}

/// Whether an alert reached a receiver; a failure is logged.
fn reached(app: &str, whom: &str, outcome: Result<(), String>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(why) => {
            log_line!("forkful: {app}: an alert did not reach {whom}: {why}");
            false
        }
    }
}
