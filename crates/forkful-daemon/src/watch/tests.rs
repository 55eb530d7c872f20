//! Real files, and the kernel's word on them.

use std::sync::mpsc;
use std::time::Duration;

use std::time::Instant;

use super::*;

const BOUND: Duration = Duration::from_secs(60);

fn begin(root: &Path, polling: Option<Duration>) -> (Watcher, mpsc::Receiver<News>) {
    begin_after(root, polling, None)
}

fn begin_after(
    root: &Path,
    polling: Option<Duration>,
    since: Option<SystemTime>,
) -> (Watcher, mpsc::Receiver<News>) {
    let watch = Watch {
        paths: vec![root.to_owned()],
        ignore: Vec::new(),
        delay: Duration::from_millis(20),
        follow_links: false,
        polling,
    };
    let (sender, news) = mpsc::channel();
    let watcher = Watcher::start((&watch, None), root, (vec![root.join("own.log")], since), move |told| {
        // The test may be over.
        let _over = sender.send(told);
    });
    (watcher.expect("it can be watched"), news)
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
        let (watcher, news) = begin_after(&root, polling, Some(since));
        let Ok(News::Changed { paths, seen }) = news.recv_timeout(BOUND) else { panic!("nothing was told") };
        assert_eq!(paths, [new]);
        drop(watcher);
        // What was told is not told again.
        let (_watcher, news) = begin_after(&root, polling, Some(seen.max(written("new.js"))));
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
    let (paths, delay) = (vec![root.clone()], Duration::from_millis(20));
    let watch = Watch { paths, ignore: Vec::new(), delay, follow_links: false, polling: None };
    let tree = Tree::new(&watch, &root, vec![root.join("own.log")]).expect("no pattern is wrong");
    let (notices, _heard) = mpsc::sync_channel(8);
    let mut told = Told::new(tree, notices, Arc::default()).expect("it can be watched");
    let mut changed = BTreeSet::new();
    assert!(told.take(root.join("app.js"), &mut changed).expect("looked at"));
    assert!(!told.take(root.join("own.log"), &mut changed).expect("looked at"));
    assert_eq!(changed.len(), 1);
}

#[test]
fn files_that_the_kernel_does_not_tell_of_are_looked_at_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let watch = Watch {
        paths: vec![root.clone()],
        ignore: Vec::new(),
        delay: Duration::from_millis(20),
        follow_links: false,
        polling: None,
    };
    let tree = Tree::new(&watch, &root, Vec::new()).expect("a tree");
    let (notices, heard) = mpsc::sync_channel(1);
    let (sender, news) = mpsc::channel();
    let polling = std::thread::spawn(move || {
        let full = in_words(&notify::Error::new(notify::ErrorKind::MaxFilesWatch));
        poll_instead(&full, &tree, (Duration::from_millis(20), None), &heard, &|told| {
            let _over = sender.send(told);
        });
    });
    match news.recv_timeout(BOUND) {
        Ok(News::Polls(why)) => assert!(why.contains("fs.inotify.max_user_watches"), "{why}"),
        told => panic!("{told:?}"),
    }
    let file = root.join("app.js");
    assert_eq!(written_until_told(&file, &news), [file]);
    drop(notices);
    polling.join().expect("it ends with its owner");
}
