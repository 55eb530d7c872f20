//! Users and groups from the system's configured sources (nsswitch.conf).

#[cfg(target_os = "linux")]
use std::ffi::CString;

#[cfg(target_os = "linux")]
use nix::unistd::getgrouplist;
use nix::unistd::{Gid, Group, Uid};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name; the id's digits if the system has no name for it.
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: String,
    pub shell: String,
}

impl From<nix::unistd::User> for User {
    fn from(user: nix::unistd::User) -> Self {
        Self {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            home: user.dir.to_string_lossy().into_owned(),
            shell: user.shell.to_string_lossy().into_owned(),
        }
    }
}

/// The user with a name or id. An id without a name is accepted, with the group of the same number.
pub fn find_user(text: &str) -> Option<User> {
    if let Ok(Some(user)) = nix::unistd::User::from_name(text) {
        return Some(user.into());
    }
    let uid: u32 = text.parse().ok()?;
    let unnamed =
        || User { name: text.to_owned(), uid, gid: uid, home: "/".to_owned(), shell: "/bin/sh".to_owned() };
    Some(user_by_id(uid).unwrap_or_else(unnamed))
}

/// The user with an id, if the system has a name for it.
pub fn user_by_id(uid: u32) -> Option<User> {
    nix::unistd::User::from_uid(Uid::from_raw(uid)).ok()?.map(User::from)
}

/// The id of a group by name or id.
pub fn find_group(text: &str) -> Option<u32> {
    match Group::from_name(text) {
        Ok(Some(group)) => Some(group.gid.as_raw()),
        _ => text.parse().ok(),
    }
}

/// All groups of a user, including `gid`; only `gid` if they are unknown.
pub fn groups_of(name: &str, gid: u32) -> Vec<u32> {
    #[cfg(not(target_os = "linux"))]
    let groups: Option<Vec<Gid>> = {
        let _name = name;
        None
    };
    #[cfg(target_os = "linux")]
    let groups = CString::new(name).ok().and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok());
    groups.map_or_else(|| vec![gid], |groups| groups.into_iter().map(Gid::as_raw).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let root = find_user("root").unwrap();
        assert_eq!((root.uid, root.gid, root.name.as_str()), (0, 0, "root"));
        assert_eq!(find_user("0"), Some(root));
        let nameless = find_user("3999999999").unwrap();
        assert_eq!((nameless.uid, nameless.gid, nameless.home.as_str()), (3_999_999_999, 3_999_999_999, "/"));
        assert_eq!(find_user("no-such-user-here"), None);
        assert_eq!(find_user("a\0b"), None);
        assert_eq!(find_group("root"), Some(0));
        assert_eq!(find_group("12345"), Some(12345));
        assert_eq!(find_group("no-such-group-here"), None);
        assert!(groups_of("root", 0).contains(&0));
        assert_eq!(groups_of("no-such-user-here", 77), [77]);
    }
}
