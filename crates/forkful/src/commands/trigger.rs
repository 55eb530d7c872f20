//! `forkful trigger`: performs an action that apps have registered with `@pm2/io`, and prints the results.

use std::fmt::Write as _;

use clap::Args;
use forkful_api::conversation::{TriggerRequest, WorkersReply};
use serde_json::Value;

use super::targets::{client_for, expand};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::progress::Progress;
use crate::output::{self, format};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful trigger api clear-cache
  forkful trigger api set-level debug
  forkful trigger 3 report '{\"days\": 7}' --timeout 60")]
pub(crate) struct TriggerArgs {
    /// A name, id, namespace, `/pattern/` of names or script of apps, `all`, or a config file.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) target: String,
    /// The action's name.
    pub(crate) action: String,
    /// Its parameter.
    pub(crate) params: Option<String>,
    /// Seconds to wait for answers.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: TriggerArgs) -> Result<Exit, Failure> {
    let targets = expand(vec![args.target], &[])?;
    let mut client = client_for(home, &targets).await?;
    let request = TriggerRequest {
        targets,
        action: args.action,
        params: args.params.map(Value::String),
        timeout_ms: args.timeout * 1000,
    };
    let reply = {
        let _progress = Progress::start(format!("waiting for `{}`…", request.action));
        client.trigger(&request).await
    };
    let reply = reply.map_err(|error| connection::refused_for(error, &client, &request.targets))?;
    if args.json {
        output::print_json(&reply)?;
    } else {
        output::print(&results(&reply))?;
        tell_failures(&reply, &request.action);
    }
    let failed = reply.workers.iter().any(|worker| worker.error.is_some());
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// A line for each worker that answered.
fn results(reply: &WorkersReply) -> String {
    let mut text = String::new();
    for worker in &reply.workers {
        if let Some(result) = &worker.result {
            let name = format::visible(&worker.app);
            writeln!(text, "[{name}:{}]={result}", worker.pm_id).expect("a String takes everything");
        }
    }
    text
}

fn tell_failures(reply: &WorkersReply, action: &str) {
    for worker in &reply.workers {
        if let Some(error) = &worker.error {
            let failure = Failure::new(
                Exit::Failed,
                format!("`{action}` was not performed by {} (worker {}): {error}", worker.app, worker.pm_id),
            );
            output::failure::report(&failure);
        }
    }
}
