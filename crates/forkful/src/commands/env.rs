//! `forkful env`: the environment of apps' workers, with secrets masked.

use std::collections::BTreeMap;

use clap::Args;
use forkful_api::conversation::EnvironmentReply;

use super::targets::{client_for, expand};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{self, format};

#[derive(Debug, Args)]
#[command(after_help = "\
Values are masked if their name or their form suggests a secret.

Examples:
  forkful env api
  forkful env 0 --show-secrets | grep DATABASE_URL")]
pub(crate) struct EnvArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Show secrets too.
    #[arg(long)]
    pub(crate) show_secrets: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: &EnvArgs) -> Result<Exit, Failure> {
    let targets = expand(args.targets.clone(), &[])?;
    let mut client = client_for(home, &targets).await?;
    let mut reply = EnvironmentReply { apps: BTreeMap::new() };
    for target in &targets {
        let found = client.environment(target, args.show_secrets).await;
        let found = found.map_err(|error| connection::refused_for(error, &client, &targets))?;
        reply.apps.extend(found.apps);
    }
    if args.json {
        output::print_json(&reply)?;
        return Ok(Exit::Done);
    }
    let several = reply.apps.len() > 1;
    let mut text = String::new();
    for (app, variables) in &reply.apps {
        if several {
            text.push_str(&format!("{}\n", format::visible(app)));
        }
        for (name, value) in variables {
            text.push_str(&format!("{}: {}\n", format::visible(name), format::visible(value)));
        }
    }
    output::print(&text)?;
    Ok(Exit::Done)
}
