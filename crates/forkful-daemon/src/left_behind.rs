//! What a daemon before this one has left behind.
//!
//! A daemon that is killed takes its workers with it only as far as they notice: a clustered Node.js worker ends with its
//! channel, a shell or a double-forked server does not, and would hold its port against the one that takes its place.
//! So a daemon notes what its workers are known by ([`forkful_os::tree::Instance`]) in its home and removes the note when it ends
//! properly; the next one that finds a note ends what still carries that mark, before it starts anything.
//!
//! The note also has the process ids of the daemon and of its keeper. A home may be copied, and the lock of a home may be removed: as
//! long as the daemon or the keeper lives, the marked processes belong to it.
//!
//! **Invariant:** only the holder of the home's lock ends processes, and never those of a daemon that lives.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use forkful_os::identity::LockFile;
use forkful_os::procinfo;
use forkful_os::tree::{self, Instance as DaemonInstance, Marks, Snapshot};

use crate::Home;

/// From SIGTERM to SIGKILL: clients that wait for the daemon wait for this too, but only if a process ignores
/// SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// A process that survives SIGKILL for this long waits in the kernel and is left alone.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a killed process may take to end.
const DYING: Duration = Duration::from_millis(500);
/// Intervals between two scans of all processes: the first, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// What a daemon has noted in its home.
struct Note {
    instance: DaemonInstance,
    /// Its process and its keeper's: id and start time.
    daemon: Vec<(u32, u64)>,
}

impl Note {
    fn read(home: &Home) -> Option<Self> {
        Self::parse(&fs_err::read_to_string(home.instance()).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let instance = DaemonInstance::parse(words.next()?)?;
        let process = |word: &str| {
            let (pid, started) = word.split_once(':')?;
            Some((pid.parse().ok()?, started.parse().ok()?))
        };
        Some(Self { instance, daemon: words.filter_map(process).collect() })
    }

    /// The daemon's process or its keeper's, if it lives. This daemon's own keeper does not count: it has outlived the previous daemon.
    /// A killed process gets time to end: the kernel closes its files, and so releases the lock, before the process is gone.
    fn living(&self) -> Option<u32> {
        let is_own = |pid| pid == std::process::id() || tree::keeper() == Some(pid);
        let lives = |(pid, started): &(u32, u64)| {
            procinfo::is_living(*pid) && procinfo::start_time(*pid).is_ok_and(|now| now == *started)
        };
        let until = Instant::now() + DYING;
        loop {
            let (pid, _) = self.daemon.iter().find(|process| !is_own(process.0) && lives(process))?;
            if Instant::now() >= until {
                return Some(*pid);
            }
            thread::sleep(LOOKS.0);
        }
    }
}

/// Ends the processes that the previous daemon has left, and records this daemon's marks.
pub(crate) fn take_over(home: &Home) -> Marks {
    if let Some(ended) = end_noted(home) {
        log_line!("forkful: the daemon before did not end properly; {}", in_words(ended));
    }
    remove_dead_sockets(home);
    let marks = Marks::new();
    note_instance(home, &marks.instance().to_string());
    marks
}

/// Records the marks of this daemon's workers, and which processes it consists of.
pub(crate) fn note_instance(home: &Home, instance: &str) {
    let mut note = instance.to_owned();
    for pid in tree::keeper().into_iter().chain([std::process::id()]) {
        if let Ok(started) = procinfo::start_time(pid) {
            note.push_str(&format!(" {pid}:{started}"));
        }
    }
    note.push('\n');
    if let Err(error) = crate::store::write_note(&home.instance(), note.as_bytes()) {
        log_line!("forkful: if this daemon is killed, its workers keep running: {error}");
    }
}

/// Ends the processes that a killed daemon has left, without another daemon: returns their number. `None` if
/// there is nothing to do: the previous daemon ended normally, or one is running.
pub fn clear_left_behind(home: &Home) -> io::Result<Option<usize>> {
    if !is_abandoned(home) {
        return Ok(None);
    }
    // Held meanwhile: a daemon that starts now does not wait, it is refused.
    let Some(_lock) = LockFile::acquire(&home.lock())? else { return Ok(None) };
    let ended = end_noted(home);
    remove_dead_sockets(home);
    for socket in [home.socket(), home.lends()] {
        let _gone = fs_err::remove_file(socket);
    }
    leave(home);
    Ok(ended)
}

/// Whether the last daemon ended without ending its apps: it was killed, or had a fault of its own. While a daemon
/// holds the lock, the answer is `false`: a daemon that starts ends what the last daemon left behind.
pub fn is_abandoned(home: &Home) -> bool {
    // The order matters: a daemon that ends properly removes its note before it releases the lock. For the same reason the note is read
    // only once.
    if LockFile::is_held(&home.lock()) {
        return false;
    }
    match fs_err::read_to_string(home.instance()) {
        Ok(text) => Note::parse(&text).is_none_or(|note| note.living().is_none()),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Number of processes of a killed daemon that still run without one.
pub fn count_left_behind(home: &Home) -> usize {
    let Some(note) = Note::read(home) else { return 0 };
    Snapshot::take(&HashSet::new()).map_or(0, |snapshot| snapshot.of_instance(note.instance).len())
}

/// The number of remaining processes, in words.
pub fn in_words(ended: usize) -> String {
    match ended {
        0 => "nothing of its apps was left".to_owned(),
        1 => "1 process of its apps was ended".to_owned(),
        ended => format!("{ended} processes of its apps were ended"),
    }
}

/// Ends the processes of the daemon that has left its record.
fn end_noted(home: &Home) -> Option<usize> {
    let note = Note::read(home)?;
    if let Some(pid) = note.living() {
        let path = home.path().display();
        log_line!("forkful: {path} is a copy of the home of a running daemon (process {pid})");
        return None;
    }
    Some(end(note.instance))
}

/// The daemon ends normally, with all its workers.
pub(crate) fn leave(home: &Home) {
    let _gone = fs_err::remove_file(home.instance());
    let _gone = fs_err::remove_file(home.sockets());
}

/// Records the files of the apps' unix sockets: the kernel does not remove them with their listeners.
pub(crate) fn note_sockets(home: &Home, files: &BTreeSet<PathBuf>) {
    let written = serde_json::to_vec(files)
        .map_err(io::Error::from)
        .and_then(|text| crate::store::write_note(&home.sockets(), &text));
    if let Err(error) = written {
        log_line!("forkful: a unix socket of an app would be in the way of the next daemon's: {error}");
    }
}

/// Removes the previous daemon's sockets without a listener; other files, and sockets in use, stay.
fn remove_dead_sockets(home: &Home) {
    let Ok(text) = fs_err::read(home.sockets()) else { return };
    let files: BTreeSet<PathBuf> = serde_json::from_slice(&text).unwrap_or_default();
    for file in files {
        let _gone = forkful_os::listener::remove_left_over(&file);
    }
    let _gone = fs_err::remove_file(home.sockets());
}

/// Ends every process of another daemon's workers; returns their number.
pub(crate) fn end(instance: DaemonInstance) -> usize {
    let mut ended = end_marked(instance);
    // Processes that have removed every mark are still in the groups.
    let began = Instant::now();
    let mut pause = LOOKS.0;
    loop {
        let left = forkful_os::cgroup::clear_left_behind(instance);
        if left == 0 || began.elapsed() > PATIENCE {
            return ended;
        }
        ended = ended.max(left);
        thread::sleep(pause);
        pause = (pause * 2).min(LOOKS.1);
    }
}

fn end_marked(instance: DaemonInstance) -> usize {
    let began = Instant::now();
    let mut asked = HashSet::new();
    let mut pause = LOOKS.0;
    loop {
        let Ok(snapshot) = Snapshot::take(&HashSet::new()) else { return asked.len() };
        let left = snapshot.of_instance(instance);
        if left.is_empty() || began.elapsed() > PATIENCE {
            return asked.len();
        }
        let in_grace = began.elapsed() < GRACE;
        for member in left {
            // Each gets SIGTERM once, and SIGKILL in every later round.
            if asked.insert(member.pid) && in_grace {
                let _ended = member.signal(SIGTERM);
            } else if !in_grace {
                let _ended = member.signal(SIGKILL);
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOKS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the lock. Another test may have just forked a process, which has a copy of the lock's descriptor until it executes its
    /// program.
    fn locked(home: &Home) -> LockFile {
        loop {
            match LockFile::acquire(&home.lock()).unwrap() {
                Some(lock) => return lock,
                None => thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_daemon_that_ends_properly_is_never_taken_for_one_that_was_killed() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        home.create().unwrap();
        for _ in 0..500 {
            let lock = locked(&home);
            note_instance(&home, &Marks::new().instance().to_string());
            let ending = thread::spawn({
                let home = home.clone();
                move || {
                    leave(&home);
                    drop(lock);
                }
            });
            while !ending.is_finished() {
                assert!(!is_abandoned(&home));
            }
            ending.join().unwrap();
        }
        note_instance(&home, &Marks::new().instance().to_string());
        assert!(is_abandoned(&home));
    }
}
