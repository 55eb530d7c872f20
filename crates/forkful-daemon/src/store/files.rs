//! The file calls that saving is made of, one method each, so that a test can stop the program between any two of
//! them, fail any of them, or take back what was not synced.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// See the module's documentation.
pub(crate) trait Files {
    type File;

    /// Creates a file, or empties the file that is there; for its owner alone.
    fn create(&mut self, path: &Path) -> io::Result<Self::File>;
    /// Writes some of the bytes; says how many.
    fn write(&mut self, file: &mut Self::File, bytes: &[u8]) -> io::Result<usize>;
    /// Waits until the content is on the disk.
    fn sync(&mut self, file: &mut Self::File) -> io::Result<()>;
    /// The same for the names in a folder.
    fn sync_folder(&mut self, folder: &Path) -> io::Result<()>;
    /// Renames a file over whatever has the name.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file to a name that is free; [`io::ErrorKind::AlreadyExists`] when it is not.
    fn rename_to_free(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// The names in a folder.
    fn names(&mut self, folder: &Path) -> io::Result<Vec<OsString>>;
    /// The first bytes of a file, up to this number; `None` when there is no file.
    fn read(&mut self, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>>;
}

/// The files of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RealFiles;

impl Files for RealFiles {
    type File = fs_err::File;

    fn create(&mut self, path: &Path) -> io::Result<fs_err::File> {
        fs_err::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
    }

    fn write(&mut self, file: &mut fs_err::File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&mut self, file: &mut fs_err::File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        fs_err::File::open(folder)?.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs_err::rename(from, to)
    }

    fn rename_to_free(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // A file system without this call: nobody else makes files in the home.
            Err(Errno::INVAL | Errno::NOSYS) if !to.exists() => fs_err::rename(from, to),
            Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs_err::remove_file(path)
    }

    fn names(&mut self, folder: &Path) -> io::Result<Vec<OsString>> {
        fs_err::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn read(&mut self, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file: File = match fs_err::File::open(path) {
            Ok(file) => file.into(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
}
