//! One file per command. Each gets its options and the home, and returns the exit code.

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
mod dashboard;
mod deploy;
mod describe;
mod doctor;
mod env;
mod events;
mod experiment;
mod export;
mod heap;
mod id;
mod import;
mod init;
mod jlist;
mod kill;
mod lab;
mod list;
mod logs;
mod man;
mod mcp;
mod metrics;
mod monit;
mod pid;
mod ping;
mod profile_file;
mod profiled;
mod report;
mod restart;
mod resurrect;
mod run;
mod save;
mod scale;
mod send;
mod serve;
mod settings;
mod signal;
mod stalls;
mod start;
mod startup;
mod targets;
mod trigger;
mod tune;
mod unsaved;
mod update;
mod validate;

use std::pin::Pin;

use crate::cli::{Cli, CliCommand, TargetArgs};
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};

pub(crate) use daemon::is_wanted as daemon_has_keeper;
#[cfg(any(test, forkful_fuzzing))]
pub use mcp::fuzzing::requests as fuzz_mcp;

/// Becomes the keeper, if the command line requests exactly that.
pub(crate) fn keeper() -> Option<Result<Exit, Failure>> {
    daemon::keeper_line(std::env::args_os().skip(1))
        .filter(|_| daemon::is_wanted())
        .map(|args| daemon::run(&args))
}

/// Performs the command.
pub(crate) fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    match cli.verb {
        CliCommand::Completion(args) => completion::run(&args),
        CliCommand::Man(args) => man::run(&args),
        CliCommand::Init(args) => init::run(&args),
        CliCommand::Deploy(args) => deploy::run(&args),
        CliCommand::Validate(args) => validate::run(&args),
        CliCommand::Export(args) => export::run(&args),
        CliCommand::Unstartup(args) => startup::remove(&home::locate()?, &args),
        CliCommand::Run(args) => run::run(&args),
        CliCommand::Start(args) if args.no_daemon => run::foreground(&args.app),
        CliCommand::Bench(args) => bench::run_bench(&args),
        CliCommand::Compare(args) => compare::run(&args),
        CliCommand::Tune(args) => tune::run(&args),
        CliCommand::Experiment(args) => experiment::run(&args),
        CliCommand::ServeFiles => serve::files(),
        CliCommand::Guard(args) => run::guard(&args),
        CliCommand::Get(args) => settings::get(&home::locate()?, &args),
        CliCommand::Unset(args) => settings::unset(&home::locate()?, &args),
        CliCommand::Daemon(args) => daemon::run(&args),
        CliCommand::Start(args) => connected(async |home| start::run(&home, &args).await),
        CliCommand::Stop(args) => on_targets(args.into_inner(), act::STOP),
        CliCommand::Restart(args) => connected(async |home| restart::run(&home, &args, act::RESTART).await),
        CliCommand::Reload(args) => connected(async |home| restart::run(&home, &args, act::RELOAD).await),
        CliCommand::Apply(args) => connected(async |home| apply::run(&home, &args).await),
        CliCommand::Delete(args) => on_targets(args.into_inner(), act::DELETE),
        CliCommand::Scale(args) => connected(async |home| scale::run(&home, args.into_inner()).await),
        CliCommand::Complete(args) => on_runtime(async |home| complete::run(&home, &args).await),
        CliCommand::List(args) => connected(async |home| list::run(&home, &args).await),
        CliCommand::Jlist(args) => connected(async |home| jlist::run(&home, &args).await),
        CliCommand::Prettylist(args) => connected(async |home| jlist::pretty(&home, &args).await),
        CliCommand::Trigger(args) => connected(async |home| trigger::run(&home, args.into_inner()).await),
        CliCommand::Send(args) => connected(async |home| send::run(&home, args.into_inner()).await),
        CliCommand::Attach(args) => connected(async |home| attach::run(&home, args.into_inner()).await),
        CliCommand::Api(args) => on_runtime(async |home| api::run(&home, &args).await),
        CliCommand::Describe(args) => connected(async |home| describe::run(&home, &args).await),
        CliCommand::Stalls(args) => connected(async |home| stalls::run(&home, args.into_inner()).await),
        CliCommand::Events(args) => connected(async |home| events::run(&home, args.into_inner()).await),
        CliCommand::Doctor(args) => connected(async |home| doctor::run(&home, &args).await),
        CliCommand::Heap(args) => connected(async |home| heap::run(&home, &args).await),
        CliCommand::Mcp(args) => on_runtime(async |home| mcp::run(&home, &args).await),
        CliCommand::Monit(args) => connected(async |home| monit::run(home, &args).await),
        CliCommand::Metrics(args) => connected(async |home| metrics::run(home, &args).await),
        CliCommand::Dashboard(args) => connected(async |home| dashboard::run(&home, &args).await),
        CliCommand::Logs(args) => connected(async |home| logs::run(&home, &args).await),
        CliCommand::Flush(args) => connected(async |home| act::flush(&home, args.into_inner()).await),
        CliCommand::ReloadLogs(args) => connected(async |home| act::reload_logs(&home, args.json).await),
        CliCommand::Signal(args) => connected(async |home| signal::run(&home, args.into_inner()).await),
        CliCommand::Reset(args) => on_targets(args.into_inner(), act::RESET),
        CliCommand::Id(args) => connected(async |home| id::run(&home, &args).await),
        CliCommand::Pid(args) => connected(async |home| pid::run(&home, &args).await),
        CliCommand::Env(args) => connected(async |home| env::run(&home, &args).await),
        CliCommand::Report(_) => connected(async |home| report::run(&home).await),
        CliCommand::Startup(args) => connected(async |home| startup::run(&home, &args).await),
        CliCommand::Save(args) => connected(async |home| save::run(&home, &args).await),
        CliCommand::Resurrect(args) => connected(async |home| resurrect::run(&home, &args).await),
        CliCommand::Cleardump(args) => connected(async |home| cleardump::run(&home, &args).await),
        CliCommand::Import(args) => connected(async |home| import::run(&home, &args).await),
        CliCommand::Serve(args) => connected(async |home| serve::run(&home, &args).await),
        CliCommand::Set(args) => connected(async |home| settings::set(&home, args.into_inner()).await),
        CliCommand::Multiset(args) => connected(async |home| settings::multiset(&home, &args).await),
        CliCommand::Conf(args) => connected(async |home| settings::conf(&home, args.into_inner()).await),
        CliCommand::Ping(args) => on_runtime(async |home| ping::run(&home, &args).await),
        CliCommand::Kill(args) => on_runtime(async |home| kill::run(&home, &args).await),
        CliCommand::Update(args) => on_runtime(async |home| update::run(&home, &args).await),
    }
}

/// Performs an action on the named apps.
fn on_targets(args: TargetArgs, words: act::Words<'_>) -> Result<Exit, Failure> {
    connected(async |home| act::on_targets(&home, args, words).await)
}

/// Runs a command that uses the daemon, after offering to update an older daemon.
fn connected(run: impl AsyncFnOnce(Home) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    on_runtime(async |home| {
        update::offer(&home).await?;
        run(home).await
    })
}

/// Runs a future on a single-threaded runtime, which takes microseconds to create.
fn on_runtime(run: impl AsyncFnOnce(Home) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    let home = home::locate()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    // A trait object, so that the runtime's code is not duplicated for each command.
    let future: Pin<Box<dyn Future<Output = Result<Exit, Failure>>>> = Box::pin(run(home));
    runtime.block_on(future)
}
