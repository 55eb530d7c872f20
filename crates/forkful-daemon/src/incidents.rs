//! Incidents, kept as files below the home. A thread completes, writes and reads them, so that no disk delays a connection.
//! What is an incident, how it reads and which ones are kept is decided by `forkful_core::incidents`.

pub(crate) mod shelf;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use forkful_api::incidents::{Incident, IncidentKind, IncidentList, IncidentSummary};
use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_core::incidents::{Death, Role};
use forkful_core::pages::Page;
use forkful_core::spec::environment::KnownSecrets;
use forkful_core::stderr_excerpt::{Attempt, cause, next_step};
use tokio::sync::oneshot;

use crate::command::Reply;
use crate::home::Home;
use crate::logs::StderrTail;
use shelf::Shelf;

/// Stack of the thread, which reads and writes small JSON texts.
const STACK_BYTES: usize = 256 * 1024;
/// Orders that wait. More of them come only while the disk hangs; further incidents are then counted and left out.
const ORDERS_MAX: usize = 256;
/// A daemon that ends waits for so long for what was noted to be written; a disk that hangs must not hold it up.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// An incident before it has its number.
#[derive(Debug)]
pub(crate) struct Draft {
    /// What is known; its reason is made of `death` where there is one.
    pub(crate) incident: Incident,
    /// How the process ended.
    pub(crate) death: Option<Death>,
    /// The last lines of its stderr, from the log service.
    pub(crate) tail: Option<oneshot::Receiver<StderrTail>>,
    /// Values that are not kept.
    pub(crate) secrets: Vec<String>,
    /// The folder that the app runs in.
    pub(crate) cwd: String,
}

/// Which incidents a client wants to see.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Of these apps; `None` of all.
    pub(crate) apps: Option<Vec<String>>,
    pub(crate) since_ms: u64,
    pub(crate) after: u64,
    /// What a client is told that names an app which neither is there nor has any incident.
    pub(crate) unknown: Option<ErrorReply>,
}

enum Order {
    Note(Box<Draft>),
    List(Wanted, Reply<IncidentList>),
    Show(u64, Reply<Incident>),
}

/// Hears of each incident when it is written.
type Tell = Box<dyn Fn(Incident) + Send>;

/// See the module's documentation.
pub(crate) struct Incidents {
    folder: PathBuf,
    /// Until the thread is started.
    tell: Option<Tell>,
    desk: Option<Desk>,
    left_out: u64,
    written_within: Duration,
}

/// The way to the thread.
struct Desk {
    orders: SyncSender<Order>,
    /// Is disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl std::fmt::Debug for Incidents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incidents").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Incidents {
    /// Nothing is read or started before the first order. `tell` hears of each incident when it is written.
    pub(crate) fn new(folder: PathBuf, tell: impl Fn(Incident) + Send + 'static) -> Self {
        Self { folder, tell: Some(Box::new(tell)), desk: None, left_out: 0, written_within: WRITTEN_WITHIN }
    }

    /// Keeps an incident.
    pub(crate) fn note(&mut self, draft: Draft) {
        if self.order(Order::Note(Box::new(draft))).is_ok() {
            return;
        }
        self.left_out += 1;
        if self.left_out == 1 {
            log_line!("forkful: incidents are left out, because the disk does not keep up with them");
        }
    }

    /// The incidents that are kept, in short.
    pub(crate) fn list(&mut self, wanted: Wanted, reply: Reply<IncidentList>) {
        if let Err(Order::List(_, reply)) = self.order(Order::List(wanted, reply)) {
            let _gone = reply.send(Err(busy()));
        }
    }

    /// One of them.
    pub(crate) fn show(&mut self, id: u64, reply: Reply<Incident>) {
        if let Err(Order::Show(_, reply)) = self.order(Order::Show(id, reply)) {
            let _gone = reply.send(Err(busy()));
        }
    }

    fn order(&mut self, order: Order) -> Result<(), Order> {
        if self.desk.is_none()
            && let Some(tell) = self.tell.take()
        {
            let started = start(self.folder.clone(), tell);
            self.desk = started.map_err(|error| log_line!("forkful: no incidents are kept: {error}")).ok();
        }
        let Some(desk) = &self.desk else { return Err(order) };
        desk.orders.try_send(order).map_err(|refused| match refused {
            TrySendError::Full(order) | TrySendError::Disconnected(order) => order,
        })
    }
}

impl Drop for Incidents {
    /// What was noted is written before the daemon ends, as far as the disk allows.
    fn drop(&mut self) {
        let Some(Desk { orders, ended }) = self.desk.take() else { return };
        drop(orders);
        if ended.recv_timeout(self.written_within) == Err(RecvTimeoutError::Timeout) {
            let within = self.written_within.as_secs();
            log_line!("forkful: incidents may be missing: they could not be written within {within} s");
        }
    }
}

/// The incidents that the daemons of a home have kept, for a command that has no daemon to ask: of these apps, or all.
pub fn kept_incidents(
    home: &Home,
    apps: Option<Vec<String>>,
    since_ms: u64,
) -> Result<IncidentList, ErrorReply> {
    let unknown = apps.as_ref().map(|apps| {
        let message = format!("no incident of `{}` is kept", apps.join("`, `"));
        let hint = Page::Daemon.hint("no daemon is running: apps are known by their names alone");
        ErrorReply::new(ErrorCode::NoSuchTarget, message, Some(hint))
    });
    list(&Shelf::look(home.incidents()), Wanted { apps, since_ms, after: 0, unknown })
}

/// One of them.
pub fn kept_incident(home: &Home, id: u64) -> Result<Incident, ErrorReply> {
    Shelf::look(home.incidents()).read(id).ok_or_else(|| no_such(id))
}

fn busy() -> ErrorReply {
    ErrorReply::new(
        ErrorCode::Internal,
        "the incidents cannot be read now: the disk of the home is slow",
        None,
    )
}

fn start(folder: PathBuf, tell: Tell) -> io::Result<Desk> {
    let (sender, orders) = sync_channel(ORDERS_MAX);
    let (alive, ended) = sync_channel::<()>(0);
    thread::Builder::new().name("incidents".to_owned()).stack_size(STACK_BYTES).spawn(move || {
        work(Shelf::open(folder), &orders, &tell);
        drop(alive);
    })?;
    Ok(Desk { orders: sender, ended })
}

fn work(mut shelf: Shelf, orders: &Receiver<Order>, tell: &Tell) {
    for order in orders {
        match order {
            Order::Note(draft) => tell(shelf.keep(complete(*draft))),
            Order::List(wanted, reply) => {
                let _gone = reply.send(list(&shelf, wanted));
            }
            Order::Show(id, reply) => {
                let _gone = reply.send(shelf.read(id).ok_or_else(|| no_such(id)));
            }
        }
    }
}

/// Puts what the process wrote last into the incident, and the reason into words.
fn complete(draft: Draft) -> Incident {
    let Draft { mut incident, death, tail, secrets, cwd } = draft;
    let secrets = KnownSecrets::new(secrets);
    // The log service answers as soon as it has read what is in the pipes; it waits for no disk.
    let StderrTail { lines, is_uncaught } =
        tail.and_then(|tail| tail.blocking_recv().ok()).unwrap_or_default();
    let lines: Vec<String> = lines.into_iter().map(|line| secrets.redact(line)).collect();
    if let Some(death) = &death {
        incident.summary.reason = death.reason(&lines);
    }
    let reason = std::mem::take(&mut incident.summary.reason);
    incident.summary.reason = secrets.redact(reason);
    let is_successor = death.is_some_and(|death| death.role == Role::Successor);
    let attempt = match incident.summary.kind {
        IncidentKind::FailedReload => Attempt::Reload { app: &incident.summary.app },
        _ if is_successor => Attempt::Reload { app: &incident.summary.app },
        _ => Attempt::Start { app: &incident.summary.app },
    };
    let hint = cause(&lines).and_then(|cause| next_step(cause, &cwd, attempt));
    incident.hint = hint.map(|hint| hint.text);
    incident.stderr_tail = lines;
    // A process that lives wrote the line itself.
    incident.is_uncaught = is_uncaught && incident.end.is_some();
    incident
}

fn list(shelf: &Shelf, wanted: Wanted) -> Result<IncidentList, ErrorReply> {
    let Wanted { apps, since_ms, after, unknown } = wanted;
    let is_of_apps =
        |summary: &&IncidentSummary| apps.as_ref().is_none_or(|apps| apps.contains(&summary.app));
    let of_apps: Vec<&IncidentSummary> = shelf.summaries().filter(is_of_apps).collect();
    if let Some(unknown) = unknown.filter(|_| of_apps.is_empty()) {
        return Err(unknown);
    }
    let is_wanted = |summary: &&IncidentSummary| summary.at_ms >= since_ms && summary.id > after;
    Ok(IncidentList { incidents: of_apps.into_iter().filter(is_wanted).cloned().collect() })
}

fn no_such(id: u64) -> ErrorReply {
    ErrorReply::new(
        ErrorCode::NoSuchTarget,
        format!("there is no incident {id}; old incidents are removed"),
        None,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use forkful_core::slot::Exit;

    use super::*;

    fn draft(tail: Option<oneshot::Receiver<StderrTail>>) -> Draft {
        let summary = IncidentSummary {
            id: 0,
            at_ms: 1,
            kind: IncidentKind::Crash,
            app: "api".to_owned(),
            pm_id: Some(0),
            reason: "exit code 1".to_owned(),
            next: None,
        };
        let incident = Incident {
            summary,
            end: None,
            stderr_tail: Vec::new(),
            is_uncaught: false,
            hint: None,
            metrics: BTreeMap::new(),
        };
        Draft { incident, death: None, tail, secrets: Vec::new(), cwd: String::new() }
    }

    #[test]
    fn what_was_noted_is_written_before_the_end() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("incidents");
        let mut incidents = Incidents::new(folder.clone(), |_| {});
        for _ in 0..20 {
            incidents.note(draft(None));
        }
        drop(incidents);
        fs_err::write(folder.join(".draft.9.json"), "{").unwrap();
        assert_eq!(fs_err::read_dir(&folder).unwrap().count(), 21);
        // A command reads them without a daemon, and changes nothing.
        let home = Home::new(home.path().to_owned());
        assert_eq!(kept_incidents(&home, None, 0).unwrap().incidents.len(), 20);
        assert_eq!(kept_incidents(&home, None, 2).unwrap().incidents.len(), 0);
        let of = |app: &str| kept_incidents(&home, Some(vec![app.to_owned()]), 0);
        assert_eq!((of("api").unwrap().incidents.len(), of("web").is_err()), (20, true));
        assert_eq!(kept_incident(&home, 20).unwrap().summary.id, 20);
        assert!(kept_incident(&home, 21).is_err());
        assert_eq!(fs_err::read_dir(folder).unwrap().count(), 21);
    }

    #[test]
    fn a_failed_reload_is_to_be_reloaded_again() {
        let hint = |kind, role: Option<Role>| {
            let (sender, tail) = oneshot::channel();
            let lines = vec!["SyntaxError: Unexpected token".to_owned()];
            sender.send(StderrTail { lines, is_uncaught: false }).unwrap();
            let mut draft = draft(Some(tail));
            draft.incident.summary.kind = kind;
            draft.death = role.map(|role| Death { exit: Exit::Code(1), role, kernel: None, stuck: None });
            complete(draft).hint.unwrap()
        };
        let reload = "reload it again with `forkful reload api`";
        assert!(hint(IncidentKind::FailedReload, None).ends_with(reload));
        assert!(hint(IncidentKind::Crash, Some(Role::Successor)).ends_with(reload));
        assert!(hint(IncidentKind::Crash, Some(Role::Serving)).ends_with("start the app again"));
    }

    #[test]
    fn what_hangs_does_not_hold_up_the_end() {
        let home = tempfile::tempdir().unwrap();
        let mut incidents = Incidents::new(home.path().join("incidents"), |_| {});
        incidents.written_within = Duration::from_millis(1);
        let (sender, never) = oneshot::channel();
        incidents.note(draft(Some(never)));
        drop(incidents);
        // Until here it has waited for the tail.
        drop(sender);
    }
}
