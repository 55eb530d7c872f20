//! `forkful run`: the same supervisor in the foreground, without a daemon. It ends when its apps have
//! ended, with their exit code.

use forkful_core::spec::AppSpec;
use forkful_daemon::{ForegroundOptions, run_foreground};

use crate::cli::RunArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::specs::Specs;

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let specs = Specs::new(&args.app.env, &args.app.only)?;
    let apps = super::start::named(&specs, &args.app)?;
    let home = Home::locate()?;
    home.create()?;
    let options = ForegroundOptions { home: home.daemon(), write_log_files: writes_files(&apps) };
    let code = run_foreground(apps, options).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    Ok(Exit::App(u8::try_from(code).unwrap_or(1)))
}

/// Output goes to stdout and stderr; to files as well only when the user names some.
fn writes_files(apps: &[AppSpec]) -> bool {
    apps.iter().any(|app| app.logs.out_file.is_some() || app.logs.error_file.is_some())
}
