//! The files for the output of workers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use forkful_core::paths::file_name_of;
use forkful_core::spec::AppSpec;

use super::apps::Apps;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFiles {
    pub(crate) out: PathBuf,
    pub(crate) error: PathBuf,
    pub(crate) combined: Option<PathBuf>,
}

/// Configured log files that are not plain files: devices, pipes and descriptors, which all workers share.
/// The type of a path is determined outside of the event loop at each start (see [`LogPlaces`]); until then
/// it counts as a plain file.
pub(crate) type SpecialFiles = BTreeSet<PathBuf>;

/// A worker's log files, with PM2's names: `-<id>` unless one file is used for all.
pub(crate) fn log_files(
    spec: &AppSpec,
    folder: &std::path::Path,
    pm_id: u32,
    special: &SpecialFiles,
) -> LogFiles {
    let name = file_name_of(spec.name.as_str());
    let null = std::path::Path::new("/dev/null");
    if spec.logs.disabled {
        return LogFiles { out: null.to_owned(), error: null.to_owned(), combined: None };
    }
    let single = spec.logs.merge;
    let file = |given: &Option<PathBuf>, kind: &str| match given {
        Some(path) if single || is_devices(path) || special.contains(path) => path.clone(),
        Some(path) => own_file(path, pm_id),
        None if single => folder.join(format!("{name}-{kind}.log")),
        None => folder.join(format!("{name}-{kind}-{pm_id}.log")),
    };
    LogFiles {
        out: file(&spec.logs.out_file, "out"),
        error: file(&spec.logs.error_file, "error"),
        combined: spec.logs.combined_file.clone(),
    }
}

impl Apps {
    /// Apps whose names differ only in letters that names of files do not have, so that they write to the same log files.
    pub(super) fn shared_log_notes(&self) -> Vec<String> {
        let by_default = || self.values().map(super::app::App::spec).filter(|spec| has_own_default(spec));
        let note = |spec: &AppSpec| {
            let file = file_name_of(spec.name.as_str());
            if file == spec.name.as_str() {
                return None;
            }
            let is_other =
                |other: &&AppSpec| other.name != spec.name && file_name_of(other.name.as_str()) == file;
            let other = by_default().find(is_other)?;
            Some(format!(
                "{}: its log files are those of {}, too, because file names have letters, digits, `.`, `-` and `_` only; \
                 another name or `out_file` and `error_file` separate them",
                spec.name, other.name
            ))
        };
        by_default().filter_map(note).collect()
    }
}

/// Whether its log files have the app's name alone, without the number of a worker.
fn has_own_default(spec: &AppSpec) -> bool {
    let logs = &spec.logs;
    logs.merge && !logs.disabled && (logs.out_file.is_none() || logs.error_file.is_none())
}

/// Whether a path is a device or a descriptor by its name alone.
fn is_devices(path: &std::path::Path) -> bool {
    // Shared memory has plain files.
    (path.starts_with("/dev") && !path.starts_with("/dev/shm")) || path.starts_with("/proc")
}

/// The log files of an app to examine before a start, each of which gets a number if it is a plain file.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogPlaces(Vec<PathBuf>);

impl LogPlaces {
    /// Files whose names do not determine their type.
    pub(crate) fn of(spec: &AppSpec) -> Self {
        if spec.logs.disabled || spec.logs.merge {
            return Self::default();
        }
        let given = [&spec.logs.out_file, &spec.logs.error_file];
        Self(given.into_iter().flatten().filter(|path| !is_devices(path)).cloned().collect())
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, path: &std::path::Path) -> bool {
        self.0.iter().any(|own| own == path)
    }

    /// Examines them, which may wait for a file system: not in the event loop. `before` gets each path.
    pub(crate) fn special(self, mut before: impl FnMut(&std::path::Path)) -> SpecialFiles {
        let mut special = SpecialFiles::new();
        for path in self.0 {
            before(&path);
            if fs_err::metadata(&path).is_ok_and(|found| !found.is_file()) {
                special.insert(path);
            }
        }
        special
    }
}

/// A worker's own file, from the configured path for all.
fn own_file(path: &std::path::Path, pm_id: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{pm_id}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{pm_id}"),
    };
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_device_a_pipe_or_a_descriptor_gets_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let there = folder.path().join("there.log");
        fs_err::write(&there, "").unwrap();
        let own = |path: &Path| {
            let mut spec = crate::engine::tests::spec("app", &["/bin/true"], 1);
            spec.logs.merge = false;
            spec.logs.out_file = Some(path.to_owned());
            let special = LogPlaces::of(&spec).special(|_| {});
            log_files(&spec, Path::new("/logs"), 3, &special).out
        };
        let special =
            ["/dev/null", "/dev/full", "/dev/stdout", "/dev/fd/2", "/proc/self/fd/1"].map(Path::new);
        for path in special.into_iter().chain([pipe.as_path()]) {
            assert_eq!(own(path), path);
        }
        assert_eq!(own(&there), folder.path().join("there-3.log"));
        assert_eq!(own(Path::new("/nowhere/out.log")), Path::new("/nowhere/out-3.log"));
        assert_eq!(own(Path::new("/nowhere/out")), Path::new("/nowhere/out-3"));
        assert_eq!(own(Path::new("/dev/shm/out")), Path::new("/dev/shm/out-3"));
    }
}
