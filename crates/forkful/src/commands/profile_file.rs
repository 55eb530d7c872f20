//! The file of a profile or a heap snapshot: readable by its owner alone, whole or not there, and never in place of another file unless somebody asks.

use std::io::Write as _;
use std::path::{Path, PathBuf};

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
        let draft = forkful_os::replace::draft(path, MODE, b"").map_err(|error| not_written(path, error))?;
        Ok(Self { path: path.to_owned(), draft, bytes: 0 })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        self.draft.write_all(bytes).map_err(|error| not_written(&self.path, error))
    }

    /// Gives the file its name, with a counter if a file of that name is there: `a.html`, `a-2.html`. Says the name and how many bytes it has.
    pub(super) fn keep_beside_others(self) -> Result<(PathBuf, u64), Failure> {
        let Self { path, mut draft, bytes } = self;
        for number in 1..=COUNTER_MAX {
            let name = numbered(&path, number);
            match draft.persist_noclobber(&name) {
                Ok(_) => return Ok((name, bytes)),
                Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => draft = error.file,
                Err(error) => return Err(not_written(&name, error.error)),
            }
        }
        Err(taken(&path))
    }

    /// Gives the file its name; says how many bytes it has.
    pub(super) fn keep(self, overwrites: bool) -> Result<u64, Failure> {
        let Self { path, draft, bytes } = self;
        let named = if overwrites { draft.persist(&path) } else { draft.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(bytes),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(taken(&path)),
            Err(error) => Err(not_written(&path, error.error)),
        }
    }
}

/// The file cannot be written. The name of the draft, which the library's errors have, says nothing to users.
fn not_written(path: &Path, error: std::io::Error) -> Failure {
    let error = if error.raw_os_error().is_some() { error } else { error.kind().into() };
    let error = anyhow::Error::from(error).context(format!("cannot write {}", path.display()));
    Failure::caused(Exit::Failed, error)
}

/// Files of one name, worker and second.
const COUNTER_MAX: u32 = 1000;

/// `a.html` is the first, `a-2.html` the second.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let (stem, ending) =
        (path.file_stem().unwrap_or_default().to_string_lossy(), path.extension().unwrap_or_default());
    match number {
        1 => path.to_owned(),
        _ => path.with_file_name(format!("{stem}-{number}.{}", ending.to_string_lossy())),
    }
}

/// A file of that name is there.
pub(super) fn taken(path: &Path) -> Failure {
    Failure::new(Exit::WrongUse, format!("{} exists already", path.display())).hint("choose another name")
}

/// A name for each worker and second: `api-3-20260309-123005.cpuprofile`.
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
    fn an_error_has_the_name_of_the_file_and_not_of_its_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none/a.cpuprofile");
        let error = ProfileFile::begin(&path).err().unwrap().error;
        let told: Vec<String> = error.chain().map(ToString::to_string).collect();
        assert_eq!(told, [format!("cannot write {}", path.display()), "entity not found".to_owned()]);
    }

    #[test]
    fn files_of_one_name_get_a_counter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.v2-0-20260309-123005.heapsnapshot");
        let names = ["one", "two", "three"].map(|text| {
            let mut file = ProfileFile::begin(&path).unwrap();
            file.write(text.as_bytes()).unwrap();
            let (name, bytes) = file.keep_beside_others().unwrap();
            assert_eq!((fs_err::read_to_string(&name).unwrap().as_str(), bytes), (text, text.len() as u64));
            name.file_name().unwrap().to_string_lossy().into_owned()
        });
        let stem = "api.v2-0-20260309-123005";
        assert_eq!(names, ["", "-2", "-3"].map(|counter| format!("{stem}{counter}.heapsnapshot")));
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_name_stays_in_its_folder() {
        let name = name_of("../evil/app", 3, "cpuprofile");
        assert!(name.starts_with("_evil_app-3-") && name.ends_with(".cpuprofile"), "{name}");
    }
}
