//! `forkful serve`: serves a directory's files over HTTP with an app, and the hidden command that this app
//! runs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use clap::Args;
use forkful_api::types::AppDefinition;
use forkful_config::AppOptions;
use forkful_serve::Settings;

use super::act::Told;
use super::start::{self, How, Targets};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::specs::Specs;

const PASSWORD: &str = "PM2_SERVE_BASIC_AUTH_PASSWORD";

#[derive(Debug, Args)]
#[command(after_help = "\
The server is an app like any other: it is listed, restarted, saved, and stopped with `forkful stop`.
Files are served with ranges, validators and a type from their extension; `file.br`, `file.zst` and
`file.gz` replace `file` for clients that accept them; `404.html` is the page for missing files. Names
that begin with a dot, and links that lead out of the directory, are hidden.
PM2's variables PM2_SERVE_* are read where no option is given. Pass a password in the variable
PM2_SERVE_BASIC_AUTH_PASSWORD rather than on the command line, which other users can see. It is then
not saved: after a reboot the server needs it in the file `environment` of the home, and does not
start without it. After 10 wrong logins an address is refused for a minute; a proxy on this machine
must set X-Forwarded-For or add to it, otherwise all its clients count as one. All clients of a proxy
together have 100 wrong logins a minute.

Examples:
  forkful serve                                this directory, at http://127.0.0.1:8080/
  forkful serve dist 3000 --spa --host 0.0.0.0
  forkful serve docs --basic-auth-username ann --basic-auth-password \"$PASSWORD\"")]
pub(crate) struct ServeArgs {
    /// The directory; this one by default.
    pub(crate) path: Option<PathBuf>,
    /// The port, 8080 by default; 0 for any free port.
    #[arg(value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// The same as an option.
    #[arg(long = "port", value_name = "PORT", conflicts_with = "port")]
    pub(crate) port_option: Option<u16>,
    /// The address to listen on: 127.0.0.1 by default, 0.0.0.0 for all.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) host: Option<IpAddr>,
    /// The app's name; by default static-page-server-PORT.
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// Answer paths without a file with the home page, for single-page apps.
    #[arg(long)]
    pub(crate) spa: bool,
    /// List the files of directories without an index.html.
    #[arg(long)]
    pub(crate) ftp: bool,
    /// Let pages of other origins read the files (CORS).
    #[arg(long)]
    pub(crate) cors: bool,
    /// The home page; /index.html by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) homepage: Option<String>,
    /// Require this name and the password.
    #[arg(long, value_name = "NAME")]
    pub(crate) basic_auth_username: Option<String>,
    /// The password.
    #[arg(long, value_name = "PASSWORD")]
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
    let settings = Settings::from_variables(|name| given(args, name)).map_err(|error| {
        Failure::caused(Exit::WrongUse, error.into())
            .hint("an option of `forkful serve` replaces its variable; `forkful serve --help` lists them")
    })?;
    // Not every path is a text.
    let of_variable =
        || std::env::var_os("PM2_SERVE_PATH").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = args.path.clone().or_else(of_variable).unwrap_or_else(|| settings.path.clone());
    let cwd = specs.cwd.needed_by(&path.to_string_lossy(), "would be served from it")?;
    let path = directory(cwd, &path)?;
    let mut options = AppOptions { env: variables(args, &settings, path), ..AppOptions::default() };
    args.name.iter().for_each(|name| options.put("name", name.as_str()));
    let spec = specs.file_server(&options)?;
    let targets = Targets::of_new(vec![AppDefinition::from(&spec)]);
    let note = (given(args, "PM2_SERVE_HOST").is_none() && !args.json).then(|| {
        format!(
            "served to this machine only, at {}; `--host 0.0.0.0` listens on all addresses, as PM2 does",
            settings.host
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

/// An address to listen on.
fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_| "expected an address such as 127.0.0.1, 0.0.0.0 or ::".to_owned())
}

/// The value of a setting: an option's, or else that of the variable.
fn given(args: &ServeArgs, name: &str) -> Option<String> {
    let flag = |is_given: bool| is_given.then(|| "true".to_owned());
    let option = match name {
        "PM2_SERVE_PORT" => args.port.or(args.port_option).map(|port| port.to_string()),
        "PM2_SERVE_HOST" => args.host.map(|host| host.to_string()),
        "PM2_SERVE_SPA" => flag(args.spa),
        "PM2_SERVE_FTP" => flag(args.ftp),
        "PM2_SERVE_CORS" => flag(args.cors),
        "PM2_SERVE_HOMEPAGE" => args.homepage.clone(),
        "PM2_SERVE_BASIC_AUTH_USERNAME" => args.basic_auth_username.clone(),
        PASSWORD => args.basic_auth_password.clone(),
        _ => None,
    };
    option.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

/// The absolute directory. Links are not resolved, so that a link can be changed while it is served.
fn directory(cwd: &Path, path: &Path) -> Result<String, Failure> {
    let absolute = cwd.join(path);
    let fault = match std::fs::metadata(&absolute) {
        Ok(metadata) if metadata.is_dir() => match absolute.into_os_string().into_string() {
            Ok(absolute) => return Ok(absolute),
            Err(_) => anyhow::anyhow!("its path is not UTF-8, but an app gets it in a variable"),
        },
        Ok(_) => anyhow::anyhow!("it is not a directory"),
        Err(error) => anyhow::Error::new(error),
    };
    let error = fault.context(format!("cannot serve {}", path.display()));
    Err(Failure::caused(Exit::WrongUse, error)
        .hint("name a directory, as in `forkful serve public`; the port comes after it"))
}

/// The app's settings as variables. A password of the caller's environment stays an inherited value, which is not saved.
fn variables(args: &ServeArgs, settings: &Settings, path: String) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::from([
        ("PM2_SERVE_PATH", path),
        ("PM2_SERVE_PORT", settings.port.to_string()),
        ("PM2_SERVE_HOST", settings.host.to_string()),
        ("PM2_SERVE_SPA", settings.spa.to_string()),
        ("PM2_SERVE_FTP", settings.listing.to_string()),
        ("PM2_SERVE_CORS", settings.cors.to_string()),
    ]);
    if settings.login.is_some() {
        variables.insert("PM2_SERVE_BASIC_AUTH", "true".to_owned());
    }
    for name in ["PM2_SERVE_HOMEPAGE", "PM2_SERVE_BASIC_AUTH_USERNAME"] {
        variables.extend(given(args, name).map(|value| (name, value)));
    }
    variables.extend(args.basic_auth_password.clone().map(|password| (PASSWORD, password)));
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
