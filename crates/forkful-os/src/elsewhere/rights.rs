//! A thread cannot take the file rights of another user.

use std::io;

/// A user's rights to files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// Does the work if the user is this process's own, and refuses otherwise.
pub fn as_user<T>(rights: &Rights, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if rights.uid != crate::identity::euid() {
        let error = format!("this system does not let a process act as user {}", rights.uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
    }
    work()
}

/// Files of other users are not distinguished: root is not expected to run apps of others here.
pub(super) fn has_roots_rights() -> bool {
    false
}
