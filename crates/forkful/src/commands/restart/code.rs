//! Finds out when the code of an app last changed, from its directory.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use forkful_api::types::AppDefinition;

/// Maximum files and folders to check; beyond it the time is unknown.
const ENTRIES_MAX: usize = 20_000;

/// Files written when code changes in folders that are otherwise skipped, because they also change at other
/// times or contain too many files: by npm on install, by Next.js and Nuxt on build.
const MARKS: [(&str, &str); 3] =
    [("node_modules", ".package-lock.json"), (".next", "BUILD_ID"), (".output", "nitro.json")];

/// Maximum depth of folders.
const DEPTH_MAX: usize = 12;

/// The last change of a file in the app's working directory, or of its script, in milliseconds since the Unix
/// epoch; `None` if unknown. The inode change time is used, because tools that copy files cannot set it back.
/// For dependencies and the build output of frameworks, [`MARKS`] are used; log files and `except` are ignored.
pub(super) fn changed_at_ms(definition: &AppDefinition, except: &[&Path]) -> Option<u64> {
    let mut search = Search { newest: 0, entries: 0, except: identities(except) };
    if let Some(script) = definition.script.as_deref().filter(|script| script.starts_with('/')) {
        search.take(Path::new(script)).ok();
    }
    search.start(Path::new(&definition.cwd))?;
    Some(search.newest)
}

struct Search {
    newest: u64,
    entries: usize,
    /// Files that do not count.
    except: Vec<(u64, u64)>,
}

fn identities(paths: &[&Path]) -> Vec<(u64, u64)> {
    paths.iter().filter_map(|path| Some(identity(&std::fs::metadata(path).ok()?))).collect()
}

fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Search {
    fn note(&mut self, metadata: &std::fs::Metadata) {
        let ms = metadata.ctime().saturating_mul(1000).saturating_add(metadata.ctime_nsec() / 1_000_000);
        self.newest = self.newest.max(u64::try_from(ms).unwrap_or_default());
    }

    /// Looks at the working directory of an app.
    fn start(&mut self, cwd: &Path) -> Option<()> {
        // A link to the current release changes when it points elsewhere. A folder changes with each file that an editor puts in place.
        let link = std::fs::symlink_metadata(cwd).ok()?;
        if link.is_symlink() {
            self.note(&link);
        }
        self.folder(cwd, 0)
    }

    fn take(&mut self, path: &Path) -> std::io::Result<()> {
        self.note(&std::fs::metadata(path)?);
        Ok(())
    }

    fn folder(&mut self, folder: &Path, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        for entry in std::fs::read_dir(folder).ok()? {
            let entry = entry.ok()?;
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return None;
            }
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if let Some((_, mark)) = MARKS.iter().find(|(folder, _)| name == *folder) {
                // It may not exist.
                self.take(&path.join(mark)).ok();
                continue;
            }
            if name.starts_with('.') && name != ".env" || name.contains(".log") || name.ends_with(".pid") {
                continue;
            }
            // If a file is gone since, the result is unknown.
            let metadata = entry.metadata().ok()?;
            if metadata.is_dir() {
                self.folder(&path, depth + 1)?;
            } else if !self.except.contains(&identity(&metadata)) {
                self.note(&metadata);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::{Search, identities};

    fn newest(folder: &Path) -> u64 {
        let mut search = Search { newest: 0, entries: 0, except: Vec::new() };
        search.folder(folder, 0).unwrap();
        search.newest
    }

    /// Writes a file until its time has advanced, which the kernel counts in ticks.
    fn write_later(folder: &Path, name: &str) {
        let before = newest(folder);
        let end = Instant::now() + Duration::from_secs(100);
        while newest(folder) <= before {
            assert!(Instant::now() < end, "{name} is not looked at");
            fs_err::write(folder.join(name), "a change").unwrap();
        }
    }

    #[test]
    fn an_installation_and_a_build_of_a_framework_are_changes_and_what_they_keep_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs_err::write(folder.join("server.js"), "").unwrap();
        for (name, mark, other) in [
            ("node_modules", ".package-lock.json", "package.json"),
            (".next", "BUILD_ID", "trace"),
            (".output", "nitro.json", "public.html"),
        ] {
            fs_err::create_dir(folder.join(name)).unwrap();
            write_later(folder, &format!("{name}/{mark}"));
            let before = newest(folder);
            fs_err::write(folder.join(name).join(other), "").unwrap();
            assert_eq!(newest(folder), before, "{name}/{other}");
        }
    }

    #[test]
    fn the_config_file_is_no_code() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs_err::write(folder.join("server.js"), "").unwrap();
        let config = folder.join("forkful.config.js");
        let with = |except: &[&Path]| {
            let mut search = Search { newest: 0, entries: 0, except: identities(except) };
            search.start(folder).unwrap();
            search.newest
        };
        let before = with(&[]);
        write_later(folder, "forkful.config.js");
        assert_eq!(with(&[&config, &folder.join("absent")]), before);
        assert!(with(&[]) > before);
        write_later(folder, "server.js");
        assert!(with(&[&config]) > before);
    }
}
