//! Files that hold workers' process ids (`pid_file`), for other programs. A thread writes them, so that no disk
//! delays a connection. What cannot be written is told once; the app is none the worse for it.
//!
//! The folder may be the app's, and the app another user's: the files are written on behalf of that user (`behalf`).

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use forkful_core::pages::Page;
use forkful_core::spec::pid_file_of;
use forkful_os::behalf::{Entry, Find, Identity};

/// Stack of the thread, which only writes files.
const STACK_BYTES: usize = 64 * 1024;

/// A file that holds more is not of ours.
const READ_BYTES_MAX: u64 = 64;
/// Everybody may read the number; and the folders, where they are made.
const MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// Something to do. There are at most two of them for each process, so that the queue needs no bound of its own.
#[derive(Debug)]
enum Order {
    Write(PathBuf, u32),
    Remove(PathBuf, u32),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct PidFiles {
    desk: Option<(Sender<Order>, JoinHandle<()>)>,
}

impl PidFiles {
    /// Puts a process id into a file.
    pub(crate) fn write(&mut self, path: PathBuf, pid: u32) {
        self.order(Order::Write(path, pid));
    }

    /// Removes a file, if it still holds this process id.
    pub(crate) fn remove(&mut self, path: PathBuf, pid: u32) {
        self.order(Order::Remove(path, pid));
    }

    fn order(&mut self, order: Order) {
        if self.desk.is_none() {
            self.desk = start().map_err(|error| log_line!("forkful: no pid files are written: {error}")).ok();
        }
        if let Some((desk, _)) = &self.desk {
            // The thread ends only after its desk is gone.
            let _sent = desk.send(order);
        }
    }
}

impl Drop for PidFiles {
    /// What was ordered is done before the daemon ends.
    fn drop(&mut self) {
        if let Some((desk, thread)) = self.desk.take() {
            drop(desk);
            // It cannot be asked for more than to end.
            let _ended = thread.join();
        }
    }
}

/// What the watcher of an app's files leaves alone: the files of all its workers.
pub(crate) fn pattern(pid_file: &Path) -> String {
    // Any number stands for the id.
    let one = pid_file_of(pid_file, 0).to_string_lossy().into_owned();
    let extension = pid_file.extension().map_or_else(String::new, |e| format!(".{}", e.to_string_lossy()));
    let stem = one.strip_suffix(&format!("0{extension}")).unwrap_or(&one);
    format!("^{}[0-9]+{}$", regex::escape(stem), regex::escape(&extension))
}

fn start() -> io::Result<(Sender<Order>, JoinHandle<()>)> {
    let (desk, orders) = channel();
    let thread = thread::Builder::new()
        .name("pids".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || work(&orders))?;
    Ok((desk, thread))
}

fn work(orders: &Receiver<Order>) {
    let mut told = HashSet::new();
    for order in orders {
        match order {
            Order::Write(path, pid) => match put(&path, pid) {
                Ok(()) => drop(told.remove(&path)),
                Err(error) => {
                    if told.insert(path.clone()) {
                        crate::own_log::lines(&fault_lines(&path, &error).each_ref().map(String::as_str));
                    }
                }
            },
            // Gone already, or somebody else's.
            Order::Remove(path, pid) => drop(take(&path, pid)),
        }
    }
}

/// Which file, why, and what to do.
fn fault_lines(path: &Path, error: &io::Error) -> [String; 4] {
    let folder = path.parent().unwrap_or(path).display();
    [
        format!("forkful: error: cannot write the pid file {}; its app runs without it", path.display()),
        format!("caused by: {error}"),
        format!(
            "hint: give `pid_file` (`--pid`) a path in a folder where the daemon can make files, which {folder} is not"
        ),
        format!("see: {}", Page::PidFile.url()),
    ]
}

/// Readers see a whole number or none, and a link that somebody has put there is replaced and not followed.
fn put(path: &Path, pid: u32) -> io::Result<()> {
    let file = Entry::find(path, Find { make_folders: Some(FOLDER_MODE), follow_last: false })?;
    file.replace_whole(MODE, |open| writeln!(open, "{pid}"))
}

fn take(path: &Path, pid: u32) -> io::Result<()> {
    let entry = Entry::find(path, Find { make_folders: None, follow_last: false })?;
    let (file, mut text) = (entry.read()?, String::new());
    (&file).take(READ_BYTES_MAX).read_to_string(&mut text)?;
    if text.trim().parse() == Ok(pid) {
        entry.remove(Some(Identity::of(&file)?))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watcher_knows_the_files_of_all_workers() {
        let pattern = regex::Regex::new(&pattern(Path::new("/srv/a+b/api.pid"))).unwrap();
        assert!(pattern.is_match("/srv/a+b/api-0.pid") && pattern.is_match("/srv/a+b/api-117.pid"));
        for other in ["/srv/a+b/api-x.pid", "/srv/a+b/api.pid", "/srv/aab/api-0.pid", "/srv/a+b/api-0.pids"] {
            assert!(!pattern.is_match(other), "{other}");
        }
    }

    #[test]
    fn a_folder_where_no_file_can_be_made_is_told_with_the_reason_and_what_to_do() {
        for path in ["/proc/x/api-0.pid", "/proc/api-0.pid", "/dev/null/api-0.pid"] {
            let error = put(Path::new(path), 7).unwrap_err();
            let text = fault_lines(Path::new(path), &error).join("\n");
            assert!(text.contains(&format!("cannot write the pid file {path};")), "{text}");
            assert!(text.contains("hint: give `pid_file`"), "{text}");
            let reason =
                if path.starts_with("/proc") { "leads into /proc, where no" } else { "Not a directory" };
            assert!(text.contains(reason) && !text.contains("Invalid argument"), "{text}");
        }
    }

    #[test]
    fn a_file_holds_the_newest_process_and_is_removed_by_it_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/api.pid");
        let link = folder.path().join("other");
        fs_err::write(&link, "mine").unwrap();
        let mut files = PidFiles::default();
        files.write(path.clone(), 7);
        files.write(path.clone(), 8);
        files.remove(path.clone(), 7);
        drop(files);
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "8\n");
        fs_err::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&link, &path).unwrap();
        let mut files = PidFiles::default();
        files.write(path.clone(), 9);
        drop(files);
        assert_eq!(fs_err::read_to_string(&link).unwrap(), "mine");
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "9\n");
        let mut files = PidFiles::default();
        files.remove(path.clone(), 9);
        drop(files);
        assert_eq!(fs_err::read_dir(folder.path().join("new")).unwrap().count(), 0);
    }
}
