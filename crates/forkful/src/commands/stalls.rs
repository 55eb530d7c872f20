//! `forkful stalls`: where apps' event loops were blocked, and the cost.

use forkful_api::stalls::StallsReply;

use super::targets::{client_for, expand};
use crate::cli::StallsArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::{self, stalls};

pub(super) async fn run(home: &Home, args: StallsArgs) -> Result<Exit, Failure> {
    let named = if args.targets.is_empty() { vec!["all".to_owned()] } else { args.targets };
    let targets = expand(home, named, &[]).await?;
    let mut client = client_for(home, &targets).await?;
    let mut found = StallsReply { apps: Vec::new() };
    for target in &targets {
        for app in client.stalls(target).await?.apps {
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
