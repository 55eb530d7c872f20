//! Keeps a daemon reachable when its home is removed or moved away: creates the home again, with lock,
//! socket, records and state, before a command finds none and starts a second daemon.
//!
//! The kernel reports the removal, so nothing is polled.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use forkful_os::keeper::Keeping;
use forkful_os::removal::Removals;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::Home;
use crate::command::{Command, Keep};
use crate::inherited::{ApiSocket, HomeLock};
use crate::rest::Rest;
use crate::{left_behind, server};

/// How long a removal in progress may take before missing files are created again: `rm -r` removes the folder
/// last.
const SETTLE: Duration = Duration::from_millis(50);
/// How often the lock may be refused before the home counts as another daemon's.
const REFUSED_MAX: u32 = 20;
/// Interval between two attempts to create the home again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// What a running daemon has in its home.
pub(crate) struct Hold {
    pub(crate) home: Home,
    /// The marks of its workers.
    pub(crate) instance: String,
    lock: RefCell<HomeLock>,
    servers: RefCell<Vec<JoinHandle<()>>>,
    rest: Rest,
    keeping: Keeping,
    /// Exists as long as the API's socket is the home's.
    api: RefCell<forkful_os::keeper::Hold>,
    /// This process's stderr is the home's log.
    logs_here: bool,
    /// Another daemon has the home now.
    is_lost: Cell<bool>,
}

impl Hold {
    pub(crate) fn new(
        home: Home,
        instance: String,
        (lock, api, keeping): (HomeLock, forkful_os::keeper::Hold, Keeping),
        (server, rest): (JoinHandle<()>, Rest),
    ) -> Rc<Self> {
        let (lock, servers) = (RefCell::new(lock), RefCell::new(vec![server]));
        let api = RefCell::new(api);
        let logs_here = own_log_identity().is_some_and(|own| identity(&home.daemon_log()) == Some(own));
        let is_lost = Cell::new(false);
        Rc::new(Self { home, instance, lock, servers, rest, keeping, api, logs_here, is_lost })
    }

    /// Whether the home's files belong to another daemon.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Waits until all replies have reached their clients.
    pub(crate) async fn finish(&self) {
        for server in self.servers.take() {
            // A server that panicked has no receiver for it.
            let _ended = server.await;
        }
    }

    /// Creates missing files again; `false` if another daemon was faster.
    fn restore(&self, commands: &mpsc::Sender<Command>) -> io::Result<bool> {
        let home = &self.home;
        if home.path().parent().is_some_and(|parent| !parent.is_dir()) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the folder around it is gone, too"));
        }
        home.create()?;
        if identity(&home.lock()) != self.lock_identity() {
            match HomeLock::acquire(home, &self.keeping)? {
                Some(lock) => drop(self.lock.replace(lock)),
                None => return Ok(false),
            }
        }
        if self.logs_here && identity(&home.daemon_log()) != own_log_identity() {
            reopen_own_log(home)?;
        }
        left_behind::note_instance(home, &self.instance);
        let ApiSocket { listener, hold } = ApiSocket::bind(home, &self.keeping)?;
        drop(self.api.replace(hold));
        let server = tokio::task::spawn_local(server::serve(listener, commands.clone(), self.rest.clone()));
        self.servers.borrow_mut().push(server);
        Ok(true)
    }

    fn lock_identity(&self) -> Option<(u64, u64)> {
        self.lock.borrow().identity().ok()
    }
}

/// Watches the home as long as the daemon runs.
pub(crate) async fn keep(hold: Rc<Hold>, commands: mpsc::Sender<Command>) {
    loop {
        let home = &hold.home;
        let place = || (identity(home.path()), identity(&home.socket()), identity(&home.lock()));
        let present = place();
        let is_whole = present.1.is_some() && present.2 == hold.lock_identity();
        let watch = match Watch::on(hold.home.path()) {
            Ok(watch) => watch,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Watch::default(),
            Err(error) => return log_line!("forkful: the home is not watched: {error}"),
        };
        while place() == present && is_whole {
            if let Err(error) = watch.changed().await {
                return log_line!("forkful: the home is not watched any more: {error}");
            }
            while identity(hold.home.path()) == present.0 && timeout(SETTLE, watch.changed()).await.is_ok() {}
        }
        if !restored(&hold, &commands).await {
            return;
        }
        // The engine is gone only when the daemon ends.
        let _gone = commands.send(Command::Keep(Keep::Rewrite)).await;
    }
}

/// Retries until the home exists; `false` if it belongs to another daemon.
async fn restored(hold: &Hold, commands: &mpsc::Sender<Command>) -> bool {
    let path = hold.home.path().display();
    let (mut is_told, mut refused) = (false, 0);
    loop {
        match hold.restore(commands) {
            Ok(true) => {
                log_line!("forkful: {path} or its socket was removed under this daemon: it is made anew");
                return true;
            }
            // Another daemon may hold the lock for a moment: it finds the socket of this daemon, and releases the lock.
            Ok(false) if refused < REFUSED_MAX => {
                refused += 1;
                sleep(SETTLE).await;
                continue;
            }
            Ok(false) => {
                hold.is_lost.set(true);
                // People read the log of the other daemon.
                if hold.logs_here && identity(&hold.home.daemon_log()) != own_log_identity() {
                    let _told_in_the_old_one = reopen_own_log(&hold.home);
                }
                let pid = std::process::id();
                log_line!(
                    "forkful: {path} was removed, and another daemon uses the new one. Commands no longer reach this daemon; `kill {pid}` stops it and its apps"
                );
                return false;
            }
            Err(error) if !is_told => {
                log_line!("forkful: {path} was removed and cannot be made anew: {error}; it is tried again");
                is_told = true;
            }
            Err(_) => {}
        }
        sleep(RETRY_PAUSE).await;
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs_err::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The file behind stderr.
fn own_log_identity() -> Option<(u64, u64)> {
    forkful_os::behalf::Identity::of(rustix::stdio::stderr()).ok().map(|found| (found.device, found.inode))
}

/// A removed log is still this process's stderr, which it has from its keeper: it switches to the log that
/// exists now.
pub(crate) fn find_own_log(home: &Home) {
    let is_removed = |found: &rustix::fs::Stat| {
        rustix::fs::FileType::from_raw_mode(found.st_mode).is_file() && found.st_nlink == 0
    };
    if rustix::fs::fstat(rustix::stdio::stderr()).is_ok_and(|found| is_removed(&found))
        && let Err(error) = reopen_own_log(home)
    {
        log_line!("forkful: the daemon's log cannot be made anew: {error}");
    }
}

/// This process's log goes to the existing home.
fn reopen_own_log(home: &Home) -> io::Result<()> {
    use fs_err::os::unix::fs::OpenOptionsExt as _;
    let log = fs_err::OpenOptions::new().append(true).create(true).mode(0o600).open(home.daemon_log())?;
    rustix::stdio::dup2_stderr(&log)?;
    rustix::stdio::dup2_stdout(&log)?;
    crate::own_log::reopen();
    Ok(())
}

/// Reports removals in a folder, and of the folder. The default one watches nothing and reports immediately.
#[derive(Default)]
struct Watch(Option<AsyncFd<Removals>>);

impl Watch {
    #[expect(deprecated, reason = "its successor is unsafe for types that may close early; this one cannot")]
    fn on(folder: &Path) -> io::Result<Self> {
        Ok(Self(Some(AsyncFd::with_interest(Removals::of(folder)?, Interest::READABLE)?)))
    }

    /// Waits for the next report, and reads all pending ones.
    async fn changed(&self) -> io::Result<()> {
        let Some(fd) = &self.0 else { return Ok(()) };
        let mut guard = fd.readable().await?;
        fd.get_ref().clear()?;
        guard.clear_ready();
        Ok(())
    }
}
