//! `forkful daemon`: this process becomes the daemon, or with `--keeper` the one that keeps a daemon running. Other commands
//! start it so; `--ready-fd` is the pipe on which the daemon tells them that it serves, or why it does not.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use forkful_daemon::DaemonOptions;
use forkful_keeper::KeeperPlan;
use forkful_os::identity::{READY_FD, take_inherited_fd};

use crate::cli::DaemonArgs;
use crate::exit::{Exit, Failure};
use crate::home;

pub(super) fn run(args: &DaemonArgs) -> Result<Exit, Failure> {
    let ready = inherited(args.ready_fd, "readiness pipe")?;
    if args.keeper {
        return keep(args, ready);
    }
    let home = home::locate()?;
    home::create(&home)?;
    let keeper = inherited(args.keeper_fd, "keeper's socket")?;
    let options = DaemonOptions { ready, resurrect: args.resurrect, keeper };
    forkful_daemon::run_daemon(home, options).map_err(|e| Failure::caused(Exit::NoDaemon, e.into()))?;
    Ok(Exit::Done)
}

/// The command line of a keeper as other commands and services write it. It is read without the parser of all command lines,
/// which would leave more memory in use than the keeper itself; any other is left to that.
pub(super) fn keeper_line(mut words: impl Iterator<Item = OsString>) -> Option<DaemonArgs> {
    if words.next()? != "daemon" {
        return None;
    }
    let mut args = DaemonArgs { ready_fd: None, resurrect: false, keeper: false, keeper_fd: None };
    while let Some(word) = words.next() {
        match word.to_str()? {
            "--ready-fd" => args.ready_fd = Some(words.next()?.to_str()?.parse().ok()?),
            "--resurrect" => args.resurrect = true,
            "--keeper" => args.keeper = true,
            _ => return None,
        }
    }
    args.keeper.then_some(args)
}

fn inherited(number: Option<i32>, what: &str) -> Result<Option<OwnedFd>, Failure> {
    let take = |number| {
        take_inherited_fd(number).map_err(|e| {
            let error = anyhow::Error::new(e).context(format!("descriptor {number} is no {what}"));
            Failure::caused(Exit::WrongUse, error)
        })
    };
    number.map(take).transpose()
}

/// Keeps a daemon running until one ends on purpose, and ends as it does.
fn keep(args: &DaemonArgs, ready: Option<OwnedFd>) -> Result<Exit, Failure> {
    let failed = |e: std::io::Error| Failure::caused(Exit::NoDaemon, e.into());
    // A start gives the daemon its one descriptor under this number.
    let mut arguments = vec!["daemon".to_owned(), "--keeper-fd".to_owned(), READY_FD.to_string()];
    arguments.extend(args.resurrect.then(|| "--resurrect".to_owned()));
    let plan = KeeperPlan {
        program: std::env::current_exe().map_err(failed)?,
        arguments,
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        ready,
        manager: std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()),
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
        let args = read("daemon --ready-fd 3 --keeper").unwrap();
        assert_eq!((args.ready_fd, args.resurrect, args.keeper), (Some(3), false, true));
        assert!(read("daemon --resurrect --keeper").unwrap().resurrect);
        for line in
            ["daemon", "daemon --ready-fd 3", "daemon --keeper --help", "daemon --ready-fd --keeper", "list"]
        {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
