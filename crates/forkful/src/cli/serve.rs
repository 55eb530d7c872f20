//! Options of `serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The server is an app like any other: it is listed, restarted, saved, and stopped with `forkful stop`.
What is served: files with ranges, validators and the types of their names; `file.br`, `file.zst` and
`file.gz` beside `file` for clients that take them; `404.html` where there is nothing. Names that begin
with a dot, and links that lead out of the directory, are not there.
A password is better given by the variable PM2_SERVE_BASIC_AUTH_PASSWORD than on the command line,
which others can see.

Examples:
  forkful serve                                this directory, at http://127.0.0.1:8080/
  forkful serve dist 3000 --spa --host 0.0.0.0
  forkful serve docs --basic-auth-username ann --basic-auth-password \"$PASSWORD\"")]
pub(crate) struct ServeArgs {
    /// The directory; this one by default.
    #[arg(env = "PM2_SERVE_PATH", hide_env = true)]
    pub(crate) path: Option<PathBuf>,
    /// The port, 8080 by default; 0 for one that is free.
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
    /// Answer paths without a file with the home page: for apps that route in the browser.
    #[arg(long, env = "PM2_SERVE_SPA", hide_env = true)]
    pub(crate) spa: bool,
    /// List the files of directories that have no index.html.
    #[arg(long, env = "PM2_SERVE_FTP", hide_env = true)]
    pub(crate) ftp: bool,
    /// Let pages of other sites read what is served.
    #[arg(long, env = "PM2_SERVE_CORS", hide_env = true)]
    pub(crate) cors: bool,
    /// The home page; /index.html by default.
    #[arg(long, value_name = "FILE", env = "PM2_SERVE_HOMEPAGE", hide_env = true)]
    pub(crate) homepage: Option<String>,
    /// Ask for this name and the password.
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
    /// Return at once instead of when files are served.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
