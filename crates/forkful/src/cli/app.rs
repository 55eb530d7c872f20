//! Options of `start` and `run`, which describe an app.

use std::time::Duration;

use clap::Args;
use forkful_core::spec::{Balance, Named};
use forkful_daemon::ProbeAddress;

use super::app_options::AppOptionArgs;
use super::look::TableArgs;

/// The text after the options in `start --help`.
fn start_help() -> String {
    let modes: String =
        Balance::ALL.iter().map(|(_, name, meaning)| format!("\n- `{name}`: {}", meaning.trim())).collect();
    format!(
        "{START_HELP}\n\nBalance, how new connections are spread over the workers:{modes}\n\n{START_EXAMPLES}"
    )
}

const START_HELP: &str = "\
Without an argument, this directory's config file is used: forkful.config.* or ecosystem.config.*.
Durations are milliseconds, or strings such as 500ms, 10s, 2m.
Existing apps (name, id, namespace, `/pattern/` of names or `all`) are started, or restarted if they
are running; options change them as in `restart`. This also applies to the apps of a config file. A
script that is already running is refused. A target without a slash and an extension is first
looked up as the name of an app, then as a file; all others are first looked up as a file.";

const START_EXAMPLES: &str = "\
Examples:
  forkful start app.js -i max                        one worker per core
  PORT=3000 forkful start app.js --name api -- --verbose
  forkful start \"python3 -m http.server\" --name files
  forkful start forkful.config.js --only api --env production
  forkful start api                                  an existing app
  forkful start api -i 4 --update-env                with other options and this environment
  forkful start all";

#[derive(Debug, Args)]
#[command(after_help = start_help())]
pub(crate) struct StartArgs {
    /// Return at once instead of when the apps are ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Start a second copy, under another name, of a script that is already running.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow the apps' output after the start.
    #[arg(long, conflicts_with_all = ["json", "no_wait"])]
    pub(crate) attach: bool,
    /// Run in the foreground, as `forkful run` does.
    #[arg(long, conflicts_with_all = ["json", "no_wait", "force", "attach"])]
    pub(crate) no_daemon: bool,
    #[command(flatten)]
    pub(crate) app: AppArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Passes signals on, reaps zombies, and writes output to stdout and stderr. Exits when the app has
exited for good, with its exit code. If `run` itself is killed, a helper process stops the app.

Examples:
  forkful run app.js -i max
  forkful run forkful.config.js --env production
  forkful run server.js --no-autorestart             in a container with its own restart policy
  forkful run app.js -i max --probes :9640           with probes for Kubernetes
  forkful run app.js --log-type json                 for a log collector: JSON lines")]
pub(crate) struct RunArgs {
    /// Seconds to wait before anything is started.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) delay: Option<Duration>,
    /// Serve `/startupz`, `/livez` and `/readyz` at this address: PORT (loopback only), `:PORT` (any address), ADDRESS:PORT, or unix:FILE.
    #[arg(long, value_name = "ADDRESS", value_parser = probe_address)]
    pub(crate) probes: Option<ProbeAddress>,
    /// How long to keep serving after a stop signal, while `/readyz` answers 503; 5s with --probes, otherwise 0s.
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) shutdown_delay: Option<Duration>,
    /// Begin each line with the worker, `0|api | `; by default with several workers on a terminal, and never with --log-type json.
    #[arg(long)]
    pub(crate) log_prefix: bool,
    /// Write the lines of the apps as they are, also on a terminal.
    #[arg(long, conflicts_with = "log_prefix")]
    pub(crate) no_log_prefix: bool,
    #[command(flatten)]
    pub(crate) app: AppArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// The mark that identifies the processes of these apps.
    pub(crate) instance: String,
}

#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// Scripts, programs, quoted command lines, config files (`-` for JSON from stdin), or existing apps (name, id, pattern).
    #[arg(value_name = "SCRIPT|CONFIG|APP")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) options: AppOptionArgs,
}

fn probe_address(text: &str) -> Result<ProbeAddress, String> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(ProbeAddress::Unix(path.into()));
    }
    let address = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None if text.parse::<u16>().is_ok() => format!("127.0.0.1:{text}"),
        None => text.to_owned(),
    };
    let expected = "expected a PORT, `:PORT`, an IP ADDRESS:PORT, or unix:FILE";
    address.parse().map(ProbeAddress::Tcp).map_err(|_| expected.to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds".to_owned())
}
