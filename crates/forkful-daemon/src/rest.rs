//! Gives memory back while the daemon rests: most of what a client or a look at the apps needs is not needed until the next one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use forkful_os::{heap, memory};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The time from the last use until memory is given back.
const AFTER: Duration = Duration::from_secs(1);

/// Knows when the daemon was last used; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rest(Arc<Uses>);

#[derive(Debug, Default)]
struct Uses {
    client: Notify,
    look: Notify,
}

impl Rest {
    /// Gives memory back from now on, whenever the daemon rests.
    pub(crate) fn begin() -> Self {
        let rest = Self::default();
        let following = rest.clone();
        tokio::task::spawn_local(async move { following.follow(give_back).await });
        rest
    }

    /// A client has come or gone.
    pub(crate) fn note_client(&self) {
        self.0.client.notify_one();
    }

    /// Apps were looked at. Busy ones are looked at every second, which does not put anything off.
    pub(crate) fn note_look(&self) {
        self.0.look.notify_one();
    }

    /// Calls `give_back` when there was no client for [`AFTER`]: one time after the start, and one time after each period of use, which
    /// clients and looks begin.
    async fn follow<R>(&self, give_back: impl Fn() -> R) -> Infallible {
        let Uses { client, look } = &*self.0;
        loop {
            while timeout(AFTER, client.notified()).await.is_ok() {}
            give_back();
            tokio::select! {
                () = client.notified() => {}
                () = look.notified() => {}
            }
        }
    }
}

fn give_back() {
    heap::trim();
    memory::forget_code();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn memory_is_given_back_when_nobody_has_used_the_daemon_for_a_while() {
        let (rest, given_back) = (Rest::default(), Cell::new(0));
        let following = rest.follow(|| given_back.set(given_back.get() + 1));
        let users = async {
            let after = async |seconds: u64| {
                sleep(Duration::from_millis(seconds * 500 + 1)).await;
                given_back.get()
            };
            assert_eq!((after(1).await, after(1).await, after(60).await), (0, 1, 1), "after the start");
            rest.note_client();
            assert_eq!(after(1).await, 1);
            rest.clone().note_client();
            assert_eq!(
                (after(1).await, after(1).await, after(60).await),
                (1, 2, 2),
                "after the second client"
            );
            for (looks, times) in [(1, 2), (2, 3), (3, 3), (4, 4)] {
                rest.note_look();
                assert_eq!(after(1).await, times, "{looks} looks, two a second");
            }
            rest.note_look();
            rest.note_client();
            assert_eq!((after(1).await, after(1).await), (4, 5), "once for both");
        };
        tokio::select! {
            never = following => match never {},
            () = users => {}
        }
    }
}
