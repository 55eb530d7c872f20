//! Which files and folders count, and the walk over them.
//!
//! Left out: what the user ignores, what `.gitignore` files name (from the repository's root down),
//! dotfiles, `node_modules`, and what the daemon writes itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use forkful_core::spec::{Watch, WatchIgnore};
use forkful_os::behalf;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use regex::Regex;

use super::own_files::OwnFiles;

/// Folders below a watched one; a bound against a tree that links to itself.
const DEPTH_MAX: usize = 64;
/// Bytes of a `.gitignore`.
const GITIGNORE_BYTES_MAX: u64 = 256 << 10;
/// Folders in all, a bound for memory; the kernel has one of its own.
const FOLDERS_MAX: usize = 200_000;

#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// Where the walk begins: paths that are watched whole, and the folders of patterns.
    paths: Vec<PathBuf>,
    whole: Vec<PathBuf>,
    /// Absolute patterns, of which files match some if there are any.
    patterns: Gitignore,
    /// The app's working directory.
    cwd: PathBuf,
    own: OwnFiles,
    globs: Gitignore,
    regexes: Vec<Regex>,
    follow_links: bool,
    /// The `.gitignore` of each folder that has been seen; `None` where there is none.
    gitignores: RefCell<BTreeMap<PathBuf, Option<Gitignore>>>,
}

/// What a walk finds.
pub(super) trait Visitor {
    /// A folder that counts, before what is in it.
    fn folder(&mut self, path: &Path) -> io::Result<()>;
    /// A file that counts.
    fn file(&mut self, path: &Path);
    /// A folder above a named one: it tells when that is made again. What else is in it does not count.
    fn above(&mut self, path: &Path);
}

impl Tree {
    pub(super) fn new(watch: &Watch, cwd: &Path, own: OwnFiles) -> io::Result<Self> {
        let mut globs = GitignoreBuilder::new(cwd);
        let mut regexes = Vec::new();
        for ignore in &watch.ignore {
            match ignore {
                WatchIgnore::Glob(line) => {
                    globs.add_line(None, &relative(line, cwd)).map_err(io::Error::other)?;
                }
                WatchIgnore::Regex(text) => regexes.push(Regex::new(text).map_err(io::Error::other)?),
            }
        }
        let mut patterns = GitignoreBuilder::new("/");
        let (mut paths, mut whole) = (Vec::new(), Vec::new());
        for path in &watch.paths {
            // A folder's name may look like a pattern.
            match Watch::folder_of_pattern(path).filter(|_| !path.exists()) {
                Some(folder) => {
                    patterns.add_line(None, &path.to_string_lossy()).map_err(io::Error::other)?;
                    paths.push(folder);
                }
                None => {
                    whole.push(path.clone());
                    paths.push(path.clone());
                }
            }
        }
        Ok(Self {
            paths,
            whole,
            patterns: patterns.build().map_err(io::Error::other)?,
            cwd: cwd.to_owned(),
            own,
            globs: globs.build().map_err(io::Error::other)?,
            regexes,
            follow_links: watch.follow_links,
            gitignores: RefCell::default(),
        })
    }

    /// Whether a change of this path matters.
    pub(super) fn counts(&self, path: &Path, is_folder: bool) -> bool {
        if self.paths.iter().any(|named| named == path) {
            // What the user has named counts whatever it is called.
            return true;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || name == "node_modules" {
            return false;
        }
        let own = self.own.has(path);
        let by_user = self.globs.matched(path, is_folder).is_ignore()
            || self.regexes.iter().any(|regex| regex.is_match(&path.to_string_lossy()));
        !own && !by_user && self.is_named(path, is_folder) && !self.is_gitignored(path, is_folder)
    }

    /// Whether a path is what the user has named, or in it.
    pub(super) fn is_within(&self, path: &Path) -> bool {
        self.paths.iter().any(|named| path.starts_with(named))
    }

    /// Log files that do not count from now on.
    pub(super) fn exclude_logs(&mut self, logs: Vec<PathBuf>) {
        self.own.add_logs(logs);
    }

    /// Whether the daemon writes this itself.
    pub(super) fn is_own(&self, path: &Path) -> bool {
        self.own.has(path)
    }

    /// Whether a named path lies in this folder.
    pub(super) fn is_above(&self, path: &Path) -> bool {
        self.paths.iter().any(|named| named != path && named.starts_with(path))
    }

    /// What the user has named.
    pub(super) fn named(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether a path below those named is one of them: patterns name files, which may be in any folder.
    fn is_named(&self, path: &Path, is_folder: bool) -> bool {
        is_folder
            || self.patterns.is_empty()
            || self.patterns.matched(path, false).is_ignore()
            || self.whole.iter().any(|whole| path.starts_with(whole))
    }

    /// A `.gitignore` has changed.
    pub(super) fn forget_gitignores(&self) {
        self.gitignores.borrow_mut().clear();
    }

    /// Visits everything that counts. Folders that cannot be read are passed over.
    pub(super) fn walk(&self, visitor: &mut impl Visitor) -> io::Result<()> {
        self.walk_below(Path::new("/"), visitor)
    }

    /// Visits the named paths in a folder.
    pub(super) fn walk_below(&self, folder: &Path, visitor: &mut impl Visitor) -> io::Result<()> {
        let mut folders = 0;
        for path in self.paths.iter().filter(|path| path.starts_with(folder)) {
            // Before the folder itself, so that it is not missed when it is made again now.
            let is_near = |(number, above): &(usize, &Path)| *number == 0 || above.starts_with(&self.cwd);
            let above = path.ancestors().skip(1).enumerate().take_while(is_near);
            above.for_each(|(_, above)| visitor.above(above));
            if path.is_dir() {
                self.walk_folder(path, 0, &mut folders, visitor)?;
            } else {
                // Editors replace files, so that it is the folder that tells of them.
                if let Some(folder) = path.parent() {
                    visitor.folder(folder)?;
                }
                visitor.file(path);
            }
        }
        Ok(())
    }

    /// Visits a folder and everything in it that counts.
    pub(super) fn walk_folder(
        &self,
        folder: &Path,
        depth: usize,
        folders: &mut usize,
        visitor: &mut impl Visitor,
    ) -> io::Result<()> {
        *folders += 1;
        if depth > DEPTH_MAX || *folders > FOLDERS_MAX {
            return Ok(());
        }
        visitor.folder(folder)?;
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let linked = kind.is_symlink();
            if linked && !self.follow_links {
                continue;
            }
            let is_folder = if linked { path.is_dir() } else { kind.is_dir() };
            if !self.counts(&path, is_folder) {
                continue;
            }
            if is_folder {
                self.walk_folder(&path, depth + 1, folders, visitor)?;
            } else {
                visitor.file(&path);
            }
        }
        Ok(())
    }

    /// The nearest `.gitignore` that says anything decides.
    fn is_gitignored(&self, path: &Path, is_folder: bool) -> bool {
        let mut gitignores = self.gitignores.borrow_mut();
        for folder in path.ancestors().skip(1) {
            let found = gitignores.entry(folder.to_owned()).or_insert_with(|| read(folder));
            if let Some(gitignore) = found {
                let matched = gitignore.matched(path, is_folder);
                if !matched.is_none() {
                    return matched.is_ignore();
                }
            }
            if folder.join(".git").exists() {
                break;
            }
        }
        false
    }
}

/// A file that is no regular one, is too large, or is a link of another user, counts as none.
fn read(folder: &Path) -> Option<Gitignore> {
    let file = folder.join(".gitignore");
    let bytes = behalf::read_whole(&file, GITIGNORE_BYTES_MAX).ok()?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&bytes).lines() {
        // A line that is no pattern is left out, as git does.
        let _no_pattern = builder.add_line(Some(file.clone()), line);
    }
    builder.build().ok()
}

/// Absolute patterns below the working directory are anchored there, and so are those that begin with `./`, as chokidar reads them.
fn relative(line: &str, cwd: &Path) -> String {
    if let Some(rest) = line.strip_prefix('!') {
        return format!("!{}", relative(rest, cwd));
    }
    match (Path::new(line).strip_prefix(cwd), line.strip_prefix("./")) {
        (Ok(rest), _) if !rest.as_os_str().is_empty() => format!("/{}", rest.display()),
        (_, Some(rest)) if !rest.is_empty() => format!("/{rest}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A home that no test walks to.
    const NOWHERE: &str = "/nowhere";

    struct Names(Vec<String>, PathBuf);

    impl Visitor for Names {
        fn folder(&mut self, path: &Path) -> io::Result<()> {
            self.0.push(format!("{}/", path.strip_prefix(&self.1).expect("it is below").display()));
            Ok(())
        }

        fn file(&mut self, path: &Path) {
            self.0.push(path.strip_prefix(&self.1).expect("it is below").display().to_string());
        }

        fn above(&mut self, _path: &Path) {}
    }

    fn walked(root: &Path, ignore: Vec<WatchIgnore>, home: &Path) -> Vec<String> {
        let watch = Watch {
            paths: vec![root.to_owned()],
            ignore,
            delay: Duration::from_millis(1),
            follow_links: false,
            polling: None,
        };
        let mut names = Names(Vec::new(), root.to_owned());
        Tree::new(&watch, root, OwnFiles::new(home))
            .expect("patterns are right")
            .walk(&mut names)
            .expect("it can be walked");
        names.0.sort();
        names.0
    }

    #[test]
    fn what_does_not_count_is_not_walked() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let files = [
            "src/a.js",
            "src/a.log",
            "dist/x.js",
            "node_modules/m/i.js",
            ".git/HEAD",
            ".env",
            "logs/own.log",
            "tmp/keep/k",
            "tmp/t",
            "x.min.js",
        ];
        for path in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        std::fs::write(root.join(".gitignore"), "dist\n*.log\n").expect("written");
        std::fs::write(root.join("tmp/.gitignore"), "/t\n").expect("written");
        std::os::unix::fs::symlink(root, root.join("loop")).expect("linked");
        let ignore = vec![WatchIgnore::Glob("*.min.js".into()), WatchIgnore::Regex("/nothing/".into())];
        let seen = walked(root, ignore, &root.join("logs"));
        assert_eq!(seen, ["/", "src/", "src/a.js", "tmp/", "tmp/keep/", "tmp/keep/k"]);
    }

    #[test]
    fn absolute_patterns_are_anchored() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir(root.join("cache")).expect("made");
        std::fs::write(root.join("app.js"), "").expect("written");
        let absolute = root.join("cache").display().to_string();
        for pattern in [absolute.as_str(), "./cache", "./cac*"] {
            let ignore = vec![WatchIgnore::Glob(pattern.to_owned())];
            assert_eq!(walked(root, ignore, NOWHERE.as_ref()), ["/", "app.js"], "{pattern}");
        }
    }

    #[test]
    fn a_pattern_names_files_and_a_folder_may_look_like_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for path in ["src/a.js", "src/x/b.ts", "src/x/b.md", "app/[id]/page.js", "top.js", "other/c.js"] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        let files = |asked: &[&str]| {
            let (paths, ignore) =
                Watch::sort(asked.iter().copied(), |path| root.join(path).components().collect());
            let (delay, follow_links, polling) = (Duration::from_millis(1), false, None);
            let watch = Watch { paths, ignore, delay, follow_links, polling };
            let mut names = Names(Vec::new(), root.to_owned());
            let tree = Tree::new(&watch, root, OwnFiles::default()).expect("patterns are right");
            tree.walk(&mut names).expect("it can be walked");
            let mut files: Vec<String> = names.0.into_iter().filter(|name| !name.ends_with('/')).collect();
            files.sort();
            files.dedup();
            files
        };
        assert_eq!(files(&["src/**/*.{js,ts}"]), ["src/a.js", "src/x/b.ts"]);
        assert_eq!(files(&["src/*"]), ["src/a.js"]);
        assert_eq!(files(&["*.js", "other"]), ["other/c.js", "top.js"]);
        assert_eq!(files(&["app/[id]"]), ["app/[id]/page.js"]);
        assert_eq!(files(&["src", "!src/**/*.md"]), ["src/a.js", "src/x/b.ts"]);
        assert_eq!(files(&["!src", "!app"]), ["other/c.js", "top.js"]);
    }

    #[test]
    fn a_gitignore_is_a_small_file_of_ones_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::write(root.join("a.js"), "").expect("written");
        let gitignore = root.join(".gitignore");
        std::fs::write(&gitignore, "a.js\n").expect("written");
        assert_eq!(walked(root, vec![], NOWHERE.as_ref()), ["/"]);
        // A sparse file takes no space on the disk.
        let file = std::fs::File::options().append(true).open(&gitignore).expect("opened");
        file.set_len(1 << 31).expect("set");
        assert_eq!(walked(root, vec![], NOWHERE.as_ref()), ["/", "a.js"]);
        if rustix::process::geteuid().is_root() {
            let secret = root.join("secret");
            std::fs::write(&secret, "a.js\n").expect("written");
            std::fs::remove_file(&gitignore).expect("removed");
            std::os::unix::fs::symlink(&secret, &gitignore).expect("linked");
            std::os::unix::fs::lchown(&gitignore, Some(65_534), None).expect("given away");
            assert_eq!(walked(root, vec![], NOWHERE.as_ref()), ["/", "a.js", "secret"]);
        }
    }
}
