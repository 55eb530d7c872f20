//! Invariants of `docs/ARCHITECTURE.md` that can be checked in the sources, and the page's own references.

use crate::{files, none, read, reading};

/// The product code of crates: without tests, comments and, unless `with_texts`, string literals.
fn product(folders: &[&str], with_texts: bool) -> Vec<(String, String)> {
    let is_product = |name: &str| {
        let is_test = name.contains("/tests/")
            || name.contains("/examples/")
            || name.ends_with("tests.rs")
            || name.ends_with("/testing.rs");
        name.ends_with(".rs") && !is_test && folders.iter().any(|folder| name.starts_with(folder))
    };
    let sources = files().into_iter().filter(|(name, _)| is_product(name));
    let code = sources.map(|(name, text)| {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = if with_texts { code.to_owned() } else { reading::bare(code) };
        (name, code)
    });
    code.collect()
}

/// Lines of product code that contain one of the words.
fn lines_with(sources: &[(String, String)], words: &[&str]) -> Vec<String> {
    let lines = sources.iter().flat_map(|(name, code)| {
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let hits = lines.filter(|line| words.iter().any(|word| line.contains(word)));
        hits.map(|line| format!("{name}: {}", line.trim())).collect::<Vec<_>>()
    });
    lines.collect()
}

/// What the pure crates must not use.
const WORLD: [&str; 15] = [
    "std::fs",
    "fs_err::",
    "std::net",
    "std::os",
    "std::env",
    "std::thread",
    "std::process",
    "Instant::",
    "SystemTime",
    "tokio::",
    "rustix::",
    "libc::",
    "Local::now",
    "Utc::now",
    "RandomState",
];

#[test]
fn the_core_knows_no_file_socket_clock_or_runtime() {
    let sources = product(&["crates/forkful-core/src/"], false);
    assert!(sources.len() > 20, "{} files of the core", sources.len());
    none(lines_with(&sources, &WORLD), "time, chance and the world are arguments of the core");
}

#[test]
fn dispatch_knows_no_descriptor_socket_clock_or_protocol() {
    let sources = product(&["crates/forkful-dispatch/src/"], false);
    assert!(sources.len() > 8, "{} files of dispatch", sources.len());
    none(
        lines_with(&sources, &WORLD),
        "dispatch is told what happened, and puts what it wants done into the outbox",
    );
    let words = ["OwnedFd", "BorrowedFd", "forkful_os", "forkful_cluster", "serde_json", "io::"];
    none(lines_with(&sources, &words), "descriptors and bytes are the driver's, in forkful-cluster");
}

#[test]
fn the_supervisor_knows_the_kernel_through_one_crate() {
    let words = [
        "pidfd_open",
        "pidfd_send_signal",
        "\"/proc/",
        "\"/sys/",
        "libc::",
        "netlink::",
        "epoll::",
        "eventfd(",
        "timerfd_",
        "inotify::",
        "openat2(",
        "OFlags::PATH",
        "memfd_",
        "os::linux::",
    ];
    let folders = ["api", "cluster", "config", "core", "daemon", "dispatch", "serve"]
        .map(|name| format!("crates/forkful-{name}/src/"));
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    none(
        lines_with(&product(&folders, true), &words),
        "what only Linux has is reached through forkful-os, which has something in its place on other systems",
    );
}

#[test]
fn the_server_reaches_the_engine_by_commands_alone() {
    let words = ["crate::engine", "super::engine"];
    none(
        lines_with(
            &product(&["crates/forkful-daemon/src/server", "crates/forkful-daemon/src/logs"], false),
            &words,
        ),
        "the server and the log service send commands, and hold nothing of the engine",
    );
}

#[test]
fn the_protocol_knows_no_socket_and_no_worker() {
    let words = ["OwnedFd", "BorrowedFd", "rustix::", "UnixStream", "TcpStream", "WorkerId", "forkful_os"];
    none(
        lines_with(&product(&["crates/forkful-cluster/src/protocol"], false), &words),
        "protocol code takes bytes and returns values",
    );
}

/// Files of the supervisor that may use stderr: its own log, the workers' lines in the foreground, and a
/// check of which file it is.
const STDERR: [&str; 3] = ["/own_log.rs", "/logs/echo.rs", "/home_keeper.rs"];

#[test]
fn the_supervisor_has_one_way_to_its_stderr() {
    let folders =
        ["crates/forkful-daemon/src/", "crates/forkful-cluster/src/", "crates/forkful-dispatch/src/"];
    let mut sources = product(&folders, false);
    sources.retain(|(name, _)| !STDERR.iter().any(|file| name.ends_with(file)));
    let words = ["println!", "eprint!", " print!(", "stderr()", "dbg!"];
    none(lines_with(&sources, &words), "lines of the daemon go through own_log.rs");
}

/// Channels without their own limit, and what limits them.
const UNBOUNDED: [(&str, usize, &str); 6] = [
    ("crates/forkful-config/src/read/script.rs", 1, "one message"),
    (
        "crates/forkful-daemon/src/engine.rs",
        1,
        "one answer for each piece of work given to a thread, and one notice of a watch for each delay",
    ),
    (
        "crates/forkful-daemon/src/logs/lines.rs",
        1,
        "the lines that a reader asked for, which are read as it takes them",
    ),
    (
        "crates/forkful-daemon/src/logs/service.rs",
        4,
        "one message for each stream, file or request of a client",
    ),
    ("crates/forkful-daemon/src/pid_files.rs", 1, "two messages for each process"),
    ("crates/forkful/src/commands/lab.rs", 1, "one message"),
];

#[test]
fn queues_without_a_bound_are_listed_with_what_bounds_them() {
    let words = ["unbounded_channel(", " channel()", "mpsc::channel()", "mpsc::channel::<"];
    let found: Vec<(String, usize)> = product(&["crates/"], false)
        .into_iter()
        .map(|(name, code)| (name.clone(), lines_with(&[(name, code)], &words).len()))
        .filter(|(_, channels)| *channels > 0)
        .collect();
    let listed: Vec<(String, usize)> =
        UNBOUNDED.iter().map(|(name, channels, _)| ((*name).to_owned(), *channels)).collect();
    assert_eq!(found, listed, "a channel has a bound, or is in UNBOUNDED with what bounds it");
}

/// Texts in backticks.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// The file that the page means: from the root, from `crates/`, without `forkful-`, or the end of a path.
fn file_of(path: &str) -> Option<(String, String)> {
    let whole = [path.to_owned(), format!("crates/{path}"), format!("crates/forkful-{path}")];
    let is_whole = |name: &String| whole.contains(name);
    let files = files();
    let found = files.iter().find(|(name, _)| is_whole(name));
    found.or_else(|| files.iter().find(|(name, _)| name.ends_with(&format!("/{path}")))).cloned()
}

#[test]
fn what_the_architecture_names_is_there() {
    let page = read("docs/ARCHITECTURE.md");
    let page = page.rsplit("\n## Map").next().unwrap_or_default();
    let mut faults = Vec::new();
    for text in quoted(page) {
        let (path, place) = text.split_once("::").map_or((text, None), |(path, place)| (path, Some(place)));
        let is_file = [".rs", ".mjs", ".cjs"].iter().any(|extension| path.ends_with(extension));
        if !is_file || path.contains(['<', '*', ' ']) {
            continue;
        }
        let Some((_, source)) = file_of(path) else {
            faults.push(format!("there is no {path}"));
            continue;
        };
        let is_there =
            |place: &str| source.contains(&format!("fn {place}(")) || source.contains(&format!("'{place}'"));
        if let Some(place) = place.filter(|place| !is_there(place)) {
            faults.push(format!("{path} has no {place}"));
        }
    }
    none(faults, "files, functions and tests that docs/ARCHITECTURE.md names exist");
}

#[test]
fn each_invariant_names_a_test_that_holds_it() {
    let page = read("docs/ARCHITECTURE.md");
    let section =
        page.split("\n## Invariants\n").nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default();
    let invariants: Vec<&str> = section.split("- **Invariant:** ").skip(1).collect();
    assert!(invariants.len() > 10, "only {} invariants", invariants.len());
    let is_test = |text: &str| {
        let Some((path, name)) = text.split_once("::") else { return false };
        if path.ends_with(".mjs") {
            return true;
        }
        let Some((_, source)) = file_of(path) else { return false };
        let Some(at) = source.find(&format!("fn {name}(")) else { return false };
        let before: Vec<&str> = source[..at].lines().rev().take(4).collect();
        before.iter().any(|line| line.trim().starts_with("#[test]") || line.contains("#[tokio::test"))
    };
    let held = |invariant: &&&str| !quoted(invariant).any(is_test);
    let without = invariants
        .iter()
        .filter(held)
        .map(|invariant| invariant.lines().next().unwrap_or_default().to_owned());
    none(without.collect(), "an invariant names a test, as `file::name`");
}
