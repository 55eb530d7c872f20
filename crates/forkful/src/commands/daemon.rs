//! `forkful daemon`: this process becomes the daemon. Other commands start it so; `--ready-fd` is the
//! pipe on which it tells them that it serves, or why it does not.

use forkful_daemon::DaemonOptions;
use forkful_os::identity::take_inherited_fd;

use crate::cli::DaemonArgs;
use crate::exit::{Exit, Failure};
use crate::home;

pub(super) fn run(args: &DaemonArgs) -> Result<Exit, Failure> {
    let ready = match args.ready_fd {
        None => None,
        Some(number) => Some(take_inherited_fd(number).map_err(|e| {
            let error = anyhow::Error::new(e).context(format!("descriptor {number} is no readiness pipe"));
            Failure::caused(Exit::WrongUse, error)
        })?),
    };
    let home = home::locate()?;
    home::create(&home)?;
    let options = DaemonOptions { ready, resurrect: args.resurrect };
    forkful_daemon::run_daemon(home, options).map_err(|e| Failure::caused(Exit::NoDaemon, e.into()))?;
    Ok(Exit::Done)
}
