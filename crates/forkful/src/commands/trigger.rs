//! `forkful trigger`: performs an action that apps have registered with `@pm2/io`, and prints the results.

use std::fmt::Write as _;

use forkful_api::conversation::{TriggerRequest, WorkersReply};
use serde_json::Value;

use super::targets::{client_for, expand};
use crate::cli::TriggerArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::progress::Progress;
use crate::output::{self, format};

pub(super) async fn run(home: &Home, args: TriggerArgs) -> Result<Exit, Failure> {
    let targets = expand(home, vec![args.target], &[]).await?;
    let mut client = client_for(home, &targets).await?;
    let request = TriggerRequest {
        targets,
        action: args.action,
        params: args.params.map(Value::String),
        timeout_ms: args.timeout * 1000,
    };
    let reply = {
        let _progress = Progress::start(format!("waiting for `{}`…", request.action));
        client.trigger(&request).await?
    };
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
