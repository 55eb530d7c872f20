//! `forkful compare --git`: two commits as two apps, and the result as a gate for a pull request.

use std::path::Path;

use forkful_core::pages::Page;
use forkful_core::spec::AppSpec;
use forkful_lab::gate::Gate;
use forkful_lab::progress::Observer as _;
use forkful_lab::versions::{Version, Wanted, Worktrees};
use forkful_load::StopHandle;

use super::CompareArgs;
use crate::commands::init::entry::Package;
use crate::commands::lab::{self, Watch};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::specs::Specs;

/// Both versions, checked out and prepared, and their apps.
pub(super) struct Checked {
    /// Removed when dropped.
    pub(super) worktrees: Worktrees,
    pub(super) apps: Vec<AppSpec>,
    /// The script, as the user would name it.
    pub(super) script: String,
}

pub(super) fn check_out(
    args: &CompareArgs,
    stop: &StopHandle,
    watch: &mut Watch,
) -> Result<Checked, Failure> {
    if args.targets.len() > 1 {
        return Err(Failure::new(
            Exit::WrongUse,
            "--git compares two versions of one script, and two were named",
        ));
    }
    let here = lab::specs(&args.lab.app)?;
    let [base, head] = args.git.as_slice() else { unreachable!("--git takes two values") };
    let names = [base.as_str(), head.as_str()];
    let directory = here.cwd.needed("`--git` looks for the repository in it")?;
    let wanted = Wanted { directory, names, env: &here.env, stop };
    let mut worktrees = Worktrees::make(&wanted)?;
    if worktrees.has_changes {
        watch.note("this checkout has changes that are not committed; they are not measured");
    }
    let entries = worktrees.versions.each_ref().map(|version| Entry::of(args.targets.first(), version));
    let [base, head] = entries;
    let (base, head) = (base?, head?);
    worktrees.prepare(args.build.as_deref(), Path::new(&head.target), &wanted, watch)?;
    let mut apps = Vec::new();
    for (version, entry) in worktrees.versions.iter().zip([&base, &head]) {
        let specs = Specs { cwd: version.directory.clone().into(), ..lab::specs(&args.lab.app)? };
        let target = version.directory.join(&entry.target);
        let script_args = if args.lab.args.is_empty() { &entry.args } else { &args.lab.args };
        apps.push(lab::app_of(&specs, &target.to_string_lossy(), &args.lab.app, script_args)?);
    }
    Ok(Checked { worktrees, apps, script: head.target })
}

/// What to start in a version.
struct Entry {
    /// A script or a config file, relative to the version's directory.
    target: String,
    args: Vec<String>,
}

impl Entry {
    /// The target named by the user; otherwise the directory's config file, or the script in package.json.
    fn of(named: Option<&String>, version: &Version) -> Result<Self, Failure> {
        let entry = match named {
            Some(target) => Self { target: target.clone(), args: Vec::new() },
            None => Self::found(&version.directory),
        };
        if version.directory.join(&entry.target).is_file() && Path::new(&entry.target).is_relative() {
            return Ok(entry);
        }
        let error = format!("{} has no file {}", version.shown(), entry.target);
        Err(Failure::new(Exit::WrongUse, error)
            .hint("name a script or a config file that both versions have, as in `--git main HEAD server.js`")
            .see(Page::CompareGit))
    }

    fn found(directory: &Path) -> Self {
        let config = forkful_config::find_default(directory);
        if let Some(name) = config.as_deref().and_then(Path::file_name) {
            return Self { target: name.to_string_lossy().into_owned(), args: Vec::new() };
        }
        let entry = Package::of(directory).entry();
        Self { target: entry.script, args: entry.args }
    }
}

/// The exit code of a gate; prints to stderr why the change does not pass.
pub(super) fn exit(gate: &Gate) -> Exit {
    match gate {
        Gate::Pass => Exit::Done,
        Gate::Slower(figures) => {
            output::note(&format!("slower: {}", figures.join(", ")));
            Exit::ExpectationMissed
        }
        Gate::Unknown(why) => {
            output::note(&format!("not known: {why}"));
            Exit::NotTrustworthy
        }
    }
}
