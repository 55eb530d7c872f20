//! The few git commands that are needed, each with a timeout and without the user's hooks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_load::StopHandle;

use crate::LabError;
use crate::program::{Run, Said};

/// Timeout of a command that only reads.
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for writing a large repository's files, perhaps with a filter that downloads them.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Environment variables that make git use another repository, index or work tree than the directory's; they
/// are set if a hook runs us (`git rev-parse --local-env-vars`).
const LOCAL_VARIABLES: [&str; 14] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

#[derive(Debug)]
pub(super) struct Git {
    env: BTreeMap<String, String>,
    program: PathBuf,
    /// Directory for the output of commands.
    scratch: PathBuf,
}

impl Git {
    pub(super) fn new(env: &BTreeMap<String, String>, scratch: &Path) -> Self {
        let mut env = env.clone();
        env.retain(|name, _| !LOCAL_VARIABLES.contains(&name.as_str()));
        // There is no terminal for prompts; messages must be in a known language.
        env.insert("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned());
        env.insert("LC_ALL".to_owned(), "C".to_owned());
        let path = env.get("PATH").map(String::as_str).unwrap_or_default();
        let found =
            std::env::split_paths(path).map(|directory| directory.join("git")).find(|file| file.is_file());
        let program = found.unwrap_or_else(|| PathBuf::from("git"));
        Self { env, program, scratch: scratch.to_owned() }
    }

    /// The environment, also for builds.
    pub(super) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn run(
        &self,
        directory: &Path,
        args: &[&str],
        timeout: Duration,
        stop: &StopHandle,
    ) -> Result<Said, LabError> {
        // The user's hooks are meant for the user's checkout.
        let words = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
        let run = Run {
            program: &self.program,
            args: words.iter().chain(args).map(|word| (*word).to_owned()).collect(),
            env: &self.env,
            cwd: directory,
            scratch: &self.scratch,
            timeout,
            stop,
            is_stopped: StopHandle::is_stopped,
        };
        run.finish().map_err(LabError::system(format!("`git {}` cannot be run", args.join(" "))))
    }

    fn done(
        &self,
        directory: &Path,
        args: &[&str],
        timeout: Duration,
        stop: &StopHandle,
    ) -> Result<String, LabError> {
        let said = self.run(directory, args, timeout, stop)?;
        if said.status.success() {
            return Ok(said.stdout);
        }
        Err(LabError::Git { command: args.join(" "), said: said.stderr.trim().to_owned() })
    }

    /// The single line that a command prints.
    pub(super) fn line(
        &self,
        directory: &Path,
        args: &[&str],
        stop: &StopHandle,
    ) -> Result<String, LabError> {
        let text = self.done(directory, args, LOOK_TIMEOUT, stop)?;
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// The hash of a commit in the user's notation.
    pub(super) fn commit(&self, checkout: &Path, name: &str, stop: &StopHandle) -> Result<String, LabError> {
        let unknown = || {
            LabError::Missing {
            arm: name.to_owned(),
            what: "git knows no commit of this name here".to_owned(),
            hint: "a shallow clone lacks most commits: `git fetch origin BRANCH`, or in GitHub's checkout action \
                   `fetch-depth: 2` for `--git HEAD^1 HEAD`"
                .to_owned(),
        }
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(unknown());
        }
        let spec = format!("{name}^{{commit}}");
        let said = self.run(checkout, &["rev-parse", "--verify", "--quiet", &spec], LOOK_TIMEOUT, stop)?;
        let hash = said.stdout.trim();
        let is_hash = hash.len() >= 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        if said.status.success() && is_hash { Ok(hash.to_owned()) } else { Err(unknown()) }
    }

    /// Whether tracked files differ from the last commit.
    pub(super) fn has_changes(&self, checkout: &Path, stop: &StopHandle) -> Result<bool, LabError> {
        // Without this lock, git does not even refresh the index.
        let args = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"];
        Ok(!self.done(checkout, &args, LOOK_TIMEOUT, stop)?.trim().is_empty())
    }

    pub(super) fn add_worktree(
        &self,
        checkout: &Path,
        place: &Path,
        commit: &str,
        stop: &StopHandle,
    ) -> Result<(), LabError> {
        let place = place.to_string_lossy();
        let args = ["worktree", "add", "--quiet", "--detach", &place, commit];
        self.done(checkout, &args, CHECKOUT_TIMEOUT, stop).map(drop)
    }

    /// Removes a worktree, also after an interruption. A missing worktree is not an error.
    pub(super) fn remove_worktree(&self, checkout: &Path, place: &Path) {
        let place = place.to_string_lossy();
        // Given twice, it also removes a worktree that an interrupted `add` has left locked.
        let args = ["worktree", "remove", "--force", "--force", &place];
        drop(self.done(checkout, &args, LOOK_TIMEOUT, &StopHandle::new()));
    }
}
