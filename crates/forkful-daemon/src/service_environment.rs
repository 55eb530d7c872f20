//! The file `environment` of the home: values that apps need and that are not saved, as `NAME=value` lines.
//!
//! The daemon reads it as its own user when it resurrects apps at boot. A unit's `EnvironmentFile` would be read by the
//! system's manager with root's rights: a link in its place would give its owner a file that only root may read.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use forkful_core::spec::environment::parse_env_file;
use rustix::fs::OFlags;
use thiserror::Error;

/// The most bytes of the file; a large environment has some 10 KiB.
const BYTES_MAX: u64 = 1 << 20;

/// Why the file is left out.
#[derive(Debug, Error)]
pub(crate) enum EnvironmentFault {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("{path}: line {line}: {message}")]
    Syntax { path: String, line: usize, message: String },
}

/// Reads the file; no variables when there is none.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, String>, EnvironmentFault> {
    let shown = || path.display().to_string();
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(EnvironmentFault::Read { path: shown(), source }),
    };
    parse_env_file(&text).map_err(|fault| EnvironmentFault::Syntax {
        path: shown(),
        line: fault.line,
        message: fault.message.to_owned(),
    })
}

fn read_text(path: &Path) -> io::Result<String> {
    // A pipe in its place must not keep the daemon waiting.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_what_is_none_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("environment");
        assert_eq!(read(&path).unwrap(), BTreeMap::new());
        std::fs::write(&path, "# values\nTOKEN='a b'\nPORT=3000\n").unwrap();
        let expected =
            [("TOKEN", "a b"), ("PORT", "3000")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(&path).unwrap(), BTreeMap::from(expected));
        std::fs::write(&path, "A=1\nB=\"open\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("environment: line 2: "));
        std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("more than 1048576 bytes"));
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("no regular file"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("no regular file"));
    }
}
