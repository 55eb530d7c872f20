//! A folder held by a descriptor, of which the regular files are listed and read: nothing that a name, a link or a replaced
//! folder would lead to elsewhere.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::process::geteuid;

/// Entries that are looked at in one listing, so that millions of files do not take unbounded time.
const ENTRIES_MAX: usize = 100_000;

/// See the module's documentation.
#[derive(Debug)]
pub struct HeldFolder {
    descriptor: OwnedFd,
    owner: u32,
}

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFile {
    /// Its name in the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last written, in milliseconds since the Unix epoch; the whole second.
    pub modified_ms: u64,
}

/// Files of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// In no order.
    pub files: Vec<HeldFile>,
    /// How many entries were looked at, if the folder has more: files among the others are missing.
    pub cut_at: Option<usize>,
}

impl HeldFolder {
    /// Opens a folder. Links in the path are followed: whoever names it means what it leads to now.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())?;
        let owner = fstat(&descriptor)?.st_uid;
        Ok(Self { descriptor, owner })
    }

    /// Its files whose names are wanted, among the first 100,000 entries.
    pub fn files(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Listing> {
        self.first_files(ENTRIES_MAX, is_wanted)
    }

    fn first_files(&self, entries_max: usize, is_wanted: impl Fn(&str) -> bool) -> io::Result<Listing> {
        let mut found = Vec::new();
        for (at, entry) in Dir::read_from(&self.descriptor)?.enumerate() {
            let entry = entry?;
            if at == entries_max {
                return Ok(Listing { files: found, cut_at: Some(entries_max) });
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !is_wanted(name) {
                continue;
            }
            // Gone, or replaced meanwhile: it is left out.
            let Ok(stat) = statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if self.is_own_file(&stat) {
                let modified_ms = stat.st_mtime as u64 * 1000;
                found.push(HeldFile { name: name.to_owned(), bytes: stat.st_size as u64, modified_ms });
            }
        }
        Ok(Listing { files: found, cut_at: None })
    }

    /// The content of a file. `NotFound` if it is no regular file of this folder, `FileTooLarge` if it has more bytes.
    pub fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(not_found());
        }
        // What is no file of ours is not even opened: that would wake the writer of a pipe.
        match statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if self.is_own_file(&stat) => {}
            Ok(_) | Err(rustix::io::Errno::NAMETOOLONG) => return Err(not_found()),
            Err(errno) => return Err(errno.into()),
        }
        // It may be another one by now. A pipe does not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.descriptor, name, flags, Mode::empty());
        let file = opened.map_err(|errno| match errno {
            // A link, a socket, a device that is not there.
            rustix::io::Errno::LOOP | rustix::io::Errno::NXIO | rustix::io::Errno::NAMETOOLONG => not_found(),
            other => other.into(),
        })?;
        if !self.is_own_file(&fstat(&file)?) {
            return Err(not_found());
        }
        let mut bytes = Vec::new();
        // It may grow while it is read.
        std::fs::File::from(file).take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    /// A regular file of the folder's owner or of this process's user, with one name: with a hard link, another user could
    /// make a file of somebody else appear in a folder such as /tmp.
    fn is_own_file(&self, stat: &Stat) -> bool {
        let is_ours = stat.st_uid == self.owner || stat.st_uid == geteuid().as_raw();
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && is_ours && stat.st_nlink == 1
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn kind(result: io::Result<Vec<u8>>) -> io::ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn regular_files_are_listed_and_read_and_nothing_else() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("results");
        fs_err::create_dir_all(root.join("folder.json")).unwrap();
        fs_err::write(root.join("a.json"), "text").unwrap();
        fs_err::write(root.join("b.txt"), "text").unwrap();
        fs_err::write(outside.path().join("secret.json"), "secret").unwrap();
        symlink("../secret.json", root.join("link.json")).unwrap();
        symlink("a.json", root.join("alias.json")).unwrap();
        fs_err::hard_link(outside.path().join("secret.json"), root.join("second-name.json")).unwrap();
        let _socket = UnixListener::bind(root.join("socket.json")).unwrap();
        let folder = HeldFolder::open(&root).unwrap();
        let Listing { files, cut_at: None } = folder.files(|name| name.ends_with(".json")).unwrap() else {
            panic!("all entries are looked at")
        };
        let [HeldFile { name, bytes: 4, modified_ms }] = files.as_slice() else { panic!("{files:?}") };
        assert_eq!(name, "a.json");
        assert!(*modified_ms > 1_500_000_000_000);
        assert_eq!(folder.read("a.json", 4).unwrap(), b"text");
        assert_eq!(kind(folder.read("a.json", 3)), io::ErrorKind::FileTooLarge);
        let long = "x".repeat(300);
        for hidden in [
            "",
            ".",
            "..",
            "/etc/passwd",
            "../secret.json",
            "./a.json",
            "folder.json/x",
            "folder.json",
            "link.json",
            "alias.json",
            "second-name.json",
            "socket.json",
            "none.json",
            "a.json\0",
            &long,
        ] {
            assert_eq!(kind(folder.read(hidden, 100)), io::ErrorKind::NotFound, "{hidden}");
        }
    }

    #[test]
    fn a_folder_that_is_replaced_by_a_link_stays_what_it_was() {
        let outside = tempfile::tempdir().unwrap();
        let (root, other) = (outside.path().join("results"), outside.path().join("other"));
        for (folder, text) in [(&root, "mine"), (&other, "theirs")] {
            fs_err::create_dir(folder).unwrap();
            fs_err::write(folder.join("a.json"), text).unwrap();
        }
        let folder = HeldFolder::open(&root).unwrap();
        fs_err::rename(&root, outside.path().join("moved")).unwrap();
        symlink(&other, &root).unwrap();
        assert_eq!(folder.read("a.json", 100).unwrap(), b"mine");
    }

    #[test]
    fn a_listing_tells_that_it_is_cut() {
        let root = tempfile::tempdir().unwrap();
        (0..3).for_each(|number| fs_err::write(root.path().join(number.to_string()), "").unwrap());
        let folder = HeldFolder::open(root.path()).unwrap();
        let listed = |entries_max| {
            let Listing { files, cut_at } = folder.first_files(entries_max, |_| true).unwrap();
            (files.len(), cut_at)
        };
        // The folder itself and its parent are entries, too.
        assert_eq!(listed(5), (3, None));
        let (files, cut_at) = listed(4);
        assert!(files < 4 && cut_at == Some(4), "{files} {cut_at:?}");
    }

    #[test]
    fn a_file_is_no_folder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(HeldFolder::open(file.path()).is_err());
    }
}
