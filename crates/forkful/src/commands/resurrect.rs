//! `forkful resurrect`: starts saved apps.

use clap::Args;
use forkful_api::client::Client;
use forkful_api::saved::ResurrectRequest;

use super::act::tell;
use super::kill;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::progress::Progress;
use crate::output::{self, outcome};

#[derive(Debug, Args)]
#[command(after_help = "\
Values that were not saved are taken from this command's environment and from the apps' `env_file`.
Existing apps are left unchanged.

Examples:
  forkful resurrect
  forkful resurrect --saved     the apps that `forkful save` wrote")]
pub(crate) struct ResurrectArgs {
    /// Start the apps that `save` wrote, instead of those that ran last.
    #[arg(long)]
    pub(crate) saved: bool,
    /// Return at once instead of when the apps are ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: &ResurrectArgs) -> Result<Exit, Failure> {
    let was_running = connection::found(home).await?.is_some();
    let mut client = connection::begun(home).await?;
    let (env, warnings) = forkful_config::caller_environment();
    for warning in &warnings {
        output::warn(&warning.to_string());
    }
    let request =
        ResurrectRequest { saved: args.saved, env, wait: !args.no_wait, ..ResurrectRequest::default() };
    let reply = {
        let _progress = Progress::start("starting what was saved…".to_owned());
        client.resurrect(&request).await
    };
    match reply {
        Ok(reply) => {
            let groups = if args.no_wait {
                vec![("starting", reply)]
            } else {
                let (started, resting) = outcome::without_resting(reply);
                vec![("resurrected", started), ("resurrected, stopped as before", resting)]
            };
            tell(&mut client, groups, args.json).await
        }
        Err(error) => {
            if !was_running {
                // A daemon that was started without need exits; the next command must not meet it while it
                // exits.
                if let Ok((client, ping)) = Client::connect(&home.socket()).await {
                    drop(kill::end(client, ping.pid).await);
                }
            }
            Err(error.into())
        }
    }
}
