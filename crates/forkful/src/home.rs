//! The directory with all data of a user: `$FORKFUL_HOME`, by default `~/.forkful`. Created with mode 0700. A
//! directory that another user owns or may write to is refused, because that user could decide what runs. So is a
//! path that is not UTF-8.

use std::env;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

pub(crate) use forkful_daemon::Home;

use forkful_api::saved::{SavedApp, SavedState};
use forkful_core::pages::Page;

use crate::exit::{Exit, Failure};
use crate::working_directory::WorkingDirectory;

/// The longest path of a unix socket, without the NUL (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Finds the user's home and checks it; it need not exist.
pub(crate) fn locate() -> Result<Home, Failure> {
    let home = Home::new(path_from_environment()?);
    let bytes = home.socket().as_os_str().as_bytes().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(Failure::new(
            Exit::WrongUse,
            format!(
                "the socket's path {} has {bytes} bytes, but the system allows {SOCKET_PATH_BYTES_MAX}",
                home.socket().display()
            ),
        )
        .hint("set FORKFUL_HOME to a directory with a shorter path")
        .see(Page::Home));
    }
    match std::fs::metadata(home.path()) {
        Ok(metadata) => check(&home, &metadata)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(unusable(&home, e)),
    }
    Ok(home)
}

/// Ensures that the directory exists and is writable.
pub(crate) fn create(home: &Home) -> Result<(), Failure> {
    let path = home.path();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| unusable(home, e))?;
    let metadata = std::fs::metadata(path).map_err(|e| unusable(home, e))?;
    check(home, &metadata)?;
    if rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err() {
        let path = path.display();
        return Err(Failure::new(Exit::WrongUse, format!("{path} cannot be written to"))
            .hint(format!("`chmod 700 {path}`, or set FORKFUL_HOME to another directory"))
            .see(Page::Home));
    }
    Ok(())
}

/// How many apps `forkful resurrect` would start if no daemon runs; none if that cannot be read.
pub(crate) fn saved_apps(home: &Home) -> usize {
    let saved = |path: &PathBuf| {
        let file = std::io::BufReader::new(fs_err::File::open(path).ok()?);
        serde_json::from_reader(file).ok().map(|saved: SavedState| saved.apps)
    };
    let earlier =
        || [home.previous_state(), home.dump()].iter().filter_map(saved).find(|apps| !apps.is_empty());
    let apps = saved(&home.state()).or_else(earlier).unwrap_or_default();
    apps.iter().filter(|app| SavedApp::runs_in(app)).count()
}

fn check(home: &Home, metadata: &std::fs::Metadata) -> Result<(), Failure> {
    let path = home.path().display();
    if !metadata.is_dir() {
        return Err(Failure::new(Exit::WrongUse, format!("{path} is not a directory"))
            .hint("set FORKFUL_HOME to a directory")
            .see(Page::Home));
    }
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own {
        let error = format!("{path} belongs to user id {}, not to yours, {own}", metadata.uid());
        return Err(Failure::new(Exit::WrongUse, error)
            .hint("run the command as that user (`sudo -u`), or set FORKFUL_HOME to a directory that you own")
            .see(Page::Home));
    }
    if metadata.mode() & 0o022 != 0 {
        let error = format!("others may write to {path} (mode {:o})", metadata.mode() & 0o7777);
        return Err(Failure::new(Exit::WrongUse, error).hint(format!("`chmod 700 {path}`")).see(Page::Home));
    }
    Ok(())
}

fn unusable(home: &Home, source: io::Error) -> Failure {
    let error = anyhow::Error::new(source).context(format!("cannot use {}", home.path().display()));
    Failure::caused(Exit::WrongUse, error)
        .hint("set FORKFUL_HOME to a directory that you may write to")
        .see(Page::Home)
}

/// The default folder for log files; relative only if there is no home.
pub(crate) fn logs_folder() -> PathBuf {
    path_from_environment().map_or_else(|_| PathBuf::from("/tmp"), |home| home.join("logs"))
}

fn path_from_environment() -> Result<PathBuf, Failure> {
    let (variable, wanted) = match env::var_os("FORKFUL_HOME").filter(|value| !value.is_empty()) {
        Some(path) => ("FORKFUL_HOME", PathBuf::from(path)),
        None => match env::var_os("HOME").filter(|value| !value.is_empty()) {
            Some(home) => ("HOME", PathBuf::from(home).join(".forkful")),
            None => {
                return Err(Failure::new(Exit::WrongUse, "neither FORKFUL_HOME nor HOME is set")
                    .hint("set FORKFUL_HOME to a directory that you own")
                    .see(Page::Home));
            }
        },
    };
    if wanted.is_relative() {
        WorkingDirectory::of_caller().needed(format!("{variable} is relative to it"))?;
    }
    let path = std::path::absolute(&wanted).map_err(|e| Failure::caused(Exit::WrongUse, e.into()))?;
    // The daemon's state, its API and the environment of workers are UTF-8 and contain paths below the home.
    if path.to_str().is_none() {
        let error = format!("the directory of {variable}, {}, is not valid UTF-8", path.display());
        return Err(Failure::new(Exit::WrongUse, error)
            .hint("set FORKFUL_HOME to a directory whose path is UTF-8")
            .see(Page::Home));
    }
    Ok(path)
}
