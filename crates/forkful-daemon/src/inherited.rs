//! The resources of each daemon of a home, which the keeper provides if there was a previous daemon: the
//! lock, the API's socket, and the descriptor on which a command waits until the daemon serves.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;

use forkful_keeper::areas::Areas;
use forkful_os::identity::LockFile;
use forkful_os::keeper::{Handover, Hold, Keeping, Kept, Kind, Name, Update};
use tokio::net::UnixListener;

use crate::Home;
use crate::engine::Written;

/// The lock of the home.
pub(crate) struct HomeLock {
    lock: LockFile,
    _hold: Hold,
}

/// The socket of the API.
pub(crate) struct ApiSocket {
    pub(crate) listener: UnixListener,
    pub(crate) hold: Hold,
}

/// The in-memory file in which the daemon stores what another one needs to continue.
pub(crate) struct StateFile {
    pub(crate) areas: Areas,
    /// The previous program may have to continue from what this one writes.
    pub(crate) is_on_trial: bool,
    _hold: Hold,
}

/// After this many daemons that died before they served, the next one takes nothing over: the stored state
/// may be what kills them.
const DEATHS_MAX: u32 = 2;

/// The process that waits until the daemon serves, or for the reason why it does not.
#[derive(Default)]
pub(crate) struct Ready(Option<(OwnedFd, Hold)>);

/// The keeper's resources for this daemon; without a keeper, nothing.
pub(crate) fn receive(socket: Option<OwnedFd>) -> io::Result<Handover> {
    let Some(socket) = socket else { return Ok(Handover::default()) };
    let handover = Handover::receive(socket)
        .map_err(|error| io::Error::new(error.kind(), format!("the keeper hands nothing over: {error}")))?;
    forkful_os::tree::set_head(handover.keeper);
    Ok(handover)
}

impl HomeLock {
    /// The previous daemon's lock, or a new one; `None` if another process has it.
    pub(crate) fn take(home: &Home, handover: &mut Handover) -> io::Result<Option<Self>> {
        match handover.take(Name::only(Kind::Lock)) {
            Some(Kept { fd, hold, .. }) => Ok(Some(Self { lock: LockFile::handed_over(fd), _hold: hold })),
            None => {
                let lock = Self::acquire(home, &handover.keeping)?;
                if lock.is_some() && std::os::unix::net::UnixStream::connect(home.socket()).is_ok() {
                    let (lock, socket) = (home.lock(), home.socket());
                    let error = format!(
                        "another daemon serves at {}, although its lock, {}, was removed",
                        socket.display(),
                        lock.display()
                    );
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, error));
                }
                Ok(lock)
            }
        }
    }

    /// A new one, which the keeper gets too.
    pub(crate) fn acquire(home: &Home, keeping: &Keeping) -> io::Result<Option<Self>> {
        let holder = keeping.keeper().unwrap_or_else(std::process::id);
        let Some(lock) = LockFile::acquire_for(holder, &home.lock())? else { return Ok(None) };
        let hold = keeping.keep(Name::only(Kind::Lock), lock.as_fd());
        Ok(Some(Self { lock, _hold: hold }))
    }

    /// The locked file.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        self.lock.identity()
    }
}

impl StateFile {
    /// A file that is not kept.
    #[cfg(test)]
    pub(crate) fn of(file: OwnedFd) -> Self {
        Self { areas: Areas::open(file).unwrap().0, is_on_trial: false, _hold: Hold::default() }
    }

    /// The file, and the previous daemon's stored state, if this one can continue from there.
    pub(crate) fn take(handover: &mut Handover) -> (Option<Self>, Option<Written>) {
        let Some(Kept { fd, hold, .. }) = handover.take(Name::only(Kind::State)) else { return (None, None) };
        let (areas, found) = match Areas::open(fd) {
            Ok(opened) => opened,
            Err(error) => {
                log_line!("forkful: if this daemon dies, its apps will be restarted: {error}");
                return (None, None);
            }
        };
        let written = found.filter(|_| handover.died <= DEATHS_MAX).and_then(|found| {
            Written::found(&found)
                .inspect_err(|fault| log_line!("forkful: cannot take over from the previous daemon: {fault}"))
                .ok()
        });
        let is_on_trial = handover.update == Update::Trial;
        (Some(Self { areas, is_on_trial, _hold: hold }), written)
    }
}

impl ApiSocket {
    /// The previous daemon's socket, where clients wait meanwhile, or a new one.
    pub(crate) fn take(home: &Home, handover: &mut Handover) -> io::Result<Self> {
        let Some(Kept { fd, hold, .. }) = handover.take(Name::only(Kind::Api)) else {
            return Self::bind(home, &handover.keeping);
        };
        let listener = std::os::unix::net::UnixListener::from(fd);
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, hold })
    }

    /// A new one, which the keeper gets too.
    pub(crate) fn bind(home: &Home, keeping: &Keeping) -> io::Result<Self> {
        let path = home.socket();
        // We hold the lock, so an existing socket belongs to a dead daemon.
        let _gone = fs_err::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot bind {}: {error}", path.display()))
        })?;
        // The folder is already private; this is for a home that was created otherwise.
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let hold = keeping.keep(Name::only(Kind::Api), listener.as_fd());
        Ok(Self { listener, hold })
    }
}

impl Ready {
    /// Of this daemon, or of the first daemon of its keeper.
    pub(crate) fn new(own: Option<OwnedFd>, handover: &mut Handover) -> Self {
        let kept = || handover.take(Name::only(Kind::Ready)).map(|Kept { fd, hold, .. }| (fd, hold));
        Self(own.map(|fd| (fd, Hold::default())).or_else(kept))
    }

    /// Reports once.
    pub(crate) fn tell(&mut self, text: &str) {
        if let Some((pipe, hold)) = self.0.take() {
            // The command that started us may be gone; then the report is not needed.
            let _gone = std::fs::File::from(pipe).write_all(text.as_bytes());
            drop(hold);
        }
    }
}
