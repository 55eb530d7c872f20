//! Reading and writing a saved state: whole or not at all, and for its owner alone.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use forkful_api::saved::{SAVED_FORMAT, SavedState};
use fs_err::os::unix::fs::OpenOptionsExt;

/// The most bytes of a state; 1,000 apps with large environments need some 10 MB.
const STATE_BYTES_MAX: u64 = 64 << 20;

/// Puts a text into a file: into a draft beside it, which is synced and then takes its name, so that
/// the file is there in full whenever the machine may stop.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file =
        fs_err::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs_err::rename(&draft, path)?;
    match path.parent() {
        Some(folder) => fs_err::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Reads a state; `None` when there is no file. One that cannot be read is an error and stays where it is.
pub(crate) fn read(path: &Path) -> io::Result<Option<SavedState>> {
    let file = match fs_err::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(STATE_BYTES_MAX).read_to_string(&mut text)?;
    let broken = |why: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} is no saved state: {why}", path.display()))
    };
    let state: SavedState = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    if state.format != SAVED_FORMAT {
        return Err(broken(format!("its format is {}, and this version knows {SAVED_FORMAT}", state.format)));
    }
    Ok(Some(state))
}

/// Sets a file aside that cannot be read, so that the next save does not overwrite what a person might
/// still mend.
pub(crate) fn set_aside(path: &Path) -> Option<PathBuf> {
    let aside = path.with_extension("broken.json");
    fs_err::rename(path, &aside).ok().map(|()| aside)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_state_is_whole_private_and_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        assert_eq!(read(&path).unwrap(), None);
        let state =
            SavedState { format: SAVED_FORMAT, program: "1".to_owned(), saved_at_ms: 7, apps: Vec::new() };
        for _ in 0..2 {
            write_whole(&path, &serde_json::to_string(&state).unwrap()).unwrap();
            assert_eq!(read(&path).unwrap(), Some(state.clone()));
        }
        let mode = fs_err::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn what_is_no_state_is_told_and_can_be_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for text in ["", "{", "[]", r#"{"format":1}"#] {
            write_whole(&path, text).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("is no saved state"), "{text}");
        }
        write_whole(&path, r#"{"format":9,"program":"9","saved_at_ms":0,"apps":[]}"#).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("its format is 9"));
        let aside = set_aside(&path).unwrap();
        assert!(aside.ends_with("state.broken.json"));
        assert_eq!(read(&path).unwrap(), None);
    }

    #[test]
    fn a_failed_write_leaves_the_state_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        write_whole(&path, "before").unwrap();
        // A folder in the draft's place cannot be opened for writing, by root neither.
        fs_err::create_dir(path.with_extension("draft")).unwrap();
        assert!(write_whole(&path, "after").is_err());
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "before");
    }
}
