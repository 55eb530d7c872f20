//! `forkful serve`: serves a directory's files over HTTP with an app, and the hidden command that this app
//! runs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use clap::Args;
use forkful_api::types::AppDefinition;
use forkful_config::AppOptions;
use forkful_serve::{PORT_DEFAULT, Settings};

use super::act::Told;
use super::start::{self, How, Targets};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::specs::Specs;

#[derive(Debug, Args)]
#[command(after_help = "\
The server is an app like any other: it is listed, restarted, saved, and stopped with `forkful stop`.
Files are served with ranges, validators and a type from their extension; `file.br`, `file.zst` and
`file.gz` replace `file` for clients that accept them; `404.html` is the page for missing files. Names
that begin with a dot, and links that lead out of the directory, are hidden.
Pass a password in the variable PM2_SERVE_BASIC_AUTH_PASSWORD rather than on the command line, which
other users can see.

Examples:
  forkful serve                                this directory, at http://127.0.0.1:8080/
  forkful serve dist 3000 --spa --host 0.0.0.0
  forkful serve docs --basic-auth-username ann --basic-auth-password \"$PASSWORD\"")]
pub(crate) struct ServeArgs {
    /// The directory; this one by default.
    #[arg(env = "PM2_SERVE_PATH", hide_env = true)]
    pub(crate) path: Option<PathBuf>,
    /// The port, 8080 by default; 0 for any free port.
    #[arg(value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// The same as an option.
    #[arg(
        long = "port",
        value_name = "PORT",
        conflicts_with = "port",
        env = "PM2_SERVE_PORT",
        hide_env = true
    )]
    pub(crate) port_option: Option<u16>,
    /// The address to listen on: 127.0.0.1 by default, 0.0.0.0 for all.
    #[arg(long, value_name = "ADDRESS", env = "PM2_SERVE_HOST", hide_env = true)]
    pub(crate) host: Option<IpAddr>,
    /// The app's name; by default static-page-server-PORT.
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// Answer paths without a file with the home page, for single-page apps.
    #[arg(long, env = "PM2_SERVE_SPA", hide_env = true)]
    pub(crate) spa: bool,
    /// List the files of directories without an index.html.
    #[arg(long, env = "PM2_SERVE_FTP", hide_env = true)]
    pub(crate) ftp: bool,
    /// Let pages of other origins read the files (CORS).
    #[arg(long, env = "PM2_SERVE_CORS", hide_env = true)]
    pub(crate) cors: bool,
    /// The home page; /index.html by default.
    #[arg(long, value_name = "FILE", env = "PM2_SERVE_HOMEPAGE", hide_env = true)]
    pub(crate) homepage: Option<String>,
    /// Require this name and the password.
    #[arg(
        long,
        value_name = "NAME",
        requires = "basic_auth_password",
        env = "PM2_SERVE_BASIC_AUTH_USERNAME",
        hide_env = true
    )]
    pub(crate) basic_auth_username: Option<String>,
    /// The password.
    #[arg(
        long,
        value_name = "PASSWORD",
        requires = "basic_auth_username",
        env = "PM2_SERVE_BASIC_AUTH_PASSWORD",
        hide_env = true
    )]
    pub(crate) basic_auth_password: Option<String>,
    /// Return at once instead of when the server is ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Starts the app.
pub(super) async fn run(home: &Home, args: &ServeArgs) -> Result<Exit, Failure> {
    let specs = Specs::new(&[], &[])?;
    let path = args.path.as_deref().unwrap_or(Path::new("."));
    let cwd = specs.cwd.needed_by(&path.to_string_lossy(), "would be served from it")?;
    let path = directory(cwd, path)?;
    let host = args.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut options = AppOptions { env: variables(args, &path, host), ..AppOptions::default() };
    args.name.iter().for_each(|name| options.put("name", name.as_str()));
    let spec = specs.file_server(&options)?;
    let targets = Targets::of_new(vec![AppDefinition::from(&spec)]);
    let note = (args.host.is_none() && !args.json).then(|| {
        format!(
            "served to this machine only, at {host}; `--host 0.0.0.0` listens on all addresses, as PM2 does"
        )
    });
    let how = How {
        no_wait: args.no_wait,
        told: Told { json: args.json, attach: false },
        conflict_hint: Some(
            "stop it first to serve another directory there; another port or `--name` creates another app",
        ),
        note: note.as_deref(),
    };
    start::perform(home, targets, None, None, how).await
}

/// Serves files in the app's process.
pub(super) fn files() -> Result<Exit, Failure> {
    let failed = |error: anyhow::Error| Failure::caused(Exit::Failed, error);
    let settings = Settings::from_variables(|name| std::env::var(name).ok())
        .map_err(|error| Failure::caused(Exit::WrongUse, error.into()))?;
    forkful_serve::run(settings).map_err(|error| failed(error.into()))?;
    Ok(Exit::Done)
}

/// The absolute directory. Links are not resolved, so that a link can be changed while it is served.
fn directory(cwd: &Path, path: &Path) -> Result<PathBuf, Failure> {
    let absolute = cwd.join(path);
    let fault = match std::fs::metadata(&absolute) {
        Ok(metadata) if metadata.is_dir() => return Ok(absolute),
        Ok(_) => anyhow::anyhow!("it is not a directory"),
        Err(error) => anyhow::Error::new(error),
    };
    let error = fault.context(format!("cannot serve {}", path.display()));
    Err(Failure::caused(Exit::WrongUse, error)
        .hint("name a directory, as in `forkful serve public`; the port comes after it"))
}

/// The app's settings as variables.
fn variables(args: &ServeArgs, path: &Path, host: IpAddr) -> BTreeMap<String, String> {
    let port = args.port.or(args.port_option).unwrap_or(PORT_DEFAULT);
    let mut variables = BTreeMap::from([
        ("PM2_SERVE_PATH".to_owned(), path.to_string_lossy().into_owned()),
        ("PM2_SERVE_PORT".to_owned(), port.to_string()),
        ("PM2_SERVE_HOST".to_owned(), host.to_string()),
        ("PM2_SERVE_SPA".to_owned(), args.spa.to_string()),
        ("PM2_SERVE_FTP".to_owned(), args.ftp.to_string()),
        ("PM2_SERVE_CORS".to_owned(), args.cors.to_string()),
    ]);
    let texts = [
        ("PM2_SERVE_HOMEPAGE", &args.homepage),
        ("PM2_SERVE_BASIC_AUTH_USERNAME", &args.basic_auth_username),
        ("PM2_SERVE_BASIC_AUTH_PASSWORD", &args.basic_auth_password),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            variables.insert(name.to_owned(), text.clone());
        }
    }
    if args.basic_auth_password.is_some() {
        variables.insert("PM2_SERVE_BASIC_AUTH".to_owned(), "true".to_owned());
    }
    variables
}
