//! Returns memory of this process that it does not need.
//!
//! Only pages that were never written are returned: before and after, they are the file's pages in the page
//! cache, and a change of the file in place is visible either way. The kernel does the same when memory is
//! short. If a page has a private copy (a code relocation, a debugger's breakpoint), its whole segment is
//! kept.
//!
//! `MADV_PAGEOUT` is not used because it has no effect on files that the process cannot write, and
//! `MADV_COLD` because it only reorders.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Returns the mapped pages of code and constants. Pages that are needed again are mapped from the page
/// cache, in blocks of 64 KiB with a fault of a microsecond each. After a start, or a long series of
/// commands, most mapped pages are not needed again. Returns the number of bytes of the released mappings.
pub fn forget_code() -> usize {
    // Without it there is no information about written pages, and nothing is returned.
    let Ok(pages) = File::open("/proc/self/pagemap") else { return 0 };
    let mut walk = Walk { pages, given_back: 0 };
    // SAFETY: the callback is given the pointer that is passed here, which outlives the call, and unwinds never.
    unsafe { libc::dl_iterate_phdr(Some(forget_object), (&raw mut walk).cast()) };
    walk.given_back
}

struct Walk {
    /// The state of each page of the process, see `Documentation/admin-guide/mm/pagemap.rst`.
    pages: File,
    given_back: usize,
}

/// Flags of a `pagemap` entry: the page is in memory · in swap · a file page and not a private copy.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_A_FILE: u64 = 1 << 61;

/// Whether no page of a range has a private copy. Unknown counts as a private copy.
fn is_unwritten(pages: &File, range: &Range<usize>, page: usize) -> bool {
    let mut entries = vec![0; range.len() / page * 8];
    pages.read_exact_at(&mut entries, (range.start / page * 8) as u64).is_ok()
        && entries.as_chunks::<8>().0.iter().all(|entry| {
            let entry = u64::from_ne_bytes(*entry);
            entry & (PRESENT | SWAPPED) == 0 || entry & OF_A_FILE != 0
        })
}

/// For each loaded object: its read-only segments contain nothing that the file does not contain. Data that
/// the loader writes and protects afterwards (`RELRO`) is part of a writable segment.
unsafe extern "C" fn forget_object(info: *mut libc::dl_phdr_info, _: usize, walk: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description of an object that stays loaded during the call.
    let info = unsafe { &*info };
    // SAFETY: the pointer that `forget_code` passed, used by nobody else meanwhile.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader counts the headers that are there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    // The kernel's own object has no name or this one, and no file behind it.
    // SAFETY: the loader's names end with a zero byte; null is checked.
    let named = |name: &[u8]| unsafe {
        !info.dlpi_name.is_null() && std::ffi::CStr::from_ptr(info.dlpi_name).to_bytes().starts_with(name)
    };
    if named(b"linux-vdso") || named(b"linux-gate") {
        return 0;
    }
    // A page shared by the end of a segment and the beginning of a writable segment is left alone.
    let page = rustix::param::page_size();
    for header in
        headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0)
    {
        let begin = (info.dlpi_addr as usize + header.p_vaddr as usize).next_multiple_of(page);
        let end = (info.dlpi_addr as usize + header.p_vaddr as usize + header.p_memsz as usize) / page * page;
        if end <= begin || header.p_filesz != header.p_memsz {
            continue;
        }
        if !is_unwritten(&walk.pages, &(begin..end), page) {
            continue;
        }
        // SAFETY: whole pages of a private mapping of a file without private copies: the next read maps the same page of
        // the page cache again. Nothing is unmapped.
        let result = unsafe { libc::madvise(begin as *mut c_void, end - begin, libc::MADV_DONTNEED) };
        if result == 0 {
            walk.given_back += end - begin;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped_file_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// Pages of a file, mapped as the loader maps code.
    struct Mapped {
        file: tempfile::NamedTempFile,
        at: *mut u8,
        bytes: usize,
    }

    impl Mapped {
        fn new() -> Self {
            let bytes = 2 * rustix::param::page_size();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), vec![b'a'; bytes]).unwrap();
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let fd = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
            // SAFETY: a new mapping at a place that the kernel chooses.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            Self { file, at: at.cast(), bytes }
        }

        fn first(&self) -> u8 {
            // SAFETY: the mapping lives as long as this; volatile, since the file may change.
            unsafe { self.at.read_volatile() }
        }

        fn is_unwritten(&self) -> bool {
            let begin = self.at as usize;
            let pages = File::open("/proc/self/pagemap").unwrap();
            super::is_unwritten(&pages, &(begin..begin + self.bytes), rustix::param::page_size())
        }

        fn change_the_file(&self, byte: u8) {
            use std::os::unix::fs::FileExt as _;
            self.file.as_file().write_all_at(&[byte], 0).unwrap();
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: mapped by `new` and used by nobody else.
            unsafe { libc::munmap(self.at.cast(), self.bytes) };
        }
    }

    #[test]
    fn a_page_with_a_private_copy_is_not_given_back() {
        let mapped = Mapped::new();
        assert!(mapped.is_unwritten(), "never touched");
        assert_eq!(mapped.first(), b'a');
        assert!(mapped.is_unwritten(), "only read");
        // SAFETY: the mapping may be written to, and has no other reference.
        unsafe { mapped.at.write_volatile(b'b') };
        assert!(!mapped.is_unwritten());
    }

    #[test]
    fn a_file_that_changes_in_place_shows_in_unwritten_pages_without_being_forgotten() {
        let mapped = Mapped::new();
        assert_eq!(mapped.first(), b'a');
        mapped.change_the_file(b'c');
        assert_eq!(mapped.first(), b'c');
        assert!(mapped.is_unwritten());
    }

    #[test]
    fn code_that_was_forgotten_is_less_memory_and_runs_as_before() {
        let hot: Vec<String> =
            (0..1000).map(|n| format!("{n:x} {:?}", std::time::Duration::from_millis(n))).collect();
        // Other tests use code meanwhile.
        crate::testing::wait_until("it is less memory", || {
            let before = mapped_file_bytes();
            assert!(forget_code() > 0);
            mapped_file_bytes() < before
        });
        let again: Vec<String> =
            (0..1000).map(|n| format!("{n:x} {:?}", std::time::Duration::from_millis(n))).collect();
        assert_eq!(again, hot);
    }
}
