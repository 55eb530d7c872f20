//! Executable files that the kernel does not know: those that contain text are run by the shell, as shells do
//! with a script without a `#!` line. Others are programs for another machine, or damaged.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// How much of a file is looked at. Every format of programs has a NUL byte in it.
const BEGINNING_BYTES: u64 = 512;

/// Whether a file that the kernel refuses with `ENOEXEC` is a script for the shell. A file that cannot be read
/// is none: the shell could not read it either.
pub(super) fn is_shell_script(path: &Path) -> bool {
    beginning(path).is_ok_and(|bytes| is_text(&bytes))
}

/// Whether only a shell runs this file, and not the kernel.
pub fn needs_shell(path: &Path) -> bool {
    beginning(path).is_ok_and(|bytes| is_text(&bytes) && !bytes.starts_with(b"#!"))
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes.starts_with(b"\x7fELF") && !bytes.contains(&0)
}

fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    // Not blocking, so that opening a FIFO does not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: OwnedFd = openat(CWD, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::from(file).take(BEGINNING_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_text_and_a_program_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let late = [vec![b'x'; 600], vec![0]].concat();
        // The contents, whether it is a script for the shell, and whether the kernel cannot run it.
        let cases: [(&[u8], bool, bool); 7] = [
            (b"echo hello\n", true, true),
            ("# \u{e9}t\u{e9}\n".as_bytes(), true, true),
            (b"", true, true),
            (b"#!/bin/sh\n", true, false),
            (b"\x7fELF and nothing more", false, false),
            (b"\xca\xfe\xba\xbe\0\0\0\x02", false, false),
            (&late, true, true),
        ];
        for (contents, is_script, only_shell) in cases {
            std::fs::write(&file, contents).unwrap();
            assert_eq!((is_shell_script(&file), needs_shell(&file)), (is_script, only_shell), "{contents:?}");
        }
        for path in ["/nowhere", "/dev/null", "/"] {
            assert!(!is_shell_script(Path::new(path)) && !needs_shell(Path::new(path)), "{path}");
        }
    }
}
