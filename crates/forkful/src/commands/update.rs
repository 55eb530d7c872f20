//! `forkful update`: replaces the daemon by this program's version, with the same apps. With a keeper the
//! apps continue to run; without one they are stopped and started again.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use forkful_api::client::{Client, ClientError};
use forkful_api::saved::ResurrectRequest;
use forkful_api::types::{ActionReply, Ping, REQUEST_BYTES_MAX, UpdateReply, UpdateRequest};
use forkful_core::pages::Page;
use forkful_os::identity::LockFile;
use forkful_os::process::runs_program;

use super::act::tell;
use super::kill;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::output::progress::Progress;

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Run it after installing a new version. With a keeper the apps keep running, and a version that cannot
continue with them is rolled back: docs/UPDATE.md. Without a keeper they are stopped and started again.

Examples:
  npm install -g forkful && forkful update")]
pub(crate) struct UpdateArgs {
    /// The program to update to, instead of this one.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) to: Option<std::path::PathBuf>,
    /// Return at once instead of when the apps are ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Interval for checking the progress of the update.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Additional time for a machine without a free core, beyond the trial time of the new daemon.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(home: &Home, args: &UpdateArgs) -> Result<Exit, Failure> {
    let (client, old) = match Client::connect(&home.socket()).await {
        Ok(found) => found,
        Err(ClientError::NotRunning { .. }) => {
            let nothing = ActionReply::default();
            if args.json {
                output::print_json(&nothing)?;
            } else {
                output::say("no daemon is running: the next command starts one of this version\n")?;
            }
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error.into()),
    };
    let program = match &args.to {
        Some(program) => std::fs::canonicalize(program).map_err(|error| no_program(program, &error)),
        None => std::env::current_exe().map_err(|error| Failure::caused(Exit::Failed, error.into())),
    }?;
    if is_build(old.pid, &program) {
        return up_to_date(home, &old, args).await;
    }
    if old.keeper.is_some() {
        return in_place(home, client, old, &program, args).await;
    }
    if args.to.is_some() {
        let error = "this daemon has no keeper, which an update to another program needs";
        return Err(Failure::new(Exit::Failed, error)
            .hint("run `update` of that program itself")
            .see(Page::Update));
    }
    output::warn("this daemon has no keeper to hand its apps over: they are stopped and started again");
    restart(home, client, old, args).await
}

/// Offers to update an older daemon, if a user can answer.
pub(super) async fn offer(home: &Home) -> Result<(), Failure> {
    if ![stdin().is_terminal(), stdout().is_terminal(), stderr().is_terminal()].into_iter().all(|is| is) {
        return Ok(());
    }
    // Problems with the daemon are reported by the command itself.
    let Ok((_, Ping { version, keeper, .. })) = Client::connect(&home.socket()).await else { return Ok(()) };
    if !connection::is_older(&version) {
        return Ok(());
    }
    let apps = if keeper.is_some() { "go on" } else { "are stopped and started again" };
    output::talk(&format!(
        "the daemon is version {version}, this program is {}. Update the daemon now? Its apps {apps}. [y/N] ",
        connection::VERSION
    ));
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    if read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        run(home, &UpdateArgs::default()).await?;
    }
    Ok(())
}

fn no_program(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    let text = match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no program {path}"),
        _ => format!("{path} cannot be opened: {error}"),
    };
    Failure::new(Exit::Failed, text)
        .hint("name the file of another Forkful, as in `forkful update --to /usr/local/bin/forkful`")
        .see(Page::Update)
}

/// Nothing needs to be done.
async fn up_to_date(home: &Home, old: &Ping, args: &UpdateArgs) -> Result<Exit, Failure> {
    let mut client = connection::begun(home).await?;
    if !args.json {
        output::say(&format!("the daemon is this version already: {} (pid {})\n", old.version, old.pid))?;
    }
    tell(&mut client, Vec::new(), args.json).await
}

/// Whether a process runs this program, or another file with the same contents.
fn is_build(pid: u32, program: &Path) -> bool {
    let running = PathBuf::from(format!("/proc/{pid}/exe"));
    let length = |path: &Path| fs_err::metadata(path).ok().map(|file| file.len());
    runs_program(pid, program) == Some(true)
        || length(&running).is_some_and(|bytes| length(program) == Some(bytes))
            && fs_err::read(&running)
                .is_ok_and(|bytes| fs_err::read(program).is_ok_and(|other| bytes == other))
}

/// Tells the daemon to make way for a program that continues with its apps.
async fn in_place(
    home: &Home,
    mut client: Client,
    old: Ping,
    program: &Path,
    args: &UpdateArgs,
) -> Result<Exit, Failure> {
    let logged = fs_err::metadata(home.daemon_log()).map_or(0, |log| log.len());
    let progress = Progress::start("handing the apps over…".to_owned());
    let reply = client.update(&UpdateRequest { program: program.display().to_string() }).await?;
    drop(client);
    let verdict = prove(home, &old, program, &reply).await;
    drop(progress);
    let new = match verdict {
        Verdict::New(new) => new,
        Verdict::Previous => {
            let said = connection::said_since(home, logged).unwrap_or_default().join("\n");
            let error = anyhow::anyhow!("{said}")
                .context("the new daemon failed; the previous one continues with the apps");
            return Err(Failure::caused(Exit::Failed, error));
        }
        Verdict::Ended => return Err(ended(home)),
        Verdict::Unknown => {
            let error = "neither the new daemon nor the previous one answers";
            return Err(Failure::new(Exit::Failed, error)
                .hint(format!("its log is {}", home.daemon_log().display()))
                .see(Page::Update));
        }
    };
    let mut client = Client::connect(&home.socket()).await?.0;
    if !args.json {
        let Ping { version, pid, .. } = &new;
        output::say(&format!("the daemon is version {version} now (pid {pid}); its apps kept running\n"))?;
    }
    if new.version != connection::VERSION {
        return Ok(Exit::Done);
    }
    tell(&mut client, Vec::new(), args.json).await
}

/// What became of an update.
enum Verdict {
    /// The new daemon has passed its trial.
    New(Ping),
    /// The previous daemon continues.
    Previous,
    /// Daemon and keeper ended in the meantime.
    Ended,
    /// It is not known in time.
    Unknown,
}

/// The failure of an update whose daemon ended before its trial was over.
fn ended(home: &Home) -> Failure {
    let error = if forkful_daemon::is_abandoned(home) {
        format!("the daemon stopped unexpectedly during the update, see {}", home.daemon_log().display())
    } else {
        "the daemon was stopped during the update".to_owned()
    };
    Failure::new(Exit::Failed, error).hint("`forkful resurrect` starts its apps again").see(Page::Update)
}

/// Waits until the new daemon has passed its trial.
async fn prove(home: &Home, old: &Ping, program: &Path, reply: &UpdateReply) -> Verdict {
    let until = Instant::now() + Duration::from_millis(reply.trial_ms) + PATIENCE;
    while Instant::now() < until {
        // Connections made between the two daemons wait for the new one.
        match Client::connect(&home.socket()).await {
            // Another command has started another daemon.
            Ok((_, now)) if now.keeper.is_some_and(|keeper| keeper != reply.keeper) => return Verdict::Ended,
            Ok((_, now)) => {
                let runs = runs_program(now.pid, program);
                // Without its keeper a daemon continues, and has no trial.
                if runs == Some(true)
                    && (now.keeper.is_none() || runs_program(reply.keeper, program) == Some(true))
                {
                    return Verdict::New(now);
                }
                // A daemon that has ended since it answered runs no program: the next look shows which daemon follows.
                let is_other = runs == Some(false) || runs.is_none() && !program.exists();
                if is_other && now.pid != old.pid {
                    return Verdict::Previous;
                }
            }
            Err(ClientError::NotRunning { .. }) if !LockFile::is_held(&home.lock()) => return Verdict::Ended,
            Err(_) => {}
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Verdict::Unknown
}

/// Stops the apps with their daemon, and starts them again with another daemon.
async fn restart(home: &Home, mut client: Client, old: Ping, args: &UpdateArgs) -> Result<Exit, Failure> {
    // Values from callers' environments exist only in the daemon's memory. A daemon of another version may
    // not be able to return them; then the saved values are used, and `resurrect` names the missing ones.
    let env_of = match client.environment("all", true).await {
        Ok(reply) => reply.apps,
        Err(ClientError::Refused { .. } | ClientError::Broken { .. }) => BTreeMap::new(),
        Err(error) => return Err(error.into()),
    };
    // A daemon that cannot list its apps may have some.
    let had_apps = client.list().await.map_or(true, |list| !list.apps.is_empty());
    let (env, _) = forkful_config::caller_environment();
    let request = ResurrectRequest { saved: false, env, env_of, wait: !args.no_wait };
    if serde_json::to_vec(&request).map_or(true, |text| text.len() > REQUEST_BYTES_MAX) {
        let error = "the environments of the apps are too large to be handed over; nothing was stopped";
        return Err(Failure::new(Exit::Failed, error)
            .hint("`forkful save --with-env`, then `forkful kill` and `forkful resurrect --saved`")
            .see(Page::Update));
    }
    kill::end(client, old.pid).await?;
    let mut client = connection::begun(home).await?;
    if !args.json {
        output::say(&format!(
            "the daemon of version {} was replaced by {}\n",
            old.version,
            connection::VERSION
        ))?;
    }
    if !had_apps {
        return tell(&mut client, vec![("started again", ActionReply::default())], args.json).await;
    }
    let reply = {
        let _progress = Progress::start("starting the apps again…".to_owned());
        client.resurrect(&request).await
    };
    match reply {
        Ok(reply) => tell(&mut client, vec![("started again", reply)], args.json).await,
        Err(error) => Err(error.into()),
    }
}
