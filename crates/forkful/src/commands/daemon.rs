//! `forkful daemon`: this process becomes the keeper, which keeps a daemon running, or with `--no-keeper` the
//! daemon itself. Other commands start it in this way; `--ready-fd` is the pipe on which the daemon reports
//! that it is ready, or why it failed.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use clap::Args;
use forkful_daemon::DaemonOptions;
use forkful_keeper::KeeperPlan;
use forkful_os::identity::{LockFile, READY_FD, take_inherited_fd};
use forkful_os::process::{own_program, set_name};

use crate::exit::{Exit, Failure};
use crate::home::{self, Home};
use crate::output;

#[derive(Debug, Default, Args)]
pub(crate) struct DaemonArgs {
    /// Descriptor of the pipe for reporting readiness or an error.
    #[arg(long, value_name = "FD")]
    pub(crate) ready_fd: Option<i32>,
    /// Start the saved apps; for service managers, which are notified when this is done.
    #[arg(long)]
    pub(crate) resurrect: bool,
    /// Become the daemon itself, without a keeper. The keeper restarts the daemon when it dies, and hands the
    /// apps over to the new one. `FORKFUL_KEEPER=0` does the same, also for the daemon that other commands
    /// start.
    #[arg(long)]
    pub(crate) no_keeper: bool,
    /// Descriptor of the connection to the keeper; set by the keeper.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) keeper_fd: Option<i32>,
    /// Descriptor of the data that a keeper of another version hands over; set by that keeper.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) passage: Option<i32>,
    /// Report whether this version can continue from a daemon's saved state, in the file of this descriptor.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) check_state: Option<i32>,
    /// The newest state format that that daemon can read.
    #[arg(long, value_name = "VERSION", default_value_t = 0, hide = true)]
    pub(crate) way_back: u16,
}

/// A daemon's event loop responds in milliseconds, or more slowly on a machine that swaps.
const PATIENCE_SECONDS: u64 = 10;

/// The variables of `sd_listen_fds(3)`, and the number of their first descriptor.
const LISTEN: &str = "LISTEN_";
const LISTEN_FIRST: i32 = 3;
/// Prefix of the names under which the keeper stores sockets.
const STORED: &str = "forkful-";

pub(super) fn run(args: &DaemonArgs) -> Result<Exit, Failure> {
    set_name();
    let ready = inherited(args.ready_fd, "readiness pipe")?;
    if let Some(state) = inherited(args.check_state, "written-down state")? {
        let refused = |why| Failure::new(Exit::Failed, why);
        return forkful_daemon::check_state(&state, args.way_back).map(|()| Exit::Done).map_err(refused);
    }
    // A service fails instead, and so does a daemon that another command starts.
    let is_by_hand = ready.is_none() && !args.resurrect && args.keeper_fd.is_none() && args.passage.is_none();
    if is_by_hand && runs_already(&home::locate()?) {
        return Ok(Exit::Done);
    }
    if args.keeper_fd.is_none() && !args.no_keeper && is_wanted() {
        return keep(args, ready);
    }
    let home = home::locate()?;
    home::create(&home)?;
    let keeper = inherited(args.keeper_fd, "keeper's socket")?;
    let options = DaemonOptions { ready, resurrect: args.resurrect, keeper };
    forkful_daemon::run_daemon(home, options).map_err(|e| Failure::caused(Exit::NoDaemon, e.into()))?;
    Ok(Exit::Done)
}

/// Whether there is a daemon, which the user is told: a second one does not start beside it.
fn runs_already(home: &Home) -> bool {
    let runs = LockFile::is_held(&home.lock());
    if runs {
        let holder = fs_err::read_to_string(home.lock()).unwrap_or_default();
        output::note(&format!("a daemon is running already (pid {})", holder.trim()));
    }
    runs
}

/// Whether daemons get a keeper, according to the environment and the system.
pub(crate) fn is_wanted() -> bool {
    !forkful_os::portable::is_on() && std::env::var_os("FORKFUL_KEEPER").is_none_or(|wish| wish != "0")
}

/// Parses a keeper's command line as written by other commands and services. It avoids the general parser,
/// which would use more memory than the keeper itself; all other command lines are left to that parser.
pub(super) fn keeper_line(mut words: impl Iterator<Item = OsString>) -> Option<DaemonArgs> {
    if words.next()? != "daemon" {
        return None;
    }
    let mut args = DaemonArgs::default();
    while let Some(word) = words.next() {
        let mut number = || words.next()?.to_str()?.parse().ok();
        match word.to_str()? {
            "--ready-fd" => args.ready_fd = Some(number()?),
            "--passage" => args.passage = Some(number()?),
            "--resurrect" => args.resurrect = true,
            _ => return None,
        }
    }
    Some(args)
}

fn inherited(number: Option<i32>, what: &str) -> Result<Option<OwnedFd>, Failure> {
    let take = |number| {
        take_inherited_fd(number).map_err(|e| {
            let error = anyhow::Error::new(e).context(format!("descriptor {number} is not a {what}"));
            Failure::caused(Exit::WrongUse, error)
        })
    };
    number.map(take).transpose()
}

/// The sockets that the service manager has kept over a restart, from the variables of `sd_listen_fds(3)`.
/// Other sockets that it passes are closed.
fn stored() -> Vec<OwnedFd> {
    let variable = |name: &str| std::env::var(format!("{LISTEN}{name}")).unwrap_or_default();
    if variable("PID") != std::process::id().to_string() {
        return Vec::new();
    }
    let (count, names) = (variable("FDS").parse().unwrap_or(0), variable("FDNAMES"));
    let passed = (0..count).zip(names.split(':'));
    let taken = passed.filter_map(|(n, name)| Some((name, take_inherited_fd(LISTEN_FIRST + n).ok()?)));
    taken.filter(|(name, _)| name.starts_with(STORED)).map(|(_, fd)| fd).collect()
}

/// How long a daemon may hang, from the environment: a number of seconds, 0 for ever.
fn patience(wish: Option<&str>) -> Option<Duration> {
    let seconds = wish.and_then(|wish| wish.trim().parse().ok()).unwrap_or(PATIENCE_SECONDS);
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Keeps a daemon running until one exits on purpose, then exits in the same way.
fn keep(args: &DaemonArgs, ready: Option<OwnedFd>) -> Result<Exit, Failure> {
    let failed = |e: std::io::Error| Failure::caused(Exit::NoDaemon, e.into());
    let line = |more: &[&str]| {
        let resurrect = args.resurrect.then_some("--resurrect");
        let words = ["forkful", "daemon"].iter().copied().chain(resurrect).chain(more.iter().copied());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let plan = KeeperPlan {
        program: own_program().map_err(failed)?,
        // A start gives the daemon its one descriptor under this number.
        argv: line(&["--keeper-fd", &READY_FD.to_string()]),
        successor: line(&["--passage"]),
        passage: inherited(args.passage, "keeper's passage")?,
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| !name.starts_with(LISTEN))
            .collect(),
        ready,
        // A keeper that executes another program gets its descriptors through the passage, and keeps its pid
        // and environment.
        stored: if args.passage.is_none() { stored() } else { Vec::new() },
        manager: std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()),
        patience: patience(std::env::var("FORKFUL_WATCHDOG").ok().as_deref()),
    };
    let code = forkful_keeper::run(plan).map_err(failed)?;
    Ok(Exit::App(u8::try_from(code).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_keeper_is_read_and_any_other_is_not() {
        let read = |line: &str| keeper_line(line.split(' ').map(OsString::from));
        let args = read("daemon --ready-fd 3").unwrap();
        assert_eq!((args.ready_fd, args.resurrect), (Some(3), false));
        assert!(read("daemon --resurrect").unwrap().resurrect);
        assert_eq!(read("daemon --passage 12").unwrap().passage, Some(12));
        assert!(read("daemon").is_some());
        let others =
            ["--no-keeper", "--help", "--keeper-fd 3", "--ready-fd", "--ready-fd x", "--check-state 3"];
        for line in others.map(|words| format!("daemon {words}")).iter().map(String::as_str).chain(["list"]) {
            assert!(read(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_daemon_may_hang_for_ten_seconds_or_as_the_environment_says() {
        let seconds = |wish| patience(wish).map(|patience| patience.as_secs());
        assert_eq!(
            [None, Some("3"), Some("0"), Some("soon")].map(seconds),
            [Some(10), Some(3), None, Some(10)]
        );
    }
}
