//! What open pages are sent: the state of the apps once a second, what happens as it happens. One task looks for all of
//! them, and it runs only while there is a page. A page that does not read is dropped.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forkful_api::conversation::{EventsQuery, ProcessEvent};
use forkful_api::incidents::IncidentSummary;
use forkful_api::types::AppList;
use forkful_os::wall_clock::now_ms;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};

use super::state;
use super::verdicts::Examiner;
use crate::command::{Command, Reply, Talk};
use crate::events::Subscription;

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pages that are sent something. Somebody has some tabs, on some machines.
const PAGES_MAX: usize = 16;
/// Frames that wait for a page, beyond what the connection holds. A page that is further behind is dropped, and asks again.
const FRAMES_MAX: usize = 32;
/// Events that a page is told when it comes.
const EVENTS_MAX: usize = 500;

/// All pages.
#[derive(Debug, Default)]
pub(super) struct Feed {
    pages: Mutex<Pages>,
    /// A page has come.
    wake: Notify,
}

#[derive(Debug, Default)]
struct Pages {
    senders: Vec<mpsc::Sender<Bytes>>,
    /// The task runs.
    is_running: bool,
    /// A page has come that has nothing yet.
    wants_all: bool,
    /// The last events, while there are pages; those of before are kept for a page that comes back.
    events: VecDeque<Value>,
}

impl Feed {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frames for a new page; `None` when there are too many pages.
    pub(super) fn join(self: &Arc<Self>, commands: &mpsc::Sender<Command>) -> Option<mpsc::Receiver<Bytes>> {
        let mut pages = self.pages();
        pages.senders.retain(|sender| !sender.is_closed());
        if pages.senders.len() >= PAGES_MAX {
            return None;
        }
        let (sender, receiver) = mpsc::channel(FRAMES_MAX);
        pages.senders.push(sender);
        pages.wants_all = true;
        if !std::mem::replace(&mut pages.is_running, true) {
            tokio::spawn(run(Arc::clone(self), commands.clone()));
        }
        self.wake.notify_one();
        Some(receiver)
    }

    /// Whether somebody is there; if not, the task ends.
    fn goes_on(&self) -> bool {
        let mut pages = self.pages();
        pages.senders.retain(|sender| !sender.is_closed());
        pages.is_running = !pages.senders.is_empty();
        pages.is_running
    }

    fn end(&self) {
        let mut pages = self.pages();
        pages.senders.clear();
        pages.is_running = false;
    }

    /// Tells how things are, or how they have changed.
    fn tell_state(&self, old: Option<&Value>, new: &Value) {
        let mut pages = self.pages();
        let frame = match old.filter(|_| !pages.wants_all) {
            Some(old) => frame("change", &state::change(old, new)),
            None => frame("state", &json!({ "state": new, "events": pages.events })),
        };
        pages.wants_all = false;
        pages.send(&frame);
    }

    fn tell_event(&self, event: Value) {
        let mut pages = self.pages();
        pages.send(&frame("event", &event));
        if pages.events.len() >= EVENTS_MAX {
            pages.events.pop_front();
        }
        pages.events.push_back(event);
    }

    /// Incidents are kept elsewhere: a page that comes asks for those of before.
    fn tell_incident(&self, incident: &IncidentSummary) {
        self.pages().send(&frame("incident", &json!(incident)));
    }
}

impl Pages {
    fn send(&mut self, frame: &Bytes) {
        self.senders.retain(|sender| sender.try_send(frame.clone()).is_ok());
    }
}

/// Looks while there are pages.
async fn run(feed: Arc<Feed>, commands: mpsc::Sender<Command>) {
    let Ok(mut events) = watch(&commands).await else { return feed.end() };
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last: Option<Value> = None;
    let mut examiner = Examiner::default();
    loop {
        tokio::select! {
            () = commands.closed() => break,
            _ = looks.tick() => {}
            () = feed.wake.notified() => {}
            happened = poll_fn(|context| events.poll_next(context)) => {
                let Some(happened) = happened else { break };
                match heard(&happened) {
                    Some(Heard::Event(event)) => feed.tell_event(event),
                    Some(Heard::Incident(incident)) => feed.tell_incident(&incident),
                    None => {}
                }
                continue;
            }
        }
        if !feed.goes_on() {
            return;
        }
        let list: Result<AppList, ()> =
            ask(&commands, |reply| Command::List { measure: true, target: None, reply }).await;
        let Ok(list) = list else { break };
        let verdicts = examiner.look(&list, &commands).await;
        let new = state::of(&list, verdicts, now_ms());
        feed.tell_state(last.as_ref(), &new);
        last = Some(new);
    }
    feed.end();
}

async fn watch(commands: &mpsc::Sender<Command>) -> Result<Subscription, ()> {
    ask(commands, |reply| Command::Talk(Talk::Watch { query: EventsQuery::default(), reply })).await
}

pub(super) async fn ask<T>(
    commands: &mpsc::Sender<Command>,
    command: impl FnOnce(Reply<T>) -> Command,
) -> Result<T, ()> {
    let (reply, answer) = oneshot::channel();
    commands.send(command(reply)).await.map_err(drop)?;
    answer.await.map_err(drop)?.map_err(drop)
}

/// A frame of `text/event-stream`. JSON has no line breaks of its own.
fn frame(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// An event or an incident of the daemon, as it is sent to the page.
enum Heard {
    Event(Value),
    Incident(IncidentSummary),
}

/// What the page is told of a frame of the daemon's own events, if anything.
fn heard(frame: &[u8]) -> Option<Heard> {
    let text = std::str::from_utf8(frame).ok()?;
    let (name, data) = text.strip_prefix("event: ")?.split_once("\ndata: ")?;
    let data = data.trim_end();
    match name {
        "process:event" => {
            let event: ProcessEvent = serde_json::from_str(data).ok()?;
            Some(Heard::Event(state::event(&event)))
        }
        "app:incident" => serde_json::from_str(data).ok().map(Heard::Incident),
        _ => None,
    }
}
