//! `forkful stalls`: where apps' event loops were blocked, and the cost.

use clap::Args;
use forkful_api::stalls::StallsReply;

use super::targets::{client_for, expand};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::{self, stalls};

#[derive(Debug, Args)]
#[command(after_help = "\
A blocked event loop serves no requests. Stalls of `stall_threshold` (50ms) or more are grouped by route and
function. The first groups cost the most time, of the event loop and of waiting requests together.

Examples:
  forkful stalls
  forkful stalls api
  forkful stalls api --json | jq '.apps[0].recent'")]
pub(crate) struct StallsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default `all`.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: StallsArgs) -> Result<Exit, Failure> {
    let named = if args.targets.is_empty() { vec!["all".to_owned()] } else { args.targets };
    let targets = expand(named, &[])?;
    let mut client = client_for(home, &targets).await?;
    let mut found = StallsReply { apps: Vec::new() };
    for target in &targets {
        let stalls = client.stalls(target).await;
        for app in stalls.map_err(|error| connection::refused_for(error, &client, &targets))?.apps {
            if found.apps.iter().all(|known| known.app != app.app) {
                found.apps.push(app);
            }
        }
    }
    if args.json {
        output::print_json(&found)?;
    } else {
        let texts: Vec<String> = found.apps.iter().map(|app| stalls::app(app, Paint::stdout())).collect();
        output::print(&texts.join("\n"))?;
    }
    Ok(Exit::Done)
}
