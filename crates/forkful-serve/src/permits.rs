//! A fixed number of permits for connections. When all are taken, the permit of the connection that has been
//! without a request for the longest time is revoked: an idle connection, or a client that sends its request
//! too slowly. A connection whose response is in progress keeps its permit as long as its client reads at
//! [`RATE_MIN`] or faster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long a new connection may take until its first request before its permit can be revoked: several round
/// trips.
const FIRST_GRACE: Duration = Duration::from_secs(1);
/// The same after a response, whose end may still be on its way to a slow client.
const NEXT_GRACE: Duration = Duration::from_secs(5);

/// The same during a response, in addition to the time for its bytes.
const ANSWER_GRACE: Duration = Duration::from_secs(20);
/// A client that reads this many bytes per second keeps its permit; a slow mobile connection has ten times as
/// many.
const RATE_MIN: u32 = 4 << 10;

#[derive(Debug)]
pub(crate) struct Permits {
    size_max: usize,
    holders: Mutex<Holders>,
    /// Notified when a permit is returned or becomes revocable.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Holders {
    by_number: BTreeMap<u64, Holder>,
    next: u64,
}

#[derive(Debug)]
struct Holder {
    /// When the permit becomes revocable; `None` after it was revoked.
    patience_ends: Option<Instant>,
    revoked: Arc<Notify>,
}

/// The permit of a connection, returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Arc<Permits>,
    number: u64,
    revoked: Arc<Notify>,
}

/// A response in progress, until dropped.
#[derive(Debug)]
pub(crate) struct Answering {
    permits: Arc<Permits>,
    number: u64,
}

impl Permits {
    pub(crate) fn new(size_max: usize) -> Arc<Self> {
        Arc::new(Self { size_max, holders: Mutex::default(), changed: Notify::new() })
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Permit {
        loop {
            let changed = self.changed.notified();
            if let Some(permit) = self.try_acquire() {
                return permit;
            }
            match self.make_room(Instant::now()) {
                Some(later) => drop(timeout_at(later, changed).await),
                None => changed.await,
            }
        }
    }

    fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        let mut holders = self.holders();
        if holders.by_number.len() >= self.size_max {
            return None;
        }
        let number = holders.next;
        holders.next += 1;
        let revoked = Arc::new(Notify::new());
        let holder =
            Holder { patience_ends: Some(Instant::now() + FIRST_GRACE), revoked: Arc::clone(&revoked) };
        holders.by_number.insert(number, holder);
        Some(Permit { permits: Arc::clone(self), number, revoked })
    }

    /// Revokes the permit that has been revocable for the longest time. If there is none, returns when the
    /// first one becomes revocable, if nothing changes.
    fn make_room(&self, now: Instant) -> Option<Instant> {
        let mut holders = self.holders();
        let waiting = holders.by_number.values_mut().filter(|holder| holder.patience_ends.is_some());
        let longest = waiting.min_by_key(|holder| holder.patience_ends)?;
        if let Some(later) = longest.patience_ends.filter(|end| *end > now) {
            return Some(later);
        }
        longest.patience_ends = None;
        longest.revoked.notify_one();
        None
    }

    /// Waits until all permits are returned.
    pub(crate) async fn empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.holders().by_number.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn set_patience(&self, number: u64, patience: Duration) {
        if let Some(holder) = self.holders().by_number.get_mut(&number) {
            holder.patience_ends = Some(Instant::now() + patience);
        }
    }

    /// The client has read bytes: extends the time by what they need at [`RATE_MIN`], up to the time of a new
    /// response.
    fn prolong(&self, number: u64, bytes: usize) {
        let now = Instant::now();
        if let Some(holder) = self.holders().by_number.get_mut(&number)
            && let Some(ends) = &mut holder.patience_ends
        {
            let more = Duration::from_secs_f64(bytes as f64 / f64::from(RATE_MIN));
            *ends = ((*ends).max(now) + more).min(now + ANSWER_GRACE);
        }
    }
}

impl Permit {
    /// Completes when the permit is revoked: the connection must close.
    pub(crate) async fn revoked(&self) {
        self.revoked.notified().await;
    }

    /// Records that a request has arrived.
    pub(crate) fn answering(&self) -> Answering {
        self.permits.set_patience(self.number, ANSWER_GRACE);
        Answering { permits: Arc::clone(&self.permits), number: self.number }
    }
}

impl Answering {
    /// Records that the client has room for this many more bytes.
    pub(crate) fn progress(&self, bytes: usize) {
        self.permits.prolong(self.number, bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.holders().by_number.remove(&self.number);
        self.permits.changed.notify_one();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.permits.set_patience(self.number, NEXT_GRACE);
        self.permits.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_waited_for_longest_makes_room_but_none_that_is_answered() {
        let permits = Permits::new(3);
        let busy = permits.acquire().await;
        let answering = busy.answering();
        let slow = permits.acquire().await;
        tokio::time::advance(Duration::from_millis(300)).await;
        let kept = permits.acquire().await;
        drop(kept.answering());
        assert!(permits.try_acquire().is_none());
        let newcomer = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.acquire().await }
        });
        slow.revoked().await;
        assert!(!newcomer.is_finished());
        drop(slow);
        let newcomer = newcomer.await.unwrap();
        // Another connection: it waits for the first request of the last one, then it precedes `kept`.
        let next = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.acquire().await }
        });
        newcomer.revoked().await;
        drop(newcomer);
        let next = next.await.unwrap();
        drop(answering);
        drop((busy, kept, next));
        permits.empty().await;
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_read_their_answers_a_newcomer_waits() {
        let permits = Permits::new(1);
        let only = permits.acquire().await;
        let answering = only.answering();
        let newcomer = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.acquire().await }
        });
        let read = async {
            // An hour, slightly above the minimum rate.
            for _ in 0..360 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                answering.progress(11 * RATE_MIN as usize);
            }
        };
        tokio::select! {
            () = read => {}
            () = only.revoked() => panic!("a client that reads was asked to make room"),
        }
        assert!(!newcomer.is_finished());
        drop(answering);
        only.revoked().await;
        drop(only);
        drop(newcomer.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_hardly_read_make_room() {
        let permits = Permits::new(1);
        for rate in [0, RATE_MIN / 2] {
            let slow = permits.acquire().await;
            let answering = slow.answering();
            let newcomer = tokio::spawn({
                let permits = Arc::clone(&permits);
                async move { permits.acquire().await }
            });
            let read = async {
                for _ in 0..3600 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    answering.progress(rate as usize);
                }
            };
            tokio::select! {
                () = read => panic!("a client that hardly reads kept its place for an hour"),
                () = slow.revoked() => {}
            }
            drop((answering, slow));
            drop(newcomer.await.unwrap());
        }
    }
}
