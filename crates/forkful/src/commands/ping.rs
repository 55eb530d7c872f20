//! `forkful ping`: whether the daemon is running, and its version.

use clap::Args;
use forkful_api::client::{Client, ClientError};
use forkful_os::wall_clock::now_ms;

use crate::connection::{self, VERSION};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{self, format};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful ping || echo no daemon")]
pub(crate) struct PingArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: &PingArgs) -> Result<Exit, Failure> {
    let mut client = match Client::connect_same_version(&home.socket(), VERSION).await {
        Err(error @ ClientError::NotRunning { .. }) => {
            connection::tell_if_abandoned(home);
            return Err(error.into());
        }
        result => result?,
    };
    let ping = client.ping().await?;
    if args.json {
        output::print_json(&ping)?;
    } else {
        let uptime = format::span(now_ms().saturating_sub(ping.started_at_ms));
        let keeper = ping.keeper.map(|keeper| format!(", keeper {keeper}")).unwrap_or_default();
        output::print(&format!("pong: forkful {}, pid {}{keeper}, up {uptime}\n", ping.version, ping.pid))?;
    }
    Ok(Exit::Done)
}
