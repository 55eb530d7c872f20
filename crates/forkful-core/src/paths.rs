//! Paths as text: what is left of them without `.` and `..`, and how names of files are made.

use std::path::{Component, Path, PathBuf};

/// Removes `.`, and `..` where that does not lead through a symbolic link to another place. The caller looks whether a path
/// is such a link.
pub fn tidied(path: &Path, mut is_link: impl FnMut(&Path) -> bool) -> PathBuf {
    let mut short = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                let is_root = short.has_root() && short.parent().is_none();
                if !is_root && (short.ends_with("..") || is_link(&short) || !short.pop()) {
                    short.push("..");
                }
            }
            other => short.push(other),
        }
    }
    short
}

/// The name of an app as part of a file's name, as PM2 writes it.
pub fn file_name_of(app: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    app.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_up_except_through_a_link() {
        let links = ["/srv/current"].map(Path::new);
        for (path, expected) in [
            ("/srv/./api/../lib", "/srv/lib"),
            ("/srv/current/../lib", "/srv/current/../lib"),
            ("/srv/current/api/../lib", "/srv/current/lib"),
            ("/srv/current/../../lib", "/srv/current/../../lib"),
            ("../lib", "../lib"),
            ("../../lib", "../../lib"),
            ("/../lib", "/lib"),
        ] {
            assert_eq!(tidied(Path::new(path), |path| links.contains(&path)), Path::new(expected));
        }
    }

    #[test]
    fn a_name_is_part_of_a_file_name() {
        assert_eq!(file_name_of("@a/b c_1.x"), "-a-b-c_1.x");
    }
}
