//! Memory of this process that it need not keep.

use std::ffi::{c_int, c_void};

/// Gives back the pages of code and constants that are mapped: what is needed again is mapped again, from the
/// page cache, in blocks of 64 KiB by a microsecond's fault each. After a start, or a long list of commands, most of
/// what was mapped is not needed again. Says how many bytes of mappings were given back.
pub fn forget_code() -> usize {
    let mut given_back = 0_usize;
    // SAFETY: the callback is given the pointer that is passed here, which outlives the call, and unwinds never.
    unsafe { libc::dl_iterate_phdr(Some(forget_object), (&raw mut given_back).cast()) };
    given_back
}

/// For each loaded object: its segments that are not writable have nothing that their file does not have.
/// What the loader writes to and protects afterwards (`RELRO`) is a part of a writable segment.
unsafe extern "C" fn forget_object(
    info: *mut libc::dl_phdr_info,
    _: usize,
    given_back: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid description of an object that stays loaded during the call.
    let info = unsafe { &*info };
    // SAFETY: the pointer that `forget_code` passed, used by nobody else meanwhile.
    let given_back = unsafe { &mut *given_back.cast::<usize>() };
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
    // A page that holds the end of one segment and the beginning of a writable one is left alone.
    let page = rustix::param::page_size();
    for header in
        headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0)
    {
        let begin = (info.dlpi_addr as usize + header.p_vaddr as usize).next_multiple_of(page);
        let end = (info.dlpi_addr as usize + header.p_vaddr as usize + header.p_memsz as usize) / page * page;
        if end <= begin || header.p_filesz != header.p_memsz {
            continue;
        }
        // SAFETY: whole pages of a private mapping of a file that were never written to: reading them again gives
        // the same bytes. Nothing is unmapped.
        let result = unsafe { libc::madvise(begin as *mut c_void, end - begin, libc::MADV_DONTNEED) };
        if result == 0 {
            *given_back += end - begin;
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

    #[test]
    fn code_that_was_forgotten_is_less_memory_and_runs_as_before() {
        let hot: Vec<String> =
            (0..1000).map(|n| format!("{n:x} {:?}", std::time::Duration::from_millis(n))).collect();
        let before = mapped_file_bytes();
        let given_back = forget_code();
        assert!(given_back > 0);
        assert!(mapped_file_bytes() < before, "{before} before");
        let again: Vec<String> =
            (0..1000).map(|n| format!("{n:x} {:?}", std::time::Duration::from_millis(n))).collect();
        assert_eq!(again, hot);
    }
}
