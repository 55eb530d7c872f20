//! See the parent module.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::frame::{End, FRAME_BYTES, Frame, Kind, Name, PLACES_MAX, Text, Update};
use super::loss::{Loss, LossBook};
use super::outbox::{Outbox, Waiting};
use crate::memory_file::Words;
use crate::process::Exit;

/// The time limit of an answer. A keeper answers in microseconds, unless it is stopped or waits for a core.
const PATIENCE: Duration = Duration::from_secs(2);

/// An event loop waits for a keeper that reads nothing, and a stop for the keeper's copies of listeners, no longer than this.
const SHORT_PATIENCE: Duration = Duration::from_millis(200);
/// While too many descriptors of this user are on their way, a frame with one is sent again so often, each time after [`PAUSE`].
const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Apps have this time after a start to ask for the sockets that the service manager has kept. After that, nobody would accept
/// what comes in by them.
const STORED_FOR: Duration = Duration::from_secs(120);
/// The id of no process.
const NO_CHILD: u32 = 0;
/// The app of sockets that nobody has asked for.
const NOBODY: u32 = u32::MAX;

/// The way to the keeper; without one, everything here does nothing. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Keeping(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    /// The keeper's process.
    keeper: u32,
    /// A word for each place.
    words: OnceLock<Words>,
    loss: LossBook,
    outbox: Outbox,
    /// Somebody's end was told while an answer was awaited.
    child_told: AtomicBool,
    places: Mutex<Places>,
    /// What the keeper is to let go of; see [`Keeping::let_go`].
    later: Mutex<Vec<Frame>>,
    /// `later` closes listeners, which take connections until the keeper has closed its copies.
    closes_listeners: AtomicBool,
    /// Held from a question to its answer.
    asking: Mutex<()>,
    /// What the service manager has kept, with its places, and when it is given up.
    stored: Mutex<(Vec<(u32, OwnedFd)>, Option<Instant>)>,
}

/// Which places of the keeper's table are in use.
#[derive(Debug, Default)]
struct Places {
    free: Vec<u32>,
    next: u32,
}

/// A descriptor is kept for as long as this lives, and until the next [`Keeping::let_go`].
#[derive(Debug, Default)]
pub struct Hold(Option<Held>);

#[derive(Debug)]
struct Held {
    link: Arc<Link>,
    place: u32,
    listens: bool,
}

/// A descriptor of a daemon before this one.
#[derive(Debug)]
pub struct Kept {
    pub name: Name,
    pub fd: OwnedFd,
    pub hold: Hold,
}

/// What the keeper has for a new daemon. Without a keeper it is empty.
#[derive(Debug)]
pub struct Handover {
    pub keeping: Keeping,
    /// The keeper's process.
    pub keeper: u32,
    /// How many daemons died in a row before this one, none of which served.
    pub died: u32,
    /// How the last one did.
    pub last: End,
    /// Whether this daemon is part of an update.
    pub update: Update,
    pub kept: Vec<Kept>,
}

impl Default for Handover {
    fn default() -> Self {
        let (keeping, kept) = (Keeping::default(), Vec::new());
        Self { keeping, keeper: 0, died: 0, last: End::Unknown, update: Update::None, kept }
    }
}

impl Handover {
    /// Takes everything over from the keeper at the other end. Waits for it.
    pub fn receive(socket: OwnedFd) -> io::Result<Self> {
        let mut kept = Vec::new();
        let (keeper, died, last, update) = match await_frame(socket.as_fd(), PATIENCE)? {
            (Frame::Hello { keeper, died, last, update }, _) => (keeper, died, last, update),
            _ => return Err(unexpected()),
        };
        let link = Arc::new(Link {
            socket,
            keeper,
            words: OnceLock::new(),
            loss: LossBook::default(),
            outbox: Outbox::default(),
            child_told: AtomicBool::new(false),
            places: Mutex::default(),
            later: Mutex::default(),
            closes_listeners: AtomicBool::new(false),
            asking: Mutex::default(),
            stored: Mutex::default(),
        });
        loop {
            match await_frame(link.socket.as_fd(), PATIENCE)? {
                (Frame::Kept { place, name }, fd) => {
                    let mut places = link.places();
                    places.next = places.next.max(place + 1);
                    drop(places);
                    // Without room for it, the kernel has dropped it on the way. It stays kept: without it, apps
                    // would be ended.
                    let fd = fd.ok_or_else(|| io::Error::from(Errno::MFILE))?;
                    kept.push(Kept { name, fd, hold: link.hold(place, name) });
                }
                (Frame::Child, _) => link.child_told.store(true, Ordering::SeqCst),
                (Frame::Done, _) => break,
                _ => return Err(unexpected()),
            }
        }
        link.note_free(&kept);
        if let Some(at) = kept.iter().position(|kept| kept.name.kind == Kind::Words) {
            let words = kept.swap_remove(at);
            let place = words.hold.forget();
            debug_assert!(place.is_some());
            let _first = link.words.set(Words::map(&words.fd, PLACES_MAX)?);
        }
        let (stored, kept): (Vec<Kept>, Vec<Kept>) =
            kept.into_iter().partition(|kept| kept.name.kind == Kind::Stored);
        link.begin_with_stored(stored);
        Ok(Self { keeping: Keeping(Some(link)), keeper, died, last, update, kept })
    }

    /// What is kept under a name.
    pub fn take(&mut self, name: Name) -> Option<Kept> {
        let at = self.kept.iter().position(|kept| kept.name == name)?;
        Some(self.kept.swap_remove(at))
    }
}

impl Keeping {
    /// Whether there is a keeper.
    pub fn is_on(&self) -> bool {
        self.link().is_some()
    }

    /// The keeper's process.
    pub fn keeper(&self) -> Option<u32> {
        self.link().map(|link| link.keeper)
    }

    /// Has a descriptor kept, from now until the hold is dropped.
    pub fn keep(&self, name: Name, fd: impl AsFd) -> Hold {
        let Some(link) = self.link() else { return Hold::default() };
        let place = {
            let mut places = link.places();
            places.free.pop().unwrap_or_else(|| {
                places.next += 1;
                places.next - 1
            })
        };
        if let Some(word) = link.word(place) {
            word.store(0, Ordering::SeqCst);
        }
        link.tell(&Frame::Keep { place, name }, Some(fd.as_fd()));
        link.hold(place, name)
    }

    /// A listening socket that the service manager has kept over a restart, if one fits. It is to be kept again, as what it is now.
    pub fn take_stored(&self, fits: impl Fn(BorrowedFd<'_>) -> bool) -> Option<OwnedFd> {
        let link = self.link()?;
        let mut stored = link.stored();
        let at = stored.0.iter().position(|(_, fd)| fits(fd.as_fd()))?;
        let (place, fd) = stored.0.swap_remove(at);
        link.later(Frame::Drop { place });
        Some(fd)
    }

    /// Gives up what nobody has asked for, if it is time.
    fn give_stored_up(&self, link: &Link) {
        let mut stored = link.stored();
        if stored.1.is_none_or(|at| Instant::now() < at) {
            return;
        }
        let (all, _) = std::mem::take(&mut *stored);
        drop(stored);
        for (place, fd) in all {
            // The service manager forgets what was kept as an app's and is dropped.
            drop(self.keep(Name { kind: Kind::Listener, app: NOBODY, of: place, part: 0 }, &fd));
            link.later(Frame::Drop { place });
        }
    }

    /// Has a child of the keeper reaped, at the next [`Self::let_go`].
    pub(crate) fn reap(&self, pid: u32) {
        if let Some(link) = self.link() {
            link.later(Frame::Reap { pid });
        }
    }

    /// Has the keeper reap the children, and close the descriptors, that were let go of since the last time. To be called once
    /// the state says so, too: another daemon would look for what an older state names.
    pub fn let_go(&self) {
        let Some(link) = self.link() else { return };
        self.give_stored_up(link);
        link.send_waiting();
        let frames = std::mem::take(&mut *link.later.lock().unwrap_or_else(PoisonError::into_inner));
        for frame in frames {
            link.tell(&frame, None);
            if let Frame::Drop { place } = frame {
                link.places().free.push(place);
            }
        }
        if link.closes_listeners.swap(false, Ordering::SeqCst) {
            self.await_closed(link);
        }
    }

    /// Waits until the keeper has closed its copies of listeners, so that the address is free when the stop is answered. The keeper
    /// handles frames in order. An answer that comes after [`SHORT_PATIENCE`] is ignored.
    fn await_closed(&self, link: &Link) {
        let _asking = link.asking.lock().unwrap_or_else(PoisonError::into_inner);
        link.tell(&Frame::Ask { pid: NO_CHILD }, None);
        while !link.outbox.is_behind() {
            if wait(link.socket.as_fd(), PollFlags::IN, SHORT_PATIENCE).is_err() {
                return link.outbox.falls_behind();
            }
            match receive_frame(link.socket.as_fd()) {
                Ok(Some((Frame::Ended { pid: NO_CHILD, .. }, _))) => return,
                Ok(Some((frame, _))) => link.note(&frame),
                // `take_news` finds the end of the keeper.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// How a child of the keeper ended; waits for the answer, not long if the keeper is behind anyway.
    pub(crate) fn ask(&self, pid: u32) -> Option<Exit> {
        let link = self.link()?;
        let _asking = link.asking.lock().unwrap_or_else(PoisonError::into_inner);
        link.tell(&Frame::Ask { pid }, None);
        let patience = if link.outbox.is_behind() { SHORT_PATIENCE } else { PATIENCE };
        loop {
            match await_frame(link.socket.as_fd(), patience) {
                Ok((Frame::Ended { pid: told, end }, _)) if told == pid => {
                    return match end {
                        End::Code(code) => Some(Exit::Code(code)),
                        End::Signal(signal) => Some(Exit::Signal(signal, false)),
                        End::Unknown => None,
                    };
                }
                Ok((frame, _)) => link.note(&frame),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    link.outbox.falls_behind();
                    return None;
                }
                Err(error) => {
                    link.loss.note(Loss::of(&error));
                    return None;
                }
            }
        }
    }

    /// Has the service manager told something.
    pub fn tell_manager(&self, text: &str) {
        if let Some(link) = self.link() {
            link.tell(&Frame::Tell { text: Text::new(text) }, None);
        }
    }

    /// The daemon serves now.
    pub fn serves(&self) {
        if let Some(link) = self.link() {
            link.tell(&Frame::Serves, None);
        }
    }

    /// The daemon is about to end, and the next one is to be of this program. Everything stays kept.
    pub fn make_way(&self, program: &OwnedFd) {
        if let Some(link) = self.link() {
            link.tell(&Frame::Update, Some(program.as_fd()));
            // The process ends next, and with it what waits here.
            link.send_rest();
        }
    }

    /// The daemon is about to end on purpose: has everything let go of, and waits for that.
    pub fn leave(&self) {
        let Some(link) = self.link() else { return };
        let _asking = link.asking.lock().unwrap_or_else(PoisonError::into_inner);
        link.tell(&Frame::Leave, None);
        link.send_rest();
        while let Ok((frame, _)) = await_frame(link.socket.as_fd(), PATIENCE) {
            if frame == Frame::Done {
                break;
            }
        }
        link.loss.leave();
    }

    /// Where the keeper's frames come in, for a reactor.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|link| link.socket.as_fd())
    }

    /// Why the keeper is lost, if it is.
    pub fn loss(&self) -> Option<Loss> {
        self.0.as_ref().and_then(|link| link.loss.found())
    }

    /// Whether [`Self::take_news`] has something to tell that its socket does not show: the keeper was lost, or an end was told
    /// while an answer was awaited.
    pub fn has_news(&self) -> bool {
        let has = |link: &Arc<Link>| link.loss.is_untold() || link.child_told.load(Ordering::SeqCst);
        self.0.as_ref().is_some_and(has)
    }

    /// Takes what has come from the keeper, and shows it that the loop turns; whether the end of some child was told. `Err` once
    /// when the keeper is lost, whoever has noticed it: its socket is not to be read any more.
    pub fn take_news(&self) -> Result<bool, Loss> {
        let Some(link) = &self.0 else { return Ok(false) };
        if link.loss.is_lost() {
            link.outbox.waiting().clear();
            return link.loss.take().map_or(Ok(false), Err);
        }
        let _asking = link.asking.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match receive_frame(link.socket.as_fd()) {
                Ok(Some((frame, _))) => {
                    link.outbox.keeps_up();
                    link.note(&frame);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    link.send_waiting();
                    return Ok(link.child_told.swap(false, Ordering::SeqCst));
                }
                Ok(None) => link.loss.note(Loss::Ended),
                Err(error) => link.loss.note(Loss::of(&error)),
            }
            if let Some(loss) = link.loss.take() {
                link.outbox.waiting().clear();
                return Err(loss);
            }
        }
    }

    fn link(&self) -> Option<&Arc<Link>> {
        self.0.as_ref().filter(|link| !link.loss.is_lost())
    }
}

impl Link {
    fn word(&self, place: u32) -> Option<&AtomicU64> {
        self.words.get()?.get(place as usize)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self) -> MutexGuard<'_, (Vec<(u32, OwnedFd)>, Option<Instant>)> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_with_stored(&self, kept: Vec<Kept>) {
        let until = (!kept.is_empty()).then(|| Instant::now() + STORED_FOR);
        let place_of = |kept: Kept| Some((kept.hold.forget()?, kept.fd));
        *self.stored() = (kept.into_iter().filter_map(place_of).collect(), until);
    }

    /// Follows a frame that answers no question.
    fn note(&self, frame: &Frame) {
        match frame {
            Frame::Child => self.child_told.store(true, Ordering::SeqCst),
            Frame::Look => self.tell(&Frame::Turns, None),
            _ => {}
        }
    }

    fn hold(self: &Arc<Self>, place: u32, name: Name) -> Hold {
        Hold(Some(Held { link: Arc::clone(self), place, listens: name.kind == Kind::Listener }))
    }

    fn later(&self, frame: Frame) {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        if !later.contains(&frame) {
            later.push(frame);
        }
    }

    /// The places below the highest that nothing was handed over from.
    fn note_free(&self, kept: &[Kept]) {
        let mut places = self.places();
        let mut used = vec![false; places.next as usize];
        for kept in kept {
            if let Some(held) = &kept.hold.0 {
                used[held.place as usize] = true;
            }
        }
        places.free = (0..places.next).rev().filter(|place| !used[*place as usize]).collect();
    }

    /// Sends a frame after those that wait, or has it wait with them.
    fn tell(&self, frame: &Frame, fd: Option<BorrowedFd<'_>>) {
        let mut waiting = self.outbox.waiting();
        self.send_first(&mut waiting);
        if self.loss.is_lost() || waiting.is_empty() && self.sends(frame, fd) {
            return;
        }
        if !Outbox::put(&mut waiting, frame, fd) {
            waiting.clear();
            self.loss.note(Loss::Silent);
        }
    }

    /// Sends all that waits before the daemon ends, if the keeper reads in time.
    fn send_rest(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.send_waiting();
            let left = until.saturating_duration_since(Instant::now());
            if self.loss.is_lost()
                || self.outbox.waiting().is_empty()
                || left.is_zero()
                || wait(self.socket.as_fd(), PollFlags::OUT, left).is_err()
            {
                return;
            }
            // While too many descriptors are on their way, the socket is writable all the time.
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends what waits, as far as the keeper reads.
    fn send_waiting(&self) {
        self.send_first(&mut self.outbox.waiting());
    }

    fn send_first(&self, waiting: &mut Waiting) {
        while let Some((frame, fd)) = waiting.front() {
            if self.loss.is_lost() || !self.sends(frame, fd.as_ref().map(AsFd::as_fd)) {
                return;
            }
            waiting.pop_front();
            self.outbox.keeps_up();
        }
    }

    /// Sends a frame, waiting a little for the keeper to read; `false` where it does not. Nothing is sent to a keeper that is lost.
    fn sends(&self, frame: &Frame, fd: Option<BorrowedFd<'_>>) -> bool {
        let mut tries = 0;
        loop {
            let Err(error) = send_frame(self.socket.as_fd(), frame, fd) else { return true };
            let is_full = error.kind() == io::ErrorKind::WouldBlock;
            // Too many descriptors of this user are on their way.
            let is_too_many = Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS);
            if !is_full && !is_too_many {
                self.loss.note(Loss::of(&error));
                return true;
            }
            if self.outbox.is_behind() {
                return false;
            }
            tries += 1;
            if is_too_many && tries < TRIES_MAX {
                std::thread::sleep(PAUSE);
            } else if is_too_many || wait(self.socket.as_fd(), PollFlags::OUT, SHORT_PATIENCE).is_err() {
                self.outbox.falls_behind();
                return false;
            }
        }
    }
}

impl Hold {
    /// A number that belongs to what is kept, and that another daemon finds as it was: 0 at first. None without a keeper.
    pub fn word(&self) -> Option<&AtomicU64> {
        self.0.as_ref().and_then(|held| held.link.word(held.place))
    }

    /// Whether there is a keeper that keeps it.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Has it kept for as long as there is a keeper.
    fn forget(mut self) -> Option<u32> {
        self.0.take().map(|held| held.place)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(Held { link, place, listens }) = self.0.take()
            && !link.loss.is_lost()
        {
            link.later(Frame::Drop { place });
            if listens {
                link.closes_listeners.store(true, Ordering::SeqCst);
            }
        }
    }
}

/// A connected pair for a keeper and its daemon, the keeper's end first. Both close on exec, and the daemon's is at a number
/// that a start can take.
#[cfg(not(target_os = "linux"))]
pub fn seat() -> io::Result<(OwnedFd, OwnedFd)> {
    Err(crate::portable::unsupported())
}

/// A connected pair of sockets that keep messages apart: the keeper's, and one for the daemon.
#[cfg(target_os = "linux")]
pub fn seat() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((ours, rustix::io::fcntl_dupfd_cloexec(&theirs, 4)?))
}

/// Sends one frame. `EAGAIN` while there is no room.
pub fn send_frame(socket: BorrowedFd<'_>, frame: &Frame, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = frame.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = fd.map(|fd| [fd]);
    if let Some(fds) = &fds {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let flags = crate::sys::NO_SIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags))?;
    Ok(())
}

/// The next frame that has come, with its descriptor; `None` at the end. `EAGAIN` while there is none. What is no frame is
/// an error.
pub fn receive_frame(socket: BorrowedFd<'_>) -> io::Result<Option<(Frame, Option<OwnedFd>)>> {
    let mut bytes = [0; FRAME_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = crate::sys::CLOSE_ON_EXEC | RecvFlags::DONTWAIT;
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
    })?;
    let mut fd = None;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut received) = part {
            fd = received.next();
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let frame = Frame::decode(&bytes[..received.bytes]).ok_or_else(unexpected)?;
    Ok(Some((frame, fd)))
}

/// The next frame, waiting for it.
fn await_frame(socket: BorrowedFd<'_>, patience: Duration) -> io::Result<(Frame, Option<OwnedFd>)> {
    loop {
        match receive_frame(socket) {
            Ok(Some(received)) => return Ok(received),
            Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(socket, PollFlags::IN, patience)?,
            Err(error) => return Err(error),
        }
    }
}

fn wait(socket: BorrowedFd<'_>, what: PollFlags, patience: Duration) -> io::Result<()> {
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    let mut fds = [PollFd::from_borrowed_fd(socket, what)];
    match rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout)))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Loss::Nonsense.to_string())
}
