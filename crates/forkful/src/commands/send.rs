//! `forkful send`: sends a line to the stdin of an app's workers.

use clap::Args;
use forkful_api::conversation::{StdinRequest, WorkerReply};

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Only workers in fork mode have a stdin. Up to 64 KB are buffered until the worker reads them.

Examples:
  forkful send 0 status
  forkful send console '.exit'")]
pub(crate) struct SendArgs {
    /// Name or id of an app, or `all`.
    #[arg(value_name = "APP")]
    pub(crate) target: String,
    /// The line, without its line end.
    #[arg(allow_hyphen_values = true)]
    pub(crate) line: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: SendArgs) -> Result<Exit, Failure> {
    let Some(mut client) = connection::running(home).await? else {
        return Err(Failure::no_such_app(&args.target));
    };
    let request = StdinRequest { targets: vec![args.target], text: args.line + "\n" };
    let reply = client.stdin(&request).await?;
    if args.json {
        output::print_json(&reply)?;
    } else {
        let sent = reply.workers.iter().filter(|worker| worker.error.is_none());
        output::say(&sent.map(|worker| format!("sent to {}\n", shown(worker))).collect::<String>())?;
        reply.workers.iter().filter_map(refused).for_each(|failure| output::failure::report(&failure));
    }
    let failed = reply.workers.iter().any(|worker| worker.error.is_some());
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Why a worker did not receive it.
pub(super) fn refused(worker: &WorkerReply) -> Option<Failure> {
    let error = worker.error.as_ref()?;
    Some(Failure::new(Exit::Failed, format!("cannot send to {}: {error}", shown(worker))))
}

fn shown(worker: &WorkerReply) -> String {
    format!("{} (worker {})", output::format::visible(&worker.app), worker.pm_id)
}
