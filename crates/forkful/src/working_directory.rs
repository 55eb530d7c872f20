//! The caller's working directory. It may have been removed, and commands that name apps do not need it: only a
//! command that does fails, and says why it needs the directory.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use forkful_config::AppOptions;

use crate::exit::{Exit, Failure};

/// The keys of options whose paths are relative to the caller's directory.
const PATH_KEYS: [&str; 5] = ["cwd", "out_file", "error_file", "log_file", "pid_file"];
/// The word of `out_file` and similar keys for no file.
const NO_FILE: &str = "NULL";

/// An absolute path, or why there is none.
#[derive(Debug, Clone)]
pub(crate) struct WorkingDirectory(Result<PathBuf, ErrorKind>);

impl Default for WorkingDirectory {
    fn default() -> Self {
        Self(Err(ErrorKind::NotFound))
    }
}

impl From<PathBuf> for WorkingDirectory {
    fn from(path: PathBuf) -> Self {
        Self(Ok(path))
    }
}

impl WorkingDirectory {
    /// The directory of this process.
    pub(crate) fn of_caller() -> Self {
        Self(std::env::current_dir().map_err(|error| error.kind()))
    }

    /// The path, if the directory exists.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_deref().ok()
    }

    /// The path for a command that needs it; `need` completes "the working directory is gone, and".
    pub(crate) fn needed(&self, need: impl Display) -> Result<&Path, Failure> {
        self.0.as_deref().map_err(|kind| {
            let fault = match kind {
                ErrorKind::NotFound => "is gone".to_owned(),
                kind => format!("cannot be determined ({kind})"),
            };
            Failure::new(Exit::WrongUse, format!("the working directory {fault}, and {need}"))
                .hint("`cd` to a directory that exists")
        })
    }

    /// The same for a path; `use_of_absolute` says why an absolute path needs the directory too.
    pub(crate) fn needed_by(&self, path: &str, use_of_absolute: &str) -> Result<&Path, Failure> {
        let need = if is_relative(path) { "is relative to it" } else { use_of_absolute };
        self.needed(format!("`{path}` {need}"))
    }

    /// The directory for options of the command line, which need it only if one of their paths is relative. If it is not
    /// needed, it may be `/`.
    pub(crate) fn for_options(&self, options: &AppOptions) -> Result<&Path, Failure> {
        match relative_path(options) {
            Some(path) => self.needed_by(path, ""),
            None => Ok(self.path().unwrap_or(Path::new("/"))),
        }
    }
}

/// A path of options that is relative to the caller's directory.
fn relative_path(options: &AppOptions) -> Option<&str> {
    let paths = PATH_KEYS.iter().filter_map(|key| options.text(key)).filter(|path| *path != NO_FILE);
    // An interpreter without a slash is looked up in PATH.
    let interpreter = options.text("interpreter").filter(|program| program.contains('/'));
    let listed = || options.get("env_file")?.as_array()?.iter().find_map(|path| path.as_str());
    paths.chain(interpreter).chain(options.text("env_file").or_else(listed)).find(|path| is_relative(path))
}

/// `~` is the home of the user.
pub(crate) fn is_relative(path: &str) -> bool {
    Path::new(path).is_relative() && !Path::new(path).starts_with("~")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(result: Result<&Path, Failure>) -> String {
        result.map_or_else(|failure| failure.error.to_string(), |path| format!("{}", path.display()))
    }

    #[test]
    fn a_directory_that_is_gone_is_missed_only_by_what_needs_it() {
        let gone = WorkingDirectory::default();
        let told = fault(gone.needed_by("app.js", "would start in it"));
        assert_eq!(told, "the working directory is gone, and `app.js` is relative to it");
        let told = fault(gone.needed_by("/srv/app.js", "would start in it"));
        assert_eq!(told, "the working directory is gone, and `/srv/app.js` would start in it");
        for (key, value, is_needed) in [
            ("cwd", "sub", true),
            ("cwd", "/srv", false),
            ("out_file", "out.log", true),
            ("out_file", "~/out.log", false),
            ("out_file", "NULL", false),
            ("interpreter", "bin/node", true),
            ("interpreter", "node", false),
            ("max_memory_restart", "100M", false),
        ] {
            let mut options = AppOptions::default();
            options.put(key, value);
            assert_eq!(gone.for_options(&options).is_err(), is_needed, "{key} {value}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_not_called_gone() {
        let closed = WorkingDirectory(Err(ErrorKind::PermissionDenied));
        let told = fault(closed.needed("a config file is looked for in it"));
        assert_eq!(
            told,
            "the working directory cannot be determined (permission denied), and a config file is looked for in it"
        );
    }
}
