//! `forkful cleardump`: deletes the saved app list.

use clap::Args;
use forkful_api::saved::ClearReply;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful cleardump")]
pub(crate) struct ClearArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: &ClearArgs) -> Result<Exit, Failure> {
    let reply = match connection::running(home).await? {
        Some(mut client) => client.clear_saved().await?,
        None => without_daemon(home)?,
    };
    if args.json {
        output::print_json(&reply)?;
    } else if reply.removed.is_empty() {
        output::say("nothing was saved\n")?;
    } else {
        output::say(&reply.removed.iter().map(|path| format!("{path} removed\n")).collect::<String>())?;
    }
    Ok(Exit::Done)
}

/// Without a daemon nothing is running that would be saved again, so the last state is deleted too.
fn without_daemon(home: &Home) -> Result<ClearReply, Failure> {
    let mut removed = Vec::new();
    for path in [home.dump(), home.previous_state(), home.state()] {
        match fs_err::remove_file(&path) {
            Ok(()) => removed.push(path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::caused(Exit::Failed, error.into())),
        }
    }
    Ok(ClearReply { removed })
}
