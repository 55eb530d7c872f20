//! `forkful describe`: all details of apps.

use clap::Args;
use forkful_api::types::AppList;
use forkful_os::wall_clock::now_ms;

use super::targets::{client_for, described, expand};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::{self, describe};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful describe api
  forkful show 3 --json
  forkful describe api --show-env      with the names of all environment variables")]
pub(crate) struct DescribeArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Show the names of all environment variables.
    #[arg(long, conflicts_with = "json")]
    pub(crate) show_env: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: &DescribeArgs) -> Result<Exit, Failure> {
    let targets = expand(args.targets.clone(), &[])?;
    let mut client = client_for(home, &targets).await?;
    let mut found = AppList { apps: described(&mut client, &targets).await?, notes: Vec::new() };
    if args.json {
        found.apps.iter_mut().for_each(|app| app.definition.redact_secrets());
        output::print_json(&found)?;
    } else {
        let now_ms = now_ms();
        let texts: Vec<String> =
            found.apps.iter().map(|app| describe::app(app, now_ms, args.show_env, Paint::stdout())).collect();
        output::print(&texts.join("\n"))?;
    }
    Ok(Exit::Done)
}
