//! Paths as text: what is left of them without `.` and `..`, and how names of files are made.

use std::path::{Component, Path, PathBuf};

use crate::random::mixed;

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

/// The most bytes of an app's name in a file's name, which has at most 255 with all that follows.
const NAME_BYTES_MAX: usize = 160;

/// The name of an app as part of a file's name: as PM2 writes it, but with the letters of every language. PM2 writes `-` for
/// each letter that is not ASCII, so that two apps with such names share files. A long name is cut and ends with a hash.
pub fn file_name_of(app: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    let mut name: String = app.chars().map(plain).collect();
    if name.len() > NAME_BYTES_MAX {
        let own =
            app.bytes().fold(0, |number, byte| mixed(number ^ u64::from(byte).wrapping_add(number << 8)));
        let end = (0..=NAME_BYTES_MAX).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
        name.truncate(end);
        name.push_str(&format!("-{own:016x}"));
    }
    name
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
        assert_eq!(["日本", "東京", "größe"].map(file_name_of), ["日本", "東京", "größe"]);
        let long = |last: &str| file_name_of(&format!("{}{last}", "日".repeat(127)));
        assert_ne!(long("本"), long("京"));
        assert!(long("本").len() < 200 && long("本").starts_with(&"日".repeat(50)), "{}", long("本"));
        assert_eq!(file_name_of(&"a".repeat(128)), "a".repeat(128));
    }
}
