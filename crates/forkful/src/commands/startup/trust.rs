//! Checks whether other users could replace what a system service runs: its program, and the programs in
//! PATH.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use forkful_os::users;

use super::templates::Service;

/// Owner and mode of a path, following links; `None` if it does not exist.
type Look<'a> = &'a dyn Fn(&Path) -> Option<(u32, u32)>;

/// Warnings about a system service.
pub(super) fn warnings(service: &Service) -> Vec<String> {
    let user = service.user.as_deref().unwrap_or("root");
    let uid = users::find_user(user).map_or(0, |user| user.uid);
    let look = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.uid(), metadata.mode()))
    };
    let others = |path: &Path| {
        let real = std::fs::canonicalize(path).ok();
        open_to_others(path, uid, &look).or_else(|| open_to_others(&real?, uid, &look))
    };
    let mut warnings = Vec::new();
    if let Some(at) = others(&service.program) {
        warnings.push(told(user, &format!("runs {}", service.program.display()), &at));
    }
    for folder in service.path.split(':').map(Path::new) {
        if let Some(at) = others(folder) {
            warnings.push(told(user, &format!("looks for programs in {}", folder.display()), &at));
        }
    }
    warnings
}

fn told(user: &str, what: &str, at: &Path) -> String {
    format!(
        "the service of {user} {what}, but other users can change {}: they decide what runs as {user}",
        at.display()
    )
}

/// The first component of a path, from the root, that is owned or writable by a user other than root and
/// `uid`.
fn open_to_others(path: &Path, uid: u32, look: Look<'_>) -> Option<PathBuf> {
    let parts: Vec<&Path> = path.ancestors().collect();
    let open = parts.into_iter().rev().find(|part| {
        let Some((owner, mode)) = look(part) else { return false };
        // In a sticky folder nobody can replace another user's entries, but files can be added at the end of
        // the path.
        let is_safe_folder = mode & 0o1000 != 0 && *part != path;
        (owner != 0 && owner != uid) || (mode & 0o022 != 0 && !is_safe_folder)
    });
    open.map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_users_can_change_is_found() {
        let look = |path: &Path| {
            Some(match path.to_str()? {
                "/" | "/usr" | "/usr/bin" | "/opt" | "/usr/bin/forkful" | "/home" => (0, 0o755),
                "/tmp" => (0, 0o1777),
                "/tmp/own" => (0, 0o755),
                "/opt/shared" => (0, 0o775),
                "/home/ann" | "/home/ann/bin" => (1000, 0o755),
                _ => return None,
            })
        };
        let open = |path: &str, uid| open_to_others(Path::new(path), uid, &look);
        assert_eq!(open("/usr/bin/forkful", 0), None);
        assert_eq!(open("/not/there", 0), None);
        assert_eq!(open("/opt/shared", 0), Some("/opt/shared".into()));
        // Root's service must not depend on files that ann can replace; ann's own service may.
        assert_eq!(open("/home/ann/bin", 0), Some("/home/ann".into()));
        assert_eq!(open("/home/ann/bin", 1000), None);
        assert_eq!(open("/home/ann/bin", 1001), Some("/home/ann".into()));
        assert_eq!(open("/tmp", 0), Some("/tmp".into()));
        assert_eq!(open("/tmp/own", 0), None);
    }
}
