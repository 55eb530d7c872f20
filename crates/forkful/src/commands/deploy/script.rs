//! The steps of a deployment on a host, as POSIX shell scripts. Nothing is run here.
//!
//! ```text
//! <path>/source    the clone          <path>/shared/{logs,pids}
//! <path>/current → source             <path>/.deploys   one commit a line, the newest last
//!                                     <path>/.deploying who deploys, or did last
//! ```

use std::path::Path;
use std::time::Duration;

use forkful_config::DeployTarget;

/// Default time for a version to become healthy.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(60);

/// Commits in a shallow clone.
const SHALLOW_COMMITS: u32 = 5;

/// Runs a hook in its own shell. The hook is passed in a variable, which only its user can read, and not as
/// an argument, which everybody can read.
pub(super) const HOOK: &str = r#"hook=$FORKFUL_HOOK; unset FORKFUL_HOOK; eval "$hook""#;

/// Functions used by several scripts. `fail` exits with a code that differs from those of hooks.
const FUNCTIONS: &str = include_str!("functions.sh");

/// An operation on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// Create the folders and clone.
    Setup,
    /// Deploy this reference, or the target's.
    Update(Option<String>),
    /// Go back this many deployments.
    Revert(u32),
    /// List all deployments.
    List,
    /// Show the commit of the deployment this many before the last.
    Show(u32),
    /// Run a command in the current version.
    Exec(String),
}

/// The script of an order; `config` is the path of the config file in the repository.
pub(super) fn script(target: &DeployTarget, config: &Path, order: &Order) -> String {
    let mut text = String::from("set -eu\n");
    text.push_str(&variables(target));
    text.push_str(FUNCTIONS);
    text.push_str(&hooks(target, config));
    text.push_str(&match order {
        Order::Setup => setup(target),
        Order::Update(reference) => update(target, reference.as_deref().unwrap_or(&target.reference)),
        Order::Revert(steps) => format!("enter\n{}", locked(&format!("revert_deployments {steps}\n"))),
        Order::List => "enter\nlist_deployments\n".to_owned(),
        Order::Show(steps) => format!("enter\nshow_deployment {steps}\n"),
        Order::Exec(command) => format!("enter\ncd \"$path/current\"\n{command}\n"),
    });
    text
}

fn variables(target: &DeployTarget) -> String {
    let path = match target.path.strip_prefix("~") {
        Some(rest) => format!("\"$HOME\"{}", quoted(rest)),
        None => quoted(&target.path),
    };
    let seconds = target.health_timeout.unwrap_or(HEALTH_TIMEOUT).as_secs().max(1);
    let mut text = format!(
        "path={path}\nrepo={}\nrollback={}\nhealth_seconds={seconds}\n",
        quoted(&target.repo),
        if target.rollback { "yes" } else { "no" },
    );
    for (name, value) in &target.env {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // Names that a shell does not accept cannot be exported; they matter only to the app.
        if is_name && !name.starts_with(|c: char| c.is_ascii_digit()) {
            text.push_str(&format!("export {name}={}\n", quoted(value)));
        }
    }
    text
}

fn hooks(target: &DeployTarget, config: &Path) -> String {
    let reload = |file: &Path| {
        format!("forkful reload {} --env {}", quoted(&file.to_string_lossy()), quoted(&target.name))
    };
    let name = Path::new(config.file_name().unwrap_or_default());
    // The host may have another repository than the one in which this file is.
    let usual = if config == name {
        reload(name)
    } else {
        let there = quoted(&config.to_string_lossy());
        format!("if [ -e {there} ]; then {}; else {}; fi", reload(config), reload(name))
    };
    let post_deploy = target.hooks.post_deploy.as_deref().unwrap_or(&usual);
    let check = match &target.health {
        None => ":".to_owned(),
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            format!("get {}", quoted(url))
        }
        Some(command) => format!("FORKFUL_HOOK={} sh -c '{HOOK}'", quoted(command)),
    };
    // In separate shells: a hook's settings do not leak, and its first failing command ends it.
    format!(
        "post_deploy() {{ FORKFUL_HOOK={} sh -ec '{HOOK}'; }}\ncheck() {{ {check}; }}\n",
        quoted(post_deploy)
    )
}

fn setup(target: &DeployTarget) -> String {
    let reference = quoted(target.reference.strip_prefix("origin/").unwrap_or(&target.reference));
    let depth =
        if target.shallow { format!(" --depth={SHALLOW_COMMITS} --no-single-branch") } else { String::new() };
    let pre = target.hooks.pre_setup.as_deref().unwrap_or(":");
    let post = target.hooks.post_setup.as_deref().unwrap_or(":");
    let steps = format!(
        "[ ! -e \"$path/source\" ] || fail \"$path/source is there already: it was set up before\"\n\
         git clone --quiet{depth} -- \"$repo\" \"$path/source\" || fail \"$repo cannot be cloned\"\n\
         enter\ncommit=$(resolve {reference}) || fail \"there is no \"{reference}\" in $repo\"\n\
         switch \"$commit\"\n{post}\necho \"set up at $(git log -1 --format='%h %s')\"\n"
    );
    format!("{pre}\nmkdir -p \"$path/shared/logs\" \"$path/shared/pids\"\n{}", locked(&steps))
}

fn update(target: &DeployTarget, reference: &str) -> String {
    let depth = if target.shallow { format!(" --depth={SHALLOW_COMMITS}") } else { String::new() };
    let pre = target.hooks.pre_deploy.as_deref().unwrap_or(":");
    let reference = quoted(reference.strip_prefix("origin/").unwrap_or(reference));
    let steps = format!(
        "git fetch --quiet --tags --force --prune{depth} origin || fail \"$repo cannot be fetched\"\n\
         commit=$(resolve {reference}) || fail \"there is no \"{reference}\" in $repo\"\n\
         {pre}\ndeploy \"$commit\"\n"
    );
    format!("enter\n{}", locked(&steps))
}

/// Steps that only one deployment at a time takes.
fn locked(steps: &str) -> String {
    format!("lock\n{{\n{steps}}} 9>&-\n")
}

/// One shell word.
fn quoted(text: &str) -> String {
    shell_words::quote(text).into_owned()
}
