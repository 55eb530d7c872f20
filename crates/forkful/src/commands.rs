//! One file per verb. Each gets its options and the home, and returns how the program exits.

mod act;
mod api;
mod apply;
mod attach;
mod bench;
mod cleardump;
mod compare;
mod complete;
mod completion;
mod daemon;
mod delete;
mod deploy;
mod describe;
mod env;
mod experiment;
mod flush;
mod id;
mod import;
mod init;
mod jlist;
mod kill;
mod lab;
mod list;
mod logs;
mod monit;
mod pid;
mod ping;
mod prettylist;
mod reload;
mod reload_logs;
mod report;
mod reset;
mod restart;
mod resurrect;
mod run;
mod save;
mod scale;
mod send;
mod serve;
mod settings;
mod signal;
mod start;
mod startup;
mod stop;
mod targets;
mod trigger;
mod tune;
mod unsaved;
mod update;
mod validate;

use crate::cli::{Cli, Verb};
use crate::exit::{Exit, Failure};
use crate::home::Home;

/// Does what the command line says.
pub(crate) fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    match cli.verb {
        Verb::Completion(args) => completion::run(&args),
        Verb::Init(args) => init::run(&args),
        Verb::Deploy(args) => deploy::run(&args),
        Verb::Validate(args) => validate::run(&args),
        Verb::Unstartup(args) => startup::remove(&Home::locate()?, &args),
        Verb::Run(args) => run::run(&args),
        Verb::Start(args) if args.no_daemon => run::foreground(&args.app),
        Verb::Bench(args) => bench::run_bench(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Tune(args) => tune::run(&args),
        Verb::Experiment(args) => experiment::run(&args),
        Verb::ServeFiles => serve::files(),
        Verb::Guard(args) => run::guard(&args),
        Verb::Get(args) => settings::get(&Home::locate()?, &args),
        Verb::Unset(args) => settings::unset(&Home::locate()?, &args),
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
            Verb::Apply(args) => apply::run(&home, &args).await,
            Verb::Delete(args) => delete::run(&home, args).await,
            Verb::Scale(args) => scale::run(&home, args).await,
            Verb::Complete(args) => complete::run(&home, &args).await,
            Verb::List(args) => list::run(&home, &args).await,
            Verb::Jlist(args) => jlist::run(&home, &args).await,
            Verb::Prettylist(args) => prettylist::run(&home, &args).await,
            Verb::Trigger(args) => trigger::run(&home, args).await,
            Verb::Send(args) => send::run(&home, args).await,
            Verb::Attach(args) => attach::run(&home, args).await,
            Verb::Api(args) => api::run(&home, &args).await,
            Verb::Describe(args) => describe::run(&home, &args).await,
            Verb::Monit(args) => monit::run(home, &args).await,
            Verb::Logs(args) => logs::run(&home, &args).await,
            Verb::Flush(args) => flush::run(&home, args).await,
            Verb::ReloadLogs(args) => reload_logs::run(&home, &args).await,
            Verb::Signal(args) => signal::run(&home, args).await,
            Verb::Reset(args) => reset::run(&home, args).await,
            Verb::Id(args) => id::run(&home, &args).await,
            Verb::Pid(args) => pid::run(&home, &args).await,
            Verb::Env(args) => env::run(&home, &args).await,
            Verb::Report(_) => report::run(&home).await,
            Verb::Startup(args) => startup::run(&home, &args).await,
            Verb::Save(args) => save::run(&home, &args).await,
            Verb::Resurrect(args) => resurrect::run(&home, &args).await,
            Verb::Cleardump(args) => cleardump::run(&home, &args).await,
            Verb::Import(args) => import::run(&home, &args).await,
            Verb::Serve(args) => serve::run(&home, &args).await,
            Verb::Set(args) => settings::set(&home, args).await,
            Verb::Multiset(args) => settings::multiset(&home, &args).await,
            Verb::Conf(args) => settings::conf(&home, args).await,
            Verb::Ping(args) => ping::run(&home, &args).await,
            Verb::Kill(args) => kill::run(&home, &args).await,
            Verb::Update(args) => update::run(&home, &args).await,
            Verb::Init(_)
            | Verb::Deploy(_)
            | Verb::Validate(_)
            | Verb::Unstartup(_)
            | Verb::Completion(_)
            | Verb::Run(_)
            | Verb::Bench(_)
            | Verb::Compare(_)
            | Verb::Tune(_)
            | Verb::Experiment(_)
            | Verb::ServeFiles
            | Verb::Guard(_)
            | Verb::Get(_)
            | Verb::Unset(_)
            | Verb::Daemon(_) => {
                unreachable!("these need no connection and are dispatched before")
            }
        }
    })
}
