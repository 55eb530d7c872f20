//! `forkful describe`: everything about apps.

use forkful_api::types::AppList;

use crate::cli::DescribeArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::{self, describe, format};

pub(super) async fn run(home: &Home, args: &DescribeArgs) -> Result<Exit, Failure> {
    let mut found = AppList { apps: Vec::new() };
    let Some(mut client) = connection::running(home).await? else {
        return Err(Failure::no_such_app(args.targets.first().map_or("all", String::as_str)));
    };
    for target in &args.targets {
        let apps = client.describe(target).await?.apps;
        if apps.is_empty() {
            return Err(Failure::no_such_app(target));
        }
        for app in apps {
            if !found.apps.iter().any(|known| known.definition.name == app.definition.name) {
                found.apps.push(app);
            }
        }
    }
    if args.json {
        output::print_json(&found)?;
    } else {
        let now_ms = format::now_ms();
        let texts: Vec<String> =
            found.apps.iter().map(|app| describe::app(app, now_ms, Paint::stdout())).collect();
        output::print(&texts.join("\n"))?;
    }
    Ok(Exit::Done)
}
