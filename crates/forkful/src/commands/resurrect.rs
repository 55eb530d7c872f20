//! `forkful resurrect`: starts saved apps.

use forkful_api::client::Client;
use forkful_api::saved::ResurrectRequest;

use super::act::tell;
use super::kill;
use crate::cli::ResurrectArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::output::progress::Progress;

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
            let done = if args.no_wait { "starting" } else { "resurrected" };
            tell(&mut client, vec![(done, reply)], args.json).await
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
