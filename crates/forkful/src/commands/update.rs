//! `forkful update`: another daemon, of this program's version, with the same apps.

use std::collections::BTreeMap;

use forkful_api::client::{Client, ClientError};
use forkful_api::saved::ResurrectRequest;
use forkful_api::types::{ActionReply, REQUEST_BYTES_MAX};

use super::act::tell;
use super::kill;
use crate::cli::UpdateArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::output::progress::Progress;

pub(super) async fn run(home: &Home, args: &UpdateArgs) -> Result<Exit, Failure> {
    let (mut client, old) = match Client::connect(&home.socket()).await {
        Ok(found) => found,
        Err(ClientError::NotRunning { .. }) => {
            let nothing = ActionReply { apps: Vec::new() };
            if args.json {
                output::print_json(&nothing)?;
            } else {
                output::say("no daemon is running: the next command starts one of this version\n")?;
            }
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error.into()),
    };
    // Values that came with callers' environments are nowhere but in the daemon's memory. One of another version may not
    // know how to tell them; then what was saved has to do, and `resurrect` names what is missing.
    let env_of = match client.environment("all", true).await {
        Ok(reply) => reply.apps,
        Err(ClientError::Refused { .. } | ClientError::Broken { .. }) => BTreeMap::new(),
        Err(error) => return Err(error.into()),
    };
    // One that cannot tell its apps has some, for all we know.
    let had_apps = client.list().await.map_or(true, |list| !list.apps.is_empty());
    let (env, _) = forkful_config::caller_environment();
    let request = ResurrectRequest { saved: false, env, env_of, wait: !args.no_wait };
    if serde_json::to_vec(&request).map_or(true, |text| text.len() > REQUEST_BYTES_MAX) {
        let error = "the environments of the apps are too large to be handed over; nothing was ended";
        return Err(Failure::new(Exit::Failed, error)
            .hint("`forkful save --with-env`, then `forkful kill` and `forkful resurrect --saved`"));
    }
    kill::end(client, old.pid).await?;
    let mut client = connection::needed(home).await?;
    if !args.json {
        output::say(&format!(
            "the daemon of version {} made way for {}\n",
            old.version,
            connection::VERSION
        ))?;
    }
    if !had_apps {
        return tell(&mut client, vec![("started again", ActionReply { apps: Vec::new() })], args.json).await;
    }
    let reply = {
        let _progress = Progress::start("starting the apps again…".to_owned());
        client.resurrect(&request).await
    };
    match reply {
        Ok(reply) => tell(&mut client, vec![("started again", reply)], args.json).await,
        Err(error) => Err(error.into()),
    }
}
