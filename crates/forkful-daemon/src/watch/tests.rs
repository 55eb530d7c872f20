//! Real files, and the kernel's word on them.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;

const BOUND: Duration = Duration::from_secs(60);

fn begin(root: &Path, polling: Option<Duration>) -> (Watcher, mpsc::Receiver<News>) {
    begin_with(watch_of(root, polling), root, None)
}

fn watch_of(path: &Path, polling: Option<Duration>) -> Watch {
    Watch {
        paths: vec![path.to_owned()],
        ignore: Vec::new(),
        delay: Duration::from_millis(20),
        follow_links: false,
        polling,
    }
}

/// Watches an app in a folder, whose log file is `own.log`.
fn begin_with(watch: Watch, cwd: &Path, since: Option<SystemTime>) -> (Watcher, mpsc::Receiver<News>) {
    let (sender, news) = mpsc::channel();
    let logs = BTreeSet::from([cwd.join("own.log")]);
    let request = WatchRequest { watch, user: None, cwd, home: Path::new("/nowhere"), logs, since };
    let watcher = Watcher::start(request, move |told| {
        // The test may be over.
        let _over = sender.send(told);
    });
    (watcher.expect("it can be watched"), news)
}

/// The kernel's watch of a folder whose log file is `own.log`, with the files of a walk; and the queue of its notices.
fn told_of(root: &Path, queue: usize) -> (Told, Tree, Inbox) {
    let mut tree = Tree::new(&watch_of(root, None), root, OwnFiles::default()).expect("no pattern is wrong");
    tree.exclude_logs(vec![root.join("own.log")]);
    let (notices, heard) = mpsc::sync_channel(queue);
    let inbox = Inbox { notices: heard, shared: Arc::default() };
    let watcher = kernel_watcher(&tree, notices, Arc::clone(&inbox.shared)).expect("it can be watched");
    let mut told = Told { watcher, untold: Untold::default() };
    told.walk(&tree, Path::new("/")).expect("it can be walked");
    (told, tree, inbox)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a file again and again until it is told of; watching begins some time after the start.
fn written_until_told(path: &Path, news: &mpsc::Receiver<News>) -> Vec<PathBuf> {
    let end = Instant::now() + BOUND;
    let mut round = 0;
    while Instant::now() < end {
        round += 1;
        std::fs::write(path, "x".repeat(round)).expect("written");
        if let Ok(News::Changed { paths, .. }) = news.recv_timeout(Duration::from_millis(200)) {
            return paths;
        }
    }
    panic!("{} was never told of", path.display());
}

fn next(news: &mpsc::Receiver<News>) -> Vec<PathBuf> {
    match news.recv_timeout(BOUND) {
        Ok(News::Changed { paths, .. }) => paths,
        told => panic!("{told:?}"),
    }
}

#[test]
fn a_changed_file_is_told_and_what_does_not_count_is_not() {
    for polling in [None, Some(Duration::from_millis(20))] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        let (_watcher, news) = begin(&root, polling);
        let file = root.join("app.js");
        assert_eq!(written_until_told(&file, &news), std::slice::from_ref(&file));
        std::fs::write(root.join("own.log"), "a line").expect("written");
        std::fs::create_dir(root.join("node_modules")).expect("made");
        std::fs::write(root.join("node_modules/m.js"), "").expect("written");
        std::fs::read(&file).expect("read");
        let other = root.join("other.js");
        std::fs::write(&other, "").expect("written");
        // What was written before may be told late.
        let told = std::iter::repeat_with(|| next(&news)).flatten().find(|path| *path != file);
        assert_eq!(told, Some(other));
    }
}

#[test]
fn new_folders_are_watched_with_what_is_in_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let (_watcher, news) = begin(&root, None);
    written_until_told(&root.join("app.js"), &news);
    std::fs::create_dir_all(root.join("deep/er")).expect("made");
    let inner = root.join("deep/er/inner.js");
    // What was written before may be told late.
    while !written_until_told(&inner, &news).contains(&inner) {}
}

#[test]
fn a_file_that_is_replaced_is_still_watched() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let (_watcher, news) = begin(&root, None);
    let file = root.join("app.js");
    written_until_told(&file, &news);
    for _ in 0..3 {
        while news.recv_timeout(Duration::from_millis(200)).is_ok() {}
        std::fs::write(root.join(".app.js.swp"), "new").expect("written");
        std::fs::rename(root.join(".app.js.swp"), &file).expect("renamed");
        assert_eq!(next(&news), std::slice::from_ref(&file));
    }
}

#[test]
fn a_watch_that_is_dropped_ends_its_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let (watcher, news) = begin(folder.path(), None);
    drop(watcher);
    let ended = news.recv_timeout(BOUND);
    assert!(matches!(ended, Err(RecvTimeoutError::Disconnected)), "{ended:?}");
}

#[test]
fn a_file_that_was_changed_before_the_watch_is_told_by_its_time() {
    for polling in [None, Some(Duration::from_millis(20))] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        std::fs::write(root.join("old.js"), "").expect("written");
        let written = |name: &str| {
            let metadata = std::fs::metadata(root.join(name)).expect("it is there");
            UNIX_EPOCH + Duration::new(metadata.ctime() as u64, metadata.ctime_nsec() as u32)
        };
        let since = written("old.js");
        let new = root.join("new.js");
        // The file system's clock ticks a few hundred times a second.
        while !new.exists() || written("new.js") <= since {
            std::fs::write(&new, "x").expect("written");
        }
        let (watcher, news) = begin_with(watch_of(&root, polling), &root, Some(since));
        let Ok(News::Changed { paths, seen }) = news.recv_timeout(BOUND) else { panic!("nothing was told") };
        assert_eq!(paths, [new]);
        drop(watcher);
        // What was told is not told again.
        let (_watcher, news) = begin_with(watch_of(&root, polling), &root, Some(seen.max(written("new.js"))));
        assert_eq!(written_until_told(&root.join("another.js"), &news), [root.join("another.js")]);
    }
}

#[test]
fn a_change_that_does_not_count_puts_nothing_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    for name in ["app.js", "own.log"] {
        std::fs::write(root.join(name), "").expect("written");
    }
    let (mut told, tree, _inbox) = told_of(&root, 8);
    assert!(told.take(root.join("app.js"), &tree).expect("looked at"));
    assert!(!told.take(root.join("own.log"), &tree).expect("looked at"));
    assert_eq!(told.untold.changed.len(), 1);
}

#[test]
fn files_that_the_kernel_does_not_tell_of_are_looked_at_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let (removed, file) = (root.join("removed.js"), root.join("app.js"));
    let mut tree = Tree::new(&watch_of(&root, None), &root, OwnFiles::default()).expect("a tree");
    let (notices, heard) = mpsc::sync_channel(2);
    let inbox = Inbox { notices: heard, shared: Arc::default() };
    let untold = Untold { since: None, changed: BTreeSet::from([removed.clone()]) };
    // They were on their way when the limit was reached.
    notices.send(Notice::Changed(file.clone())).expect("there is room");
    notices.send(Notice::Overflow).expect("there is room");
    let (sender, news) = mpsc::channel();
    let polling = std::thread::spawn(move || {
        let full = in_words(&notify::Error::new(notify::ErrorKind::MaxFilesWatch));
        poll_instead(&full, &mut tree, (Duration::from_millis(20), untold), &inbox, &|told| {
            let _over = sender.send(told);
        });
    });
    match news.recv_timeout(BOUND) {
        Ok(News::Polls(why)) => assert!(why.contains("fs.inotify.max_user_watches"), "{why}"),
        told => panic!("{told:?}"),
    }
    assert_eq!(next(&news), [removed], "it had changed before the limit was reached");
    assert_eq!(written_until_told(&file, &news), [file]);
    notices.send(Notice::End).expect("it hears");
    polling.join().expect("it ends with its owner");
}

#[test]
fn log_files_that_come_later_and_what_is_set_aside_do_not_count() {
    for polling in [None, Some(Duration::from_millis(20))] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        std::fs::create_dir_all(root.join("releases/5/logs")).expect("made");
        std::os::unix::fs::symlink("releases/5", root.join("current")).expect("linked");
        let (mut watcher, news) = begin(&root, polling);
        let app = root.join("app.js");
        assert_eq!(written_until_told(&app, &news), std::slice::from_ref(&app));
        // One of them by a path with a link, and one whose folder is made later.
        let logs = ["new/out-1.log", "out-1.log", "current/logs/out-1.log"];
        watcher.exclude_logs(logs.map(|log| root.join(log)));
        std::fs::create_dir(root.join("new")).expect("made");
        for log in ["own.log", "new/out-1.log", "out-1.log", "releases/5/logs/out-1.log"] {
            for ending in
                ["", ".20261130T175749.123Z", ".20261130T175749.123Z.gz", ".20261130T175749.123Z.gz.tmp"]
            {
                std::fs::write(root.join(format!("{log}{ending}")), "a line").expect("written");
            }
        }
        let last = root.join("last.js");
        let mut told = BTreeSet::new();
        while !told.contains(&last) {
            told.extend(written_until_told(&last, &news));
        }
        // What was written before may be told late.
        assert!(told.is_subset(&BTreeSet::from([app, last])), "{told:?}");
    }
}

#[test]
fn a_named_folder_that_is_made_again_is_still_watched() {
    for polling in [None, Some(Duration::from_millis(20))] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        let dist = root.join("build/dist");
        std::fs::create_dir_all(&dist).expect("made");
        let (_watcher, news) = begin_with(watch_of(&dist, polling), &root, None);
        let file = dist.join("app.js");
        while !written_until_told(&file, &news).contains(&file) {}
        for removed in [dist.as_path(), &root.join("build")] {
            std::fs::remove_dir_all(removed).expect("removed");
            // Until it is known that it is gone: what was written before may be told late.
            while !next(&news).iter().any(|path| file.starts_with(path) && !path.exists()) {}
            std::fs::create_dir_all(&dist).expect("made");
            while !written_until_told(&file, &news).contains(&file) {}
        }
    }
}

#[test]
fn what_others_write_beside_a_named_folder_wakes_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let app = root.join("app");
    std::fs::create_dir(&app).expect("made");
    let (_told, _tree, inbox) = told_of(&app, 8);
    std::fs::write(root.join("beside"), "x").expect("written");
    std::fs::write(app.join("app.js"), "x").expect("written");
    match inbox.notices.recv_timeout(BOUND) {
        Ok(Notice::Changed(path)) => assert_eq!(path, app.join("app.js")),
        heard => panic!("{heard:?}"),
    }
}

#[test]
fn notices_for_which_there_was_no_room_are_made_up_for_by_a_walk() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let (mut told, tree, inbox) = told_of(&root, 1);
    std::fs::write(root.join("a.js"), "x").expect("written");
    std::fs::create_dir(root.join("new")).expect("made");
    wait_until("a notice is lost", || inbox.shared.lost.load(Ordering::Acquire));
    let first = inbox.notices.recv().expect("there is one");
    assert!(told.hear(first, &tree, &inbox).expect("it can be walked"));
    assert!(told.untold.changed.contains(&root.join("a.js")));
    // The folder is watched, although the notice of it was lost.
    let inner = root.join("new/inner.js");
    wait_until("the new folder is watched", || {
        std::fs::write(&inner, "x").expect("written");
        inbox.notices.try_iter().any(|notice| matches!(notice, Notice::Changed(path) if path == inner))
    });
}
