//! A file in memory that processes share by its descriptor; its size cannot be changed.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

#[cfg(target_os = "linux")]
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};

/// Creates a file of `bytes` zeros without a name, on a disk. It is close-on-exec.
#[cfg(not(target_os = "linux"))]
pub fn create(_name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let file = tempfile::tempfile()?;
    file.set_len(bytes)?;
    Ok(file.into())
}

/// Creates a file of `bytes` zeros. Only written pages use memory. It is close-on-exec.
#[cfg(target_os = "linux")]
pub fn create(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// Its length in bytes.
pub fn length(file: &OwnedFd) -> io::Result<usize> {
    usize::try_from(rustix::fs::fstat(file)?.st_size).map_err(io::Error::other)
}

/// Fills `buffer` from an offset, or less at the end of the file. Returns the number of bytes.
pub fn read_at(file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut buffer[filled..], at))? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(filled)
}

/// Writes all of `bytes` at an offset.
pub fn write_at(file: &OwnedFd, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        let at = offset + written as u64;
        match rustix::io::retry_on_intr(|| rustix::io::pwrite(file, &bytes[written..], at))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            more => written += more,
        }
    }
    Ok(())
}

/// Sets bytes to zero and releases their memory.
#[cfg(not(target_os = "linux"))]
pub fn clear(file: &OwnedFd, offset: u64, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    write_at(file, offset, &zeros)
}

/// Sets bytes to zero and releases their memory.
#[cfg(target_os = "linux")]
pub fn clear(file: &OwnedFd, offset: u64, bytes: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)?)
}

/// Words in such a file. All processes that have mapped it see changes at once, and they survive the death of
/// a process.
#[derive(Debug)]
pub struct Words {
    begin: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: atomic words in memory that stays mapped until the drop.
unsafe impl Send for Words {}
// SAFETY: the same.
unsafe impl Sync for Words {}

impl Words {
    /// Maps the first words of a file, which must be long enough.
    pub fn map(file: &OwnedFd, count: usize) -> io::Result<Self> {
        let bytes = count * size_of::<AtomicU64>();
        if length(file)? < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; the file is long enough, and sealed against shrinking
        // where `create` made it.
        let begin =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if begin == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { begin, count })
    }

    /// One of the words.
    pub fn get(&self, index: usize) -> Option<&AtomicU64> {
        // SAFETY: within the mapping, which is page-aligned, lives as long as `self`, and is only used as atomic words.
        (index < self.count).then(|| unsafe { self.begin.add(index).as_ref() })
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody refers to any more.
        unsafe { libc::munmap(self.begin.as_ptr().cast(), self.count * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_seen_by_everybody_who_has_mapped_them() {
        use std::sync::atomic::Ordering;
        let file = create("test", 4096).unwrap();
        let (one, other) = (Words::map(&file, 512).unwrap(), Words::map(&file, 100).unwrap());
        one.get(99).unwrap().store(7, Ordering::SeqCst);
        drop(one);
        assert_eq!(other.get(99).unwrap().load(Ordering::SeqCst), 7);
        assert!(other.get(100).is_none());
        assert!(Words::map(&file, 513).is_err());
    }

    #[test]
    fn its_size_cannot_be_changed_and_nothing_is_written_beyond_it() {
        let file = create("test", 8192).unwrap();
        write_at(&file, 8190, b"ab").unwrap();
        assert!(write_at(&file, 8190, b"abc").is_err());
        let mut buffer = [1; 4];
        assert_eq!(read_at(&file, 8188, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"\0\0ab");
        assert_eq!(read_at(&file, 8191, &mut buffer).unwrap(), 1);
        clear(&file, 8191, 1).unwrap();
        assert_eq!(read_at(&file, 8190, &mut buffer).unwrap(), 2);
        assert_eq!(&buffer[..2], b"a\0");
        assert!(ftruncate(&file, 4096).is_err() && ftruncate(&file, 16_384).is_err());
        assert!(rustix::io::fcntl_getfd(&file).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}
