//! Connects to the daemon, and starts it if needed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Once;
use std::time::{Duration, Instant};

use anyhow::Context;
use forkful_api::client::{CONNECT_TIMEOUT, Client, ClientError};
use forkful_api::saved::{SavedApp, SavedState};
use forkful_api::types::{API_VERSION, ErrorCode, Ping};
use forkful_core::pages::Page;
use forkful_core::portable;
use forkful_core::targets::Target;
use forkful_os::identity::{LockFile, READY_FD, spawn_detached};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::timeout;

use crate::exit::{Exit, Failure};
use crate::home::{self, Home};

/// This program's version; the daemon must have the same, or an older one with the same API.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long a daemon may take to become ready: usually milliseconds, longer on a machine that swaps.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// After this time a message says that the daemon does not answer.
const SILENT_WAIT: Duration = Duration::from_secs(2);

/// Interval for checking for a daemon that another command has just started.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// How long a daemon that runs may take to open its socket, if the socket's file was removed. It notices within
/// some 100 ms.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum length of a daemon's readiness message.
const READY_BYTES_MAX: u64 = 64 * 1024;

/// Lines of the daemon's log in an error.
const LOG_LINES_SHOWN: usize = 10;

/// Maximum bytes of the daemon's log to read for that.
const LOG_BYTES_SHOWN: u64 = 64 * 1024;

/// Variables from the caller's environment that the daemon gets. Apps get theirs with the request; the daemon
/// does not need the rest of the caller's environment, which may contain secrets.
const DAEMON_VARIABLES: [&str; 9] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "RUST_BACKTRACE",
    "FORKFUL_WATCHDOG",
    forkful_os::portable::VARIABLE,
];

/// The daemon, if it is running. If it was killed, the user is told that the apps are no longer running.
pub(crate) async fn running(home: &Home) -> Result<Option<Client>, Failure> {
    let client = found(home).await?;
    if client.is_none() {
        tell_if_abandoned(home);
    }
    Ok(client)
}

/// Tells the user once if the daemon was killed.
pub(crate) fn tell_if_abandoned(home: &Home) {
    if forkful_daemon::is_abandoned(home) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            let left = match forkful_daemon::count_left_behind(home) {
                0 => String::new(),
                1 => {
                    " 1 process of its apps still runs, and is ended when the next daemon starts;".to_owned()
                }
                left => format!(
                    " {left} processes of its apps still run, and are ended when the next daemon starts;"
                ),
            };
            crate::output::warn(&format!(
                "the daemon stopped unexpectedly, see {};{left} `forkful resurrect` starts its apps again",
                home.daemon_log().display()
            ));
        });
    }
}

/// The daemon of any version.
pub(crate) async fn of_any_version(home: &Home) -> Result<(Client, Ping), ClientError> {
    let begun = Instant::now();
    loop {
        let result = Client::connect(&home.socket()).await;
        if !is_back_soon(home, &result, begun) {
            return result;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

async fn of_same_version(home: &Home) -> Result<Client, ClientError> {
    let begun = Instant::now();
    loop {
        let result = Client::connect_same_version(&home.socket(), VERSION).await;
        if !is_back_soon(home, &result, begun) {
            return result;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Whether another try may have another result: a daemon without a socket opens the socket again, and a daemon that ended while
/// it was asked is gone, or has a successor, a moment later.
fn is_back_soon<T>(home: &Home, result: &Result<T, ClientError>, begun: Instant) -> bool {
    let ended =
        |source: &io::Error| matches!(source.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    let may_change = match result {
        Err(ClientError::NotRunning { .. }) => LockFile::is_held(&home.lock()),
        Err(ClientError::Connect { source, .. }) => ended(source),
        Err(ClientError::Lost { source, .. }) => !source.is_parse(),
        _ => false,
    };
    may_change && begun.elapsed() < SOCKET_TIMEOUT
}

/// The same for callers that start the apps again and need no message.
pub(crate) async fn found(home: &Home) -> Result<Option<Client>, Failure> {
    match patiently(of_same_version(home)).await {
        Ok(client) => Ok(Some(client)),
        Err(ClientError::NotRunning { .. }) => Ok(None),
        Err(ClientError::OtherVersion { daemon, daemon_api: API_VERSION, .. }) if is_older(&daemon) => {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| {
                crate::output::note(&format!(
                    "the daemon is version {daemon}, this program is {VERSION}: `forkful update` updates the daemon"
                ));
            });
            Ok(Some(Client::connect(&home.socket()).await?.0))
        }
        Err(error) => Err(error.into()),
    }
}

/// A target where no daemon runs, so that it matches no app.
pub(crate) fn no_such_app(home: &Home, target: &str) -> Failure {
    let hint = match home::saved_apps(home) {
        0 => "no app is running; `forkful start app.js` starts one",
        _ => "no app is running; `forkful resurrect` starts the saved apps",
    };
    Failure::no_such_app(target).hint(hint)
}

/// The failure of a target that is no script where no daemon runs: it may be a saved app.
pub(crate) fn or_saved(home: &Home, target: &str, failure: Failure) -> Failure {
    if saved_names(home).iter().any(|name| name == target) {
        return failure
            .hint(format!("no app is running; `forkful resurrect` starts the saved app `{target}`"));
    }
    failure
}

/// Waits for a daemon that may be busy, with a message if it takes long.
async fn patiently<T>(reached: impl Future<Output = T>) -> T {
    let mut reached = pin!(reached);
    if let Ok(reached) = timeout(SILENT_WAIT, reached.as_mut()).await {
        return reached;
    }
    let most = CONNECT_TIMEOUT.as_secs();
    crate::output::note(&format!("the daemon has not answered yet; waiting up to {most} s"));
    reached.await
}

/// The failure of a refused request, which a daemon of an older version may not know.
pub(crate) fn refused(error: ClientError, client: &Client) -> Failure {
    refused_by(client.daemon_version(), error, &[])
}

/// The same for a request about targets.
pub(crate) fn refused_for(error: ClientError, client: &Client, targets: &[String]) -> Failure {
    refused_by(client.daemon_version(), error, targets)
}

/// The same for a daemon of this version.
pub(crate) fn refused_by(daemon: &str, error: ClientError, targets: &[String]) -> Failure {
    // An older daemon takes a text with its folder for the path of a script.
    let is_with_folder = |target: &String| matches!(Target::parse(target), Ok(Target::NameOrScript { .. }));
    let refusal = error.refusal();
    let failure = Failure::from(error);
    let may_be_unknown = match refusal {
        Some(ErrorCode::BadRequest) => failure.hint.is_none(),
        Some(ErrorCode::NoSuchTarget) => targets.iter().any(is_with_folder),
        Some(ErrorCode::Conflict | ErrorCode::Internal) | None => false,
    };
    if !may_be_unknown || !is_older(daemon) {
        return failure;
    }
    let hint = format!(
        "the daemon is version {daemon}, which may not know this request: `forkful update` updates it"
    );
    failure.hint(hint).see(Page::Update)
}

/// Whether a version is older than this program's.
pub(crate) fn is_older(version: &str) -> bool {
    let numbers = |version: &str| -> Option<Vec<u64>> {
        let release = version.split(['-', '+']).next()?;
        release.split('.').map(|number| number.parse().ok()).collect()
    };
    numbers(version).is_some_and(|version| numbers(VERSION).is_some_and(|own| version < own))
}

/// The apps that ran when the last daemon was told to end, for a command that starts a daemon without them: the new daemon saves
/// only its own apps.
#[must_use = "the user is told which apps are not started"]
#[derive(Default)]
pub(crate) struct RanBefore(Vec<String>);

impl RanBefore {
    /// Of a daemon that was killed, [`running`] has told.
    pub(crate) fn of(home: &Home) -> Self {
        Self(if forkful_daemon::is_abandoned(home) { Vec::new() } else { saved_names(home) })
    }

    /// What to tell the user, if these apps are started; `None` if none of the last daemon is missing.
    pub(crate) fn note<'a>(&self, started: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let started: BTreeSet<&str> = started.into_iter().collect();
        let missing: Vec<&str> =
            self.0.iter().map(String::as_str).filter(|name| !started.contains(name)).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "apps of the last daemon that are not started: {}; `forkful resurrect` starts what ran last; without \
                 it, a reboot starts only what runs now",
                missing.join(", ")
            )
        })
    }

    /// Tells the user, if these apps are started.
    pub(crate) fn tell<'a>(&self, started: impl IntoIterator<Item = &'a str>) {
        if let Some(note) = self.note(started) {
            crate::output::note(&note);
        }
    }
}

/// The daemon, started if needed, and the apps that are then not started. Several commands may do this concurrently: the daemon's
/// lock lets only one daemon run, and all commands connect to it.
pub(crate) async fn needed(home: &Home) -> Result<(Client, RanBefore), Failure> {
    or_started(home, running(home).await?).await
}

/// The same for a command that has looked for a running daemon.
pub(crate) async fn or_started(home: &Home, running: Option<Client>) -> Result<(Client, RanBefore), Failure> {
    if let Some(client) = running {
        return Ok((client, RanBefore::default()));
    }
    let ran_before = RanBefore::of(home);
    // If another command has started one meanwhile, these may be its apps.
    if let Some(client) = found(home).await? {
        return Ok((client, RanBefore::default()));
    }
    Ok((started(home).await?, ran_before))
}

fn saved_names(home: &Home) -> Vec<String> {
    let text = fs_err::read(home.state()).ok();
    let state: Option<SavedState> = text.and_then(|text| serde_json::from_slice(&text).ok());
    let apps = state.map(|state| state.apps).unwrap_or_default();
    apps.iter().filter_map(SavedApp::name_in).map(str::to_owned).collect()
}

/// The daemon, started if needed, for callers that start the apps again.
pub(crate) async fn begun(home: &Home) -> Result<Client, Failure> {
    match found(home).await? {
        Some(client) => Ok(client),
        None => started(home).await,
    }
}

/// The daemon that is started now, or that another command starts at the same time.
async fn started(home: &Home) -> Result<Client, Failure> {
    home::create(home)?;
    start(home)?;
    let begun = Instant::now();
    loop {
        // Our daemon may have found the lock held by another one, which is about to open its socket.
        if let Some(client) = found(home).await? {
            return Ok(client);
        }
        if begun.elapsed() > START_TIMEOUT {
            return Err(not_started(home, 0, "it did not open its socket"));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Starts a daemon and waits until it is ready or has reported an error.
fn start(home: &Home) -> Result<(), Failure> {
    let program = std::env::current_exe()
        .context("cannot determine the path of this program")
        .map_err(|e| Failure::caused(Exit::NoDaemon, e))?;
    let mut args = ["daemon", "--ready-fd", &READY_FD.to_string()].map(str::to_owned).to_vec();
    args.extend((!crate::commands::daemon_has_keeper()).then(|| "--no-keeper".to_owned()));
    let logged = std::fs::metadata(home.daemon_log()).map_or(0, |metadata| metadata.len());
    let detached = spawn_detached(&program, &args, &environment(home), &home.daemon_log())
        .context("cannot start the daemon")
        .map_err(|e| Failure::caused(Exit::NoDaemon, e))?;
    match answer(detached.ready).as_deref() {
        Ok("ready\n") => {
            if forkful_os::portable::is_on() {
                crate::output::note(&format!("{}, see {}", portable::NOTE, Page::Portable.url()));
            }
            Ok(())
        }
        Ok("") => Err(not_started(home, logged, "it exited before it was ready")),
        Ok(text) => {
            let reason = text.trim_end();
            Err(not_started(home, logged, reason.strip_prefix("error ").unwrap_or(reason)))
        }
        Err(reason) => Err(not_started(home, logged, reason)),
    }
}

fn environment(home: &Home) -> Vec<(String, String)> {
    let given =
        DAEMON_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    given.chain([("FORKFUL_HOME".to_owned(), home.path().to_string_lossy().into_owned())]).collect()
}

/// Reads the readiness pipe until its end or a complete line.
fn answer(pipe: OwnedFd) -> Result<String, &'static str> {
    let deadline = Instant::now() + START_TIMEOUT;
    let mut pipe = File::from(pipe);
    let mut text = Vec::new();
    while !text.ends_with(b"\n") && (text.len() as u64) < READY_BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err("it did not become ready in time"),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return Err("cannot wait for its readiness"),
            Ok(_) => {}
        }
        let mut chunk = [0; 4096];
        match pipe.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(&chunk[..length]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err("cannot read its readiness"),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The error that the daemon did not start, with what it has written to its log since `logged` bytes.
fn not_started(home: &Home, logged: u64, reason: &str) -> Failure {
    let mut error = anyhow::anyhow!("{reason}").context("the daemon cannot start");
    let said = said_since(home, logged).unwrap_or_default();
    if !said.is_empty() && !said.iter().all(|line| line.contains(reason)) {
        let last = said.len().saturating_sub(LOG_LINES_SHOWN);
        error = anyhow::anyhow!("{reason}\n{}", said[last..].join("\n")).context("the daemon cannot start");
    }
    Failure::caused(Exit::NoDaemon, error)
        .hint(format!("its log is {}", home.daemon_log().display()))
        .see(Page::Daemon)
}

/// What the daemon has written to its log since `logged` bytes, limited to the end of the log.
pub(crate) fn said_since(home: &Home, logged: u64) -> std::io::Result<Vec<String>> {
    let mut file = fs_err::File::open(home.daemon_log())?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(logged.max(length.saturating_sub(LOG_BYTES_SHOWN))))?;
    let mut text = Vec::new();
    file.take(LOG_BYTES_SHOWN).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_is_told_from_the_same_a_newer_one_and_none() {
        for older in ["0.0.7", "0.0.99", "0.0.7-beta.1"] {
            assert!(is_older(older), "{older}");
        }
        for other in [VERSION, "1.0.0", "999.0.0", "", "new"] {
            assert!(!is_older(other), "{other}");
        }
    }

    /// A killed daemon closes its socket a moment after it is seen as gone.
    #[test]
    fn a_daemon_that_ends_while_it_is_asked_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned());
        let listener = std::os::unix::net::UnixListener::bind(home.socket()).unwrap();
        let socket = home.socket();
        let dying = std::thread::spawn(move || {
            // Each connection is tried again once, and then anew.
            for _ in 0..6 {
                drop(listener.accept().unwrap());
            }
            fs_err::remove_file(socket).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert!(runtime.block_on(found(&home)).unwrap().is_none());
        dying.join().unwrap();
    }
}
