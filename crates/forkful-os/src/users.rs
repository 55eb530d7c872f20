//! Users and groups as the system knows them, from whatever source it is told to ask (nsswitch.conf).

use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;

/// Room for one entry of the user or group database; glibc asks for 1 KiB, groups of thousands for more.
const ENTRY_BYTES: usize = 64 * 1024;
/// The most supplementary groups of a process (`NGROUPS_MAX` of Linux).
const GROUPS_MAX: usize = 65_536;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name; the id's digits when the system has no name for it.
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

/// The user of a name or id. An id that the system has no name for is taken as it is, with the group of the same number.
pub fn find_user(text: &str) -> Option<User> {
    if let Some(user) = user_by_name(text) {
        return Some(user);
    }
    let uid: u32 = text.parse().ok()?;
    let unnamed =
        || User { name: text.to_owned(), uid, gid: uid, home: "/".to_owned(), shell: "/bin/sh".to_owned() };
    Some(user_by_id(uid).unwrap_or_else(unnamed))
}

/// The user of an id, when the system has a name for it.
pub fn user_by_id(uid: u32) -> Option<User> {
    // SAFETY: all pointers are valid for the call, and the length is the buffer's.
    lookup_user(|entry, buffer, length, found| unsafe { libc::getpwuid_r(uid, entry, buffer, length, found) })
}

fn user_by_name(name: &str) -> Option<User> {
    let name = CString::new(name).ok()?;
    lookup_user(|entry, buffer, length, found| {
        // SAFETY: all pointers are valid for the call, and the length is the buffer's.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer, length, found) }
    })
}

fn lookup_user(
    ask: impl FnOnce(*mut libc::passwd, *mut c_char, usize, *mut *mut libc::passwd) -> i32,
) -> Option<User> {
    let mut entry = MaybeUninit::<libc::passwd>::zeroed();
    let mut buffer: Vec<c_char> = vec![0; ENTRY_BYTES];
    let mut found: *mut libc::passwd = ptr::null_mut();
    let failed = ask(entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found);
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so the entry is filled in and its texts are in the buffer, which is still there.
    unsafe {
        let entry = entry.assume_init();
        Some(User {
            name: text_at(entry.pw_name),
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            home: text_at(entry.pw_dir),
            shell: text_at(entry.pw_shell),
        })
    }
}

/// The id of a group by name or id.
pub fn find_group(text: &str) -> Option<u32> {
    let name = CString::new(text).ok()?;
    let mut entry = MaybeUninit::<libc::group>::zeroed();
    let mut buffer: Vec<c_char> = vec![0; ENTRY_BYTES];
    let mut found: *mut libc::group = ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the length is the buffer's.
    let failed = unsafe {
        libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found)
    };
    if failed == 0 && !found.is_null() {
        // SAFETY: the call succeeded, so the entry is filled in.
        return Some(unsafe { entry.assume_init() }.gr_gid);
    }
    text.parse().ok()
}

/// All groups of a user, `gid` among them; that one alone when they cannot be told.
pub fn groups_of(name: &str, gid: u32) -> Vec<u32> {
    let Ok(name) = CString::new(name) else { return vec![gid] };
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = groups.len() as i32;
        // SAFETY: the name is a C text, and `count` says how many ids the buffer has room for.
        let result = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        if result >= 0 {
            groups.truncate(count.max(0) as usize);
            return groups;
        }
        if groups.len() >= GROUPS_MAX {
            return vec![gid];
        }
        groups.resize((groups.len() * 4).min(GROUPS_MAX), 0);
    }
}

/// # Safety
/// The pointer is null, or to a C text that lives for the call.
unsafe fn text_at(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: by this function's own condition.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
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
