//! Watching clients: each has a bounded queue of events, and the daemon never waits for it. An event is
//! serialised once for all clients; without clients it is not even created.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forkful_api::conversation::{DaemonEvent, EventsQuery, SkippedEvents};
use hyper::body::Bytes;
use tokio::sync::mpsc;

/// Maximum events that wait for one client.
pub(crate) const QUEUE_EVENTS_MAX: usize = 4096;
/// Maximum bytes of waiting events. A larger event passes if nothing else is waiting.
pub(crate) const QUEUE_BYTES_MAX: usize = 8 << 20;

/// A client's end: frames of server-sent events, in order.
#[derive(Debug)]
pub struct Subscription {
    frames: mpsc::Receiver<Bytes>,
    /// Bytes of waiting events.
    queued: Arc<AtomicUsize>,
    filter: Filter,
}

impl Subscription {
    /// The next frame, if any; ends when the hub is gone.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Bytes>> {
        let polled = self.frames.poll_recv(context);
        if let std::task::Poll::Ready(Some(frame)) = &polled {
            self.queued.fetch_sub(frame.len(), Ordering::Relaxed);
        }
        polled
    }

    /// No more frames are accepted; waiting frames can still be read.
    pub(crate) fn close(&mut self) {
        self.frames.close();
    }

    /// Whether a worker's events are wanted.
    pub(crate) fn wants(&self, app: &str, pm_id: Option<u32>) -> bool {
        self.filter.wants(app, pm_id)
    }
}

/// Which workers' events are wanted; without targets, all. Targets need not exist yet.
#[derive(Debug, Clone, Default)]
struct Filter {
    targets: Vec<String>,
}

impl Filter {
    fn parse(text: &str) -> Self {
        Self { targets: forkful_api::types::split_targets(text) }
    }

    fn wants(&self, app: &str, pm_id: Option<u32>) -> bool {
        let is_meant = |target: &String| {
            target == "all" || target == app || pm_id.is_some_and(|id| target.parse() == Ok(id))
        };
        self.targets.is_empty() || self.targets.iter().any(is_meant)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Hub {
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    frames: mpsc::Sender<Bytes>,
    queued: Arc<AtomicUsize>,
    filter: Filter,
    messages: bool,
    /// Events dropped since the last notice.
    skipped: u64,
}

impl Hub {
    pub(crate) fn subscribe(&mut self, query: &EventsQuery) -> Subscription {
        let filter = Filter::parse(&query.targets);
        let (sender, frames) = mpsc::channel(QUEUE_EVENTS_MAX);
        let queued = Arc::new(AtomicUsize::new(0));
        self.watchers.push(Watcher {
            frames: sender,
            queued: Arc::clone(&queued),
            filter: filter.clone(),
            messages: query.messages,
            skipped: 0,
        });
        Subscription { frames, queued, filter }
    }

    /// Whether there are watching clients.
    pub(crate) fn is_watched(&mut self) -> bool {
        self.watchers.retain(|watcher| !watcher.frames.is_closed());
        !self.watchers.is_empty()
    }

    /// Whether any client wants messages of apps.
    pub(crate) fn wants_messages(&mut self) -> bool {
        self.is_watched() && self.watchers.iter().any(|watcher| watcher.messages)
    }

    /// Sends an event to all clients that want it.
    pub(crate) fn publish(&mut self, app: &str, pm_id: Option<u32>, event: &DaemonEvent) {
        let is_message = matches!(event, DaemonEvent::Message(_));
        let mut written = None;
        for watcher in &mut self.watchers {
            if (!is_message || watcher.messages) && watcher.filter.wants(app, pm_id) {
                watcher.offer(written.get_or_insert_with(|| frame(event)));
            }
        }
    }
}

impl Watcher {
    fn offer(&mut self, frame: &Bytes) {
        if self.skipped > 0 {
            let notice = self::frame(&DaemonEvent::Skipped(SkippedEvents { count: self.skipped }));
            // Only when there is enough room, so that there are few notices.
            let roomy = self.frames.capacity() > QUEUE_EVENTS_MAX / 2
                && self.queued.load(Ordering::Relaxed) < QUEUE_BYTES_MAX / 2;
            if !roomy || !self.push(&notice) {
                self.skipped += 1;
                return;
            }
            self.skipped = 0;
        }
        if !self.push(frame) {
            self.skipped += 1;
        }
    }

    fn push(&self, frame: &Bytes) -> bool {
        let waiting = self.queued.load(Ordering::Relaxed);
        if waiting > 0 && waiting + frame.len() > QUEUE_BYTES_MAX {
            return false;
        }
        // Counted first: the reader may be faster.
        self.queued.fetch_add(frame.len(), Ordering::Relaxed);
        let sent = self.frames.try_send(frame.clone()).is_ok();
        if !sent {
            self.queued.fetch_sub(frame.len(), Ordering::Relaxed);
        }
        sent
    }
}

/// An event as a frame of `text/event-stream` (WHATWG HTML, 9.2).
pub(crate) fn frame(event: &DaemonEvent) -> Bytes {
    let data = match event {
        DaemonEvent::Process(process) => serde_json::to_string(process),
        DaemonEvent::Message(message) => serde_json::to_string(message),
        DaemonEvent::Stall(stall) => serde_json::to_string(stall),
        DaemonEvent::Incident(incident) => serde_json::to_string(incident),
        DaemonEvent::Log(line) => serde_json::to_string(line),
        DaemonEvent::Skipped(skipped) => serde_json::to_string(skipped),
        DaemonEvent::Ending(ending) => serde_json::to_string(ending),
    };
    // JSON has no line breaks, so one line of data is enough.
    let data = data.expect("our own types always have a JSON form");
    format!("event: {}\ndata: {data}\n\n", event.name()).into()
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use forkful_api::conversation::MessageEvent;

    use super::*;

    fn query(targets: &str, messages: bool) -> EventsQuery {
        EventsQuery { targets: targets.to_owned(), logs: false, messages }
    }

    fn message(text: &str) -> DaemonEvent {
        DaemonEvent::Message(MessageEvent { at_ms: 1, app: "api".to_owned(), pm_id: 3, message: text.into() })
    }

    fn read(subscription: &mut Subscription) -> Vec<String> {
        let mut context = Context::from_waker(Waker::noop());
        let mut frames = Vec::new();
        while let Poll::Ready(Some(frame)) = subscription.poll_next(&mut context) {
            frames.push(String::from_utf8(frame.to_vec()).unwrap());
        }
        frames
    }

    #[test]
    fn watchers_get_what_they_asked_for() {
        let mut hub = Hub::default();
        assert!(!hub.is_watched());
        let mut all = hub.subscribe(&query("", true));
        let mut by_id = hub.subscribe(&query("other,3", true));
        let mut other = hub.subscribe(&query("other", true));
        let mut no_messages = hub.subscribe(&query("", false));
        hub.publish("api", Some(3), &message("a\nb"));
        let expected =
            "event: process:msg\ndata: {\"at_ms\":1,\"app\":\"api\",\"pm_id\":3,\"message\":\"a\\nb\"}\n\n";
        assert_eq!(read(&mut all), [expected]);
        assert_eq!(read(&mut by_id), [expected]);
        assert!(read(&mut other).is_empty() && read(&mut no_messages).is_empty());
    }

    #[test]
    fn one_who_does_not_read_costs_a_bounded_queue_and_is_told_what_it_missed() {
        let mut hub = Hub::default();
        let mut slow = hub.subscribe(&query("", true));
        let large = message(&"x".repeat(1 << 20));
        for _ in 0..20 {
            hub.publish("api", Some(3), &large);
        }
        assert!(slow.queued.load(Ordering::Relaxed) <= QUEUE_BYTES_MAX);
        let first = read(&mut slow);
        hub.publish("api", Some(3), &message("after"));
        let rest = read(&mut slow);
        let missed = 20 - first.len();
        assert_eq!(rest[0], format!("event: events:skipped\ndata: {{\"count\":{missed}}}\n\n"));
        assert!(rest[1].contains("after"));
        assert_eq!(slow.queued.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_who_has_gone_is_forgotten() {
        let mut hub = Hub::default();
        let gone = hub.subscribe(&query("", true));
        assert!(hub.wants_messages());
        drop(gone);
        assert!(!hub.wants_messages() && !hub.is_watched());
    }
}
