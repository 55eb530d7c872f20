//! The daemon's folder: `$FORKFUL_HOME`, by default `~/.forkful`, private to its user.
//!
//! ```text
//! forkful.sock   the API            forkful.lock   held while a daemon lives
//! daemon.log     its own messages   agent-*/       the preloaded agent
//! compiled/      code of apps that Node.js has compiled
//! incidents/     what happened to apps
//! logs/          output of workers  lends.sock     where processes of apps ask for listening sockets
//! instance       what this daemon's workers are known by; gone when it has ended properly
//! sockets        the files of its apps' unix sockets; gone when it has ended properly
//! state.json     what should run, written at every change · state.previous.json: of the daemon before
//! dump.json      the same, written by `save`
//! environment    values for apps that are started at boot, written by the user
//! ```

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The agent's files. The first one is preloaded into Node workers by `--require`, and loads the others when it needs them.
const AGENT: [(&str, &str); 15] = [
    ("agent.cjs", include_str!("../../../agent/agent.cjs")),
    ("drain.cjs", include_str!("../../../agent/drain.cjs")),
    ("kept.cjs", include_str!("../../../agent/kept.cjs")),
    ("loans.cjs", include_str!("../../../agent/loans.cjs")),
    ("long.cjs", include_str!("../../../agent/long.cjs")),
    ("merged.cjs", include_str!("../../../agent/merged.cjs")),
    ("outgoing.cjs", include_str!("../../../agent/outgoing.cjs")),
    ("prom.cjs", include_str!("../../../agent/prom.cjs")),
    ("profile.cjs", include_str!("../../../agent/profile.cjs")),
    ("reports.cjs", include_str!("../../../agent/reports.cjs")),
    ("requests.cjs", include_str!("../../../agent/requests.cjs")),
    ("sampler.cjs", include_str!("../../../agent/sampler.cjs")),
    ("shared.cjs", include_str!("../../../agent/shared.cjs")),
    ("stalls.cjs", include_str!("../../../agent/stalls.cjs")),
    ("workers.cjs", include_str!("../../../agent/workers.cjs")),
];

/// Where workers of other users than root find it. Only root can make files there.
const AGENT_FOR_OTHERS: &str = "/run/forkful";

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// A home at an absolute path; nothing is touched yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn socket(&self) -> PathBuf {
        self.path.join("forkful.sock")
    }

    /// Where processes that wrappers have started ask for their sockets.
    pub(crate) fn lends(&self) -> PathBuf {
        self.path.join("lends.sock")
    }

    /// The lock that a living daemon holds.
    pub fn lock(&self) -> PathBuf {
        self.path.join("forkful.lock")
    }

    /// What the living daemon's workers are known by.
    pub fn instance(&self) -> PathBuf {
        self.path.join("instance")
    }

    /// The daemon's own messages.
    pub fn daemon_log(&self) -> PathBuf {
        self.path.join("daemon.log")
    }

    /// Default folder of workers' output.
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// What happened to apps that nobody asked for, a file for each.
    pub(crate) fn incidents(&self) -> PathBuf {
        self.path.join("incidents")
    }

    /// Code of apps that Node.js has compiled.
    pub(crate) fn compiled(&self) -> PathBuf {
        self.path.join("compiled")
    }

    /// The files of the apps' unix sockets, as a JSON array.
    pub fn sockets(&self) -> PathBuf {
        self.path.join("sockets")
    }

    /// Values for apps that are started at boot.
    pub fn environment(&self) -> PathBuf {
        self.path.join("environment")
    }

    /// What should run, as it is saved at every change.
    pub fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// The same of the daemon before, while this one has not taken it up.
    pub fn previous_state(&self) -> PathBuf {
        self.path.join("state.previous.json")
    }

    /// The state that `save` wrote.
    pub fn dump(&self) -> PathBuf {
        self.path.join("dump.json")
    }

    /// Makes the folder, if need be, for its owner alone.
    pub fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create {}: {error}", self.path.display()))
        })
    }

    /// Writes the agent where workers can load it, once per version of its text.
    pub fn install_agent(&self) -> io::Result<PathBuf> {
        install_agent_in(&self.path, (0o700, 0o600))
    }
}

/// The agent's file as workers of some user find it. Making it is left to the threads that start processes.
#[derive(Debug, Clone)]
pub(crate) enum AgentPlace {
    /// In the home, for workers of the daemon's own user.
    Home(Home),
    /// Where other users may read it.
    ForOthers,
}

impl AgentPlace {
    /// Where it is, or will be.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Home(home) => agent_path(&home.path),
            Self::ForOthers => agent_path(Path::new(AGENT_FOR_OTHERS)),
        }
    }

    /// Makes it if it is not there: Node.js would refuse to start without a file that it is told to load.
    pub(crate) fn install(&self) -> io::Result<PathBuf> {
        match self {
            Self::Home(home) => home.install_agent(),
            Self::ForOthers => install_agent_for_others(),
        }
    }
}

/// The same for workers of other users, to whom the home is closed. Only root starts these.
fn install_agent_for_others() -> io::Result<PathBuf> {
    let folder = Path::new(AGENT_FOR_OTHERS);
    match fs_err::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        outcome => {
            outcome?;
            fs_err::set_permissions(folder, Permissions::from_mode(0o755))?;
        }
    }
    let found = fs_err::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != forkful_os::identity::euid() || found.mode() & 0o022 != 0 {
        let why = format!("{AGENT_FOR_OTHERS} can be written by others");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    install_agent_in(folder, (0o755, 0o644))
}

/// The first file of the agent. Each text of the agent has a folder of its own.
fn agent_path(place: &Path) -> PathBuf {
    use std::hash::{DefaultHasher, Hash, Hasher};
    static FOLDER: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = DefaultHasher::new();
        AGENT.map(|(name, text)| (name, without_comments(text))).hash(&mut hasher);
        format!("agent-{:016x}", hasher.finish())
    });
    place.join(&*FOLDER).join(AGENT[0].0)
}

/// A file of the agent without the lines that are comments, which stay empty: V8 keeps the text of a file in the memory of each worker. A
/// comment of several lines has a `*` at the beginning of each.
fn without_comments(text: &str) -> String {
    let is_comment = |line: &str| {
        ["//", "/*", "*/", "* "].iter().any(|mark| line.trim_start().starts_with(mark)) || line.trim() == "*"
    };
    let lines = text.lines().map(|line| if is_comment(line) { "" } else { line });
    lines.fold(String::with_capacity(text.len()), |kept, line| kept + line + "\n")
}

/// Makes the agent's folder with all its files, or nothing.
fn install_agent_in(place: &Path, (folder_mode, file_mode): (u32, u32)) -> io::Result<PathBuf> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let path = agent_path(place);
    if path.exists() {
        return Ok(path);
    }
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = place.join(format!("agent-{}-{number}.tmp", std::process::id()));
    fs_err::create_dir(&draft)?;
    for (name, text) in AGENT {
        let file = draft.join(name);
        fs_err::write(&file, without_comments(text))?;
        // Whatever the umask is.
        fs_err::set_permissions(&file, Permissions::from_mode(file_mode))?;
    }
    fs_err::set_permissions(&draft, Permissions::from_mode(folder_mode))?;
    let folder = path.parent().unwrap_or(place);
    match fs_err::rename(&draft, folder) {
        // Another thread was faster, or the folder lost the file that is asked for first.
        Err(error) if folder.exists() => {
            let made = path.exists();
            fs_err::remove_dir_all(&draft)?;
            if made { Ok(path) } else { Err(error) }
        }
        outcome => outcome.map(|()| path),
    }
}

#[cfg(test)]
mod tests {
    use super::{AGENT, without_comments};

    #[test]
    fn the_agent_loses_lines_that_are_comments_and_nothing_else() {
        let text =
            "/**\n * What it does.\n */\nfunction one() { // Here.\n  // Not here.\n  return 2 * 3;\n}\n";
        assert_eq!(without_comments(text), "\n\n\nfunction one() { // Here.\n\n  return 2 * 3;\n}\n");
        for (name, text) in AGENT {
            let kept = without_comments(text);
            assert_eq!(kept.lines().count(), text.lines().count(), "{name}: the numbers of lines stay");
            let mut is_open = false;
            for (line, left) in text.lines().zip(kept.lines()) {
                let line = line.trim();
                is_open |= line.starts_with("/*");
                assert_eq!(
                    left.is_empty(),
                    is_open || line.is_empty() || line.starts_with("//"),
                    "{name}: {line}"
                );
                assert!(!is_open || !line.contains("*/") || line.ends_with("*/"), "{name}: {line}");
                is_open &= !line.ends_with("*/");
            }
            // One letter beyond Latin-1 would double what V8 keeps.
            assert!(kept.chars().all(|letter| u32::from(letter) < 0x100), "{name}");
        }
    }
}
