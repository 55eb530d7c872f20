//! A place for a connection. When its connection ends, the place gets a new one and keeps its requests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use super::context::Context;
use super::fault::Fault;
use super::link::{Link, Talk};
use crate::cause::ErrorCause;
use crate::clock::Nanos;
use crate::http1::engine::retry_pause;

#[derive(Default)]
pub(super) struct ConnectionSlot {
    link: RefCell<Option<Rc<Link>>>,
    connecting: Cell<bool>,
    /// Requests assigned to this place that have not ended.
    assigned: Cell<usize>,
    /// Failed attempts since the last success, and the last failure.
    failures: Cell<u32>,
    failure: RefCell<Option<Fault>>,
    /// Completed attempts.
    attempts: Cell<u64>,
    /// A closed loop does not connect before this time.
    not_before: Cell<Nanos>,
    changed: Notify,
    /// The place is in the context's queue of places with room.
    queued: Cell<bool>,
    /// The place has had a connection.
    was_open: Cell<bool>,
    /// The event after which an event stream continues.
    last_event: RefCell<Option<String>>,
}

impl ConnectionSlot {
    /// The current connection.
    pub(super) fn current(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }

    /// Closed loop: waits until a request can be sent here, or a connection can be opened for one.
    pub(super) async fn room(&self, context: &Context) {
        loop {
            // Registered before checking, so that no notification is missed.
            let changed = self.changed.notified();
            let now = context.now();
            match self.current() {
                Some(link) if self.assigned.get() < allowed(context, &link) => return,
                None if now < self.not_before.get() => context.sleep_until(self.not_before.get()).await,
                // One request is enough to open a connection.
                None if self.assigned.get() == 0 && !self.connecting.get() => return,
                _ => changed.await,
            }
        }
    }

    /// Open loop: whether one more request may be assigned.
    fn has_room(&self, context: &Context) -> bool {
        let most = self.current().map_or(context.plan().pipelining, |link| allowed(context, &link));
        self.assigned.get() < most
    }

    /// Assigns a request.
    pub(super) fn assign(self: &Rc<Self>, context: &Rc<Context>) -> Assigned {
        self.assigned.set(self.assigned.get() + 1);
        Assigned { place: Rc::clone(self), context: Rc::clone(context) }
    }

    /// The connection of the place, opened if there is none. Requests that wait for the same attempt share
    /// its failure.
    pub(super) async fn link(self: &Rc<Self>, context: &Rc<Context>) -> Result<Rc<Link>, Fault> {
        loop {
            let (changed, attempts) = (self.changed.notified(), self.attempts.get());
            if let Some(link) = self.current() {
                return Ok(link);
            }
            if !self.connecting.get() {
                return self.connect(context).await;
            }
            changed.await;
            let failure = self.failure.borrow().clone();
            if let Some(failure) = failure.filter(|_| self.attempts.get() != attempts) {
                return Err(failure);
            }
        }
    }

    /// Opens a connection. If it is dropped before its end, it counts as too slow.
    pub(super) async fn connect(self: &Rc<Self>, context: &Rc<Context>) -> Result<Rc<Link>, Fault> {
        self.connecting.set(true);
        let attempt = Attempt { place: self, context, since: context.now(), ended: false };
        let last_event = self.last_event.borrow().clone();
        match Link::open(context, last_event).await {
            Ok((link, driver)) => {
                let link = Rc::new(link);
                attempt.opened(&link);
                let (place, context, driven) = (Rc::clone(self), Rc::clone(context), Rc::clone(&link));
                context.drivers.set(context.drivers.get() + 1);
                tokio::task::spawn_local(async move {
                    let result = driver.drive().await;
                    *driven.end.borrow_mut() = result.err();
                    if place.leave(&context, Some(&driven)) {
                        context.recorder.borrow_mut().report.connections.closed_by_server += 1;
                    }
                    context.drivers.set(context.drivers.get() - 1);
                    context.changed.notify_one();
                });
                Ok(link)
            }
            Err(fault) => {
                attempt.failed(fault.clone());
                Err(fault)
            }
        }
    }

    /// Removes the connection (`link`, or any): it gets no more requests and ends after its current ones.
    /// Returns whether it was removed.
    pub(super) fn leave(self: &Rc<Self>, context: &Context, link: Option<&Rc<Link>>) -> bool {
        let mut current = self.link.borrow_mut();
        let is_it = match (&*current, link) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(current), Some(link)) => Rc::ptr_eq(current, link),
        };
        if is_it {
            if let Some(link) = current.take() {
                if let Talk::Events(events) = &link.talk {
                    self.last_event.replace(events.last_id());
                }
                link.let_go();
            }
            drop(current);
            context.open.set(context.open.get() - 1);
            self.tell(context);
        }
        is_it
    }

    /// Notifies waiting tasks that there may be room.
    fn tell(self: &Rc<Self>, context: &Context) {
        self.changed.notify_waiters();
        if context.schedule.borrow().is_some() {
            self.queue(context);
            context.room.notify_one();
        }
    }

    /// Open loop: puts the place into the queue for the next request.
    pub(super) fn queue(self: &Rc<Self>, context: &Context) {
        if !self.queued.replace(true) {
            context.roomy.borrow_mut().push_back(Rc::clone(self));
        }
    }

    /// Open loop: selects a place with room. All are used in turn; a new place is created if all are full.
    pub(super) fn choose(context: &Rc<Context>) -> Option<Rc<Self>> {
        loop {
            let Some(place) = context.roomy.borrow_mut().pop_front() else { return context.new_place() };
            place.queued.set(false);
            if place.has_room(context) {
                return Some(place);
            }
        }
    }
}

/// Requests that a connection may have under way; one if the server currently allows none. Nothing reports
/// when the server allows streams again; the waiting request then succeeds or times out.
fn allowed(context: &Context, link: &Link) -> usize {
    context.plan().pipelining.min(link.streams()).max(1)
}

/// A place has one request more until this is dropped.
pub(super) struct Assigned {
    place: Rc<ConnectionSlot>,
    context: Rc<Context>,
}

impl Drop for Assigned {
    fn drop(&mut self) {
        self.place.assigned.set(self.place.assigned.get() - 1);
        self.place.tell(&self.context);
    }
}

/// A connection attempt.
struct Attempt<'a> {
    place: &'a Rc<ConnectionSlot>,
    context: &'a Rc<Context>,
    since: Nanos,
    ended: bool,
}

impl Attempt<'_> {
    fn opened(mut self, link: &Rc<Link>) {
        self.ended = true;
        let (place, context) = (self.place, self.context);
        place.connecting.set(false);
        place.failures.set(0);
        place.failure.replace(None);
        place.attempts.set(place.attempts.get() + 1);
        place.link.replace(Some(Rc::clone(link)));
        context.open.set(context.open.get() + 1);
        context.meter.borrow_mut().opened(context.open.get());
        context.streams.set(context.streams.get().min(link.streams()));
        let mut recorder = context.recorder.borrow_mut();
        recorder.report.connections.opened += 1;
        recorder.report.messages.reconnects += u64::from(place.was_open.replace(true));
        recorder.report.connect.note(context.now().saturating_sub(self.since));
        drop(recorder);
        place.tell(context);
    }

    fn failed(mut self, fault: Fault) {
        self.ended = true;
        self.note(fault);
    }

    fn note(&self, fault: Fault) {
        let (place, context) = (self.place, self.context);
        place.connecting.set(false);
        place.failures.set(place.failures.get().saturating_add(1));
        place.attempts.set(place.attempts.get() + 1);
        place.not_before.set(context.now() + retry_pause(place.failures.get()));
        context.recorder.borrow_mut().report.connections.failed += 1;
        context.first_failure.borrow_mut().get_or_insert_with(|| (fault.cause, fault.detail.clone()));
        place.failure.replace(Some(fault));
        place.tell(context);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.note(Fault::new(ErrorCause::ConnectTimeout, ""));
        }
    }
}
