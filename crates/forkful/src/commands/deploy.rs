//! `forkful deploy`: deploys an app to other machines with the system's ssh and git, according to the
//! `deploy` section of its configuration.

mod host;
mod script;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use forkful_config::DeployTarget;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::specs::{Specs, default_config};
use forkful_core::pages::Page;
use script::Order;

#[derive(Debug, Args)]
#[command(after_help = "\
Orders: setup, update (the default), revert [N], list, curr, prev, exec COMMAND, ref REFERENCE. All
hosts of a target are deployed in parallel. With `health`, the deployment waits until the version
is healthy, and with `rollback: true` it is rolled back if it is not.

Examples:
  forkful deploy production setup
  forkful deploy production
  forkful deploy ecosystem.config.js staging ref v1.4.0
  forkful deploy production revert 1
  forkful deploy production exec 'forkful list'")]
pub(crate) struct DeployArgs {
    /// A config file (default: the one in this directory), a target in its `deploy` section, an order.
    #[arg(required = true, value_name = "[CONFIG] TARGET [ORDER]")]
    pub(crate) words: Vec<String>,
    /// Deploy even if local changes are not committed or pushed.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The parsed request.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    config: String,
    target: String,
    order: Order,
}

pub(super) fn run(args: &DeployArgs) -> Result<Exit, Failure> {
    let specs = Specs::new(&[], &[])?;
    let request = request(&args.words)?;
    let targets = specs.deploy_targets(Path::new(&request.config))?;
    let found = find(&targets, &request)?;
    let target = &if request.order == Order::Setup { with_local_script(found)? } else { found.clone() };
    if matches!(request.order, Order::Update(_)) {
        if !args.force {
            check_local_work(folder_of(&target.file))?;
        }
        before_update(target)?;
    }
    let config = config_in_repository(&target.file);
    let outcomes = host::run_all(target, &script::script(target, &config, &request.order));
    let failed: Vec<_> = outcomes.iter().filter_map(|o| Some((&o.host, o.fault.as_ref()?))).collect();
    if failed.is_empty() {
        return Ok(Exit::Done);
    }
    let lines: Vec<String> = failed.iter().map(|(host, fault)| format!("{host}: {fault}")).collect();
    let error = match (failed.len(), outcomes.len()) {
        (1, 1) => lines.join(""),
        (some, all) => format!("{some} of {all} hosts failed\n{}", lines.join("\n")),
    };
    Err(Failure::new(Exit::Failed, error))
}

/// `[file] <target> [order]`, in PM2's syntax.
fn request(words: &[String]) -> Result<Request, Failure> {
    let mut words = words.iter().map(String::as_str);
    let mut first = words.next();
    let config = match first.filter(|word| crate::specs::is_config(word)) {
        Some(config) => {
            first = words.next();
            config.to_owned()
        }
        None => default_config("name one first, as in `forkful deploy ecosystem.config.js production`")?,
    };
    let Some(target) = first else {
        return Err(Failure::new(Exit::WrongUse, "no target is named")
            .hint("name a block of `deploy`, as in `forkful deploy production`")
            .see(Page::Deploy));
    };
    let rest: Vec<&str> = words.collect();
    Ok(Request { config, target: target.to_owned(), order: order(&rest)? })
}

fn order(words: &[&str]) -> Result<Order, Failure> {
    let wrong = |error: String| {
        Failure::new(Exit::WrongUse, error)
            .hint("orders are setup, update, revert, list, curr, prev, exec and ref")
            .see(Page::Deploy)
    };
    let number = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|number| *number < 10_000)
            .ok_or_else(|| wrong(format!("invalid number of deployments `{text}`")))
    };
    Ok(match words {
        [] | ["update"] => Order::Update(None),
        ["setup"] => Order::Setup,
        ["ref", reference] if !reference.starts_with('-') => Order::Update(Some((*reference).to_owned())),
        ["revert"] => Order::Revert(1),
        ["revert", steps] => Order::Revert(number(steps)?),
        ["list"] => Order::List,
        ["curr" | "current"] => Order::Show(0),
        ["prev" | "previous"] => Order::Show(1),
        ["exec" | "run", command @ ..] if !command.is_empty() => Order::Exec(command.join(" ")),
        other => return Err(wrong(format!("unknown order `{}`", other.join(" ")))),
    })
}

fn find<'a>(targets: &'a [DeployTarget], request: &Request) -> Result<&'a DeployTarget, Failure> {
    targets.iter().find(|target| target.name == request.target).ok_or_else(|| {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        let hint = if names.is_empty() {
            "it has no `deploy` section; `forkful init full` shows one".to_owned()
        } else {
            format!("there is {}", names.join(", "))
        };
        Failure::new(Exit::WrongUse, format!("{} has no target `{}`", request.config, request.target))
            .hint(hint)
            .see(Page::Deploy)
    })
}

/// The target with the text of the local script that its `pre-setup` names, if it names one beside the config file.
fn with_local_script(target: &DeployTarget) -> Result<DeployTarget, Failure> {
    let mut target = target.clone();
    if let Some(hook) = &mut target.hooks.pre_setup {
        let script = folder_of(&target.file).join(&*hook);
        if !Path::new(hook).is_absolute() && script.is_file() {
            *hook = fs_err::read_to_string(script).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
        }
    }
    Ok(target)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path of the config file on a host, where commands run in the top folder of the repository.
fn config_in_repository(file: &Path) -> PathBuf {
    let folder = folder_of(file);
    let inside = || {
        let output = Command::new("git")
            .args(["rev-parse", "--show-toplevel"])
            .current_dir(folder)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let top = String::from_utf8(output.stdout).ok()?;
        // Only the folder: the file itself may be a link, also on the host.
        let folder = fs_err::canonicalize(folder).ok()?;
        let folder = folder.strip_prefix(fs_err::canonicalize(top.trim_end_matches('\n')).ok()?).ok()?;
        Some(folder.join(file.file_name()?))
    };
    inside().unwrap_or_else(|| match file.file_name() {
        Some(name) if file.is_absolute() => name.into(),
        _ => file.to_owned(),
    })
}

/// Warns about changes that are not committed and pushed, because they would not be deployed.
fn check_local_work(folder: &Path) -> Result<(), Failure> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(folder).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Outside of a repository there is nothing to check.
    let Some(changes) = git(&["status", "--porcelain", "--untracked-files=no"]) else { return Ok(()) };
    let refuse =
        |error: String, hint: &str| Err(Failure::new(Exit::Failed, error).hint(hint).see(Page::Deploy));
    if let Some(first) = changes.lines().next() {
        let file = first.get(2..).unwrap_or(first).trim();
        let more = match changes.lines().count() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return refuse(
            format!("{file}{more} is not committed"),
            "commit it, or deploy without it with --force",
        );
    }
    let beyond_remotes = || {
        // A checkout of a tag alone knows no branch of a remote.
        git(&["for-each-ref", "--count=1", "refs/remotes"]).filter(|branches| !branches.is_empty())?;
        git(&["rev-list", "--count", "HEAD", "--not", "--remotes"])
    };
    let unpushed = git(&["rev-list", "--count", "@{upstream}..HEAD"]).or_else(beyond_remotes);
    match unpushed.unwrap_or_default().parse::<u32>() {
        Ok(0) | Err(_) => Ok(()),
        Ok(count) => refuse(
            format!(
                "{} not pushed",
                if count == 1 { "1 commit is".to_owned() } else { format!("{count} commits are") }
            ),
            "push, or deploy without them with --force",
        ),
    }
}

fn before_update(target: &DeployTarget) -> Result<(), Failure> {
    let Some(command) = &target.hooks.pre_deploy_local else { return Ok(()) };
    let output = Command::new("/bin/sh").args(["-ec", script::HOOK]).env("FORKFUL_HOOK", command).output();
    let output = output.map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    output::talk(&output::format::visible(&String::from_utf8_lossy(&output.stderr)));
    output::print(&String::from_utf8_lossy(&output.stdout))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, format!("pre-deploy-local ended with {}", output.status))
        .hint("nothing was deployed")
        .see(Page::Deploy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_pm2s_words() {
        let order = |line: &str| super::order(&line.split_whitespace().collect::<Vec<_>>()).ok();
        assert_eq!(order(""), Some(Order::Update(None)));
        assert_eq!(order("ref v1.2"), Some(Order::Update(Some("v1.2".to_owned()))));
        assert_eq!(order("ref --upload-pack=x"), None);
        assert_eq!(order("revert"), Some(Order::Revert(1)));
        assert_eq!(order("revert 3"), Some(Order::Revert(3)));
        assert_eq!(order("revert x"), None);
        assert_eq!(order("exec npm test"), Some(Order::Exec("npm test".to_owned())));
        assert_eq!(order("exec"), None);
        assert_eq!(order("curr"), Some(Order::Show(0)));
        assert_eq!(order("prev"), Some(Order::Show(1)));
        assert_eq!(order("steup"), None);
    }
}
