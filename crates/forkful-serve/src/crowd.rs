//! Who is served at once. There are so many places; when all are taken, the connection that has been without a request
//! for longest makes room: one that is kept open, or whose client sends a request so slowly that it holds a place for
//! nothing. A connection whose answer is under way is left alone as long as its client reads it at [`RATE_MIN`] or faster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long a new connection may take to its first request before it makes room: some round trips.
const FIRST_GRACE: Duration = Duration::from_secs(1);
/// The same after an answer, the end of which may still be on its way to a slow client.
const NEXT_GRACE: Duration = Duration::from_secs(5);

/// The same while an answer is under way, beyond what its bytes give.
const ANSWER_GRACE: Duration = Duration::from_secs(20);
/// Bytes a second at which a client reads that keeps its place: a slow mobile connection has ten times as many.
const RATE_MIN: u32 = 4 << 10;

#[derive(Debug)]
pub(crate) struct Crowd {
    size_max: usize,
    members: Mutex<Members>,
    /// A place has become free, or a connection has become one that can make room.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Members {
    by_number: BTreeMap<u64, Member>,
    next: u64,
}

#[derive(Debug)]
struct Member {
    /// When it may be asked to make room; `None` after it was asked.
    patience_ends: Option<Instant>,
    leave: Arc<Notify>,
}

/// A connection's place, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
    leave: Arc<Notify>,
}

/// An answer under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Answering {
    crowd: Arc<Crowd>,
    number: u64,
}

impl Crowd {
    pub(crate) fn new(size_max: usize) -> Arc<Self> {
        Arc::new(Self { size_max, members: Mutex::default(), changed: Notify::new() })
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection, as soon as there is one.
    pub(crate) async fn enter(self: &Arc<Self>) -> Place {
        loop {
            let changed = self.changed.notified();
            if let Some(place) = self.try_enter() {
                return place;
            }
            match self.make_room(Instant::now()) {
                Some(later) => drop(timeout_at(later, changed).await),
                None => changed.await,
            }
        }
    }

    fn try_enter(self: &Arc<Self>) -> Option<Place> {
        let mut members = self.members();
        if members.by_number.len() >= self.size_max {
            return None;
        }
        let number = members.next;
        members.next += 1;
        let leave = Arc::new(Notify::new());
        let member = Member { patience_ends: Some(Instant::now() + FIRST_GRACE), leave: Arc::clone(&leave) };
        members.by_number.insert(number, member);
        Some(Place { crowd: Arc::clone(self), number, leave })
    }

    /// Asks the one that has waited for longest to leave; or says when there will be one to ask, if nothing changes.
    fn make_room(&self, now: Instant) -> Option<Instant> {
        let mut members = self.members();
        let waiting = members.by_number.values_mut().filter(|member| member.patience_ends.is_some());
        let longest = waiting.min_by_key(|member| member.patience_ends)?;
        if let Some(later) = longest.patience_ends.filter(|end| *end > now) {
            return Some(later);
        }
        longest.patience_ends = None;
        longest.leave.notify_one();
        None
    }

    /// Waits until nobody is left.
    pub(crate) async fn empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.members().by_number.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn set_patience(&self, number: u64, patience: Duration) {
        if let Some(member) = self.members().by_number.get_mut(&number) {
            member.patience_ends = Some(Instant::now() + patience);
        }
    }

    /// Bytes were taken: the time that they need at [`RATE_MIN`] is added, but no more than a new answer has.
    fn prolong(&self, number: u64, bytes: usize) {
        let now = Instant::now();
        if let Some(member) = self.members().by_number.get_mut(&number)
            && let Some(ends) = &mut member.patience_ends
        {
            let more = Duration::from_secs_f64(bytes as f64 / f64::from(RATE_MIN));
            *ends = ((*ends).max(now) + more).min(now + ANSWER_GRACE);
        }
    }
}

impl Place {
    /// Completes when the connection is to make room.
    pub(crate) async fn leave(&self) {
        self.leave.notified().await;
    }

    /// Marks that a request has come.
    pub(crate) fn answering(&self) -> Answering {
        self.crowd.set_patience(self.number, ANSWER_GRACE);
        Answering { crowd: Arc::clone(&self.crowd), number: self.number }
    }
}

impl Answering {
    /// Marks that the client has room for this many bytes more.
    pub(crate) fn progress(&self, bytes: usize) {
        self.crowd.prolong(self.number, bytes);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.members().by_number.remove(&self.number);
        self.crowd.changed.notify_one();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.crowd.set_patience(self.number, NEXT_GRACE);
        self.crowd.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_waited_for_longest_makes_room_but_none_that_is_answered() {
        let crowd = Crowd::new(3);
        let busy = crowd.enter().await;
        let answering = busy.answering();
        let slow = crowd.enter().await;
        tokio::time::advance(Duration::from_millis(300)).await;
        let kept = crowd.enter().await;
        drop(kept.answering());
        assert!(crowd.try_enter().is_none());
        let newcomer = tokio::spawn({
            let crowd = Arc::clone(&crowd);
            async move { crowd.enter().await }
        });
        slow.leave().await;
        assert!(!newcomer.is_finished());
        drop(slow);
        let newcomer = newcomer.await.unwrap();
        // The next newcomer: the first request of the last one is waited for, then it goes before `kept`.
        let next = tokio::spawn({
            let crowd = Arc::clone(&crowd);
            async move { crowd.enter().await }
        });
        newcomer.leave().await;
        drop(newcomer);
        let next = next.await.unwrap();
        drop(answering);
        drop((busy, kept, next));
        crowd.empty().await;
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_read_their_answers_a_newcomer_waits() {
        let crowd = Crowd::new(1);
        let only = crowd.enter().await;
        let answering = only.answering();
        let newcomer = tokio::spawn({
            let crowd = Arc::clone(&crowd);
            async move { crowd.enter().await }
        });
        let read = async {
            // An hour, at a little more than the slowest rate.
            for _ in 0..360 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                answering.progress(11 * RATE_MIN as usize);
            }
        };
        tokio::select! {
            () = read => {}
            () = only.leave() => panic!("a client that reads was asked to make room"),
        }
        assert!(!newcomer.is_finished());
        drop(answering);
        only.leave().await;
        drop(only);
        drop(newcomer.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_hardly_read_make_room() {
        let crowd = Crowd::new(1);
        for rate in [0, RATE_MIN / 2] {
            let slow = crowd.enter().await;
            let answering = slow.answering();
            let newcomer = tokio::spawn({
                let crowd = Arc::clone(&crowd);
                async move { crowd.enter().await }
            });
            let read = async {
                for _ in 0..3600 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    answering.progress(rate as usize);
                }
            };
            tokio::select! {
                () = read => panic!("a client that hardly reads kept its place for an hour"),
                () = slow.leave() => {}
            }
            drop((answering, slow));
            drop(newcomer.await.unwrap());
        }
    }
}
