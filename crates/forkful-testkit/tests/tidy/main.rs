//! The repository's rules that can be checked in its files; this file checks length, safety and paths.
//!
//! - `dependencies`: which crate may depend on which
//! - `documents`: files, places and tests named in documents
//! - `functions`: the length of functions
//! - `invariants`: invariants of docs/ARCHITECTURE.md
//! - `pages`: pages named in messages, and messages quoted in pages
//! - `reading`: Rust code without comments and string literals

mod dependencies;
mod documents;
mod functions;
mod invariants;
mod pages;
mod reading;
mod structs;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Longer files must be split.
const LINES_MAX: usize = 700;
/// Folders with our sources.
const SOURCES: [&str; 13] = [
    ".github/",
    "agent/",
    "bench/",
    "crates/",
    "dev/",
    "docs/",
    "examples/",
    "fuzz/src/",
    "npm/",
    "packaging/",
    "page/",
    "site/",
    "tests/",
];
/// File extensions of sources.
const EXTENSIONS: [&str; 9] =
    [".rs", ".mjs", ".cjs", ".js", ".ts", ".tsx", ".mts", ".cts", "npm/forkful/bin/forkful"];
/// The one crate that may make unsafe kernel calls where no safe wrapper exists, and the counting allocators
/// of fuzz targets and tests.
const UNSAFE_HOMES: [&str; 3] =
    ["crates/forkful-os/", "crates/forkful-testkit/src/allocations.rs", "fuzz/src/memory.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every text file that git tracks or would add, by its path from the root.
fn files() -> Vec<(String, String)> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(list.status.success(), "not a git checkout: {}", String::from_utf8_lossy(&list.stderr));
    let is_ours = |name: &&str| {
        let lock = name.ends_with("package-lock.json");
        !lock && (!name.contains('/') || SOURCES.iter().any(|folder| name.starts_with(folder)))
    };
    let names = String::from_utf8(list.stdout).unwrap();
    names
        .lines()
        .filter(is_ours)
        // Removed, or not text.
        .filter_map(|name| Some((name.to_owned(), fs_err::read_to_string(root().join(name)).ok()?)))
        .collect()
}

/// A file by its path from the root.
fn read(name: &str) -> String {
    fs_err::read_to_string(root().join(name)).unwrap()
}

fn is_source(name: &str) -> bool {
    EXTENSIONS.iter().any(|extension| name.ends_with(extension))
}

/// Fails with a list of all violations of a rule.
fn none(faults: Vec<String>, rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

#[test]
fn no_source_is_too_long() {
    let files = files();
    assert!(files.len() > 100, "only {} files were found", files.len());
    let long = files.iter().filter(|(name, _)| is_source(name)).filter_map(|(name, text)| {
        let lines = text.lines().count();
        (lines > LINES_MAX).then(|| format!("{name}: {lines} lines"))
    });
    none(long.collect(), &format!("a file has at most {LINES_MAX} lines"));
}

#[test]
fn every_rust_file_says_what_it_is_for() {
    let silent = files()
        .into_iter()
        .filter(|(name, text)| name.ends_with(".rs") && !text.trim_start().starts_with("//!"))
        .map(|(name, _)| name);
    none(silent.collect(), "a file opens with `//!`");
}

#[test]
fn only_one_crate_is_unsafe() {
    // In pieces, so that this file does not match.
    let words = [["un", "safe {"].concat(), ["un", "safe fn"].concat(), ["un", "safe impl"].concat()];
    let found = files()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".rs") && !UNSAFE_HOMES.iter().any(|home| name.starts_with(home)))
        .filter(|(_, text)| words.iter().any(|word| text.contains(word.as_str())))
        .map(|(name, _)| name);
    none(found.collect(), "what is not checked by the compiler lives in forkful-os");
}

#[test]
fn lints_are_expected_with_a_reason_not_allowed() {
    let allow = ["[al", "low("].concat();
    let found = files()
        .into_iter()
        .filter(|(name, text)| name.ends_with(".rs") && text.contains(allow.as_str()))
        .map(|(name, _)| name);
    none(found.collect(), "`#[expect(…, reason)]` says when it is of no more use");
}

#[test]
fn nothing_depends_on_one_machine() {
    let root = root().display().to_string();
    // In pieces, as above. Paths in examples belong to nobody.
    let homes = ["home", "root", "Users"].map(|folder| format!("/{folder}/"));
    let is_of_a_machine = |word: &str| {
        let at_home = homes.iter().any(|home| word.starts_with(home.as_str()));
        let is_example =
            ["/home/ann", "/home/logs/", "/home/state."].iter().any(|example| word.starts_with(example));
        at_home && !is_example || word.starts_with(&format!("{root}/"))
    };
    let faults = files().into_iter().flat_map(|(name, text)| {
        let hits = text.lines().enumerate().filter_map(|(number, line)| {
            let mut words = line.split(|c: char| c.is_whitespace() || "\"'`(=,".contains(c));
            words.find(|word| is_of_a_machine(word)).map(|word| format!("{name}:{}: {word}", number + 1))
        });
        hits.collect::<Vec<_>>()
    });
    none(faults.collect(), "no path of somebody's machine");
}

/// Where the daemon opens, renames or removes files by path, and why neither an app nor another user can
/// write there. All other code uses `forkful_os::behalf`.
const BY_PATH: [(&str, &str); 14] = [
    (
        "forkful-daemon/src/home.rs",
        "the home is its owner's alone, and /run/forkful root's; both are checked",
    ),
    ("forkful-daemon/src/code_cache.rs", "in the home"),
    ("forkful-daemon/src/home_keeper.rs", "in the home"),
    ("forkful-daemon/src/left_behind.rs", "in the home"),
    ("forkful-daemon/src/incidents/shelf.rs", "in the home"),
    ("forkful-daemon/src/inherited.rs", "in the home"),
    ("forkful-daemon/src/run.rs", "in the home"),
    ("forkful-daemon/src/store/", "in the home"),
    ("forkful-daemon/src/engine/relatives.rs", "in the home"),
    (
        "forkful-daemon/src/service_environment.rs",
        "in the home, without waiting, a regular file of a bounded size",
    ),
    (
        "forkful-daemon/src/engine/log_files.rs",
        "asks whether a log is a file before the app is taken, and opens nothing",
    ),
    ("forkful-daemon/src/engine/upkeep/command.rs", "/dev/null"),
    (
        "forkful-daemon/src/server/disk_facts.rs",
        "asks whether a folder of a path to watch is a symbolic link, and opens nothing",
    ),
    ("forkful-daemon/src/watch/tree.rs", "lists the names in watched folders, and opens no file"),
];
/// The daemon's crates, except `forkful-os`, whose few calls are mechanisms.
const OF_DAEMON: [&str; 2] = ["crates/forkful-daemon/src/", "crates/forkful-cluster/src/"];
/// Calls that access files by path.
const CALLS: [&str; 23] = [
    "fs_err::",
    // Calls without a path before them.
    "use std::fs;",
    "use rustix::fs;",
    "std::fs::copy",
    "std::fs::create_dir",
    "std::fs::hard_link",
    "rustix::fs::mkdir",
    "rustix::fs::open",
    "rustix::fs::rename",
    "rustix::fs::symlink",
    "rustix::fs::unlink",
    "std::fs::read",
    "std::fs::write",
    "std::fs::rename",
    "std::fs::remove",
    "std::fs::metadata",
    "std::fs::canonicalize",
    "std::fs::set_permissions",
    "std::fs::File::",
    "DirBuilder::new",
    " File::open(",
    "(File::open(",
    "OpenOptions::new",
];

#[test]
fn the_daemon_touches_files_of_other_users_by_descriptors_alone() {
    let of_daemon = files().into_iter().filter(|(name, _)| {
        let is_test = name.contains("/tests/") || name.ends_with("tests.rs");
        OF_DAEMON.iter().any(|folder| name.starts_with(folder)) && name.ends_with(".rs") && !is_test
    });
    let faults = of_daemon
        .filter(|(name, _)| !BY_PATH.iter().any(|(allowed, _)| name.contains(allowed)))
        .flat_map(|(name, text)| {
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            let touches = |line: &&str| {
                !line.trim_start().starts_with("//") && CALLS.iter().any(|call| line.contains(call))
            };
            code.lines().filter(touches).map(|line| format!("{name}: {}", line.trim())).collect::<Vec<_>>()
        });
    let rule = "files are opened, renamed and removed through `forkful_os::behalf`, or the file is in BY_PATH with a reason";
    none(faults.collect(), rule);
}
