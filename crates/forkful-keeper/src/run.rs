//! The keeper's process: waits, lets [`crate::keeper`] decide, and executes its decisions.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Timelike as _, Utc};
use forkful_os::keeper::{End, Frame, Kind, PLACES_MAX, seat, send_frame};
use forkful_os::process::{
    Exit, SpawnPlan, Standing, become_program, how_child_ended, pidfd_of, reap_child, signal_by_pidfd,
};
use forkful_os::signals::SignalQueue;
use forkful_os::{cgroup, memory, memory_file, process, procinfo, tree};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::connection::Connection;
use crate::keeper::{Action, After, Keeper};
use crate::manager::Manager;
use crate::passage::Passage;
use crate::plan::KeeperPlan;
use crate::{areas, passage};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGKILL: i32 = 9;
const SIGUSR2: i32 = 12;
const SIGTERM: i32 = 15;
const SIGCHLD: i32 = 17;

/// Maximum frames per turn, so that signals and the end of the daemon are handled in time.
const FRAMES_PER_TURN: usize = 256;
/// Interval between two attempts to hand over a descriptor while too many of this user's descriptors are in
/// flight.
const AGAIN: Duration = Duration::from_millis(5);
/// The initial descriptors: the state, a word for each place, and the pipe of the process that waits for the
/// daemon.
const STATE_PLACE: u32 = 0;
const WORDS_PLACE: u32 = 1;
const READY_PLACE: u32 = 2;
const STORED_PLACE: u32 = 3;

/// The current daemon.
struct Daemon {
    pid: u32,
    pidfd: OwnedFd,
    connection: Connection,
}

struct Process {
    keeper: Keeper<OwnedFd>,
    successor: Vec<String>,
    standing: Standing,
    signals: SignalQueue,
    daemon: Option<Daemon>,
    manager: Option<Manager>,
    began: Instant,
    /// Nothing is sent until then.
    send_again: Option<Instant>,
}

/// Keeps daemons running until one leaves; returns that daemon's exit code.
pub fn run(plan: KeeperPlan) -> io::Result<i32> {
    let mut process = Process::begin(plan)?;
    if process.daemon.is_none()
        && let Some(code) = process.start()
    {
        return Ok(code);
    }
    // From here on only the loop runs, and nothing is allocated.
    memory::forget_code();
    loop {
        if let Some(code) = process.turn()? {
            return Ok(code);
        }
    }
}

impl Process {
    fn begin(plan: KeeperPlan) -> io::Result<Self> {
        let KeeperPlan { program, argv, successor, passage, env, ready, manager, stored, patience } = plan;
        process::ignore_stray_signals()?;
        // It has the descriptors of all workers; the daemon, and thereby the workers, get the original limit.
        let _limit = procinfo::raise_open_files_limit();
        let signals = SignalQueue::of(&[SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGUSR2, SIGTERM])?;
        tree::set_subreaper()?;
        let (mut keeper, daemon) = match passage {
            Some(passage) => go_on(&passage)?,
            None => (first(ready, stored)?, None),
        };
        patience.into_iter().for_each(|patience| keeper.watch(patience));
        let standing = Standing::new(SpawnPlan {
            program,
            argv,
            env,
            cwd: PathBuf::from("/"),
            stdin: None,
            stdout: rustix::io::dup(rustix::stdio::stdout())?,
            stderr: rustix::io::dup(rustix::stdio::stderr())?,
            channel: None,
            run_as: None,
            mark: None,
            groups: None,
            keeping: forkful_os::keeper::Keeping::default(),
        })?;
        let manager = manager.and_then(|name| Manager::at(&name).ok());
        manager.iter().for_each(|manager| keeper.to_store().for_each(|socket| manager.store(socket)));
        let began = Instant::now();
        Ok(Self { keeper, successor, standing, signals, daemon, manager, began, send_again: None })
    }

    /// One wait and its events; returns the exit code if that was the end.
    fn turn(&mut self) -> io::Result<Option<i32>> {
        if let Some(code) = self.wait()? {
            return Ok(Some(code));
        }
        if let Some(code) = self.hear_signals() {
            return Ok(Some(code));
        }
        self.hear_daemon(FRAMES_PER_TURN);
        self.look();
        if let Some(code) = self.look_after_daemon() {
            return Ok(Some(code));
        }
        let due = self.keeper.on_update_due(self.began.elapsed());
        self.act(due);
        self.hand_over();
        Ok(None)
    }

    /// Checks the daemon's event loop, if it is time.
    fn look(&mut self) {
        let now = self.began.elapsed();
        if self.keeper.looks_in(now) != Some(Duration::ZERO) {
            return;
        }
        let scheduled = self.daemon.as_ref().and_then(|daemon| procinfo::scheduled(daemon.pid).ok());
        let action = self.keeper.on_look(now, scheduled.unwrap_or_default().waited);
        self.act(action);
    }

    fn wait(&mut self) -> io::Result<Option<i32>> {
        let now = Instant::now();
        self.send_again = self.send_again.filter(|at| *at > now);
        let visits = self.keeper.waits_for_visits(self.began.elapsed());
        let api = self.keeper.table.of_kind(Kind::Api).filter(|_| visits == Some(Duration::ZERO));
        let visit = visits.filter(|left| !left.is_zero());
        let retry = self.keeper.retries_in(self.began.elapsed());
        let again = self.send_again.map(|at| at.saturating_duration_since(now));
        let look = self.keeper.looks_in(self.began.elapsed());
        let update = self.keeper.update_due_in(self.began.elapsed());
        let timeout = [again, visit, retry, look, update].into_iter().flatten().min();
        let mut fds: [PollFd<'_>; 4] = std::array::from_fn(|_| PollFd::new(&self.signals, PollFlags::IN));
        let mut count = 1;
        if let Some(daemon) = &self.daemon {
            let wants =
                self.keeper.outgoing().is_some() && self.send_again.is_none() && daemon.connection.sends();
            let what = if wants { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            if daemon.connection.receives() {
                fds[count] = PollFd::new(daemon.connection.socket(), what);
                count += 1;
            }
            fds[count] = PollFd::new(&daemon.pidfd, PollFlags::IN);
            count += 1;
        }
        if let Some(api) = api {
            fds[count] = PollFd::new(api, PollFlags::IN);
            count += 1;
        }
        let timeout = timeout.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos().max(1_000_000)),
        });
        match poll(&mut fds[..count], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let visitor = api.is_some() && !fds[count - 1].revents().is_empty();
        let now = self.began.elapsed();
        if visitor && self.keeper.on_visit(now) || self.keeper.retries_in(now) == Some(Duration::ZERO) {
            return Ok(self.start());
        }
        Ok(None)
    }

    /// Returns the exit code, if a signal requested the end and there is no daemon.
    fn hear_signals(&mut self) -> Option<i32> {
        while let Some(signal) = self.signals.next() {
            let action = match signal {
                SIGCHLD => {
                    self.keeper.on_child();
                    Action::Nothing
                }
                // It outlives its terminal.
                SIGHUP => Action::Nothing,
                _ => self.keeper.on_signal(signal),
            };
            if let Action::End(signal) = action {
                return Some(128 + signal);
            }
            self.act(action);
        }
        None
    }

    fn act(&self, action: Action) {
        let Some(daemon) = &self.daemon else { return };
        match action {
            Action::Nothing | Action::End(_) => {}
            Action::Reap(pid) if pid == daemon.pid => {}
            Action::Reap(pid) => reap_child(pid),
            Action::Answer(pid) => answer(daemon.connection.socket().as_fd(), pid),
            Action::Tell(text) => {
                self.manager.iter().for_each(|manager| manager.tell(text.as_bytes()));
            }
            Action::Store(place) => {
                if let (Some(manager), Some((_, socket))) = (&self.manager, self.keeper.table.at(place)) {
                    manager.store(socket);
                }
            }
            Action::Become => {
                let failed = self.become_successor(daemon);
                say(format_args!("the keeper stays what it was, its daemons are new: {failed}"));
            }
            // It may have just ended.
            Action::Signal(signal) => drop(signal_by_pidfd(&daemon.pidfd, signal)),
            Action::Kill => {
                say(format_args!("the daemon hangs: it is killed, and another one takes its place"));
                drop(signal_by_pidfd(&daemon.pidfd, SIGKILL));
            }
        }
    }

    /// Continues as the daemon's program; returns only if that is impossible.
    fn become_successor(&self, daemon: &Daemon) -> io::Error {
        let Some(program) = self.keeper.program() else { return Errno::NOENT.into() };
        let (file, mut open) =
            match passage::write(&self.keeper.table, daemon.pid, daemon.connection.socket()) {
                Ok(written) => written,
                Err(error) => return error,
            };
        open.push(file.as_fd());
        let mut argv = self.successor.clone();
        argv.push(file.as_raw_fd().to_string());
        become_program(program, &argv, &open)
    }

    /// Handles the daemon's frames, at most this many.
    fn hear_daemon(&mut self, frames: usize) {
        for _ in 0..frames {
            let received = self.daemon.as_mut().and_then(|daemon| daemon.connection.receive());
            let Some((frame, descriptor)) = received else { return };
            if let (Some(manager), Some(socket)) = (&self.manager, self.keeper.forgets(&frame)) {
                manager.forget(socket);
            }
            let action = self.keeper.on_frame(frame, descriptor, self.began.elapsed());
            self.act(action);
        }
    }

    /// Starts a daemon after one has ended; returns the exit code if that daemon left.
    fn look_after_daemon(&mut self) -> Option<i32> {
        let daemon = self.daemon.as_ref()?;
        let exit = how_child_ended(daemon.pid)?;
        // Its last messages: it sends no more.
        self.hear_daemon(usize::MAX);
        let daemon = self.daemon.take()?;
        reap_child(daemon.pid);
        drop(daemon);
        self.ended(exit)
    }

    fn ended(&mut self, exit: Exit) -> Option<i32> {
        let (end, code) = match exit {
            Exit::Code(code) => (End::Code(code), code),
            Exit::Signal(signal, _) => (End::Signal(signal), 128 + signal),
        };
        match self.keeper.on_end(end, self.began.elapsed()) {
            After::Start => self.start(),
            After::Without => {
                say(format_args!(
                    "the daemon has ended again and again; its apps go on without it for some seconds"
                ));
                None
            }
            After::End => Some(code),
        }
    }

    /// Starts a daemon. After a failed start the keeper tries again.
    fn start(&mut self) -> Option<i32> {
        let started = seat().and_then(|(ours, theirs)| {
            let other = self.keeper.program().map(AsFd::as_fd);
            let (pid, pidfd) = self.standing.start(theirs.as_fd(), other)?;
            Ok(Daemon { pid, pidfd, connection: Connection::new(ours) })
        });
        match started {
            Ok(daemon) => {
                self.daemon = Some(daemon);
                self.keeper.on_start();
                None
            }
            Err(error) => {
                if !self.keeper.is_refused() {
                    say(format_args!("the daemon cannot be started: {error}"));
                }
                match self.keeper.on_refused(self.began.elapsed()) {
                    After::Start => self.start(),
                    After::Without => None,
                    After::End => Some(1),
                }
            }
        }
    }

    /// Sends pending frames, as far as there is room.
    fn hand_over(&mut self) {
        if self.send_again.is_some() {
            return;
        }
        let Some(daemon) = self.daemon.as_mut().filter(|daemon| daemon.connection.sends()) else { return };
        let too_many = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::TOOMANYREFS);
        let may_repeat = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock || too_many(error);
        while let Some(outgoing) = self.keeper.outgoing() {
            let descriptor = outgoing.descriptor.map(AsFd::as_fd);
            match daemon.connection.send(&outgoing.frame, descriptor, may_repeat) {
                Ok(()) => self.keeper.sent(),
                Err(error) => {
                    if too_many(&error) {
                        self.send_again = Some(Instant::now() + AGAIN);
                    }
                    return;
                }
            }
        }
    }
}

/// A keeper before its first daemon.
fn first(ready: Option<OwnedFd>, stored: Vec<OwnedFd>) -> io::Result<Keeper<OwnedFd>> {
    // While this process is alone: the daemon begins in the same control group.
    cgroup::leave_others();
    cgroup::make_room();
    let mut keeper = Keeper::new(std::process::id());
    keeper.begin_with(STATE_PLACE, Kind::State, areas::create()?);
    let words = memory_file::create("forkful-words", (PLACES_MAX * size_of::<u64>()) as u64)?;
    keeper.begin_with(WORDS_PLACE, Kind::Words, words);
    if let Some(ready) = ready {
        keeper.begin_with(READY_PLACE, Kind::Ready, ready);
    }
    keeper.begin_with_stored(STORED_PLACE, stored);
    Ok(keeper)
}

/// A keeper that replaces the one that this process was, with its daemon.
fn go_on(passage: &OwnedFd) -> io::Result<(Keeper<OwnedFd>, Option<Daemon>)> {
    let Passage { table, daemon: pid, socket } = passage::read(passage)?;
    let keeper = Keeper::resume(std::process::id(), table);
    Ok((keeper, Some(Daemon { pid, pidfd: pidfd_of(pid)?, connection: Connection::new(socket) })))
}

fn answer(socket: BorrowedFd<'_>, pid: u32) {
    let end = match how_child_ended(pid) {
        Some(Exit::Code(code)) => End::Code(code),
        Some(Exit::Signal(signal, _)) => End::Signal(signal),
        None => End::Unknown,
    };
    // There is room: the daemon waits for this process.
    let _gone = send_frame(socket, &Frame::Ended { pid, end }, None);
}

/// Writes a line to the daemon's log, with the time like its other lines; a line that cannot be written is
/// dropped.
fn say(text: std::fmt::Arguments<'_>) {
    let now = DateTime::<Utc>::from(SystemTime::now());
    let (date, ms) = (now.date_naive(), now.timestamp_subsec_millis());
    let mut line = [0; 256];
    let mut rest = line.as_mut_slice();
    let (hour, minute, second) = (now.hour(), now.minute(), now.second());
    // A text that is too long is cut.
    let _cut = writeln!(rest, "{date}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z forkful: {text}");
    let written = 256 - rest.len();
    let _dropped = rustix::io::write(rustix::stdio::stderr(), &line[..written]);
}
