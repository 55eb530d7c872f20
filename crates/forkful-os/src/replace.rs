//! Replaces files atomically: writes a draft in the same folder, which is then renamed to the file.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::Builder;
pub use tempfile::NamedTempFile as Draft;

/// A draft in the file's folder, synced to the disk; it is removed unless it replaces the file. It has the
/// file's extension. The process's umask applies to the mode.
pub fn draft(file: &Path, mode: u32, bytes: &[u8]) -> io::Result<Draft> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let ending = format!(".{name}");
    let mut draft = Builder::new()
        .prefix(".")
        .suffix(&ending)
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

/// Writes a file completely, or leaves the old file unchanged.
pub fn replace(file: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    draft(file, mode, bytes)?.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        replace(&file, 0o600, b"old").unwrap();
        replace(&file, 0o600, b"new").unwrap();
        assert_eq!(fs_err::read(&file).unwrap(), b"new");
        assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let draft = draft(&file, 0o600, b"newer").unwrap();
        assert!(draft.path().to_string_lossy().ends_with(".a.json"));
        drop(draft);
        assert!(replace(&folder.path().join("none/a"), 0o600, b"").is_err());
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(replace(&folder.path().join("folder"), 0o600, b"").is_err());
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 2);
    }
}
