//! `forkful run`: the same supervisor in the foreground, without a daemon. It ends when its apps have
//! ended, with their exit code.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use forkful_core::spec::AppSpec;
use forkful_daemon::{ForegroundOptions, run_foreground};

use crate::cli::{AppArgs, GuardArgs, RunArgs};
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};
use crate::specs::Specs;

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    if let Some(delay) = args.delay {
        std::thread::sleep(delay);
    }
    foreground(&args.app)
}

/// Runs apps in this process, until they have ended.
pub(super) fn foreground(args: &AppArgs) -> Result<Exit, Failure> {
    let specs = Specs::new(&args.options.other.env, &args.options.other.only)?;
    let apps = super::start::named(&specs, args)?;
    let (home, _temporary) = usable_home()?;
    let options = ForegroundOptions { home, write_log_files: writes_files(&apps) };
    let code = run_foreground(apps, options).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    Ok(Exit::App(u8::try_from(code).unwrap_or(1)))
}

/// Ends what another `run` leaves behind.
pub(super) fn guard(args: &GuardArgs) -> Result<Exit, Failure> {
    forkful_daemon::guard(&args.instance).map_err(|e| Failure::caused(Exit::WrongUse, e.into()))?;
    Ok(Exit::Done)
}

/// The user's home; where it cannot be used, as in a container whose file system is read-only, a
/// private temporary directory. Only the agent is put there.
fn usable_home() -> Result<(Home, Option<Temporary>), Failure> {
    let usual = home::locate().and_then(|home| home::create(&home).map(|()| home));
    let failure = match usual {
        Ok(home) => return Ok((home, None)),
        Err(failure) => failure,
    };
    let path = std::env::temp_dir().join(format!("forkful-run-{}", std::process::id()));
    // `create` fails when something is there already, so that nobody can have prepared it.
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => Ok((Home::new(path.clone()), Some(Temporary(path)))),
        Err(_) => Err(failure),
    }
}

/// A directory that is gone when this is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the temporary directory.
        fs_err::remove_dir_all(&self.0).ok();
    }
}

/// Output goes to stdout and stderr; to files as well only when the user names some.
fn writes_files(apps: &[AppSpec]) -> bool {
    apps.iter().any(|app| app.logs.out_file.is_some() || app.logs.error_file.is_some())
}
