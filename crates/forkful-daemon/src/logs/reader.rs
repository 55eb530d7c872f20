//! The thread that reads the pipes: frames lines, keeps the ends of stderr, hands lines to the writer.
//!
//! Apps that write without pause would wake it, and it the writer, for every single line. While that is so it lets lines
//! gather in the pipes for [`GATHER`] at a time; a line that comes alone goes on at once. Whenever a pipe held much, more
//! than gathers in that time, there is no pause: on a machine without a free core it could become a long one.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use std::{io, mem, thread};

use forkful_api::types::LogStream;
use forkful_core::slot::Generation;
use forkful_os::keeper::Hold;
use forkful_os::pipe::View;
use forkful_os::reactor::{Interest, Reactor};
use forkful_os::wake::Wake;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::sync::oneshot;

use super::careful::{Care, Look, Receipt};
use super::follow::FollowRequest;
use super::frame::Framer;
use super::lines::LineSenders;
use super::queue::Queue;
use super::recent::{RecentLines, StderrTail};
use super::stream::{Batch, StreamInfo};
use super::writer::{Job, Report};

/// Read from one pipe before the next one's turn, so that one worker that never stops cannot starve others.
pub(super) const READ_BYTES_MAX: usize = 256 << 10;
/// A read of at least this much goes to the writer in the buffer that it was read into; less is copied.
const HAND_OVER_BYTES_MIN: usize = READ_BYTES_MAX / 4;
/// Who has so much in the pipe in one turn gets a larger one: half of a pipe's size to begin with on Linux.
const PIPE_BYTES_MUCH: usize = 32 << 10;
/// Who reads so much at once is behind, and goes on without letting anything gather.
const BEHIND_BYTES_MIN: usize = READ_BYTES_MAX / 2;
/// How long lines may gather, while they come without pause: no pipe of the usual size fills meanwhile at 60 MB/s.
pub(super) const GATHER: Duration = Duration::from_millis(1);
/// The largest that an unprivileged user may ask for, by default.
const PIPE_BYTES_LARGE: usize = 1 << 20;
/// Pipes that are large at a time. A user who has 64 MiB of pipes gets only tiny new ones, in every program
/// (pipe(7), pipe-user-pages-soft), so half of that is left alone.
const PIPES_LARGE_MAX: usize = 32;
/// Processes of a worker whose last lines are kept: the serving process, its successor, and a process that leaves or has ended.
const TAILS_MAX: usize = 3;
/// How a pipe is watched that is read with care: after each report it is silent until a look has found nothing new in it.
const CAREFULLY: Interest = Interest::READ_ONCE;
/// The token of the wake-up descriptor; streams count from 0.
const WAKE: u64 = u64::MAX;

/// Messages from the handle. Their number is bounded by what the engine asks for: a few per worker and request.
pub(super) enum Control {
    Attach { info: Arc<StreamInfo>, pipe: OwnedFd, hold: Hold },
    BeginProcess { pm_id: u32, process: Generation },
    StderrTail { pm_id: u32, process: Option<Generation>, reply: oneshot::Sender<StderrTail> },
    Forget { pm_id: u32 },
    Flush { paths: Vec<PathBuf>, reply: oneshot::Sender<Result<(), String>> },
    Reopen { reply: oneshot::Sender<Result<(), String>> },
    Follow { request: FollowRequest, senders: LineSenders },
    Rest { reply: oneshot::Sender<()> },
    Shutdown,
}

pub(super) struct Reader {
    reactor: Reactor,
    wake: Arc<Wake>,
    inbox: Receiver<Control>,
    queue: Arc<Queue>,
    report: Report,
    streams: HashMap<u64, Stream>,
    next_token: u64,
    /// The newest processes of each worker, in the order in which they began.
    processes: HashMap<u32, Vec<Process>>,
    large_pipes: usize,
    scratch: Vec<u8>,
    line_bytes_max: usize,
    /// For pipes that are read with care.
    view: Option<View>,
    /// Those of them whose lines are on their way to the files.
    owing: Vec<u64>,
    /// Memory of all framers.
    partial_bytes: usize,
    partial_bytes_max: usize,
}

struct Stream {
    info: Arc<StreamInfo>,
    pipe: OwnedFd,
    framer: Framer,
    is_large: bool,
    /// For a pipe that is kept for another daemon.
    care: Option<Care>,
}

/// What a process of a worker has written to stderr last.
struct Process {
    number: Generation,
    stderr: RecentLines,
}

/// What a turn brought.
enum Turn {
    Read(usize),
    Empty,
    Ended,
}

impl Reader {
    pub(super) fn new(
        wake: Arc<Wake>,
        inbox: Receiver<Control>,
        queue: Arc<Queue>,
        report: Report,
        line_bytes_max: usize,
        partial_bytes_max: usize,
    ) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        reactor.add(wake.as_fd(), WAKE, Interest::READ)?;
        Ok(Self {
            reactor,
            wake,
            inbox,
            queue,
            report,
            streams: HashMap::new(),
            next_token: 0,
            processes: HashMap::new(),
            large_pipes: 0,
            scratch: Vec::new(),
            view: None,
            owing: Vec::new(),
            line_bytes_max,
            partial_bytes: 0,
            partial_bytes_max,
        })
    }

    /// Works until it is told to shut down.
    pub(super) fn run(mut self) {
        let (mut events, mut turn_began) = (Vec::new(), Instant::now());
        let mut is_behind = false;
        loop {
            if let Err(fault) = self.reactor.wait(&mut events, self.patience()) {
                let report = &self.report;
                report(&format!("error: the log service ends, for it cannot wait for output: {fault}"));
                break;
            }
            let idle = turn_began.elapsed();
            if !is_behind && idle < GATHER && events.iter().all(|event| event.token != WAKE) {
                thread::sleep(GATHER.saturating_sub(idle));
            }
            turn_began = Instant::now();
            is_behind = false;
            for event in &events {
                match event.token {
                    WAKE => {
                        self.wake.clear();
                        while let Ok(control) = self.inbox.try_recv() {
                            match control {
                                Control::Shutdown => return self.shut_down(),
                                Control::Rest { reply } => return self.rest(reply),
                                control => self.control(control),
                            }
                        }
                    }
                    token => {
                        is_behind |=
                            matches!(self.turn(token), Turn::Read(count) if count >= BEHIND_BYTES_MIN);
                    }
                }
            }
            is_behind |= self.look_again();
            self.queue.wake(self.partial_bytes);
            if self.streams.is_empty() {
                self.scratch = Vec::new();
            }
        }
        self.shut_down();
    }

    fn control(&mut self, control: Control) {
        match control {
            Control::Attach { info, pipe, hold } => self.attach(info, pipe, hold),
            Control::BeginProcess { pm_id, process } => {
                let processes = self.processes.entry(pm_id).or_default();
                processes.retain(|earlier| earlier.number != process);
                processes.push(Process { number: process, stderr: RecentLines::default() });
                processes.drain(..processes.len().saturating_sub(TAILS_MAX));
            }
            Control::StderrTail { pm_id, process, reply } => {
                self.pump(|stream| stream.info.pm_id == pm_id);
                // That nobody waits for the answer any more is no fault.
                let _ = reply.send(self.stderr_tail(pm_id, process));
            }
            Control::Forget { pm_id } => {
                self.processes.remove(&pm_id);
            }
            Control::Flush { paths, reply } => {
                self.pump(|stream| {
                    stream.info.paths.iter().any(|path| paths.iter().any(|wanted| **wanted == **path))
                });
                self.queue.push(Job::Truncate { paths, reply });
            }
            Control::Reopen { reply } => {
                self.pump(|_| true);
                self.queue.push(Job::Reopen { reply });
            }
            Control::Follow { request, senders } => {
                self.pump(|_| true);
                self.queue.push(Job::Follow { request, senders });
            }
            Control::Rest { .. } | Control::Shutdown => {}
        }
    }

    fn attach(&mut self, info: Arc<StreamInfo>, pipe: OwnedFd, hold: Hold) {
        let token = self.next_token;
        if self.view.is_none() && hold.word().is_some() {
            // Without it, the pipe is read as any other.
            self.view = View::new().ok();
        }
        let nonblocking = rustix::io::ioctl_fionbio(&pipe, true).map_err(io::Error::from);
        let care = self.view.as_ref().and_then(|view| Care::new(&pipe, hold, &self.wake, view));
        let interest = if care.is_some() { CAREFULLY } else { Interest::READ };
        let added = nonblocking.and_then(|()| self.reactor.add(pipe.as_fd(), token, interest));
        if let Err(fault) = added {
            let report = &self.report;
            report(&format!(
                "error: the output of worker {} of {} cannot be read: {fault}",
                info.pm_id, info.app
            ));
            return;
        }
        self.next_token += 1;
        self.queue.push(Job::Open(Arc::clone(&info)));
        let framer = Framer::new(self.line_bytes_max);
        self.streams.insert(token, Stream { info, pipe, framer, is_large: false, care });
    }

    /// Reads once from a stream.
    fn turn(&mut self, token: u64) -> Turn {
        let Some(stream) = self.streams.get_mut(&token) else { return Turn::Empty };
        if stream.care.is_some() {
            return self.careful_turn(token);
        }
        self.scratch.clear();
        self.scratch.reserve_exact(READ_BYTES_MAX);
        match rustix::io::read(&stream.pipe, spare_capacity(&mut self.scratch)) {
            Ok(0) => {
                self.end(token);
                Turn::Ended
            }
            Ok(count) => {
                self.enlarge(token, count);
                self.deliver(token, None);
                Turn::Read(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => Turn::Empty,
            Err(_) => {
                self.end(token);
                Turn::Ended
            }
        }
    }

    /// Gives a stream that had so much in its pipe a larger one: its app can go on while its lines are written.
    fn enlarge(&mut self, token: u64, count: usize) {
        let Some(stream) = self.streams.get_mut(&token) else { return };
        if count >= PIPE_BYTES_MUCH && !stream.is_large && self.large_pipes < PIPES_LARGE_MAX {
            // When the system says no, the pipe stays as it is.
            forkful_os::pipe::enlarge(&stream.pipe, PIPE_BYTES_LARGE);
            stream.is_large = true;
            self.large_pipes += 1;
        }
    }

    /// Frames what was read into the scratch buffer.
    fn deliver(&mut self, token: u64, receipt: Option<Receipt>) {
        let Some(stream) = self.streams.get_mut(&token) else { return };
        let held_before = stream.framer.capacity();
        let framed = stream.framer.push(&self.scratch);
        self.partial_bytes = self.partial_bytes - held_before + stream.framer.capacity();
        if framed.is_empty() {
            debug_assert!(receipt.is_none(), "whole lines have come");
            self.keep_partials_bounded();
            return;
        }
        if framed.cuts > 0 {
            stream.info.counters.add_cut(framed.cuts);
        }
        if let Some(recent) = stream.recent(&mut self.processes) {
            recent.push(&framed.head);
            recent.push(&self.scratch[framed.body.clone()]);
        }
        let (body, body_range) = if receipt.is_some() {
            (mem::take(&mut self.scratch), framed.body)
        } else if framed.body.len() >= HAND_OVER_BYTES_MIN {
            (mem::replace(&mut self.scratch, self.queue.buffer(READ_BYTES_MAX)), framed.body)
        } else {
            (self.scratch[framed.body.clone()].to_vec(), 0..framed.body.len())
        };
        let (stream, head) = (Arc::clone(&stream.info), framed.head);
        self.queue.push_lines(Batch {
            stream,
            head,
            body,
            body_range,
            at_ms: forkful_os::wall_clock::now_ms(),
            receipt,
        });
        self.keep_partials_bounded();
    }

    /// Cuts the largest of the lines whose end has not come yet, until all together are in their bound.
    fn keep_partials_bounded(&mut self) {
        while self.partial_bytes > self.partial_bytes_max {
            let largest = self.streams.values_mut().max_by_key(|stream| stream.framer.capacity());
            let Some(stream) = largest.filter(|stream| stream.framer.capacity() > 0) else { return };
            self.partial_bytes -= stream.framer.capacity();
            stream.info.counters.add_cut(1);
            stream.pass_on_partial(&mut self.processes, &self.queue);
        }
    }

    /// Looks once at a stream whose bytes stay until they are written.
    fn careful_turn(&mut self, token: u64) -> Turn {
        let (Some(stream), Some(view)) = (self.streams.get_mut(&token), &self.view) else {
            return Turn::Empty;
        };
        let Some(care) = stream.care.as_mut().filter(|care| !care.owes()) else { return Turn::Empty };
        match care.look(&stream.pipe, view, |bytes| self.queue.buffer(bytes)) {
            Look::Lines(bytes, receipt) => {
                let count = bytes.len();
                self.owing.push(token);
                self.enlarge(token, count);
                self.hurry(token, count);
                self.scratch = bytes;
                self.deliver(token, Some(receipt));
                Turn::Read(count)
            }
            Look::Beginning(bytes) => {
                let count = bytes.len();
                let _watched = self.reactor.modify(stream.pipe.as_fd(), token, CAREFULLY);
                self.scratch = bytes;
                self.deliver(token, None);
                self.scratch = Vec::new();
                Turn::Read(count)
            }
            Look::Nothing => {
                // The kernel has no reason to refuse what it has permitted.
                let _watched = self.reactor.modify(stream.pipe.as_fd(), token, CAREFULLY);
                Turn::Empty
            }
            Look::Ended => {
                self.end(token);
                Turn::Ended
            }
        }
    }

    /// A pipe that had so much may be full before it is looked at again.
    fn hurry(&mut self, token: u64, count: usize) {
        let Some(stream) = self.streams.get_mut(&token) else { return };
        let much = if stream.is_large { BEHIND_BYTES_MIN } else { PIPE_BYTES_MUCH };
        if count >= much
            && let Some(care) = &mut stream.care
        {
            care.hurry();
        }
    }

    /// What is written leaves the pipes, and what is waited for too long; then they are looked at again. Whether one held
    /// so much that this is behind.
    fn look_again(&mut self) -> bool {
        let now = Instant::now();
        let mut is_behind = false;
        for token in mem::take(&mut self.owing) {
            let care = self.streams.get_mut(&token).and_then(|stream| stream.care.as_mut());
            let Some(care) = care.filter(|care| care.owes()) else { continue };
            if care.is_due(now) {
                self.settle(token);
                is_behind |= matches!(self.turn(token), Turn::Read(count) if count >= BEHIND_BYTES_MIN);
            } else {
                self.owing.push(token);
            }
        }
        is_behind
    }

    /// What a pipe owes leaves it, whether it is written or not.
    fn settle(&mut self, token: u64) {
        if let (Some(stream), Some(view)) = (self.streams.get_mut(&token), &self.view)
            && let Some(care) = stream.care.as_mut().filter(|care| care.owes())
        {
            care.settle(&stream.pipe, view);
        }
    }

    /// How long to wait for other events until a pipe is to be looked at again.
    fn patience(&self) -> Option<Duration> {
        let care = |token| self.streams.get(token)?.care.as_ref()?.look_at();
        let first = self.owing.iter().filter_map(care).min();
        first.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// A stream is over: its last line may lack a newline.
    fn end(&mut self, token: u64) {
        let Some(mut stream) = self.streams.remove(&token) else { return };
        // It is about to be closed, so that it must not matter whether this succeeds.
        let _ = self.reactor.remove(stream.pipe.as_fd());
        self.large_pipes -= usize::from(stream.is_large);
        self.partial_bytes -= stream.framer.capacity();
        stream.pass_on_partial(&mut self.processes, &self.queue);
        self.queue.push(Job::Close(stream.info));
    }

    /// Reads what is in some pipes now, and not what is written to them meanwhile.
    fn pump(&mut self, wanted: impl Fn(&Stream) -> bool) {
        let tokens: Vec<u64> =
            self.streams.iter().filter(|(_, stream)| wanted(stream)).map(|(token, _)| *token).collect();
        for token in tokens {
            let Some(stream) = self.streams.get(&token) else { continue };
            let mut left = rustix::io::ioctl_fionread(&stream.pipe).unwrap_or(0);
            // Once more than there is to read, to notice the end.
            loop {
                // Who wants all that is there now does not wait for the writer.
                self.settle(token);
                self.owing.retain(|owing| *owing != token);
                match self.turn(token) {
                    Turn::Read(count) if left > 0 => left = left.saturating_sub(count as u64),
                    Turn::Read(_) | Turn::Empty | Turn::Ended => break,
                }
            }
        }
    }

    /// The last lines of this process of a worker. Without a process: of the process that began last.
    fn stderr_tail(&self, pm_id: u32, process: Option<Generation>) -> StderrTail {
        let Some(processes) = self.processes.get(&pm_id) else { return StderrTail::default() };
        let is_meant = |of: &&Process| process.is_none_or(|process| of.number == process);
        let Some(process) = processes.iter().rfind(is_meant) else { return StderrTail::default() };
        let partial = self.streams.values().find(|stream| {
            let StreamInfo { pm_id: of, stream, process: number, .. } = &*stream.info;
            *of == pm_id && *stream == LogStream::Err && *number == process.number
        });
        process.stderr.snapshot(partial.map_or(&[], |stream| stream.framer.partial()))
    }

    /// Reads no more: another daemon reads on. A line whose end has not come yet, and whose beginning has left its pipe, is ended
    /// here, so that the beginning is not lost. It answers when what was read is in the files, and each kept pipe has the number of its bytes
    /// that are.
    fn rest(mut self, reply: oneshot::Sender<()>) {
        for stream in self.streams.values_mut() {
            stream.pass_on_partial(&mut self.processes, &self.queue);
        }
        self.queue.push(Job::Rest { reply });
        self.queue.close();
        // The pipes stay open, and are kept for the next daemon.
        mem::forget(self);
    }

    /// Passes on everything that was written before, and closes the queue.
    fn shut_down(mut self) {
        while let Ok(control) = self.inbox.try_recv() {
            self.control(control);
        }
        self.pump(|_| true);
        let tokens: Vec<u64> = self.streams.keys().copied().collect();
        for token in tokens {
            self.end(token);
        }
        self.queue.close();
    }
}

impl Stream {
    /// Passes on what there is of a line whose end has not come, as a line.
    fn pass_on_partial(&mut self, processes: &mut HashMap<u32, Vec<Process>>, queue: &Queue) {
        let Some(head) = self.framer.finish() else { return };
        if let Some(recent) = self.recent(processes) {
            recent.push(&head);
        }
        queue.push_lines(Batch {
            stream: Arc::clone(&self.info),
            head,
            body: Vec::new(),
            body_range: 0..0,
            at_ms: forkful_os::wall_clock::now_ms(),
            receipt: None,
        });
    }

    /// Where the stream's last lines are kept, if it is the stderr of one of a worker's newest processes.
    fn recent<'a>(&self, processes: &'a mut HashMap<u32, Vec<Process>>) -> Option<&'a mut RecentLines> {
        let processes = processes.get_mut(&self.info.pm_id).filter(|_| self.info.stream == LogStream::Err)?;
        let process = processes.iter_mut().find(|process| process.number == self.info.process)?;
        Some(&mut process.stderr)
    }
}
