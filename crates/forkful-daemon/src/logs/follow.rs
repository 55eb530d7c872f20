//! Those who read along: bounded channels that are never waited for.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forkful_api::types::LogStream;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::lines::{Chunk, LineSenders, Waiting};
use super::stream::{Batch, StreamInfo};

/// New lines that wait for one follower. One batch of more passes when nothing else waits.
pub(super) const FOLLOWER_LINES_MAX: usize = 16 << 10;
/// Memory of the batches that hold them; so, too.
pub(super) const FOLLOWER_BYTES_MAX: usize = 8 << 20;
/// Batches; apps that say little and often make small ones.
pub(super) const FOLLOWER_CHUNKS_MAX: usize = 4096;
/// How soon a follower that missed lines is looked at again when nothing else happens.
pub(super) const SKIP_NOTICE_EVERY: Duration = Duration::from_millis(200);
/// The app's name on lines that are ours.
pub(super) const OUR_NAME: &str = "forkful";

/// What to read back and what to read along with.
#[derive(Debug, Clone)]
pub struct FollowRequest {
    /// Files whose last lines come first, file by file.
    pub files: Vec<TailFile>,
    /// How many of each; at most `LOG_TAIL_LINES_MAX`.
    pub lines: u32,
    /// Go on with new lines until the receiver is dropped; else the channel ends after the files' lines.
    pub follow: bool,
    pub filter: FollowFilter,
}

/// A file whose last lines are wanted, and whose they are.
#[derive(Debug, Clone)]
pub struct TailFile {
    pub app: String,
    /// The worker; `None` when several write to the file.
    pub pm_id: Option<u32>,
    pub stream: LogStream,
    pub path: PathBuf,
}

/// Which new lines a follower gets.
#[derive(Debug, Clone)]
pub struct FollowFilter {
    pub who: Followed,
    /// Only this stream.
    pub stream: Option<LogStream>,
}

/// Of whom a follower gets lines.
#[derive(Debug, Clone)]
pub enum Followed {
    /// Of every worker, also of those to come.
    All,
    Some {
        /// Of these apps' workers, also of those to come.
        apps: BTreeSet<String>,
        workers: BTreeSet<u32>,
    },
}

impl FollowFilter {
    fn matches(&self, stream: &StreamInfo) -> bool {
        let who = match &self.who {
            Followed::All => true,
            Followed::Some { apps, workers } => {
                workers.contains(&stream.pm_id) || apps.contains(&*stream.app)
            }
        };
        who && self.stream.is_none_or(|wanted| wanted == stream.stream)
    }
}

#[derive(Debug, Default)]
pub(super) struct Followers {
    followers: Vec<Follower>,
}

impl Followers {
    /// Sends everything new from now on.
    pub(super) fn add(&mut self, filter: FollowFilter, senders: LineSenders) {
        self.followers.retain(|follower| !follower.sender.is_closed());
        let LineSenders { live, waiting, begun, .. } = senders;
        self.followers.push(Follower { filter, sender: live, waiting, skipped: 0 });
        drop(begun);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.followers.is_empty()
    }

    /// Offers new lines to the followers.
    pub(super) fn offer(&mut self, batch: &Arc<Batch>) {
        self.followers
            .retain_mut(|follower| !follower.filter.matches(&batch.stream) || follower.offer(batch).is_ok());
    }

    /// How long the writer may wait before it calls [`Self::tell_skips`]; `None` when nobody missed a line.
    pub(super) fn wait_max(&self) -> Option<Duration> {
        self.followers.iter().any(|follower| follower.skipped > 0).then_some(SKIP_NOTICE_EVERY)
    }

    /// Tells followers that missed lines and have caught up.
    pub(super) fn tell_skips(&mut self, now_ms: u64) {
        self.followers
            .retain_mut(|follower| follower.skipped == 0 || follower.tell_skip_if_caught_up(now_ms).is_ok());
    }
}

/// The receiver has gone.
#[derive(Debug)]
struct Gone;

#[derive(Debug)]
struct Follower {
    filter: FollowFilter,
    sender: mpsc::Sender<Chunk>,
    waiting: Arc<Waiting>,
    /// Lines missed and not told of yet.
    skipped: u64,
}

impl Follower {
    fn offer(&mut self, batch: &Arc<Batch>) -> Result<(), Gone> {
        if self.skipped > 0 {
            self.tell_skip_if_caught_up(batch.at_ms)?;
        }
        let (lines, bytes) = (batch.line_count() as usize, batch.cost());
        let (waiting_lines, waiting_bytes) = (self.waiting.lines(), self.waiting.bytes());
        let fits = waiting_lines == 0
            || waiting_lines + lines <= FOLLOWER_LINES_MAX && waiting_bytes + bytes <= FOLLOWER_BYTES_MAX;
        if self.skipped > 0 || !fits {
            self.skipped += lines as u64;
            return if self.sender.is_closed() { Err(Gone) } else { Ok(()) };
        }
        self.send(Chunk::Lines(Arc::clone(batch)), lines, bytes)
    }

    /// Only when half of the room is free, so that a slow follower sees long stretches of lines and few notices.
    fn tell_skip_if_caught_up(&mut self, now_ms: u64) -> Result<(), Gone> {
        if self.sender.is_closed() {
            return Err(Gone);
        }
        let chunks = self.sender.max_capacity() - self.sender.capacity();
        if self.waiting.lines() > FOLLOWER_LINES_MAX / 2
            || self.waiting.bytes() > FOLLOWER_BYTES_MAX / 2
            || chunks > FOLLOWER_CHUNKS_MAX / 2
        {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.skipped);
        self.send(Chunk::Skipped { lines, at_ms: now_ms }, 1, 0)
    }

    fn send(&mut self, chunk: Chunk, lines: usize, bytes: usize) -> Result<(), Gone> {
        // Before it is sent, for the receiver takes it off.
        self.waiting.add(lines, bytes);
        match self.sender.try_send(chunk) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Gone),
            Err(TrySendError::Full(chunk)) => {
                self.waiting.remove(lines, bytes);
                if let Chunk::Lines(_) = chunk {
                    self.skipped += lines as u64;
                }
                Ok(())
            }
        }
    }
}
