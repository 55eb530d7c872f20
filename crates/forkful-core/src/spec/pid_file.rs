//! The names of the files with the workers' process ids.

use std::path::{Path, PathBuf};

/// The file of one worker: `-<id>` before the extension of `pid_file`, like PM2.
pub fn pid_file_of(pid_file: &Path, pm_id: u32) -> PathBuf {
    let stem = pid_file.file_stem().unwrap_or_default().to_string_lossy();
    let name = match pid_file.extension() {
        Some(extension) => format!("{stem}-{pm_id}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{pm_id}"),
    };
    pid_file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_file_of_its_own() {
        for (given, expected) in [
            ("/run/api.pid", "/run/api-3.pid"),
            ("/run/api", "/run/api-3"),
            ("/a.b/x.y.pid", "/a.b/x.y-3.pid"),
        ] {
            assert_eq!(pid_file_of(Path::new(given), 3), Path::new(expected));
        }
    }
}
