//! Options of `serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

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
