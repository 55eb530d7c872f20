//! One file per verb. Each gets its options and the home, and returns how the program exits.

mod act;
mod completion;
mod daemon;
mod delete;
mod describe;
mod flush;
mod jlist;
mod kill;
mod list;
mod logs;
mod ping;
mod reload;
mod reset;
mod restart;
mod run;
mod scale;
mod signal;
mod start;
mod stop;

use crate::cli::{Cli, Verb};
use crate::exit::{Exit, Failure};
use crate::home::Home;

/// Does what the command line says.
pub(crate) fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    match cli.verb {
        Verb::Completion(args) => completion::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Daemon(args) => daemon::run(&args),
        verb => talk_to_daemon(verb),
    }
}

/// The verbs that need a connection: on a single-threaded runtime, which takes microseconds to make.
fn talk_to_daemon(verb: Verb) -> Result<Exit, Failure> {
    let home = Home::locate()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    runtime.block_on(async {
        match verb {
            Verb::Start(args) => start::run(&home, &args).await,
            Verb::Stop(args) => stop::run(&home, args).await,
            Verb::Restart(args) => restart::run(&home, &args).await,
            Verb::Reload(args) => reload::run(&home, &args).await,
            Verb::Delete(args) => delete::run(&home, args).await,
            Verb::Scale(args) => scale::run(&home, args).await,
            Verb::List(args) => list::run(&home, &args).await,
            Verb::Jlist => jlist::run(&home).await,
            Verb::Describe(args) => describe::run(&home, &args).await,
            Verb::Logs(args) => logs::run(&home, &args).await,
            Verb::Flush(args) => flush::run(&home, args).await,
            Verb::Signal(args) => signal::run(&home, args).await,
            Verb::Reset(args) => reset::run(&home, args).await,
            Verb::Ping(args) => ping::run(&home, &args).await,
            Verb::Kill(args) => kill::run(&home, &args).await,
            Verb::Completion(_) | Verb::Run(_) | Verb::Daemon(_) => {
                unreachable!("these need no connection and are dispatched before")
            }
        }
    })
}
