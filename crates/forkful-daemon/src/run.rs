//! The two ways in which the engine runs: as the daemon of a user, and in the foreground.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use forkful_core::foreground::LogPrefix;
use forkful_core::spec::AppSpec;
use forkful_keeper::keeper::TRIAL;
use forkful_os::keeper::{End, Handover, Keeping, Kind, Update};
use forkful_os::tree::Marks;
use forkful_os::{priority, procinfo, tree};

use crate::engine::{self, Engine, EngineOptions, Signals};
use crate::engine::{Started, Written};
use crate::guard::Guard;
use crate::history::History;
use crate::home::Home;
use crate::home_keeper::{self, Hold};
use crate::inherited::{self, ApiSocket, HomeLock, Ready, StateFile};
use crate::left_behind;
use crate::notify::ServiceManager;
use crate::own_log;
use crate::rest::Rest;
use crate::server;
use crate::server::probes::{ProbeAddress, ProbeSocket};

/// The loop works for microseconds at a time, among workers that burn every core.
const SLICE: Duration = Duration::from_micros(500);

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGUSR1: i32 = 10;
const SIGUSR2: i32 = 12;
const SIGTERM: i32 = 15;

/// How the foreground runs.
#[derive(Debug, Clone)]
pub struct ForegroundOptions {
    /// Where the agent is put, and log files go if there are any.
    pub home: Home,
    /// Whether workers' output also goes to files; it always goes to stdout and stderr.
    pub write_log_files: bool,
    /// What stands before each line of the workers.
    pub log_prefix: LogPrefix,
    /// Where the probes of a container platform are answered.
    pub probes: Option<ProbeAddress>,
    /// For how long workers serve on after a signal that asks for a stop, while `/readyz` says no.
    pub shutdown_delay: Duration,
}

/// How the daemon begins.
#[derive(Debug, Default)]
pub struct DaemonOptions {
    /// Gets `ready\n` once it serves, or what kept it from serving.
    pub ready: Option<OwnedFd>,
    /// Start what was saved; under a service manager, which is told when that is done.
    pub resurrect: bool,
    /// The way to the keeper, if there is one.
    pub keeper: Option<OwnedFd>,
}

/// For how long a service manager waits for apps that were saved; then the daemon is ready without them.
const RESURRECT_PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that has ended waits for so long for what its threads are doing, such as a slow resolver.
const THREADS_WITHIN: Duration = Duration::from_secs(1);

/// For how long a daemon that makes way for another program waits for clients to read its last replies.
const FAREWELL: Duration = Duration::from_millis(100);

/// For how long the same daemon waits until the lines that it has read are in the files.
const LINES_MAX: Duration = Duration::from_secs(1);

/// Runs the daemon until it is told to end.
pub fn run_daemon(home: Home, options: DaemonOptions) -> io::Result<()> {
    let DaemonOptions { ready, resurrect, keeper } = options;
    // Before anything comes from the keeper: what finds no free number is lost on the way.
    let _limit = procinfo::raise_open_files_limit();
    own_log::start(true);
    let mut handover = inherited::receive(keeper)?;
    let keeping = handover.keeping.clone();
    let mut ready = Ready::new(ready, &mut handover);
    let on_trial = handover.update == Update::Trial;
    let outcome = serve(home, resurrect, handover, &mut ready);
    if let Err(error) = &outcome {
        log_line!("forkful: {error}");
        own_log::flush();
        ready.tell(&format!("error {error}\n"));
    }
    own_log::flush();
    match outcome {
        Ok(Ended::MadeWay) => Ok(()),
        // The program before goes on.
        Err(error) if on_trial => Err(error),
        // Otherwise, only a daemon that was killed is followed by another one.
        outcome => {
            keeping.leave();
            outcome.map(drop)
        }
    }
}

/// How a daemon has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    WithItsApps,
    /// Another program goes on with them.
    MadeWay,
}

/// What a daemon begins with, once the home is its own.
struct Beginning {
    lock: HomeLock,
    marks: Marks,
    /// Where it writes down what another daemon needs to go on.
    state: Option<StateFile>,
    /// What the daemon before has written down there.
    written: Option<Written>,
}

impl Beginning {
    /// `None` when another daemon has the home.
    fn new(home: &Home, handover: &mut Handover) -> io::Result<Option<Self>> {
        let Some(lock) = HomeLock::take(home, handover)? else { return Ok(None) };
        prepare_process();
        forkful_os::cgroup::leave_others();
        forkful_os::process::ignore_hangup()?;
        tell_beginning(handover);
        let (state, written) = StateFile::take(handover);
        let marks = written.as_ref().and_then(Written::marks);
        let (marks, written) = if let Some(marks) = marks {
            (marks, written)
        } else if handover.update == Update::Trial {
            return Err(io::Error::other("this version cannot go on from what was written down"));
        } else {
            // What was kept is of no use; clients wait at the same socket.
            handover.kept.retain(|kept| kept.name.kind == Kind::Api);
            (left_behind::take_over(home), None)
        };
        Ok(Some(Self { lock, marks, state, written }))
    }
}

fn serve(home: Home, resurrect: bool, mut handover: Handover, ready: &mut Ready) -> io::Result<Ended> {
    crate::panic::end_the_process();
    home.create()?;
    home_keeper::find_own_log(&home);
    let Some(beginning) = Beginning::new(&home, &mut handover)? else {
        if resurrect {
            // A service whose daemon is another one's would end at once and look like a failure of ours.
            let error = format!("another daemon holds {}", home.lock().display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, error));
        }
        // Another daemon won the race: as good as ready.
        ready.tell("ready\n");
        return Ok(Ended::WithItsApps);
    };
    on_loop(serve_home(home, resurrect, (beginning, handover), ready))
}

async fn serve_home(
    home: Home,
    resurrect: bool,
    (beginning, mut handover): (Beginning, Handover),
    ready: &mut Ready,
) -> io::Result<Ended> {
    // One that has started nothing leaves nothing behind.
    let leave = |_: &io::Error| left_behind::leave(&home);
    let Beginning { lock, marks, state, written } = beginning;
    let (instance, keeping) = (marks.instance().to_string(), handover.keeping.clone());
    let ApiSocket { listener, hold: api } = ApiSocket::take(&home, &mut handover).inspect_err(leave)?;
    let rest = Rest::begin();
    let options = EngineOptions {
        agent: install_agent(&home),
        home: home.clone(),
        echo: None,
        write_log_files: true,
        shutdown_delay: Duration::ZERO,
        keeping: keeping.clone(),
        history: History::take(&mut handover),
        rest: rest.clone(),
    };
    let (mut engine, mut back) = Engine::new(options, marks).inspect_err(leave)?;
    state.into_iter().for_each(|state| engine.write_to(state));
    let (sender, mut commands) = engine::command_queue();
    let mut signals = Signals::listen(&[SIGTERM, SIGINT, SIGQUIT], &[SIGUSR2])?;
    // Without what was written down, the apps of the daemon before have ended with it.
    let revives = written.is_none() && (resurrect || handover.died > 0);
    if let Some(written) = written {
        engine.take_up(written, std::mem::take(&mut handover.kept));
    }
    let server = tokio::task::spawn_local(server::serve(listener, sender.clone(), rest.clone()));
    left_behind::note_instance(&home, &instance);
    let hold = Hold::new(home.clone(), instance, (lock, api, keeping.clone()), (server, rest));
    let keeper = tokio::task::spawn_local(home_keeper::keep(Rc::clone(&hold), sender));
    ready.tell("ready\n");
    keeping.serves();
    let manager = ServiceManager::from_environment(keeping.clone()).map(Rc::new);
    let revived = revives.then(|| engine.resurrect_now());
    if let Some(manager) = &manager {
        tokio::task::spawn_local(attend(Rc::clone(manager), revived));
    }
    let outcome = engine.run(&mut commands, &mut back, &mut signals, false).await;
    keeper.abort();
    let _ended = keeper.await;
    if let Some(program) = engine.successor() {
        drop(commands);
        // Clients that read slowly ask again. On a slow disk, lines that are written later may come again from the next daemon.
        let farewell = tokio::time::timeout(FAREWELL, hold.finish());
        let _late = tokio::join!(farewell, tokio::time::timeout(LINES_MAX, engine.rest_logs()));
        keeping.make_way(&program);
        // Nothing of it is closed, removed or let go of: all of it is the next daemon's.
        std::mem::forget((engine, hold));
        return Ok(Ended::MadeWay);
    }
    if let Some(manager) = &manager {
        manager.tell("STOPPING=1");
    }
    // The loop does not turn any more, and a slow disk may take its time: that is no hang.
    keeping.leave();
    if !hold.is_lost() {
        let _gone = fs_err::remove_file(home.socket());
    }
    // Every note and every state is written before the next daemon may come.
    drop(engine);
    if outcome.is_ok() && !hold.is_lost() {
        left_behind::leave(&home);
    }
    // Replies that are under way reach their clients; then the next daemon may come.
    drop(commands);
    hold.finish().await;
    drop(hold);
    outcome.map(|()| Ended::WithItsApps)
}

/// Says in the log what this daemon follows.
fn tell_beginning(handover: &Handover) {
    let how = in_words(handover.last);
    match handover.update {
        Update::Trial => log_line!("forkful: version {} takes the daemon's place", env!("CARGO_PKG_VERSION")),
        Update::Undone => log_line!(
            "forkful: the update is undone, version {} goes on: the new daemon did not last {} s ({how})",
            env!("CARGO_PKG_VERSION"),
            TRIAL.as_secs()
        ),
        Update::None if handover.died > 0 => {
            log_line!("forkful: the daemon before ended unexpectedly ({how}); this one takes its place");
        }
        Update::None => {}
    }
}

fn in_words(end: End) -> String {
    match end {
        End::Code(code) => format!("code {code}"),
        End::Signal(signal) => forkful_core::slot::Exit::Signal(signal).to_string(),
        End::Unknown => "nobody knows how".to_owned(),
    }
}

/// Runs apps in the foreground until they have ended; returns the exit code to pass on.
pub fn run_foreground(specs: Vec<AppSpec>, options: ForegroundOptions) -> io::Result<i32> {
    crate::panic::end_the_process();
    own_log::start(false);
    options.home.create()?;
    prepare_process();
    let outcome = on_loop(async move {
        let probes = match &options.probes {
            Some(address) => Some(ProbeSocket::bind(address).await?),
            None => None,
        };
        let agent = install_agent(&options.home);
        let marks = tree::Marks::new();
        // Dropped last, when nothing is left.
        let _guard = Guard::start(marks.instance());
        let engine_options = EngineOptions {
            agent,
            home: options.home,
            echo: Some(options.log_prefix),
            write_log_files: options.write_log_files,
            shutdown_delay: options.shutdown_delay,
            keeping: Keeping::default(),
            history: History::new(&Keeping::default()),
            rest: Rest::begin(),
        };
        let (mut engine, mut back) = Engine::new(engine_options, marks)?;
        let (sender, mut commands) = engine::command_queue();
        if let Some(socket) = probes {
            tokio::task::spawn_local(server::probes::serve(socket, sender.clone()));
        }
        let mut signals = Signals::listen(&[SIGTERM, SIGINT, SIGQUIT], &[SIGHUP, SIGUSR1, SIGUSR2])?;
        let manager = ServiceManager::from_environment(Keeping::default()).map(Rc::new);
        let started = engine.start_now(specs);
        if let Some(manager) = &manager {
            tokio::task::spawn_local(attend(Rc::clone(manager), Some(started)));
        }
        engine.run(&mut commands, &mut back, &mut signals, true).await?;
        Ok(engine.exit_code())
    });
    own_log::flush();
    outcome
}

/// What a service manager hears of: that the apps are up, and from then on that the loop turns.
async fn attend(manager: Rc<ServiceManager>, apps: Option<Started>) {
    let mut status = "serving".to_owned();
    if let Some(apps) = apps {
        match tokio::time::timeout(RESURRECT_PATIENCE, apps).await {
            Ok(Ok(Ok(reply))) => {
                let (up, down): (Vec<_>, Vec<_>) = reply.apps.iter().partition(|app| app.ok);
                status = format!("{} apps started", up.len());
                for app in &down {
                    let why = app.error.as_deref().unwrap_or("did not start");
                    log_line!("forkful: {}: {why}", app.name);
                }
                if !down.is_empty() {
                    status = format!("{status}, {} failed", down.len());
                }
                for (app, note) in
                    reply.apps.iter().flat_map(|app| app.notes.iter().map(move |note| (app, note)))
                {
                    log_line!("forkful: {}: {note}", app.name);
                }
            }
            Ok(Ok(Err(refusal))) => status = refusal.error,
            Ok(Err(_)) | Err(_) => {}
        }
    }
    // A line break would begin another assignment of the protocol.
    manager.tell(&format!("READY=1\nSTATUS={}", forkful_core::foreign::visible(&status, &[])));
    if let Some(pause) = manager.pulse() {
        loop {
            manager.tell("WATCHDOG=1");
            tokio::time::sleep(pause).await;
        }
    }
}

fn prepare_process() {
    // Each of these makes things better where it is permitted, and is no loss where it is not.
    let _limited = forkful_os::process::prepare_long_life();
    let _ignored = forkful_os::process::ignore_stray_signals();
    if forkful_os::portable::is_on() {
        log_line!(
            "forkful: {}, see {}",
            forkful_core::portable::NOTE,
            forkful_core::pages::Page::Portable.url()
        );
    }
    if let Err(error) = tree::set_subreaper() {
        log_line!("forkful: orphans of workers cannot be adopted: {error}");
    }
    let _granted = priority::request_short_slice(SLICE);
}

fn on_loop<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = tokio::task::LocalSet::new().block_on(&runtime, work);
    // A name that is being looked up for an alert cannot be called off.
    runtime.shutdown_timeout(THREADS_WITHIN);
    done
}

fn install_agent(home: &Home) -> Option<std::path::PathBuf> {
    home.install_agent()
        .map_err(|error| log_line!("forkful: the agent is not there, so drains are less exact: {error}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_does_not_hold_up_the_end() {
        let (let_go, hangs) = std::sync::mpsc::channel::<()>();
        let work = async {
            let (begin, begun) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _awaited = begin.send(());
                let _hung = hangs.recv();
            });
            begun.await.map_err(io::Error::other)
        };
        on_loop(work).unwrap();
        drop(let_go);
    }
}
