//! Two commits of a repository as apps next to each other: git worktrees in a temporary directory, with the
//! packages that they need. The user's checkout is only read. Dropping [`Worktrees`] removes everything.

mod git;
mod packages;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_load::StopHandle;

use crate::LabError;
use crate::arms::Arm;
use crate::document::VersionDocument;
use crate::program::Run;
use crate::progress::{Observer, Stage};
use crate::scratch::Scratch;
use git::Git;
use packages::Packages;

/// Timeout of a build; installing packages and compiling take minutes.
const BUILD_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Maximum lines of a build's output in a message.
const TAIL_LINES_MAX: usize = 20;

/// Characters of an abbreviated commit hash.
const SHORT: usize = 10;

/// The requested versions of a repository.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// A directory in the checkout; each version's app starts in the same directory.
    pub directory: &'a Path,
    /// Two commits in git's syntax: the baseline, and the commit to compare with it.
    pub names: [&'a str; 2],
    /// The environment for git and builds.
    pub env: &'a BTreeMap<String, String>,
    /// Stops it early.
    pub stop: &'a StopHandle,
}

/// One of the two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As the user named it.
    pub name: String,
    /// The full commit hash.
    pub commit: String,
    /// The directory that corresponds to [`Wanted::directory`].
    pub directory: PathBuf,
    /// Its worktree.
    top: PathBuf,
}

impl Version {
    /// The abbreviated commit hash.
    pub fn short(&self) -> &str {
        &self.commit[..self.commit.len().min(SHORT)]
    }

    /// `main (1a2b3c4d5e)`; only the commit if the user gave the commit.
    pub fn shown(&self) -> String {
        if self.commit.starts_with(&self.name) {
            self.short().to_owned()
        } else {
            format!("{} ({})", self.name, self.short())
        }
    }

    /// For reports.
    pub fn document(&self) -> VersionDocument {
        VersionDocument { name: self.name.clone(), commit: self.commit.clone() }
    }
}

/// The worktrees of both versions. Dropping this removes them.
#[derive(Debug)]
pub struct Worktrees {
    pub versions: [Version; 2],
    /// The checkout has uncommitted changes.
    pub has_changes: bool,
    git: Git,
    /// The checkout's top directory.
    checkout: PathBuf,
    /// The user's directory, relative to the top.
    prefix: PathBuf,
    /// Linked packages, which are unlinked before anything is removed.
    links: Vec<PathBuf>,
    scratch: Scratch,
}

impl Worktrees {
    /// Checks out both versions.
    pub fn make(wanted: &Wanted<'_>) -> Result<Self, LabError> {
        Self::made(wanted).map_err(|error| error.unless_stopped(wanted.stop))
    }

    fn made(wanted: &Wanted<'_>) -> Result<Self, LabError> {
        let scratch =
            Scratch::new("forkful-git-").map_err(LabError::system("cannot make a temporary directory"))?;
        // git records a worktree by its real path.
        let root = fs_err::canonicalize(scratch.path()).map_err(LabError::system("cannot find it again"))?;
        let git = Git::new(wanted.env, &root);
        let checkout =
            PathBuf::from(git.line(wanted.directory, &["rev-parse", "--show-toplevel"], wanted.stop)?);
        let prefix =
            PathBuf::from(git.line(wanted.directory, &["rev-parse", "--show-prefix"], wanted.stop)?);
        let mut commits = Vec::new();
        for name in wanted.names {
            commits.push(git.commit(&checkout, name, wanted.stop)?);
        }
        let has_changes = git.has_changes(&checkout, wanted.stop)?;
        let version = |place: usize| {
            let top = root.join(["base", "head"][place]);
            Version {
                name: wanted.names[place].to_owned(),
                commit: commits[place].clone(),
                directory: top.join(&prefix),
                top,
            }
        };
        // From here on dropping it removes the worktrees, whatever happens.
        let worktrees = Self {
            versions: [version(0), version(1)],
            has_changes,
            git,
            checkout,
            prefix,
            links: Vec::new(),
            scratch,
        };
        for version in &worktrees.versions {
            worktrees.git.add_worktree(&worktrees.checkout, &version.top, &version.commit, wanted.stop)?;
            if !version.directory.is_dir() {
                let reason = format!("{} has no directory {}", version.shown(), worktrees.prefix.display());
                return Err(LabError::Plan { reason, hint: "call it where the app is in both versions" });
            }
        }
        Ok(worktrees)
    }

    /// Prepares both versions: by the build command, or with the checkout's packages if these match. `script`
    /// is the app's path in each version's directory.
    pub fn prepare(
        &mut self,
        build: Option<&str>,
        script: &Path,
        wanted: &Wanted<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(), LabError> {
        let Some(build) = build else { return self.link_packages(script) };
        for version in &self.versions {
            observer.stage(&Stage { text: format!("building {}", version.shown()), done: 0.0 });
            self.build(version, build, wanted).map_err(|error| error.unless_stopped(wanted.stop))?;
        }
        Ok(())
    }

    fn build(&self, version: &Version, command: &str, wanted: &Wanted<'_>) -> Result<(), LabError> {
        let run = Run {
            program: Path::new("/bin/sh"),
            args: vec!["-c".to_owned(), command.to_owned()],
            env: self.git.env(),
            cwd: &version.directory,
            scratch: self.scratch.path(),
            timeout: BUILD_TIMEOUT,
            stop: wanted.stop,
            is_stopped: StopHandle::is_stopped,
        };
        let said =
            run.finish().map_err(LabError::system(format!("{}: `{command}` failed", version.shown())))?;
        if said.status.success() {
            return Ok(());
        }
        let text = format!("{}\n{}", said.stdout, said.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES_MAX)..];
        Err(LabError::Build {
            version: version.shown(),
            how: format!("`{command}` ended with {}", said.status),
            tail: tail.iter().map(|line| (*line).to_owned()).collect(),
        })
    }

    fn link_packages(&mut self, script: &Path) -> Result<(), LabError> {
        let of_script = self.prefix.join(script.parent().unwrap_or(Path::new("")));
        let mut links = Vec::new();
        for version in &self.versions {
            for directory in packages::directories(&[&self.prefix, &of_script]) {
                match packages::of(&self.checkout, &version.top, &directory) {
                    Packages::None => {}
                    Packages::Linked { from, to } => {
                        std::os::unix::fs::symlink(&from, &to)
                            .map_err(LabError::system(format!("cannot link {}", to.display())))?;
                        links.push(to);
                    }
                    Packages::Own { why } => {
                        self.links = links;
                        return Err(LabError::Plan {
                            reason: format!("{} needs other packages: {why}", version.shown()),
                            hint: "`--build 'npm ci'` installs them in both versions; it may be any command",
                        });
                    }
                }
            }
        }
        self.links = links;
        Ok(())
    }
}

impl Drop for Worktrees {
    fn drop(&mut self) {
        // git does not follow links when removing, but we do not rely on it.
        for link in &self.links {
            drop(fs_err::remove_file(link));
        }
        for version in &self.versions {
            self.git.remove_worktree(&self.checkout, &version.top);
        }
    }
}

/// Names the arms of two versions after the versions.
pub fn name_arms(arms: &mut [Arm], versions: &[Version; 2]) {
    let names = distinct_names(versions);
    for arm in arms {
        let version = &versions[arm.app];
        arm.label = format!("{}, {}", version.shown(), arm.label);
        arm.name.clone_from(&names[arm.app]);
    }
}

/// The names as given, with the commit if needed to distinguish them.
fn distinct_names(versions: &[Version; 2]) -> [String; 2] {
    let name = |version: &Version| {
        let is_hash = version.commit.starts_with(&version.name);
        if is_hash { version.short().to_owned() } else { version.name.clone() }
    };
    let names = versions.each_ref().map(name);
    if names[0] == names[1] {
        return [format!("{} A", names[0]), format!("{} B", names[1])];
    }
    names
}

#[cfg(test)]
mod tests;
