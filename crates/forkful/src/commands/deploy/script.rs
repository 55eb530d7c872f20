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
        Order::Revert(steps) => {
            let steps = locked(&format!("revert_deployments {steps}\n"));
            format!("enter\n{}{steps}", client_of(target))
        }
        Order::List => "enter\nlist_deployments\n".to_owned(),
        Order::Show(steps) => format!("enter\nshow_deployment {steps}\n"),
        Order::Exec(command) => format!("enter\ncd \"$path/current\"\n{}\n", run_hook("-ec", command)),
    });
    text
}

fn variables(target: &DeployTarget) -> String {
    let path = match target.path.strip_prefix("~") {
        Some(rest) => format!("\"$HOME\"{}", quoted(rest)),
        None => quoted(&target.path),
    };
    let seconds = target.health_timeout.unwrap_or(HEALTH_TIMEOUT).as_secs().max(1);
    format!(
        "path={path}\nrepo={}\nrollback={}\nhealth_seconds={seconds}\n",
        quoted(&target.repo),
        if target.rollback { "yes" } else { "no" },
    )
}

/// A function that runs a command with the target's variables, in a shell of its own.
fn in_env(target: &DeployTarget) -> String {
    let is_name = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    // Names that a shell does not accept cannot be exported; they matter only to the app.
    let exports: String = target
        .env
        .iter()
        .filter(|(name, _)| is_name(name))
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
        .collect();
    format!("in_env() (\n{exports}\"$@\"\n)\n")
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
        Some(health) if is_url(health) => format!("in_env get {}", quoted(health)),
        Some(command) => run_hook("-c", command),
    };
    // The first failing command of a hook ends it.
    format!(
        "{}start_hook() {{ FORKFUL_HOOK=$2; export FORKFUL_HOOK; exec sh \"$1\" '{HOOK}'; }}\n\
         post_deploy() {{ {}; }}\ncheck() {{ {check}; }}\n",
        in_env(target),
        run_hook("-ec", post_deploy)
    )
}

fn is_url(health: &str) -> bool {
    health.starts_with("http://") || health.starts_with("https://")
}

/// The command that runs a hook with this option of the shell.
fn run_hook(option: &str, hook: &str) -> String {
    format!("run_hook {option} {}", quoted(hook))
}

/// A hook as a step, with what happens when it fails; nothing without a hook.
fn step(name: &str, hook: Option<&str>, otherwise: &str) -> String {
    let line =
        |hook| format!("{} || {otherwise} \"{name} ended with exit code $?\"\n", run_hook("-ec", hook));
    hook.map(line).unwrap_or_default()
}

fn setup(target: &DeployTarget) -> String {
    let reference = quoted(target.reference.strip_prefix("origin/").unwrap_or(&target.reference));
    let depth =
        if target.shallow { format!(" --depth={SHALLOW_COMMITS} --no-single-branch") } else { String::new() };
    let pre = step("pre-setup", target.hooks.pre_setup.as_deref(), "fail");
    let post = step("post-setup", target.hooks.post_setup.as_deref(), "undo_setup");
    let steps = format!(
        "[ ! -e \"$path/source\" ] || fail \"$path/source is there already: it was set up before\"\n\
         git clone --quiet{depth} -- \"$repo\" \"$path/source\" || fail \"$repo cannot be cloned\"\n\
         enter\ncommit=$(resolve {reference}) || undo_setup \"there is no \"{reference}\" in $repo\"\n\
         switch \"$commit\" || undo_setup \"$commit cannot be checked out\"\n\
         {post}echo \"set up at $(git log -1 --format='%h %s')\"\n"
    );
    format!("{pre}mkdir -p \"$path/shared/logs\" \"$path/shared/pids\"\n{}", locked(&steps))
}

/// Without a client for the health check, a deployment ends before it has changed anything.
fn client_of(target: &DeployTarget) -> String {
    match target.health.as_deref() {
        Some(url) if is_url(url) => format!("in_env need_client {}\n", quoted(url)),
        _ => String::new(),
    }
}

fn update(target: &DeployTarget, reference: &str) -> String {
    let depth = if target.shallow { format!(" --depth={SHALLOW_COMMITS}") } else { String::new() };
    let client = client_of(target);
    let pre = step("pre-deploy", target.hooks.pre_deploy.as_deref(), "fail");
    let reference = quoted(reference.strip_prefix("origin/").unwrap_or(reference));
    let steps = format!(
        "git fetch --quiet --tags --force --prune{depth} origin || fail \"$repo cannot be fetched\"\n\
         commit=$(resolve {reference}) || fail \"there is no \"{reference}\" in $repo\"\n\
         {pre}deploy \"$commit\"\n"
    );
    format!("enter\n{client}{}", locked(&steps))
}

/// Steps that only one deployment at a time takes.
fn locked(steps: &str) -> String {
    format!("lock\n{{\n{steps}}} 9>&-\n")
}

/// One shell word.
fn quoted(text: &str) -> String {
    shell_words::quote(text).into_owned()
}
