//! Permits for connections of the API and of probes.
//!
//! There are [`CONNECTIONS_MAX`], and fewer for probes; when one more connection comes, the permit of the least useful connection is revoked: one
//! whose client does not read, longest first, else the one that was quiet for the longest time. So no number of forgotten or
//! half-open clients keeps `forkful list` from working. A client that has not taken a byte for [`STALL_MAX`] is dropped in
//! any case, because what waits for it takes memory.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

/// Connections that are served at once. Each costs about 10 KB.
pub const CONNECTIONS_MAX: usize = 1024;

/// How long a client may leave unread what it has asked for. Somebody who has stopped a terminal's output may want to go on.
pub const STALL_MAX: Duration = Duration::from_secs(300);

/// What is known of a connection.
#[derive(Debug)]
struct Holder {
    progress: Mutex<Progress>,
    revoked: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Progress {
    /// The kernel's buffer is full, for the client does not read.
    is_stalled: bool,
    /// When something was last read or written.
    moved: Instant,
}

impl Holder {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Permits {
    most: usize,
    holders: Mutex<BTreeMap<u64, Arc<Holder>>>,
    changed: Notify,
}

impl Permits {
    pub(super) fn new(most: usize) -> Self {
        Self { most, holders: Mutex::default(), changed: Notify::new() }
    }

    /// Waits for a permit, and revokes one if there is none left.
    pub(super) async fn acquire(self: &Arc<Self>) -> Permit {
        while self.holders().len() >= self.most {
            if let Some(holder) = self.least_useful() {
                holder.revoked.notify_one();
            }
            self.changed.notified().await;
        }
        let progress = Progress { is_stalled: false, moved: Instant::now() };
        let holder = Arc::new(Holder { progress: Mutex::new(progress), revoked: Notify::new() });
        let mut holders = self.holders();
        let number = holders.last_key_value().map_or(0, |(last, _)| last + 1);
        holders.insert(number, Arc::clone(&holder));
        Permit { number, holder, permits: Arc::clone(self) }
    }

    /// Waits until all have left.
    pub(super) async fn empty(&self) {
        while !self.holders().is_empty() {
            self.changed.notified().await;
        }
    }

    fn least_useful(&self) -> Option<Arc<Holder>> {
        let order = |holder: &&Arc<Holder>| {
            let progress = *holder.progress();
            (!progress.is_stalled, progress.moved)
        };
        self.holders().values().min_by_key(order).map(Arc::clone)
    }

    fn holders(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Holder>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of a connection, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    number: u64,
    holder: Arc<Holder>,
    permits: Arc<Permits>,
}

impl Permit {
    /// Waits until another connection needs the permit.
    pub(super) async fn revoked(&self) {
        self.holder.revoked.notified().await;
    }

    pub(super) fn observe<S>(&self, stream: S) -> Observed<S> {
        Observed { stream, holder: Arc::clone(&self.holder), stall: None }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.holders().remove(&self.number);
        self.permits.changed.notify_one();
    }
}

/// A stream that notes what moves, and fails when nothing was read at the other end for too long.
#[derive(Debug)]
pub(super) struct Observed<S> {
    stream: S,
    holder: Arc<Holder>,
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> Observed<S> {
    fn moved(&self) {
        *self.holder.progress() = Progress { is_stalled: false, moved: Instant::now() };
    }

    /// Notes how a write went.
    fn written<T>(&mut self, outcome: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stall = None;
            self.moved();
            return outcome;
        }
        self.holder.progress().is_stalled = true;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        // A client that sends while it does not read has not read anything by sending.
        if self.stall.is_none() {
            self.moved();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(outcome, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(outcome, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    use super::*;

    /// One step of the timer, which is what a clock that stands still may be late by.
    const STEP: Duration = Duration::from_millis(1);

    /// Writes without end; how much time went by until that failed, and why it did.
    async fn flood(stream: UnixStream) -> (Duration, io::ErrorKind) {
        let permit = Arc::new(Permits::new(CONNECTIONS_MAX)).acquire().await;
        let mut ours = permit.observe(stream);
        let (bytes, began) = (vec![0; 64 << 10], Instant::now());
        loop {
            if let Err(fault) = ours.write_all(&bytes).await {
                return (began.elapsed(), fault.kind());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_dropped_after_the_bound_and_no_sooner() {
        let (ours, client) = UnixStream::pair().expect("sockets");
        let (lasted, fault) = flood(ours).await;
        assert_eq!(fault, io::ErrorKind::TimedOut);
        assert!((STALL_MAX..=STALL_MAX + STEP).contains(&lasted), "{lasted:?}");
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_in_time_stays_however_slow() {
        const PAUSE: Duration = STALL_MAX.saturating_sub(Duration::from_secs(1));
        const READS: u32 = 3;
        let (ours, client) = UnixStream::pair().expect("sockets");
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            for _ in 0..READS {
                sleep(PAUSE).await;
                while client.try_read(&mut buffer).is_ok_and(|length| length > 0) {}
            }
            client
        });
        let (lasted, fault) = flood(ours).await;
        assert_eq!(fault, io::ErrorKind::TimedOut);
        let bound = PAUSE * READS + STALL_MAX;
        assert!((bound..=bound + STEP * (READS + 1)).contains(&lasted), "{lasted:?}, not {bound:?}");
        drop(reader.await.expect("it reads"));
    }
}
