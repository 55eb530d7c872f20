//! Links, hard links, pipes and replaced files along the path, for both kinds of walks.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;

use super::entry::{Entry, Find, Identity};
use super::folder::{NAMES_MAX, Refused, Trust, is_refusal};
use super::rights::{Rights, as_user};
use super::walk::Walk;

/// An unused user id, so that every link belongs to another user, as in a worker's folder for root.
const NOBODY: Trust = Trust::Only(&[u32::MAX - 1]);
/// Another user, if the tests run as root.
const OTHER: u32 = 65_533;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can show this");
    }
    is_root
}

fn find(path: &Path, find: Find, trust: Trust) -> io::Result<Entry> {
    let entry = Entry::found(Walk::new(path, find, trust));
    // Component by component, as on a kernel without the call, has the same result.
    let steps = Walk::new(path, find, trust).step_by_step();
    match (&entry, &steps) {
        (Ok(entry), Ok((folder, name))) => {
            assert_eq!(entry.name(), name);
            assert_eq!(entry.folder().identity(), folder.identity());
        }
        (Err(one), Err(other)) => assert_eq!(one.kind(), other.kind()),
        _ => panic!("{}: {entry:?}, and by steps {steps:?}", path.display()),
    }
    entry
}

fn append(path: &Path, trust: Trust) -> io::Result<()> {
    find(path, Find::TO_WRITE, trust)?.append(0o640)?.write_all(b"line\n")
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn without_links_the_file_and_its_folders_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/../log");
    append(&path, NOBODY).unwrap();
    append(&path, NOBODY).unwrap();
    let log = folder.path().join("a/log");
    assert_eq!(fs_err::read_to_string(&log).unwrap(), "line\nline\n");
    assert_eq!(fs_err::metadata(&log).unwrap().mode() & 0o777 & !0o640, 0);
    assert_eq!(fs_err::metadata(folder.path().join("a")).unwrap().mode() & 0o777, 0o700);
    let fault = find(&folder.path().join("none/log"), Find::TO_READ, NOBODY).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::NotFound);
    let absent = find(&folder.path().join("none"), Find::TO_READ, NOBODY).unwrap();
    assert_eq!(absent.read().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(absent.write().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(absent.look().unwrap().is_none());
}

#[test]
fn a_link_is_followed_to_what_is_its_owners() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs_err::create_dir(&real).unwrap();
    symlink("real", &link).unwrap();
    symlink(real.join("log"), real.join("second")).unwrap();
    for path in ["link/log", "link/second", "link/new/log"] {
        append(&folder.path().join(path), NOBODY).unwrap();
    }
    assert_eq!(fs_err::read_to_string(real.join("log")).unwrap(), "line\nline\n");
    assert_eq!(fs_err::read_to_string(real.join("new/log")).unwrap(), "line\n");
    let second = find(&link.join("second"), Find::TO_READ, NOBODY).unwrap();
    assert_eq!(second.name(), "log");
    assert_eq!(second.read_whole(10).unwrap(), b"line\nline\n");
    let itself = Find { follow_last: false, ..Find::TO_READ };
    assert_eq!(find(&link.join("second"), itself, NOBODY).unwrap().name(), "second");
    symlink("/dev/null", folder.path().join("null")).unwrap();
    append(&folder.path().join("null"), NOBODY).unwrap();
}

/// A folder and a file of another user: root's, or changed to another user if the tests run as root.
fn somebody_elses(folder: &Path) -> PathBuf {
    if !rustix::process::geteuid().is_root() {
        return PathBuf::from("/etc");
    }
    let other = folder.join("other");
    fs_err::create_dir(&other).unwrap();
    fs_err::write(other.join("passwd"), "secret").unwrap();
    for path in [&other, &other.join("passwd")] {
        chown(path, Some(OTHER), None).unwrap();
    }
    other
}

#[test]
fn a_link_is_not_followed_to_what_is_not_its_owners() {
    let folder = tempfile::tempdir().unwrap();
    let other = somebody_elses(folder.path());
    symlink(&other, folder.path().join("link")).unwrap();
    symlink(other.join("passwd"), folder.path().join("direct")).unwrap();
    for name in ["link/passwd", "link/new", "link/new/log", "direct"] {
        let fault = append(&folder.path().join(name), NOBODY).unwrap_err();
        // The kernel itself reports missing write permission.
        assert_eq!(fault.kind(), io::ErrorKind::PermissionDenied, "{name}: {fault}");
        assert!(is_refusal(&fault) || !is_root(), "{name}: {fault}");
    }
    assert!(!other.join("new").exists());
    let direct = find(&folder.path().join("direct"), Find::TO_READ, NOBODY).unwrap();
    assert!(is_refusal(&direct.read().unwrap_err()));
    assert_eq!(direct.write().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    let identity = direct.look().unwrap().unwrap().identity;
    assert!(is_refusal(&direct.rename_new("moved".as_ref(), identity).unwrap_err()));
    assert!(is_refusal(&direct.remove(None).unwrap_err()));
    assert!(is_refusal(&direct.sibling("new".as_ref()).unwrap().create_new(0o600).unwrap_err()));
    assert!(other.join("passwd").exists() && !other.join("moved").exists());
}

#[test]
fn links_of_who_is_trusted_are_followed_anywhere_but_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let me = if rustix::process::geteuid().is_root() { Trust::Only(&[0]) } else { Trust::Everyone };
    symlink("/proc/self/fd/1", folder.path().join("stdout")).unwrap();
    let stdout = folder.path().join("stdout");
    let stdout = Entry::found(Walk::new(&stdout, Find::TO_READ, me)).unwrap();
    // If the tests run as nobody, stdout may be another user's pipe.
    if is_root() {
        stdout.write().unwrap();
    }
    assert!(is_refusal(&stdout.remove(None).unwrap_err()));
    assert!(
        is_refusal(&append(&folder.path().join("stdout"), NOBODY).unwrap_err()),
        "into /proc by another's"
    );
    symlink("round", folder.path().join("round")).unwrap();
    let fault = append(&folder.path().join("round"), me).unwrap_err();
    assert_eq!(fault.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    let fault = append(folder.path(), me).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::IsADirectory);
    for end in ["..", "a/.."] {
        append(&folder.path().join(end), me).unwrap_err();
    }
    fs_err::write(folder.path().join("file"), "").unwrap();
    let fault = append(&folder.path().join("file/log"), me).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::NotADirectory);
}

#[test]
fn a_hard_link_in_a_folder_of_others_leads_to_no_file_of_ours() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs_err::write(&secret, "secret").unwrap();
    for mode in [0o755, 0o777] {
        let place = folder.path().join(format!("place-{mode:o}"));
        fs_err::create_dir(&place).unwrap();
        fs_err::hard_link(&secret, place.join("out.log")).unwrap();
        symlink(&secret, place.join("first")).unwrap();
        fs_err::hard_link(place.join("first"), place.join("link")).unwrap();
        fs_err::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        if mode == 0o755 {
            chown(&place, Some(OTHER), None).unwrap();
        }
        for name in ["out.log", "link"] {
            let fault = append(&place.join(name), Trust::Only(&[0])).unwrap_err();
            assert!(is_refusal(&fault), "{mode:o} {name}: {fault}");
        }
    }
    assert_eq!(fs_err::read_to_string(&secret).unwrap(), "secret");
    // A user's own file may have two names.
    let place = folder.path().join("place-755");
    fs_err::write(place.join("mine"), "").unwrap();
    chown(place.join("mine"), Some(OTHER), None).unwrap();
    fs_err::hard_link(place.join("mine"), place.join("too")).unwrap();
    append(&place.join("too"), Trust::Only(&[0])).unwrap();
}

#[test]
fn only_the_file_that_was_opened_is_renamed_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let entry = find(&path, Find::TO_WRITE, NOBODY).unwrap();
    let identity = Identity::of(entry.append(0o640).unwrap()).unwrap();
    // A folder, a link and another file in its place.
    fs_err::rename(&path, folder.path().join("kept")).unwrap();
    let old = OsStr::new("old");
    let stays = |what: &str| {
        assert!(!entry.rename_new(old, identity).unwrap(), "{what}");
        assert!(!entry.remove(Some(identity)).unwrap(), "{what}");
        assert!(entry.look().unwrap().is_some() && !folder.path().join("old").exists(), "{what}");
    };
    fs_err::create_dir(&path).unwrap();
    stays("a folder");
    fs_err::remove_dir(&path).unwrap();
    symlink("kept", &path).unwrap();
    stays("a link");
    assert_eq!(entry.append(0o640).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    fs_err::remove_file(&path).unwrap();
    fs_err::write(&path, "").unwrap();
    stays("another file");
    fs_err::remove_file(&path).unwrap();
    assert!(!entry.rename_new(old, identity).unwrap() && !entry.remove(None).unwrap());

    fs_err::rename(folder.path().join("kept"), &path).unwrap();
    fs_err::write(folder.path().join("old"), "").unwrap();
    let fault = entry.rename_new(old, identity).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::AlreadyExists);
    fs_err::remove_file(folder.path().join("old")).unwrap();
    assert!(entry.rename_new(old, identity).unwrap());
    assert!(entry.sibling(old).unwrap().is(identity).unwrap());
    for name in ["", ".", "..", "a/b"] {
        entry.sibling(old).unwrap().rename_new(name.as_ref(), identity).unwrap_err();
        entry.sibling(name.as_ref()).unwrap_err();
    }
}

#[test]
fn a_folder_that_is_exchanged_for_a_link_leads_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let [home, moved, victim] = ["home", "moved", "victim"].map(|name| folder.path().join(name));
    fs_err::create_dir(&home).unwrap();
    fs_err::create_dir(&victim).unwrap();
    fs_err::write(victim.join("log"), "keep").unwrap();
    let entry = find(&home.join("log"), Find::TO_WRITE, NOBODY).unwrap();
    let identity = Identity::of(entry.append(0o640).unwrap()).unwrap();
    fs_err::rename(&home, &moved).unwrap();
    symlink(&victim, &home).unwrap();
    assert!(entry.rename_new("old".as_ref(), identity).unwrap());
    assert_eq!(entry.folder().names(|_| true).unwrap(), ["old"]);
    let draft = entry.sibling("draft".as_ref()).unwrap();
    draft.create_new(0o600).unwrap().write_all(b"7").unwrap();
    draft.create_new(0o600).unwrap_err();
    entry.replace_by(&draft).unwrap();
    assert_eq!(fs_err::read_to_string(moved.join("log")).unwrap(), "7");
    assert!(entry.remove(None).unwrap());
    assert_eq!(fs_err::read_dir(&victim).unwrap().count(), 1);
    assert_eq!(fs_err::read_to_string(victim.join("log")).unwrap(), "keep");
}

#[test]
fn only_regular_files_of_a_bounded_size_are_read_and_nothing_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| find(&folder.path().join(name), Find::TO_READ, NOBODY).unwrap();
    make_fifo(&folder.path().join("fifo"));
    symlink("/dev/zero", folder.path().join("zero")).unwrap();
    fs_err::write(folder.path().join("file"), "12345").unwrap();
    fs_err::create_dir(folder.path().join("folder")).unwrap();
    for name in ["fifo", "folder"] {
        assert_eq!(at(name).read_whole(10).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
    }
    assert_eq!(at("fifo").append(0o600).unwrap_err().raw_os_error(), Some(Errno::NXIO.raw_os_error()));
    at("zero").read_whole(10).unwrap_err();
    assert_eq!(at("file").read_whole(5).unwrap(), b"12345");
    assert_eq!(at("file").read_whole(4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    let mut text = String::new();
    at("file").read().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "12345");
    assert!(NAMES_MAX > 4 && at("file").folder().names(|name| name == "fifo").unwrap() == ["fifo"]);
}

#[test]
fn entries_of_one_folder_hold_one_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["a", "b"].map(|name| find(&folder.path().join(name), Find::TO_READ, NOBODY).unwrap());
    assert!(std::ptr::eq(one.folder(), other.folder()));
    let before = other.folder().identity();
    drop((one, other));
    let again = find(&folder.path().join("a"), Find::TO_READ, NOBODY).unwrap();
    assert_eq!(again.folder().identity(), before);
}

#[test]
fn a_refusal_is_told_from_an_error_of_the_kernel() {
    let refused = io::Error::from(Refused::Kernels { path: "/proc/1".into() });
    assert!(is_refusal(&refused) && refused.kind() == io::ErrorKind::PermissionDenied);
    assert!(!is_refusal(&io::ErrorKind::PermissionDenied.into()));
    assert!(!is_refusal(&Errno::ACCESS.into()));
}

#[test]
fn as_a_user_the_kernel_decides_and_afterwards_root_is_root() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs_err::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let [secret, shared, mine] = ["secret", "shared", "mine"].map(|name| folder.path().join(name));
    for (path, mode) in [(&secret, 0o600), (&shared, 0o640)] {
        fs_err::write(path, "text").unwrap();
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    chown(&shared, None, Some(60_001)).unwrap();
    fs_err::create_dir(&mine).unwrap();
    chown(&mine, Some(OTHER), Some(OTHER)).unwrap();
    symlink(&secret, mine.join("secret")).unwrap();
    symlink(&shared, mine.join("shared")).unwrap();
    let rights = Rights { uid: OTHER, gid: OTHER, groups: vec![60_001] };
    let read = |path: PathBuf| as_user(&rights, || super::read_whole(&path, 10));
    let fault = read(mine.join("secret")).unwrap_err();
    assert!(fault.kind() == io::ErrorKind::PermissionDenied && !is_refusal(&fault), "{fault}");
    assert_eq!(read(mine.join("shared")).unwrap(), b"text");
    let without = Rights { groups: Vec::new(), ..rights.clone() };
    as_user(&without, || super::read_whole(&shared, 10)).unwrap_err();
    let made = as_user(&rights, || File::create(mine.join("made"))?.metadata()).unwrap();
    assert_eq!((made.uid(), made.gid()), (OTHER, OTHER));
    as_user(&rights, || File::create(folder.path().join("made"))).unwrap_err();
    // And back.
    assert_eq!(super::read_whole(&secret, 10).unwrap(), b"text");
    assert_eq!(File::create(folder.path().join("made")).unwrap().metadata().unwrap().uid(), 0);
}
