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
mod dashboard;
mod deploy;
mod describe;
mod doctor;
mod env;
mod events;
mod experiment;
mod export;
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

use crate::cli::{Cli, TargetArgs, Verb};
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};

pub(crate) use daemon::is_wanted as daemon_has_keeper;

/// Becomes the keeper, where the command line asks for that and for nothing else.
pub(crate) fn keeper() -> Option<Result<Exit, Failure>> {
    daemon::keeper_line(std::env::args_os().skip(1))
        .filter(|_| daemon::is_wanted())
        .map(|args| daemon::run(&args))
}

/// Does what the command line says.
pub(crate) fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    match cli.verb {
        Verb::Completion(args) => completion::run(&args),
        Verb::Man(args) => man::run(&args),
        Verb::Init(args) => init::run(&args),
        Verb::Deploy(args) => deploy::run(&args),
        Verb::Validate(args) => validate::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Unstartup(args) => startup::remove(&home::locate()?, &args),
        Verb::Run(args) => run::run(&args),
        Verb::Start(args) if args.no_daemon => run::foreground(&args.app),
        Verb::Bench(args) => bench::run_bench(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Tune(args) => tune::run(&args),
        Verb::Experiment(args) => experiment::run(&args),
        Verb::ServeFiles => serve::files(),
        Verb::Guard(args) => run::guard(&args),
        Verb::Get(args) => settings::get(&home::locate()?, &args),
        Verb::Unset(args) => settings::unset(&home::locate()?, &args),
        Verb::Daemon(args) => daemon::run(&args),
        Verb::Start(args) => connected(async |home| start::run(&home, &args).await),
        Verb::Stop(args) => on_targets(args.into_inner(), act::STOP),
        Verb::Restart(args) => connected(async |home| restart::run(&home, &args, act::RESTART).await),
        Verb::Reload(args) => connected(async |home| restart::run(&home, &args, act::RELOAD).await),
        Verb::Apply(args) => connected(async |home| apply::run(&home, &args).await),
        Verb::Delete(args) => on_targets(args.into_inner(), act::DELETE),
        Verb::Scale(args) => connected(async |home| scale::run(&home, args.into_inner()).await),
        Verb::Complete(args) => on_runtime(async |home| complete::run(&home, &args).await),
        Verb::List(args) => connected(async |home| list::run(&home, &args).await),
        Verb::Jlist(args) => connected(async |home| jlist::run(&home, &args).await),
        Verb::Prettylist(args) => connected(async |home| jlist::pretty(&home, &args).await),
        Verb::Trigger(args) => connected(async |home| trigger::run(&home, args.into_inner()).await),
        Verb::Send(args) => connected(async |home| send::run(&home, args.into_inner()).await),
        Verb::Attach(args) => connected(async |home| attach::run(&home, args.into_inner()).await),
        Verb::Api(args) => on_runtime(async |home| api::run(&home, &args).await),
        Verb::Describe(args) => connected(async |home| describe::run(&home, &args).await),
        Verb::Stalls(args) => connected(async |home| stalls::run(&home, args.into_inner()).await),
        Verb::Events(args) => connected(async |home| events::run(&home, args.into_inner()).await),
        Verb::Doctor(args) => connected(async |home| doctor::run(&home, &args).await),
        Verb::Mcp(args) => on_runtime(async |home| mcp::run(&home, &args).await),
        Verb::Monit(args) => connected(async |home| monit::run(home, &args).await),
        Verb::Metrics(args) => connected(async |home| metrics::run(home, &args).await),
        Verb::Dashboard(args) => connected(async |home| dashboard::run(&home, &args).await),
        Verb::Logs(args) => connected(async |home| logs::run(&home, &args).await),
        Verb::Flush(args) => connected(async |home| act::flush(&home, args.into_inner()).await),
        Verb::ReloadLogs(args) => connected(async |home| act::reload_logs(&home, args.json).await),
        Verb::Signal(args) => connected(async |home| signal::run(&home, args.into_inner()).await),
        Verb::Reset(args) => on_targets(args.into_inner(), act::RESET),
        Verb::Id(args) => connected(async |home| id::run(&home, &args).await),
        Verb::Pid(args) => connected(async |home| pid::run(&home, &args).await),
        Verb::Env(args) => connected(async |home| env::run(&home, &args).await),
        Verb::Report(_) => connected(async |home| report::run(&home).await),
        Verb::Startup(args) => connected(async |home| startup::run(&home, &args).await),
        Verb::Save(args) => connected(async |home| save::run(&home, &args).await),
        Verb::Resurrect(args) => connected(async |home| resurrect::run(&home, &args).await),
        Verb::Cleardump(args) => connected(async |home| cleardump::run(&home, &args).await),
        Verb::Import(args) => connected(async |home| import::run(&home, &args).await),
        Verb::Serve(args) => connected(async |home| serve::run(&home, &args).await),
        Verb::Set(args) => connected(async |home| settings::set(&home, args.into_inner()).await),
        Verb::Multiset(args) => connected(async |home| settings::multiset(&home, &args).await),
        Verb::Conf(args) => connected(async |home| settings::conf(&home, args.into_inner()).await),
        Verb::Ping(args) => on_runtime(async |home| ping::run(&home, &args).await),
        Verb::Kill(args) => on_runtime(async |home| kill::run(&home, &args).await),
        Verb::Update(args) => on_runtime(async |home| update::run(&home, &args).await),
    }
}

/// Does something with the apps that are named, and nothing else.
fn on_targets(args: TargetArgs, words: act::Words<'_>) -> Result<Exit, Failure> {
    connected(async |home| act::on_targets(&home, args, words).await)
}

/// Runs what talks to the daemon, after an older one was updated, if somebody wants that.
fn connected(run: impl AsyncFnOnce(Home) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    on_runtime(async |home| {
        update::offer(&home).await?;
        run(home).await
    })
}

/// Runs something on a single-threaded runtime, which takes microseconds to make.
fn on_runtime(run: impl AsyncFnOnce(Home) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    let home = home::locate()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    // As an object, so that the runtime's code is there once and not for each command.
    let future: Pin<Box<dyn Future<Output = Result<Exit, Failure>>>> = Box::pin(run(home));
    runtime.block_on(future)
}
