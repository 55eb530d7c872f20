//! Opens regular files by the paths that users give. A FIFO without a writer would make `open` wait for ever, so anything
//! that is not a regular file is refused.

use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;
use rustix::fs::OFlags;

/// Opens a regular file to read it, without waiting. Any other kind of file is an error of the kind `InvalidInput`.
pub(crate) fn open(path: &Path) -> io::Result<fs_err::File> {
    // What a user names is read; that its metadata is asked for first is nothing to tell.
    check(&std::fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = fs_err::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    // Another file may have the name by now.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Refuses what is not a regular file.
pub(crate) fn check(metadata: &Metadata) -> io::Result<()> {
    match refused_kind(metadata.file_type()) {
        None => Ok(()),
        Some(kind) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{kind}, not a regular file"))),
    }
}

/// What a file is, if it is not a regular file: `is a FIFO`.
fn refused_kind(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("is a directory")
    } else if kind.is_fifo() {
        Some("is a FIFO")
    } else if kind.is_socket() {
        Some("is a socket")
    } else {
        Some("is a device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    #[test]
    fn a_fifo_is_refused_without_waiting_for_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mknodat(CWD, &path, Kind::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = open(&path).unwrap_err();
        assert_eq!(error.to_string(), "is a FIFO, not a regular file");
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.to_string(), "is a directory, not a regular file");
        let error = open(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.to_string(), "is a device, not a regular file");
        fs_err::write(folder.path().join("file"), "x").unwrap();
        open(&folder.path().join("file")).unwrap();
    }
}
