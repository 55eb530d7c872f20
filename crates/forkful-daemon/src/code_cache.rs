//! Compiled code that Node.js keeps for the next start (`NODE_COMPILE_CACHE`): below the home a folder for each app, shared
//! by its workers, gone with the app.
//!
//! Node.js writes a file for each source file, named after the path and the version of Node.js: when it exits, and when the
//! agent says so. It checks what it reads against the source. Files of sources that are gone stay, so the folder is
//! bounded. Where it cannot be made or written, Node.js goes without it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forkful_core::spec::{AppName, AppSpec, Runtime};

use crate::home::Home;

/// Tells Node.js where to keep it.
pub(crate) const VARIABLE: &str = "NODE_COMPILE_CACHE";
/// If its environment has one of these, the app has made its own decision. (With coverage, functions from a
/// cache are counted less precisely.)
const OWN_DECISIONS: [&str; 3] = [VARIABLE, "NODE_DISABLE_COMPILE_CACHE", "NODE_V8_COVERAGE"];
/// Larger folders lose their least recently used files. Next.js needs 30 MB.
const BYTES_MAX: u64 = 200 << 20;
/// Maximum files examined in a folder.
const FILES_MAX: usize = 100_000;
/// Characters of the app's name in the folder's name; the rest of the folder's name distinguishes apps.
const NAME_MAX: usize = 40;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct CodeCache(PathBuf);

impl CodeCache {
    pub(crate) fn of(app: &AppName, home: &Home) -> Self {
        let mut hasher = DefaultHasher::new();
        app.as_str().hash(&mut hasher);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = app.as_str().chars().take(NAME_MAX).map(plain).collect();
        Self(home.compiled().join(format!("{name}-{:016x}", hasher.finish())))
    }

    /// The cache of an app that should have one. `has_agent`: also works for Node.js below another program.
    pub(crate) fn for_workers(spec: &AppSpec, has_agent: bool, home: &Home) -> Option<Self> {
        // Other users cannot access the home.
        let is_own = spec.launch.run_as.as_ref().is_none_or(|user| user.uid == forkful_os::identity::euid());
        let is_node = spec.launch.runtime == Runtime::Node || has_agent;
        let has_decided = OWN_DECISIONS.iter().any(|name| spec.launch.env.contains_key(*name));
        (spec.compile_cache && is_own && is_node && !has_decided).then(|| Self::of(&spec.name, home))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the folder with access only for its owner. This and the following functions may wait for the
    /// disk.
    pub(crate) fn make(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    /// Removes the least recently used files if the total is too large.
    pub(crate) fn trim(&self) {
        self.trim_to(BYTES_MAX);
    }

    fn trim_to(&self, bytes_max: u64) {
        let mut files = Vec::new();
        // A folder for each version of Node.js, and its files.
        for version in entries(&self.0) {
            files.extend(entries(&version).filter_map(found).take(FILES_MAX - files.len()));
        }
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if bytes <= bytes_max {
            return;
        }
        files.sort();
        for (_, size, path) in files {
            if bytes <= bytes_max / 2 {
                return;
            }
            // A removed file has no size either.
            let _gone = fs_err::remove_file(path);
            bytes = bytes.saturating_sub(size);
        }
    }

    pub(crate) fn remove(&self) {
        // Files that cannot be removed are limited in size all the same.
        let _gone = fs_err::remove_dir_all(&self.0);
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs_err::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// When a file was last written or read, its size, and its path.
fn found(path: PathBuf) -> Option<(SystemTime, u64, PathBuf)> {
    let meta = fs_err::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    let used = meta.accessed().ok().max(meta.modified().ok())?;
    Some((used, meta.len(), path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::MetadataExt as _;
    use std::time::Duration;

    use super::*;

    fn named(name: &str) -> AppSpec {
        let mut spec = AppSpec::new(AppName::new(name).unwrap());
        spec.launch.runtime = Runtime::Node;
        spec
    }

    #[test]
    fn an_app_has_one_unless_it_has_decided_for_itself() {
        let home = Home::new("/home".into());
        let has = |spec: &AppSpec| CodeCache::for_workers(spec, false, &home).is_some();
        let spec = named("api");
        assert!(has(&spec));
        assert!(!has(&AppSpec { compile_cache: false, ..spec.clone() }));
        for name in OWN_DECISIONS {
            let mut spec = spec.clone();
            spec.launch.env = BTreeMap::from([(name.to_owned(), String::new())]);
            assert!(!has(&spec), "{name}");
        }
        let mut other = spec.clone();
        other.launch.run_as = Some(forkful_core::spec::RunAs { uid: 54321, gid: 1, groups: Vec::new() });
        assert!(!has(&other));
        let mut python = spec;
        python.launch.runtime = Runtime::Other;
        assert!(!has(&python));
        assert!(CodeCache::for_workers(&python, true, &home).is_some(), "npm start");
    }

    #[test]
    fn apps_whose_names_differ_in_a_sign_have_each_their_own() {
        let home = Home::new("/home".into());
        let folders = ["a/b", "a-b", "ä".repeat(128).as_str()].map(|name| {
            let cache = CodeCache::of(&AppName::new(name).unwrap(), &home);
            assert_eq!(cache.path().parent(), Some(home.compiled().as_path()));
            assert!(cache.path().file_name().unwrap().len() < 100);
            cache.path().to_owned()
        });
        assert_ne!(folders[0], folders[1]);
    }

    #[test]
    fn the_folder_is_its_owners_and_is_bounded_and_goes() {
        let home = tempfile::tempdir().unwrap();
        let cache = CodeCache::of(&AppName::new("api").unwrap(), &Home::new(home.path().to_owned()));
        cache.make().unwrap();
        cache.make().unwrap();
        assert_eq!(fs_err::metadata(cache.path()).unwrap().mode() & 0o777, 0o700);
        let version = cache.path().join("v24-x64");
        fs_err::create_dir(&version).unwrap();
        for age in 0..10_u64 {
            let path = version.join(format!("{age}.cache"));
            fs_err::write(&path, [0; 100]).unwrap();
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age);
            let times = std::fs::FileTimes::new().set_accessed(used).set_modified(used);
            fs_err::OpenOptions::new().write(true).open(&path).unwrap().into_file().set_times(times).unwrap();
        }
        let left = || {
            let mut left: Vec<_> =
                entries(&version).map(|path| path.file_stem().unwrap().to_owned()).collect();
            left.sort();
            left
        };
        cache.trim_to(1000);
        assert_eq!(left().len(), 10, "as large as it may be");
        cache.trim_to(999);
        assert_eq!(left(), ["0", "1", "2", "3"], "the oldest have gone, to half of the bound");
        cache.remove();
        assert!(!cache.path().exists());
        cache.trim();
    }
}
