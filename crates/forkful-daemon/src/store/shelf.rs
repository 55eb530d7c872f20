//! What is kept where, and how it gets there whole.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_api::saved::{SAVED_FORMAT, SavedApp, SavedState, UnknownKey};
use forkful_core::saving::is_covered;
use serde_json::Value;
use thiserror::Error;

use super::files::Files;
use crate::Home;

/// The most bytes of a state, for writing and for reading; 1,000 apps with large environments need some 10 MB.
pub(crate) const STATE_BYTES_MAX: u64 = 64 << 20;

/// The most states of earlier daemons that are kept beside the previous one. Each stands for a daemon that was
/// killed and whose apps nobody has asked for.
const EARLIER_MAX: usize = 20;

/// How often a read that failed is tried, and the first pause between two tries, which doubles.
const READ_TRIES: u32 = 4;
const READ_PAUSE: Duration = Duration::from_millis(25);

/// How many names are tried for a file that is set aside; two in one millisecond are rare.
const NAME_TRIES: u64 = 1000;

/// Which saved state is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// What the last daemon left, else what the daemon before it left, else what `save` wrote.
    Newest,
    /// What the daemon before this one left, which has saved its own state since.
    Previous,
    /// What `save` wrote.
    Dump,
}

/// An entry of a saved state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An app, with what only another version knows of it.
    App(SavedApp, Vec<UnknownKey>),
    /// What this version cannot read.
    Unreadable(Carried),
}

/// An entry that cannot be started by this version and stays saved as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Its name, or what it is called for want of a name.
    pub(crate) name: String,
    pub(crate) value: Value,
    /// Why it cannot be started.
    pub(crate) fault: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// The file; `None` when no file holds an app.
    pub(crate) path: Option<PathBuf>,
    /// What is in it.
    pub(crate) entries: Vec<Entry>,
    /// Files that are no saved states, in sentences.
    pub(crate) broken: Vec<String>,
}

/// Why a file is not read.
#[derive(Debug, Error)]
pub(super) enum ReadFault {
    /// A call failed. The file may be fine.
    #[error("{}: {source}", path.display())]
    Call { path: PathBuf, source: io::Error },
    /// It is larger than any state that is written.
    #[error("{} is larger than {} MiB, which no saved state is", path.display(), bytes_max >> 20)]
    TooLarge {
        path: PathBuf,
        /// The most bytes.
        bytes_max: u64,
    },
    /// It holds something else than a state.
    #[error("{} is no saved state: {why}", path.display())]
    Broken { path: PathBuf, why: String },
}

/// The saved states of one home.
#[derive(Debug)]
pub(crate) struct Shelf<F> {
    pub(super) files: F,
    home: Home,
    pub(super) bytes_max: u64,
    now_ms: fn() -> u64,
    pause: fn(Duration),
}

impl<F: Files> Shelf<F> {
    pub(super) fn new(files: F, home: Home, now_ms: fn() -> u64, pause: fn(Duration)) -> Self {
        Self { files, home, bytes_max: STATE_BYTES_MAX, now_ms, pause }
    }

    /// Saves a state. With `keep`, the state that is there belongs to the daemon before and is kept as the previous
    /// one; `keep` is false afterwards.
    pub(super) fn save(&mut self, text: &str, keep: &mut bool) -> io::Result<()> {
        if *keep {
            self.keep_previous()?;
            *keep = false;
        }
        self.write_whole(&self.home.state(), text)
    }

    /// Saves a state where `save` keeps it.
    pub(crate) fn save_dump(&mut self, text: &str) -> io::Result<PathBuf> {
        let path = self.home.dump();
        self.write_whole(&path, text)?;
        Ok(path)
    }

    /// Removes what `save` wrote and what daemons before have left; says what.
    pub(crate) fn clear(&mut self) -> io::Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        let earlier = self.earlier()?;
        for path in [self.home.dump(), self.home.previous_state()].into_iter().chain(earlier) {
            match self.files.remove(&path) {
                Ok(()) => removed.push(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// The newest state that holds an app; nothing if the last daemon had no app any more. A file that is no state is
    /// set aside. A file that cannot be read at the moment is an error, because an older state may be wrong.
    pub(crate) fn load(&mut self, source: Source) -> Result<Loaded, String> {
        let (state, previous, dump) = (self.home.state(), self.home.previous_state(), self.home.dump());
        let paths = match source {
            Source::Newest => vec![state, previous, dump],
            Source::Previous => vec![previous],
            Source::Dump => vec![dump],
        };
        let mut loaded = Loaded::default();
        for path in paths {
            match self.read_patiently(&path) {
                Ok(Some(state)) if !state.apps.is_empty() => {
                    loaded.entries = entries(state, &path);
                    loaded.path = Some(path);
                    return Ok(loaded);
                }
                Ok(Some(_)) if path == self.home.state() => return Ok(loaded),
                Ok(_) => {}
                Err(fault @ ReadFault::Broken { .. }) => loaded.broken.push(self.set_aside(&path, &fault)),
                Err(fault) => return Err(fault.to_string()),
            }
        }
        Ok(loaded)
    }

    /// A file goes into its place in full or not at all: a draft beside it is written and synced, and then takes
    /// its name.
    fn write_whole(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if text.len() as u64 > self.bytes_max {
            let why = format!("it has {} bytes, and the most is {}", text.len(), self.bytes_max);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        // One thread writes all states of a home, so that no two writers share the draft of a file.
        let draft = path.with_extension("draft");
        let mut file = self.files.create(&draft)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match self.files.write(&mut file, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.files.sync(&mut file)?;
        drop(file);
        self.files.rename(&draft, path)?;
        match path.parent() {
            Some(folder) => self.files.sync_folder(folder),
            None => Ok(()),
        }
    }

    /// The state of a daemon that ended, if this one has not taken it up, is not overwritten; nor is the one that
    /// was kept before.
    fn keep_previous(&mut self) -> io::Result<()> {
        let (state, previous) = (self.home.state(), self.home.previous_state());
        let names = match self.read_patiently(&state) {
            Ok(None) => return Ok(()),
            Ok(Some(found)) if found.apps.is_empty() => return Ok(()),
            Ok(Some(found)) => names(&found),
            Err(fault @ ReadFault::Broken { .. }) => {
                log_line!("forkful: {}", self.set_aside(&state, &fault));
                return Ok(());
            }
            // To rename it, it need not be read.
            Err(ReadFault::Call { .. } | ReadFault::TooLarge { .. }) => Vec::new(),
        };
        self.keep_earlier(&previous, &names)?;
        self.files.rename(&state, &previous)
    }

    /// What is in the previous state's place makes room, unless every app of it is in the next one too.
    fn keep_earlier(&mut self, previous: &Path, next: &[Option<String>]) -> io::Result<()> {
        let is_covered = match self.read_patiently(previous) {
            Ok(None) => true,
            Ok(Some(found)) => is_covered(&names(&found), next),
            Err(_) => false,
        };
        if is_covered {
            return Ok(());
        }
        let earlier = self.move_to_free(previous, "previous")?;
        log_line!(
            "forkful: the apps of an earlier daemon that were not resurrected are kept in {}",
            earlier.display()
        );
        let kept = self.earlier()?;
        for oldest in &kept[..kept.len().saturating_sub(EARLIER_MAX)] {
            self.files.remove(oldest)?;
            log_line!("forkful: {} is removed: {EARLIER_MAX} newer ones are kept", oldest.display());
        }
        Ok(())
    }

    /// The states of earlier daemons, oldest first.
    fn earlier(&mut self) -> io::Result<Vec<PathBuf>> {
        let folder = self.home.path().to_owned();
        let mut names: Vec<String> =
            self.files.names(&folder)?.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| {
            name.strip_prefix("state.previous-").is_some_and(|rest| rest.strip_suffix(".json").is_some())
        });
        names.sort();
        Ok(names.into_iter().map(|name| folder.join(name)).collect())
    }

    /// Sets a file aside that is no state, so that the next save does not overwrite what a person might still mend.
    fn set_aside(&mut self, path: &Path, fault: &ReadFault) -> String {
        match self.move_to_free(path, "broken") {
            Ok(aside) => format!("{fault}; it is kept as {}", aside.display()),
            Err(error) => format!("{fault}; it cannot be set aside: {error}"),
        }
    }

    fn move_to_free(&mut self, path: &Path, kind: &str) -> io::Result<PathBuf> {
        let now = (self.now_ms)();
        // `state.previous.json` and `state.json` both become `state.<kind>-<ms>.json`.
        let stem = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = stem.split('.').next().unwrap_or_default().to_owned();
        for more in 0..NAME_TRIES {
            let free = path.with_file_name(format!("{stem}.{kind}-{:013}.json", now + more));
            match self.files.rename_to_free(path, &free) {
                Ok(()) => return Ok(free),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free"))
    }

    fn read_patiently(&mut self, path: &Path) -> Result<Option<SavedState>, ReadFault> {
        let mut pause = READ_PAUSE;
        for _ in 1..READ_TRIES {
            match self.read(path) {
                Err(ReadFault::Call { .. }) => {}
                outcome => return outcome,
            }
            (self.pause)(pause);
            pause *= 2;
        }
        self.read(path)
    }

    fn read(&mut self, path: &Path) -> Result<Option<SavedState>, ReadFault> {
        let path = path.to_owned();
        let bytes = match self.files.read(&path, self.bytes_max + 1) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(source) => return Err(ReadFault::Call { path, source }),
        };
        if bytes.len() as u64 > self.bytes_max {
            return Err(ReadFault::TooLarge { path, bytes_max: self.bytes_max });
        }
        let state: SavedState = match serde_json::from_slice(&bytes) {
            Ok(state) => state,
            Err(error) => return Err(ReadFault::Broken { path, why: error.to_string() }),
        };
        if state.format == SAVED_FORMAT {
            return Ok(Some(state));
        }
        let why = format!("its format is {}, and this version knows {SAVED_FORMAT}", state.format);
        Err(ReadFault::Broken { path, why })
    }
}

/// The names of a state's apps; an entry may have none.
fn names(state: &SavedState) -> Vec<Option<String>> {
    state.apps.iter().map(|entry| SavedApp::name_in(entry).map(str::to_owned)).collect()
}

fn entries(state: SavedState, path: &Path) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(state.apps.len());
    for (position, value) in state.apps.into_iter().enumerate() {
        entries.push(match SavedApp::read(&value) {
            Ok((app, unknown)) => Entry::App(app, unknown),
            Err(error) => {
                let name = SavedApp::name_in(&value)
                    .map_or_else(|| format!("unnamed-{}", position + 1), str::to_owned);
                let by = if state.program.is_empty() {
                    String::new()
                } else {
                    format!(", written by version {},", state.program)
                };
                let fault = format!("its entry in {}{by} cannot be read: {error}", path.display());
                Entry::Unreadable(Carried { name, value, fault })
            }
        });
    }
    entries
}
