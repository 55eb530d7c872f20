//! `forkful run`: the supervisor in the foreground, without a daemon. It exits when its apps have exited,
//! with their exit code.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forkful_core::foreground::{LogPrefix, longest_stop};
use forkful_core::spec::AppSpec;
use forkful_daemon::{ForegroundOptions, ProbeAddress, run_foreground};

use crate::cli::{AppArgs, duration};
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};
use crate::output::format::{self, count};
use crate::output::note;
use crate::specs::Specs;

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
    #[arg(long, value_name = "DURATION", value_parser = duration)]
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

/// Time for load balancers that check `/readyz` before workers are stopped.
const PROBED_DELAY: Duration = Duration::from_secs(5);

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    if let Some(delay) = args.delay {
        std::thread::sleep(delay);
    }
    let delay =
        args.shutdown_delay.unwrap_or(if args.probes.is_some() { PROBED_DELAY } else { Duration::ZERO });
    let log_prefix = match (args.log_prefix, args.no_log_prefix) {
        (true, _) => LogPrefix::Always,
        (_, true) => LogPrefix::Never,
        _ => LogPrefix::Auto,
    };
    run_in_foreground(&args.app, log_prefix, args.probes.clone(), delay)
}

/// Runs apps in this process until they have exited.
pub(super) fn foreground(args: &AppArgs) -> Result<Exit, Failure> {
    run_in_foreground(args, LogPrefix::Auto, None, Duration::ZERO)
}

fn run_in_foreground(
    args: &AppArgs,
    log_prefix: LogPrefix,
    probes: Option<ProbeAddress>,
    shutdown_delay: Duration,
) -> Result<Exit, Failure> {
    let specs = Specs::new(&args.options.other.env, &args.options.other.only)?;
    let apps = super::start::named(&specs, args)?;
    let (home, _temporary) = usable_home()?;
    if probes.is_some() || std::process::id() == 1 {
        tell_platform(&apps, probes.as_ref(), shutdown_delay);
    }
    let write_log_files = writes_files(&apps);
    let options = ForegroundOptions { home, write_log_files, log_prefix, probes, shutdown_delay };
    let code = run_foreground(apps, options).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    Ok(Exit::App(u8::try_from(code).unwrap_or(1)))
}

/// Prints the limits of the container, and notes about its platform.
fn tell_platform(apps: &[AppSpec], probes: Option<&ProbeAddress>, delay: Duration) {
    let (cores, memory) = (forkful_os::cores::usable_cores(), forkful_os::memory_limit::memory_limit());
    let mut limits: Vec<String> = cores.limits.iter().take(1).map(ToString::to_string).collect();
    limits.extend(memory.map(|limit| limit.to_string()));
    let limits = if limits.is_empty() { "no limit of CPU or memory".to_owned() } else { limits.join(", ") };
    let workers = count(apps.iter().map(|app| usize::from(app.instances)).sum(), "worker");
    note(&format!("{workers} on {} ({limits})", count(cores.count.into(), "core")));
    let span = |time: Duration| format::bound(time.as_millis() as u64);
    let longest = span(longest_stop(apps, delay));
    let parts = if delay.is_zero() {
        "kill_timeout".to_owned()
    } else {
        format!("{} for load balancers, then kill_timeout", span(delay))
    };
    note(&format!(
        "a stop takes at most {longest} ({parts}): the platform's timeout before it kills should be longer"
    ));
    if let Some(address) = probes {
        note(&format!("{address} answers /startupz, /livez and /readyz"));
    }
}

/// Stops what another `run` leaves behind.
pub(super) fn guard(args: &GuardArgs) -> Result<Exit, Failure> {
    forkful_daemon::guard(&args.instance).map_err(|e| Failure::caused(Exit::WrongUse, e.into()))?;
    Ok(Exit::Done)
}

/// The user's home, or, if it cannot be used (as in a container with a read-only file system), a private
/// temporary directory. It only contains the agent.
fn usable_home() -> Result<(Home, Option<Temporary>), Failure> {
    let usual = home::locate().and_then(|home| home::create(&home).map(|()| home));
    let failure = match usual {
        Ok(home) => return Ok((home, None)),
        Err(failure) => failure,
    };
    let path = std::env::temp_dir().join(format!("forkful-run-{}", std::process::id()));
    // `create` fails if the path exists, so that nobody can have prepared it.
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => Ok((Home::new(path.clone()), Some(Temporary(path)))),
        Err(_) => Err(failure),
    }
}

/// A directory that is removed when dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // If removing fails, the system's cleanup of temporary files removes it.
        fs_err::remove_dir_all(&self.0).ok();
    }
}

/// Output goes to stdout and stderr; also to files, but only if the user sets some.
fn writes_files(apps: &[AppSpec]) -> bool {
    apps.iter().any(|app| app.logs.out_file.is_some() || app.logs.error_file.is_some())
}
