//! Those who read along: bounded channels that are never waited for.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use forkful_api::types::{LOG_TAIL_LINES_MAX, LogLine, LogStream};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::stream::{Batch, StreamInfo};
use super::tail::last_lines;

/// New lines that wait for one follower; about what a terminal shows in a second or two.
pub(super) const FOLLOWER_LINES_MAX: usize = 4096;
/// Their bytes. One line that is longer passes when nothing else waits.
pub(super) const FOLLOWER_BYTES_MAX: usize = 8 << 20;
/// Bytes that one request reads back from all its files together; more than the longest line.
pub(super) const TAIL_BYTES_MAX: usize = 32 << 20;
/// How soon a follower that missed lines is looked at again when nothing else happens.
pub(super) const SKIP_NOTICE_EVERY: Duration = Duration::from_millis(200);
/// The app's name on lines that are ours.
const OUR_NAME: &str = "forkful";

/// What to read back and what to read along with.
#[derive(Debug, Clone)]
pub struct FollowRequest {
    /// Files whose last lines come first, file by file.
    pub files: Vec<TailFile>,
    /// How many of each; at most `LOG_TAIL_LINES_MAX`.
    pub lines: u32,
    /// Go on with new lines until the receiver is dropped; else the channel ends after the files' lines.
    pub follow: bool,
    /// Which new lines.
    pub filter: FollowFilter,
}

/// A file whose last lines are wanted, and whose they are.
#[derive(Debug, Clone)]
pub struct TailFile {
    /// The app.
    pub app: String,
    /// The worker; `None` when several write to the file.
    pub pm_id: Option<u32>,
    /// The stream.
    pub stream: LogStream,
    /// The file.
    pub path: PathBuf,
}

/// Which new lines a follower gets.
#[derive(Debug, Clone)]
pub struct FollowFilter {
    /// Of whom.
    pub who: Followed,
    /// Only this stream.
    pub stream: Option<LogStream>,
}

/// Of whom a follower gets lines.
#[derive(Debug, Clone)]
pub enum Followed {
    /// Of every worker, also of those to come.
    All,
    /// Of these apps' workers, also of those to come.
    Apps(BTreeSet<String>),
    /// Of these workers.
    Workers(BTreeSet<u32>),
}

impl FollowFilter {
    fn matches(&self, stream: &StreamInfo) -> bool {
        let who = match &self.who {
            Followed::All => true,
            Followed::Apps(apps) => apps.contains(&*stream.app),
            Followed::Workers(workers) => workers.contains(&stream.pm_id),
        };
        who && self.stream.is_none_or(|wanted| wanted == stream.stream)
    }
}

/// How many lines the channel of a request must hold: all that are read back, since those were asked for, and
/// then [`FOLLOWER_LINES_MAX`]. The channel takes memory only for what is in it.
pub(super) fn channel_capacity(request: &FollowRequest) -> usize {
    request.files.len() * request.lines.min(LOG_TAIL_LINES_MAX) as usize + FOLLOWER_LINES_MAX
}

/// All followers.
#[derive(Debug, Default)]
pub(super) struct Followers {
    followers: Vec<Follower>,
}

impl Followers {
    /// Sends the ends of the files, and then, if asked for, everything new.
    pub(super) fn add(&mut self, request: FollowRequest, sender: mpsc::Sender<LogLine>) {
        self.followers.retain(|follower| !follower.sender.is_closed());
        let mut follower = Follower::new(request.filter, sender);
        follower.send_tails(&request.files, request.lines.min(LOG_TAIL_LINES_MAX) as usize);
        if request.follow {
            self.followers.push(follower);
        }
    }

    /// Offers new lines to those who want them.
    pub(super) fn offer(&mut self, batch: &Batch) {
        self.followers
            .retain_mut(|follower| !follower.filter.matches(&batch.stream) || follower.offer(batch).is_ok());
    }

    /// How long the writer may wait before it calls [`Self::tell_skips`]; `None` when nobody missed a line.
    pub(super) fn wait_max(&self) -> Option<Duration> {
        self.followers.iter().any(|follower| follower.skipped > 0).then_some(SKIP_NOTICE_EVERY)
    }

    /// Tells those who missed lines and have caught up.
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
    sender: mpsc::Sender<LogLine>,
    /// Sizes of new lines that may still be in the channel, oldest first.
    sizes: VecDeque<usize>,
    bytes: usize,
    /// Lines missed and not told of yet.
    skipped: u64,
}

impl Follower {
    fn new(filter: FollowFilter, sender: mpsc::Sender<LogLine>) -> Self {
        Self { filter, sender, sizes: VecDeque::new(), bytes: 0, skipped: 0 }
    }

    fn send_tails(&mut self, files: &[TailFile], lines: usize) {
        let mut bytes_left = TAIL_BYTES_MAX;
        for (index, file) in files.iter().enumerate() {
            let share = bytes_left / (files.len() - index);
            let found = match last_lines(&file.path, lines, share) {
                Ok(found) => found,
                Err(fault) => vec![format!("cannot read the log file: {fault}").into_bytes()],
            };
            for line in found {
                bytes_left = bytes_left.saturating_sub(line.len() + 1);
                let line = LogLine {
                    app: file.app.clone(),
                    pm_id: file.pm_id,
                    stream: file.stream,
                    at_ms: None,
                    line: text(&line),
                };
                // The channel was made to hold them; when it is closed there is nobody to tell.
                let _ = self.sender.try_send(line);
            }
        }
    }

    fn offer(&mut self, batch: &Batch) -> Result<(), Gone> {
        for line in batch.lines() {
            let content = &line[..line.len() - 1];
            if self.skipped > 0 {
                self.tell_skip_if_caught_up(batch.at_ms)?;
            }
            if self.skipped > 0 || !self.has_room(content.len()) {
                self.skipped += 1;
                continue;
            }
            let stream = &batch.stream;
            self.send(LogLine {
                app: stream.app.to_string(),
                pm_id: Some(stream.pm_id),
                stream: stream.stream,
                at_ms: Some(batch.at_ms),
                line: text(content),
            })?;
        }
        Ok(())
    }

    /// Only when half of the channel is free, so that a slow follower sees stretches of whole lines and few
    /// notices.
    fn tell_skip_if_caught_up(&mut self, now_ms: u64) -> Result<(), Gone> {
        if self.sender.is_closed() {
            return Err(Gone);
        }
        self.settle();
        if self.sizes.len() > FOLLOWER_LINES_MAX / 2 || self.bytes > FOLLOWER_BYTES_MAX / 2 {
            return Ok(());
        }
        let noun = if self.skipped == 1 { "line was" } else { "lines were" };
        let line = format!("{} {noun} skipped here: they came faster than they were read", self.skipped);
        self.skipped = 0;
        self.send(LogLine {
            app: OUR_NAME.to_owned(),
            pm_id: None,
            stream: LogStream::Err,
            at_ms: Some(now_ms),
            line,
        })
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = |this: &Self| {
            this.sizes.is_empty()
                || this.sizes.len() < FOLLOWER_LINES_MAX && this.bytes + bytes <= FOLLOWER_BYTES_MAX
        };
        if !fits(self) {
            self.settle();
        }
        fits(self)
    }

    /// Takes what was received since off the account.
    fn settle(&mut self) {
        let waiting = self.sender.max_capacity() - self.sender.capacity();
        // The channel is first in, first out: while more wait than new ones were sent, all of those wait.
        while self.sizes.len() > waiting {
            self.bytes -= self.sizes.pop_front().unwrap_or(0);
        }
    }

    fn send(&mut self, line: LogLine) -> Result<(), Gone> {
        let size = line.line.len();
        match self.sender.try_send(line) {
            Ok(()) => {
                self.sizes.push_back(size);
                self.bytes += size;
                Ok(())
            }
            Err(TrySendError::Closed(_)) => Err(Gone),
            // Cannot be, see `channel_capacity`; if it is, it is a line missed.
            Err(TrySendError::Full(_)) => {
                self.skipped += 1;
                Ok(())
            }
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}
