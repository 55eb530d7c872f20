//! Listening processes below a worker's own process, in fork mode: a wrapper such as `npm start` does not
//! pass a channel on to them. They connect to a socket in the home, and are then workers of the app's
//! primary, like their worker's own process.
//!
//! A connected process is treated as hostile until it has proven that it runs as the daemon's user and
//! belongs to a worker; then it may send no more than the worker itself.

use std::cell::Cell;
use std::fs::Permissions;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::rc::Rc;

use forkful_cluster::{KeptSocket, WorkerId};
use forkful_core::Time;
use forkful_core::slot::Generation;
use forkful_core::spec::Mode;
use forkful_os::identity;
use forkful_os::keeper::{Keeping, Kind, Name};
use forkful_os::reactor::{Interest, Reactor};
use forkful_os::tree::Mark;
use rustix::io::Errno;

use super::app::{App, AppId};
use super::apps::Apps;
use super::tokens::RELATIVES_TOKEN;
use crate::home::Home;

/// Maximum connected processes below one worker.
const RELATIVES_MAX: usize = 64;

/// See the module's documentation.
pub(super) struct Relatives {
    listener: UnixListener,
    path: PathBuf,
    reactor: Rc<Reactor>,
    keeping: Keeping,
    /// Makes room for one connection when there is no free descriptor.
    spare: Cell<Option<UnixListener>>,
}

impl Relatives {
    /// Begins to listen. Only one daemon of a home gets here.
    pub(super) fn listen(home: &Home, reactor: &Rc<Reactor>, keeping: Keeping) -> io::Result<Self> {
        let path = home.lends();
        let _none = fs_err::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        fs_err::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        reactor.add(listener.as_fd(), RELATIVES_TOKEN, Interest::READ)?;
        let spare = Cell::new(listener.try_clone().ok());
        Ok(Self { listener, path, reactor: Rc::clone(reactor), keeping, spare })
    }

    /// Accepts a connection of a process that needs listening sockets.
    pub(super) fn accept(&self, apps: &mut Apps, now: Time) {
        match self.listener.accept() {
            Ok((stream, _)) => {
                // The connection of a foreign process is closed without an answer.
                let _stranger = welcome(stream, apps, &self.keeping, now);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) if is_temporary(&error) && self.refuse() => {}
            Err(error) => {
                // Otherwise it would be reported repeatedly.
                log_line!("forkful: processes below workers open their sockets by themselves: {error}");
                let _gone = self.reactor.remove(self.listener.as_fd());
            }
        }
    }

    /// There is no free descriptor for a process that waits: it opens its sockets by itself. Returns whether it was told so.
    fn refuse(&self) -> bool {
        let had = self.spare.take().is_some();
        let refused = had && self.listener.accept().is_ok();
        self.spare.set(self.listener.try_clone().ok());
        refused
    }
}

impl Drop for Relatives {
    fn drop(&mut self) {
        let _gone = self.reactor.remove(self.listener.as_fd());
        let _none = fs_err::remove_file(&self.path);
    }
}

/// Whether descriptors will be free again.
fn is_temporary(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn welcome(stream: UnixStream, apps: &mut Apps, keeping: &Keeping, now: Time) -> Option<()> {
    let peer = identity::peer_credentials(&stream).ok()?;
    let mark = (peer.uid == identity::euid()).then(|| Mark::of(peer.pid))??;
    let found = apps.iter().find_map(|(app, entry)| Some((*app, entry.lives_as(mark)?)));
    let (app, (slot, generation)): (AppId, _) = found?;
    let entry = apps.get_mut(app)?;
    stream.set_nonblocking(true).ok()?;
    let keep = |worker: WorkerId| {
        let name = Name { kind: Kind::Channel, app: app.0, of: worker.0, part: 0 };
        let hold = keeping.keep(name, stream.as_fd());
        (stream.into(), hold)
    };
    entry.take_in((slot, generation), peer.pid, keep, now).ok()
}

impl App {
    /// The living process in fork mode with this mark.
    fn lives_as(&self, mark: Mark) -> Option<(u16, Generation)> {
        if self.spec().mode != Mode::Fork || !self.spec().agent {
            return None;
        }
        self.places.iter().find_map(|(slot, place)| {
            let lives = place.processes.iter().find(|(_, one)| one.mark == mark && one.ended.is_none());
            lives.map(|(generation, _)| (*slot, *generation))
        })
    }

    fn take_in(
        &mut self,
        (slot, generation): (u16, Generation),
        pid: u32,
        keep: impl FnOnce(WorkerId) -> KeptSocket,
        now: Time,
    ) -> io::Result<()> {
        if self.workers.of((slot, generation)).len() > RELATIVES_MAX {
            return Err(io::Error::from(io::ErrorKind::QuotaExceeded));
        }
        self.workers.started += 1;
        let worker = WorkerId(self.workers.started);
        self.primary.attach(worker, keep(worker), None)?;
        self.primary.identify(worker, pid, slot);
        if let Some(leader) = self.worker(slot, generation) {
            self.primary.belongs_to(worker, leader);
        }
        self.workers.add(worker, (slot, generation));
        if self.supervisor.slot(slot).is_some_and(|record| record.online() == Some(generation)) {
            self.primary.open(worker, now);
        }
        Ok(())
    }
}
