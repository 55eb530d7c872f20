//! The file of a profile or a heap snapshot: readable by its owner alone, whole or not there, and never in place of another file unless somebody asks.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forkful_core::date_format::utc;

use crate::exit::{Exit, Failure};

/// A profile shows names of the app's functions, a snapshot everything that it has in memory.
const MODE: u32 = 0o600;

/// A file that is being written; gone unless it is kept.
pub(super) struct ProfileFile {
    path: PathBuf,
    draft: Draft,
    bytes: u64,
}

/// Beside the file, under another name.
type Draft = forkful_os::replace::Draft;

impl ProfileFile {
    /// Begins a file of this name.
    pub(super) fn begin(path: &Path) -> Result<Self, Failure> {
        let draft = forkful_os::replace::draft(path, MODE, b"");
        let draft = draft.with_context(|| format!("cannot write {}", path.display()));
        let draft = draft.map_err(|error| Failure::caused(Exit::Failed, error))?;
        Ok(Self { path: path.to_owned(), draft, bytes: 0 })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.draft.write_all(bytes);
        let written = written.with_context(|| format!("cannot write {}", self.path.display()));
        self.bytes += bytes.len() as u64;
        written.map_err(|error| Failure::caused(Exit::Failed, error))
    }

    /// Gives the file its name; says how many bytes it has.
    pub(super) fn keep(self, overwrites: bool) -> Result<u64, Failure> {
        let Self { path, draft, bytes } = self;
        let named = if overwrites { draft.persist(&path) } else { draft.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(bytes),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(taken(&path)),
            Err(error) => {
                let error = anyhow::Error::from(error.error);
                Err(Failure::caused(Exit::Failed, error.context(format!("cannot write {}", path.display()))))
            }
        }
    }
}

/// A file of that name is there.
pub(super) fn taken(path: &Path) -> Failure {
    Failure::new(Exit::WrongUse, format!("{} exists already", path.display())).hint("choose another name")
}

/// A name of its own for each worker and second: `api-3-20260309-123005.cpuprofile`.
pub(super) fn name_of(app: &str, pm_id: u32, ending: &str) -> String {
    let plain = |letter: char| if letter.is_alphanumeric() || "-_.@".contains(letter) { letter } else { '_' };
    let app: String = app.chars().map(plain).collect();
    let time = utc(forkful_os::wall_clock::now_ms(), "%Y%m%d-%H%M%S");
    format!("{}-{pm_id}-{time}.{ending}", app.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_its_owners_alone_and_takes_no_place_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.heapsnapshot");
        let write = |text: &[u8], overwrites: bool| {
            let mut file = ProfileFile::begin(&path)?;
            file.write(text)?;
            file.keep(overwrites)
        };
        assert_eq!(write(b"one", false).unwrap(), 3);
        assert!(write(b"two", false).unwrap_err().error.to_string().ends_with("exists already"));
        assert_eq!(fs_err::read(&path).unwrap(), b"one");
        assert_eq!(write(b"three", true).unwrap(), 5);
        assert_eq!(fs_err::read(&path).unwrap(), b"three");
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // What is not kept leaves nothing.
        drop(ProfileFile::begin(&folder.path().join("b")).unwrap());
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_name_stays_in_its_folder() {
        let name = name_of("../evil/app", 3, "cpuprofile");
        assert!(name.starts_with("_evil_app-3-") && name.ends_with(".cpuprofile"), "{name}");
    }
}
