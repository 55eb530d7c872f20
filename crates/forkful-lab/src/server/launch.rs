//! Starts an arm's processes, by runner. Each function returns what is needed to observe and stop them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_api::types::{ActionReply, Ping};
use forkful_core::spec::{AppSpec, Balance, Runtime};
use forkful_load::StopHandle;
use forkful_os::process::{SpawnPlan, spawn};
use rustix::fs::{Mode, OFlags};
use serde_json::json;

use super::Options;
use super::tree::{Tree, kill_marked};
use crate::LabError;
use crate::arms::Runner;
use crate::program::Run;

/// The primary of the arm `node-cluster`.
const NODE_CLUSTER: &str = include_str!("node-cluster.cjs");

/// The environment variable for the home of a Forkful daemon.
const FORKFUL_HOME: &str = "FORKFUL_HOME";

/// The environment variable for PM2's home.
const PM2_HOME: &str = "PM2_HOME";

/// The app's name in the private manager.
const APP_NAME: &str = "lab";

/// Maximum lines of an app's output in a message.
const TAIL_LINES_MAX: usize = 12;

/// From the first signal to SIGKILL, for apps in a private daemon; a clean shutdown of them does not matter.
const KILL_TIMEOUT_MS: u64 = 1000;

/// How long a manager may take to stop its apps and itself.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(20);

/// A private manager (a Forkful daemon, or PM2), controlled by its own command.
#[derive(Debug)]
pub(super) struct Manager {
    program: PathBuf,
    env: BTreeMap<String, String>,
    /// The environment variable for its home directory.
    home: &'static str,
}

pub(super) struct Launched {
    pub(super) tree: Tree,
    /// `None`: our own child process, stopped by a signal.
    pub(super) manager: Option<Manager>,
    /// Created when all workers listen; `None` if the start itself has waited for that.
    pub(super) ready_file: Option<PathBuf>,
}

/// The environment and program of an arm.
pub(super) struct Command {
    program: PathBuf,
    program_args: Vec<String>,
    script: Option<String>,
    args: Vec<String>,
    cwd: PathBuf,
    pub(super) env: BTreeMap<String, String>,
}

impl Command {
    /// The app's own, with the arm's changes and a port.
    pub(super) fn of(options: &Options<'_>, port: u16) -> Result<Self, LabError> {
        let launch = &options.app.launch;
        let mut env = launch.env.clone();
        env.insert("PORT".to_owned(), port.to_string());
        if let Some(pool) = options.arm.pool {
            env.insert("UV_THREADPOOL_SIZE".to_owned(), pool.to_string());
        }
        Ok(Self {
            program: program(options)?,
            program_args: launch.program_args.clone(),
            script: launch.script.clone(),
            args: launch.args.clone(),
            cwd: launch.cwd.clone(),
            env,
        })
    }

    fn argv(&self) -> Vec<String> {
        std::iter::once(self.program.to_string_lossy().into_owned())
            .chain(self.program_args.iter().cloned())
            .chain(self.script.iter().cloned())
            .chain(self.args.iter().cloned())
            .collect()
    }
}

fn program(options: &Options<'_>) -> Result<PathBuf, LabError> {
    let Some(node) = &options.arm.node else { return Ok(options.app.launch.program.clone()) };
    // A version manager's directory has the program in `bin`.
    let candidates = [node.clone(), node.join("bin/node")];
    let found = candidates.into_iter().find(|path| path.is_file());
    let missing = || LabError::Missing {
        arm: options.arm.name.clone(),
        what: format!("{} is not a program", node.display()),
        hint: "name the path of a Node.js executable, as in `node=/opt/node-20/bin/node`".to_owned(),
    };
    let path = found.ok_or_else(missing)?;
    std::path::absolute(path).map_err(LabError::system(format!("cannot use {}", node.display())))
}

/// Starts the arm's processes.
pub(super) fn launch(options: &Options<'_>, command: &Command) -> Result<Launched, LabError> {
    match options.arm.runner {
        Runner::Plain => plain(options, command, command.argv()),
        Runner::NodeCluster { workers } => node_cluster(options, command, workers),
        Runner::Forkful { workers, balance } => forkful(options, command, workers, balance),
        Runner::Pm2 { workers } => pm2(options, command, workers),
    }
}

fn plain(options: &Options<'_>, command: &Command, argv: Vec<String>) -> Result<Launched, LabError> {
    let log = output_file(options)?;
    let stderr = log.try_clone().map_err(LabError::system("cannot duplicate a descriptor"))?;
    let plan = SpawnPlan {
        stdin: None,
        program: command.program.clone(),
        argv,
        env: command.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        cwd: command.cwd.clone(),
        stdout: log,
        stderr,
        channel: None,
        run_as: None,
        mark: None,
        groups: None,
        keeping: forkful_os::keeper::Keeping::default(),
    };
    let child = spawn(plan).map_err(|source| LabError::Spawn { arm: options.arm.name.clone(), source })?;
    Ok(Launched { tree: Tree::of_child(child), manager: None, ready_file: None })
}

/// Opened for appending, so that an app that truncates the file does not leave holes in it.
fn output_file(options: &Options<'_>) -> Result<rustix::fd::OwnedFd, LabError> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC | OFlags::CLOEXEC;
    rustix::fs::open(options.log(), flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| LabError::system("cannot make a file for the app's output")(errno.into()))
}

fn needs_node(options: &Options<'_>, command: &Command) -> Result<String, LabError> {
    match (&options.app.launch.runtime, &command.script) {
        (Runtime::Node, Some(script)) => Ok(script.clone()),
        _ => Err(LabError::Missing {
            arm: options.arm.name.clone(),
            what: format!("{} is not a Node.js script", options.app.launch.program.display()),
            hint: "a cluster shares ports by Node's own protocol; compare another program as `single`"
                .to_owned(),
        }),
    }
}

fn node_cluster(options: &Options<'_>, command: &Command, workers: u16) -> Result<Launched, LabError> {
    let script = needs_node(options, command)?;
    let primary = options.scratch.join("node-cluster.cjs");
    fs_err::write(&primary, NODE_CLUSTER).map_err(LabError::system("cannot write the cluster script"))?;
    let ready = options.scratch.join("node-cluster.ready");
    let mut argv = vec![command.program.to_string_lossy().into_owned()];
    argv.extend(command.program_args.iter().cloned());
    argv.extend([&primary, &PathBuf::from(script)].map(|path| path.to_string_lossy().into_owned()));
    argv.extend([workers.to_string(), ready.to_string_lossy().into_owned()]);
    argv.extend(command.args.iter().cloned());
    let launched = plain(options, command, argv)?;
    Ok(Launched { ready_file: Some(ready), ..launched })
}

/// Forkful's cluster, in a private daemon with its own home.
fn forkful(
    options: &Options<'_>,
    command: &Command,
    workers: u16,
    balance: Option<Balance>,
) -> Result<Launched, LabError> {
    needs_node(options, command)?;
    let mut env = command.env.clone();
    env.insert(FORKFUL_HOME.to_owned(), options.scratch.to_string_lossy().into_owned());
    let config = options.scratch.join("app.json");
    let text = config_text(options.app, command, workers, balance, options.start_timeout);
    fs_err::write(&config, text).map_err(LabError::system("cannot write the app's configuration"))?;
    let manager = Manager { program: options.forkful.to_owned(), env, home: FORKFUL_HOME };
    let started = start_forkful(options, &manager, &config);
    manager.launched(options, started)
}

fn config_text(
    app: &AppSpec,
    command: &Command,
    workers: u16,
    balance: Option<Balance>,
    start_timeout: Duration,
) -> String {
    let app = json!({
        "name": APP_NAME,
        "script": command.script,
        "args": command.args,
        "cwd": command.cwd,
        "interpreter": command.program,
        "node_args": command.program_args,
        "instances": workers,
        "exec_mode": "cluster",
        "balance": balance.unwrap_or(app.balance).to_string(),
        "agent": app.agent,
        "wait_ready": app.readiness.wait_ready,
        "listen_timeout": start_timeout.as_millis() as u64,
        "kill_timeout": KILL_TIMEOUT_MS,
        "autorestart": false,
    });
    json!({ "apps": [app] }).to_string()
}

fn start_forkful(options: &Options<'_>, manager: &Manager, config: &Path) -> Result<Tree, LabError> {
    let run = |args: &[&str], timeout: Duration| {
        let run = Run { timeout, ..manager.run(args, options.scratch, options.stop) };
        run.finish().map_err(|source| options.command_failed("forkful", source))
    };
    let config = config.to_string_lossy();
    let said = run(&["start", &config, "--json"], options.start_timeout + END_TIMEOUT)?;
    if !said.status.success() {
        return Err(options.failed_start(&said.stdout, &said.stderr));
    }
    let said = run(&["ping", "--json"], END_TIMEOUT)?;
    let ping: Ping = serde_json::from_str(&said.stdout)
        .map_err(|error| options.command_failed("forkful ping", error.into()))?;
    Tree::of_pid(ping.keeper.unwrap_or(ping.pid)).map_err(LabError::system("the private daemon has ended"))
}

impl Options<'_> {
    fn command_failed(&self, what: &str, source: std::io::Error) -> LabError {
        if source.kind() == std::io::ErrorKind::Interrupted || self.stop.is_stopped() {
            return LabError::Interrupted;
        }
        LabError::System { what: format!("{}: `{what}` failed", self.arm.name), source }
    }

    /// The error for a failed start, from the manager's output.
    fn failed_start(&self, stdout: &str, stderr: &str) -> LabError {
        let outcome =
            serde_json::from_str::<ActionReply>(stdout).ok().and_then(|reply| reply.apps.into_iter().next());
        let (what, tail) = match outcome {
            Some(app) => (app.error.unwrap_or_else(|| "the app did not start".to_owned()), app.stderr_tail),
            None => ("the app did not start".to_owned(), lines_from_end(stderr)),
        };
        LabError::Failed { arm: self.arm.name.clone(), what, tail }
    }
}

fn pm2(options: &Options<'_>, command: &Command, workers: u16) -> Result<Launched, LabError> {
    let script = needs_node(options, command)?;
    let program = find_pm2(&command.cwd, &command.env).ok_or_else(|| LabError::Missing {
        arm: options.arm.name.clone(),
        what: "PM2 is not installed".to_owned(),
        hint: "leave the arm out, or `npm install pm2` beside the app".to_owned(),
    })?;
    let home = pm2_home(options.scratch);
    fs_err::create_dir_all(&home).map_err(LabError::system("cannot make PM2's home"))?;
    let mut env = command.env.clone();
    env.insert(PM2_HOME.to_owned(), home.to_string_lossy().into_owned());
    // Disables the check for new versions and the banner.
    env.insert("PM2_DISABLE_VERSION_CHECK".to_owned(), "true".to_owned());
    env.insert("PM2_DISCRETE_MODE".to_owned(), "true".to_owned());
    let mut args =
        ["start", &script, "-i", &workers.to_string(), "--name", APP_NAME].map(str::to_owned).to_vec();
    args.extend(["--interpreter".to_owned(), command.program.to_string_lossy().into_owned()]);
    if !command.program_args.is_empty() {
        args.push(format!("--node-args={}", command.program_args.join(" ")));
    }
    if !command.args.is_empty() {
        args.push("--".to_owned());
        args.extend(command.args.iter().cloned());
    }
    let manager = Manager { program, env, home: PM2_HOME };
    let run = Run {
        args,
        cwd: &command.cwd,
        timeout: options.start_timeout + END_TIMEOUT,
        ..manager.run(&[], options.scratch, options.stop)
    };
    let started =
        run.finish().map_err(|source| options.command_failed("pm2 start", source)).and_then(|said| {
            if !said.status.success() {
                return Err(options.failed_start("", &format!("{}{}", said.stdout, said.stderr)));
            }
            let pid =
                fs_err::read_to_string(home.join("pm2.pid")).map_err(LabError::system("PM2 left no pid"))?;
            let pid = pid.trim().parse().unwrap_or(0);
            Tree::of_pid(pid).map_err(LabError::system("PM2's daemon has ended"))
        });
    manager.launched(options, started)
}

/// Looks for PM2 next to the app, in a parent directory, and in `PATH`.
fn find_pm2(cwd: &Path, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let beside = cwd.ancestors().map(|directory| directory.join("node_modules/.bin/pm2"));
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    beside
        .chain(std::env::split_paths(path).map(|directory| directory.join("pm2")))
        .find(|file| file.is_file())
}

impl Manager {
    /// Runs its command with the same timeout as stopping.
    fn run<'a>(&'a self, args: &[&str], scratch: &'a Path, stop: &'a StopHandle) -> Run<'a> {
        Run {
            program: &self.program,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: &self.env,
            cwd: scratch,
            scratch,
            timeout: END_TIMEOUT,
            stop,
            is_stopped: StopHandle::is_stopped,
        }
    }

    /// What a command of a Forkful daemon prints.
    pub(super) fn said(&self, args: &[&str], scratch: &Path, stop: &StopHandle) -> Option<String> {
        let run = (self.home == FORKFUL_HOME).then(|| self.run(args, scratch, stop))?;
        run.finish().ok().filter(|said| said.status.success()).map(|said| said.stdout)
    }

    /// There may be a daemon to stop, even if the start failed.
    fn launched(self, options: &Options<'_>, started: Result<Tree, LabError>) -> Result<Launched, LabError> {
        match started {
            Ok(tree) => Ok(Launched { tree, manager: Some(self), ready_file: None }),
            Err(error) => {
                self.end(options.scratch, options.stop);
                Err(error)
            }
        }
    }

    /// Tells it to stop its apps and itself. The caller kills any remaining processes.
    pub(super) fn end(&self, scratch: &Path, stop: &StopHandle) {
        // It must be stopped also, and especially, after an interruption.
        let run = Run { is_stopped: StopHandle::is_at_once, ..self.run(&["kill"], scratch, stop) };
        // If this fails, its processes are killed, including a daemon that started too late to receive the
        // command.
        drop(run.finish());
        kill_marked(self.home, &self.env[self.home]);
    }
}

/// Kills the processes of a manager whose scratch folder this is, whatever it has started.
pub(crate) fn kill_managed(scratch: &Path) {
    for (home, folder) in [(FORKFUL_HOME, scratch.to_owned()), (PM2_HOME, pm2_home(scratch))] {
        kill_marked(home, &folder.to_string_lossy());
    }
}

/// PM2's home in a scratch folder.
fn pm2_home(scratch: &Path) -> PathBuf {
    scratch.join("pm2")
}

/// The last lines of a text.
pub(super) fn lines_from_end(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_text_has_no_empty_lines() {
        let text: String = (0..20).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n\n");
        let tail = lines_from_end(&text);
        assert_eq!(tail.len(), TAIL_LINES_MAX);
        assert_eq!(tail.last().unwrap(), "line 19");
        assert!(lines_from_end("").is_empty());
    }

    #[test]
    fn pm2_is_found_beside_the_app_first() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs_err::create_dir_all(&inner).unwrap();
        fs_err::create_dir_all(dir.path().join("node_modules/.bin")).unwrap();
        let program = dir.path().join("node_modules/.bin/pm2");
        assert_eq!(find_pm2(&inner, &BTreeMap::new()), None);
        fs_err::write(&program, "").unwrap();
        assert_eq!(find_pm2(&inner, &BTreeMap::new()), Some(program));
    }
}
