//! The two ways in which the engine runs: as the daemon of a user, and in the foreground.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::time::Duration;

use forkful_core::spec::AppSpec;
use forkful_os::identity::LockFile;
use forkful_os::{priority, procinfo, tree};

use crate::engine::Started;
use crate::engine::{self, Engine, EngineOptions, Signals};
use crate::guard::Guard;
use crate::home::Home;
use crate::home_keeper::{self, Hold};
use crate::left_behind;
use crate::notify::ServiceManager;
use crate::own_log;
use crate::server;

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
}

/// How the daemon begins.
#[derive(Debug, Default)]
pub struct DaemonOptions {
    /// Gets `ready\n` once it serves, or what kept it from serving.
    pub ready: Option<OwnedFd>,
    /// Start what was saved; under a service manager, which is told when that is done.
    pub resurrect: bool,
}

/// For how long a service manager waits for apps that were saved; then the daemon is ready without them.
const RESURRECT_PATIENCE: Duration = Duration::from_secs(60);

/// Runs the daemon until it is told to end.
pub fn run_daemon(home: Home, options: DaemonOptions) -> io::Result<()> {
    let DaemonOptions { mut ready, resurrect } = options;
    let mut tell = move |text: &str| {
        if let Some(pipe) = ready.take() {
            // The command that started us may be gone; then nobody wants to know.
            let _gone = std::fs::File::from(pipe).write_all(text.as_bytes());
        }
    };
    own_log::start(true);
    let outcome = serve(home, resurrect, &mut tell);
    if let Err(error) = &outcome {
        log_line!("forkful: {error}");
        own_log::flush();
        tell(&format!("error {error}\n"));
    }
    own_log::flush();
    outcome
}

fn serve(home: Home, resurrect: bool, tell: &mut dyn FnMut(&str)) -> io::Result<()> {
    crate::panic::end_the_process();
    home.create()?;
    let Some(lock) = LockFile::acquire(&home.lock())? else {
        if resurrect {
            // A service whose daemon is another one's would end at once and look like a failure of ours.
            let error = format!("another daemon holds {}", home.lock().display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, error));
        }
        // Another daemon won the race: as good as ready.
        tell("ready\n");
        return Ok(());
    };
    prepare_process();
    forkful_os::cgroup::leave_others();
    forkful_os::process::ignore_hangup()?;
    let marks = left_behind::take_over(&home);
    let instance = marks.instance().to_string();
    on_loop(async move {
        // One that has started nothing leaves nothing behind.
        let leave = |_: &io::Error| left_behind::leave(&home);
        let listener = bind_socket(&home).inspect_err(leave)?;
        let options = EngineOptions {
            agent: install_agent(&home),
            home: home.clone(),
            echo: false,
            write_log_files: true,
        };
        let (mut engine, mut back) = Engine::new(options, marks).inspect_err(leave)?;
        let (sender, mut commands) = engine::command_queue();
        let mut signals = Signals::listen(&[SIGTERM, SIGINT, SIGQUIT], &[SIGUSR2])?;
        let server = tokio::task::spawn_local(server::serve(listener, sender.clone()));
        let hold = Hold::new(home.clone(), instance, lock, server);
        let keeper = tokio::task::spawn_local(home_keeper::keep(Rc::clone(&hold), sender));
        tell("ready\n");
        let manager = ServiceManager::from_environment().map(Rc::new);
        let revived = resurrect.then(|| engine.resurrect_now());
        if let Some(manager) = &manager {
            tokio::task::spawn_local(attend(Rc::clone(manager), revived));
        }
        let outcome = engine.run(&mut commands, &mut back, &mut signals, false).await;
        if let Some(manager) = &manager {
            manager.tell("STOPPING=1");
        }
        keeper.abort();
        let _ended = keeper.await;
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
        outcome
    })
}

/// Runs apps in the foreground until they have ended; returns the exit code to pass on.
pub fn run_foreground(specs: Vec<AppSpec>, options: ForegroundOptions) -> io::Result<i32> {
    crate::panic::end_the_process();
    own_log::start(false);
    options.home.create()?;
    prepare_process();
    let outcome = on_loop(async move {
        let agent = install_agent(&options.home);
        let marks = tree::Marks::new();
        // Dropped last, when nothing is left.
        let _guard = Guard::start(marks.instance());
        let engine_options =
            EngineOptions { agent, home: options.home, echo: true, write_log_files: options.write_log_files };
        let (mut engine, mut back) = Engine::new(engine_options, marks)?;
        let (_sender, mut commands) = engine::command_queue();
        let mut signals = Signals::listen(&[SIGTERM, SIGINT, SIGQUIT], &[SIGHUP, SIGUSR1, SIGUSR2])?;
        let manager = ServiceManager::from_environment().map(Rc::new);
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
    manager.tell(&format!("READY=1\nSTATUS={status}"));
    if let Some(pause) = ServiceManager::pulse() {
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
    if let Err(error) = tree::set_subreaper() {
        log_line!("forkful: orphans of workers cannot be adopted: {error}");
    }
    let _limit = procinfo::raise_open_files_limit();
    let _granted = priority::request_short_slice(SLICE);
}

fn on_loop<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

pub(crate) fn bind_socket(home: &Home) -> io::Result<tokio::net::UnixListener> {
    let path = home.socket();
    // We hold the lock, so a socket that is there belongs to a daemon that is gone.
    let _gone = fs_err::remove_file(&path);
    let listener = tokio::net::UnixListener::bind(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot bind {}: {error}", path.display())))?;
    // The folder is private already; this is for a home that was made otherwise.
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn install_agent(home: &Home) -> Option<std::path::PathBuf> {
    home.install_agent()
        .map_err(|error| log_line!("forkful: the agent is not there, so drains are less exact: {error}"))
        .ok()
}
