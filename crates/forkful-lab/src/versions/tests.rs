//! Worktrees of a real repository.

use tempfile::TempDir;

use super::*;

struct Repository {
    folder: TempDir,
    env: BTreeMap<String, String>,
}

struct Silent;

impl Observer for Silent {
    fn stage(&mut self, _: &Stage) {}
    fn note(&mut self, _: &str) {}
}

impl Repository {
    /// Two commits, of which the second is checked out.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut env: BTreeMap<String, String> = std::env::vars().collect();
        env.insert("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned());
        env.insert("HOME".to_owned(), folder.path().display().to_string());
        let repository = Self { folder, env };
        fs_err::create_dir_all(repository.top().join("api")).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        for text in ["old", "new"] {
            fs_err::write(repository.top().join("api/app.js"), text).unwrap();
            repository.git(&["add", "."]);
            repository.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", text]);
        }
        repository
    }

    fn top(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn git(&self, args: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .args(args)
            .env_clear()
            .envs(&self.env)
            .current_dir(self.top())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// git's state of the checkout and its worktrees.
    fn state(&self) -> String {
        let index = fs_err::read(self.top().join(".git/index")).unwrap();
        format!(
            "{}{}{}{index:?}",
            self.git(&["status"]),
            self.git(&["worktree", "list"]),
            self.git(&["branch"])
        )
    }

    fn make(&self, names: [&str; 2], stop: &StopHandle) -> Result<Worktrees, LabError> {
        let directory = self.top().join("api");
        Worktrees::make(&Wanted { directory: &directory, names, env: &self.env, stop })
    }
}

#[test]
fn both_versions_are_there_and_nothing_is_left_of_them() {
    let repository = Repository::new();
    let before = repository.state();
    let stop = StopHandle::new();
    let worktrees = repository.make(["HEAD~1", "main"], &stop).unwrap();
    let [old, new] = &worktrees.versions;
    let read = |version: &Version| fs_err::read_to_string(version.directory.join("app.js")).unwrap();
    assert_eq!((read(old).as_str(), read(new).as_str()), ("old", "new"));
    assert_eq!(new.commit, repository.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(old.shown(), format!("HEAD~1 ({})", &old.commit[..10]));
    assert!(!worktrees.has_changes && repository.state() != before);
    let places = [old.top.clone(), new.top.clone()];
    drop(worktrees);
    assert_eq!(repository.state(), before);
    assert!(places.iter().all(|place| !place.exists()));
}

#[test]
fn a_build_runs_in_each_version_and_one_that_fails_is_told() {
    let mut repository = Repository::new();
    // As in a hook, where variables name the user's index.
    repository
        .env
        .insert("GIT_INDEX_FILE".to_owned(), repository.top().join(".git/index").display().to_string());
    let before = repository.state();
    let stop = StopHandle::new();
    let directory = repository.top().join("api");
    let wanted =
        Wanted { directory: &directory, names: ["HEAD~1", "HEAD"], env: &repository.env, stop: &stop };
    let mut worktrees = Worktrees::make(&wanted).unwrap();
    let script = Path::new("app.js");
    worktrees.prepare(Some("cat app.js > built"), script, &wanted, &mut Silent).unwrap();
    let built =
        worktrees.versions.each_ref().map(|version| fs_err::read_to_string(version.directory.join("built")));
    assert_eq!(built.map(Result::unwrap), ["old", "new"]);
    let command = "echo no compiler >&2; grep -q old app.js";
    let error = worktrees.prepare(Some(command), script, &wanted, &mut Silent).unwrap_err().to_string();
    assert!(
        error.starts_with("HEAD (") && error.contains("exit status: 1") && error.contains("no compiler"),
        "{error}"
    );
    drop(worktrees);
    assert_eq!(repository.state(), before);
}

#[test]
fn what_cannot_be_checked_out_leaves_nothing_behind() {
    let repository = Repository::new();
    let before = repository.state();
    let stop = StopHandle::new();
    for name in ["gone", "--all", "HEAD~7", ""] {
        let error = repository.make([name, "HEAD"], &stop).unwrap_err().to_string();
        assert!(error.contains("git knows no commit of this name"), "{error}");
    }
    fs_err::write(repository.top().join("api/app.js"), "changed").unwrap();
    let changed = repository.state();
    assert!(repository.make(["HEAD", "HEAD"], &stop).unwrap().has_changes);
    assert_eq!(repository.state(), changed);
    repository.git(&["checkout", "--quiet", "--", "."]);
    let outside =
        Wanted { directory: repository.folder.path(), names: ["a", "b"], env: &repository.env, stop: &stop };
    let error = Worktrees::make(&outside).unwrap_err().to_string();
    assert!(error.contains("not a git repository"), "{error}");
    stop.stop();
    assert!(matches!(repository.make(["HEAD", "HEAD"], &stop), Err(LabError::Interrupted)));
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
    drop(before);
}

#[test]
fn arms_are_called_as_the_user_calls_the_versions() {
    let version = |name: &str, commit: &str| Version {
        name: name.to_owned(),
        commit: commit.repeat(10),
        directory: PathBuf::new(),
        top: PathBuf::new(),
    };
    let names = |a, b| distinct_names(&[a, b]);
    assert_eq!(names(version("main", "1a2b"), version("HEAD", "5c6d")), ["main", "HEAD"]);
    assert_eq!(names(version("1a2b1a2b1a2b1a", "1a2b"), version("HEAD", "5c6d")), ["1a2b1a2b1a", "HEAD"]);
    assert_eq!(names(version("main", "1a2b"), version("main", "1a2b")), ["main A", "main B"]);
}
