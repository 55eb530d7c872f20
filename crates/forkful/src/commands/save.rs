//! `forkful save`: writes the desired state to a separate file for `resurrect --saved`.

use clap::Args;
use forkful_api::saved::SaveRequest;
use forkful_core::pages::Page;
use forkful_core::spec::environment::has_secret_name;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::output::format::{count, shortened};

#[derive(Debug, Args)]
#[command(after_help = "\
The app list is saved automatically at every change, in $FORKFUL_HOME/state.json. `save` writes a
copy that `resurrect --saved` restores. Values from your environment are not saved, except harmless
ones such as PATH: put them into a file named by `env_file`, or save them with --with-env.

Examples:
  forkful save
  forkful save --with-env")]
pub(crate) struct SaveArgs {
    /// Save even if there is no app.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// From now on also save values from the environment of `start`.
    #[arg(long)]
    pub(crate) with_env: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: &SaveArgs) -> Result<Exit, Failure> {
    let Some(mut client) = connection::running(home).await? else {
        return Err(Failure::new(Exit::Failed, "no daemon is running, so there is nothing to save")
            .hint("what ran last is saved already; `forkful resurrect` starts it")
            .see(Page::Saved));
    };
    let reply = client.save(&SaveRequest { with_env: args.with_env, force: args.force }).await?;
    if args.json {
        output::print_json(&reply)?;
        return Ok(Exit::Done);
    }
    output::say(&format!("{} saved in {}\n", count(reply.apps.len(), "app"), reply.path))?;
    let left_out: Vec<_> = reply.apps.iter().map(|app| (app, worth_telling(&app.left_out))).collect();
    for (app, names) in left_out.iter().filter(|(_, names)| !names.is_empty()) {
        output::note(&format!("{}: values that are not saved: {}", app.name, shortened(names)));
    }
    if left_out.iter().any(|(_, names)| !names.is_empty()) {
        output::note("put what the apps need into a file that `env_file` names, or save it with --with-env");
    }
    Ok(Exit::Done)
}

/// Variables of the shell that are useless to an app.
const SHELL_VARIABLES: &[&str] =
    &["_", "COLORTERM", "LS_COLORS", "OLDPWD", "PWD", "SHLVL", "TERM", "FORKFUL_HOME", "DISPLAY"];

/// Variables that an app may miss, secrets first.
fn worth_telling(names: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !SHELL_VARIABLES.contains(name)).collect();
    names.sort_by_key(|name| !has_secret_name(name));
    names
}
