//! From an app's spec to one process: arguments, environment, pipes, channel.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use forkful_core::spec::{AppSpec, Balance, Launch, Mode, Runtime};
use forkful_os::behalf::{Entry, Find};
use forkful_os::channel;
use forkful_os::channel::RemoteEnd;
use forkful_os::listener::Owner;
use forkful_os::process::{Child, RunAs, SpawnError, SpawnPlan, SpawnStep};
use forkful_os::tree::{MARK_VARIABLE, Mark};

use super::EngineOptions;
use crate::code_cache::{self, CodeCache};
use crate::home::AgentPlace;

/// Where a worker finds its channel: the only number that its own children do not inherit (Node
/// marks the low descriptors close-on-exec at start).
pub(super) const CHANNEL_FD: i32 = 3;

/// Tells the agent that the primary opens the sockets of a process that is no worker of a cluster.
const LENDS_VARIABLE: &str = "FORKFUL_LENDS";
/// Tells the agent what a scrape of the app's own metrics gives.
const METRICS_VARIABLE: &str = "FORKFUL_METRICS";
const OPTIONS_VARIABLE: &str = "NODE_OPTIONS";

/// Everything that differs between two workers of an app.
pub(crate) struct Identity<'a> {
    pub(crate) slot: u16,
    pub(crate) pm_id: u32,
    /// `cluster.worker.id`.
    pub(crate) worker: u32,
    /// What its descendants are known by.
    pub(crate) mark: Mark,
    pub(crate) agent: Option<&'a Path>,
    /// Where processes below it ask for sockets.
    pub(crate) lends: Option<&'a Path>,
    /// Where Node.js keeps compiled code.
    pub(crate) cache: Option<&'a Path>,
    /// Limits of the heap, as options of Node.js.
    pub(crate) heap: &'a [String],
    /// Whether clients can write to its stdin; else that is empty.
    pub(crate) takes_input: bool,
}

/// Our ends of what connects a process.
pub(crate) struct Ends {
    pub(crate) channel: Option<OwnedFd>,
    /// What the other end of the channel is known by.
    pub(crate) cookie: Option<u64>,
    /// Does not block.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Ends {
    /// The other end of the channel, once there is a process that holds it.
    pub(crate) fn remote_of(&self, child: &Child) -> Option<RemoteEnd> {
        Some(RemoteEnd::new(child.pidfd.try_clone().ok()?, CHANNEL_FD, self.cookie?))
    }
}

impl EngineOptions {
    /// The agent's file for workers of an app, which must be able to read it.
    pub(super) fn agent_for(&self, spec: &AppSpec) -> Option<AgentPlace> {
        if !spec.agent {
            return None;
        }
        if other_user(spec).is_some() {
            return Some(AgentPlace::ForOthers);
        }
        self.agent.as_ref().map(|_installed| AgentPlace::Home(self.home.clone()))
    }
}

/// Makes everything that the start of a worker takes.
pub(crate) fn prepare(spec: &AppSpec, identity: &Identity<'_>) -> io::Result<(SpawnPlan, Ends)> {
    let input = identity.takes_input.then(input_pipe).transpose()?;
    let (out, err, channels) = (pipe()?, pipe()?, channel_pair(spec)?);
    let (child_stdin, stdin) = input.unzip();
    let (stdout, child_stdout) = out;
    let (stderr, child_stderr) = err;
    let (channel, child_channel) = channels.unzip();
    let cookie = child_channel.as_ref().and_then(|end| channel::cookie(end.as_fd()).ok());
    let plan = SpawnPlan {
        program: spec.launch.program.clone(),
        argv: arguments(spec, identity),
        env: environment(spec, identity),
        cwd: spec.launch.cwd.clone(),
        stdin: child_stdin,
        stdout: child_stdout,
        stderr: child_stderr,
        channel: child_channel,
        run_as: spec.launch.run_as.as_ref().map(run_as),
        mark: Some(identity.mark),
        groups: None,
        keeping: forkful_os::keeper::Keeping::default(),
    };
    Ok((plan, Ends { channel, cookie, stdin, stdout, stderr }))
}

/// The script that an interpreter runs, if the app has one. A shell command line is none.
pub(crate) fn script_of(spec: &AppSpec) -> Option<PathBuf> {
    spec.launch.script.as_ref().map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Refuses a script that is a FIFO, a socket or a device: the interpreter would wait for it without an end. What cannot be
/// looked at is left to the interpreter. Takes as long as the file system does.
pub(crate) fn refuse_special_script(script: &Path) -> Result<(), SpawnError> {
    let found = Entry::find(script, Find::TO_READ).and_then(|entry| entry.look());
    match found {
        Ok(Some(found)) if !found.is_regular => Err(SpawnError {
            step: SpawnStep::Execute,
            path: script.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"),
        }),
        _ => Ok(()),
    }
}

/// Whom a process runs as, in the kernel's terms.
pub(crate) fn run_as(user: &forkful_core::spec::RunAs) -> RunAs {
    RunAs { uid: user.uid, gid: user.gid, groups: user.groups.clone() }
}

/// The user of an app's workers, when that is another than ours.
pub(crate) fn other_user(spec: &AppSpec) -> Option<Owner> {
    let user = spec.launch.run_as.as_ref()?;
    (user.uid != forkful_os::identity::euid()).then(|| Owner {
        uid: user.uid,
        gid: user.gid,
        groups: user.groups.clone(),
    })
}

/// What the user is told if the chosen balance cannot be had on this system.
pub(super) fn balance_note(spec: &AppSpec) -> Option<&'static str> {
    if !forkful_os::portable::is_on() {
        return None;
    }
    forkful_core::portable::balance_note(spec.balance, spec.mode)
}

/// How new connections are spread. Processes in fork mode take theirs by themselves.
pub(crate) fn balance_of(spec: &AppSpec) -> Balance {
    match spec.mode {
        mode if forkful_os::portable::is_on() => forkful_core::portable::balance(spec.balance, mode),
        Mode::Cluster => spec.balance,
        Mode::Fork => Balance::Direct,
    }
}

/// The lowest port that is bound for an app.
pub(crate) fn lowest_port_of(spec: &AppSpec) -> u16 {
    forkful_core::spec::lowest_port(
        spec,
        other_user(spec).is_some(),
        forkful_os::listener::unprivileged_from(),
    )
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// The end that a worker reads, and ours.
fn input_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe()?;
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

fn channel_pair(spec: &AppSpec) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    match spec.launch.runtime {
        Runtime::Node => channel::pair().map(Some),
        Runtime::Other => Ok(None),
    }
}

fn arguments(spec: &AppSpec, identity: &Identity<'_>) -> Vec<String> {
    let launch = &spec.launch;
    let mut argv = vec![launch.program.to_string_lossy().into_owned()];
    argv.extend(launch.program_args.iter().cloned());
    if launch.runtime == Runtime::Node {
        argv.extend(identity.heap.iter().cloned());
        if spec.mode == Mode::Cluster && profiles_into_one_file(launch) {
            argv.push("--logfile=v8-%p.log".to_owned());
        }
        if let Some(port) = inspect_port(launch, inspector_number(spec.mode, identity.slot, identity.worker))
        {
            argv.push(format!("--inspect-port={port}"));
        }
        if let Some(agent) = identity.agent {
            argv.extend(permission_to_read(launch, agent));
            argv.push("--require".to_owned());
            argv.push(agent.to_string_lossy().into_owned());
        }
    }
    argv.extend(launch.script.iter().cloned());
    argv.extend(launch.args.iter().cloned());
    argv
}

/// Where an app may read only what it is allowed to (`--permission`), Node.js would refuse to load the agent, and end.
fn permission_to_read(launch: &Launch, agent: &Path) -> Option<String> {
    let from_env = launch.env.get(OPTIONS_VARIABLE).map(String::as_str).unwrap_or_default();
    let mut options = launch.program_args.iter().map(String::as_str).chain(from_env.split_whitespace());
    let is_restricted = options.any(|option| ["--permission", "--experimental-permission"].contains(&option));
    let folder = agent.parent().filter(|_| is_restricted)?;
    Some(format!("--allow-fs-read={}/*", folder.display()))
}

/// Whether workers would write their profiles (`--prof`) over each other's; Node's primary gives them a name, too.
fn profiles_into_one_file(launch: &Launch) -> bool {
    let has = |is: fn(&str) -> bool| launch.program_args.iter().any(|option| is(option));
    has(|option| option == "--prof") && !has(|option| option.starts_with("--logfile="))
}

/// Which inspector port of its app a worker gets: in cluster mode each start the next one, as Node's primary does, for
/// the old and the new one of a slot run at a time; in fork mode each slot keeps its own.
pub(crate) fn inspector_number(mode: Mode, slot: u16, worker: u32) -> u32 {
    match mode {
        Mode::Cluster => worker,
        Mode::Fork => u32::from(slot) + 1,
    }
}

/// Each worker needs an inspector port of its own: the first gets the base, the others those after it.
pub(crate) fn inspect_port(launch: &Launch, number: u32) -> Option<u16> {
    let from_env = launch.env.get("NODE_OPTIONS").map(String::as_str).unwrap_or_default();
    let options = || launch.program_args.iter().map(String::as_str).chain(from_env.split_whitespace());
    let is_inspect = |option: &&str| {
        ["--inspect", "--inspect-brk", "--inspect-wait", "--inspect-port", "--debug-port"].iter().any(
            |name| *option == *name || option.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')),
        )
    };
    let named = options().rfind(is_inspect)?;
    let value = named.split_once('=').map_or("", |(_, value)| value);
    let base: u32 = value.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(9229);
    if base == 0 {
        return Some(0);
    }
    // Ports wrap from 65535 to 1024.
    let offset = (base.max(1024) - 1024 + number.saturating_sub(1)) % (65536 - 1024);
    Some((1024 + offset) as u16)
}

fn environment(spec: &AppSpec, identity: &Identity<'_>) -> Vec<(String, String)> {
    let mut env = spec.launch.env.clone();
    for name in
        ["NODE_CHANNEL_FD", "NODE_UNIQUE_ID", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_CLUSTER_SCHED_POLICY"]
    {
        env.remove(name);
    }
    if let Some(name) = &spec.variables.increment
        && let Some(first) = env.get(name).and_then(|value| value.trim().parse::<i64>().ok())
    {
        env.insert(name.clone(), first.saturating_add(i64::from(identity.slot)).to_string());
    }
    let mode = match spec.mode {
        Mode::Cluster => "cluster_mode",
        Mode::Fork => "fork_mode",
    };
    // PM2's names that apps look for. A user's own variable is never overridden by these.
    let polite = [
        (spec.variables.instance.as_str(), identity.slot.to_string()),
        ("pm_id", identity.pm_id.to_string()),
        ("name", spec.name.to_string()),
        ("namespace", spec.namespace.to_string()),
        ("instances", spec.instances.to_string()),
        ("exec_mode", mode.to_owned()),
        ("FORKFUL_APP", spec.name.to_string()),
    ];
    for (name, value) in polite {
        env.entry(name.to_owned()).or_insert(value);
    }
    env.insert(MARK_VARIABLE.to_owned(), identity.mark.to_string());
    if spec.launch.runtime == Runtime::Node {
        env.insert("NODE_CHANNEL_FD".to_owned(), CHANNEL_FD.to_string());
        env.insert("NODE_CHANNEL_SERIALIZATION_MODE".to_owned(), "json".to_owned());
        match spec.mode {
            Mode::Cluster => {
                env.insert("NODE_UNIQUE_ID".to_owned(), identity.worker.to_string());
            }
            Mode::Fork => {}
        }
    }
    if spec.launch.runtime == Runtime::Other && !identity.heap.is_empty() {
        // Node.js below another program, such as npm, finds its options here.
        let options = env.entry(OPTIONS_VARIABLE.to_owned()).or_default();
        identity.heap.iter().for_each(|option| add_option(options, option));
    }
    if spec.merge_metrics && identity.agent.is_some() {
        env.insert(METRICS_VARIABLE.to_owned(), "merge".to_owned());
    } else {
        env.remove(METRICS_VARIABLE);
    }
    if let Some(cache) = identity.cache {
        env.insert(code_cache::VARIABLE.to_owned(), cache.to_string_lossy().into_owned());
    }
    if let Some(agent) = identity.agent.filter(|_| spec.mode == Mode::Fork) {
        have_sockets_lent(&mut env, agent, identity.lends, spec.launch.runtime);
    }
    env.into_iter().collect()
}

fn add_option(options: &mut String, option: &str) {
    if !options.is_empty() {
        options.push(' ');
    }
    options.push_str(option);
}

/// Node.js that we start is told to ask by its channel, and where processes below it ask. Below another program, such as npm,
/// Node.js finds the agent by its options.
fn have_sockets_lent(
    env: &mut BTreeMap<String, String>,
    agent: &Path,
    lends: Option<&Path>,
    runtime: Runtime,
) {
    let place = lends.map(|path| path.to_string_lossy().into_owned());
    let value = match (runtime, place) {
        (Runtime::Node, place) => format!("ipc:{}", place.unwrap_or_default()),
        (Runtime::Other, Some(place)) => {
            let options = env.entry(OPTIONS_VARIABLE.to_owned()).or_default();
            options.push_str(&option_for(agent));
            place
        }
        (Runtime::Other, None) => return,
    };
    env.insert(LENDS_VARIABLE.to_owned(), value);
}

/// What has Node.js load the agent, as the agent takes it out again.
fn option_for(agent: &Path) -> String {
    let quoted = agent.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!(" --require \"{quoted}\"")
}

/// Files beside the app's own that a start uses.
pub(super) struct Aids {
    pub(super) agent: Option<AgentPlace>,
    pub(super) cache: Option<CodeCache>,
}

impl Aids {
    /// Makes those that are not there, which takes as long as the disk does. What cannot be made is left out of the plan.
    pub(super) fn make(&mut self, plan: &mut SpawnPlan) {
        if let Some(agent) = &self.agent
            && let Err(error) = agent.install()
        {
            log_line!("forkful: drains are less exact without the agent: {error}");
            leave_out(plan, &agent.path());
        }
        if self.cache.take_if(|cache| cache.make().is_err()).is_some() {
            plan.env.retain(|(name, _)| name != code_cache::VARIABLE);
        }
    }
}

/// Has Node.js not load an agent that could not be made: it would refuse to start.
fn leave_out(plan: &mut SpawnPlan, agent: &Path) {
    let place = plan.argv.windows(2).position(|pair| pair[0] == "--require" && Path::new(&pair[1]) == agent);
    if let Some(at) = place {
        plan.argv.drain(at..at + 2);
    }
    plan.env.retain(|(name, _)| name != LENDS_VARIABLE);
    for (_, options) in plan.env.iter_mut().filter(|(name, _)| name == OPTIONS_VARIABLE) {
        *options = options.replace(&option_for(agent), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(options: &str, args: &[&str]) -> Launch {
        Launch {
            program: "/usr/bin/node".into(),
            program_args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            script: None,
            args: Vec::new(),
            cwd: "/".into(),
            env: [("NODE_OPTIONS".to_owned(), options.to_owned())].into(),
            env_sources: forkful_core::spec::EnvSources::default(),
            run_as: None,
            runtime: Runtime::Node,
            node_major: None,
        }
    }

    #[test]
    fn a_script_that_is_no_regular_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, fifo) = (folder.path().join("file.js"), folder.path().join("fifo.js"));
        fs_err::write(&file, "").unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let error = refuse_special_script(&fifo).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot execute {}", fifo.display()));
        refuse_special_script(&file).unwrap();
        refuse_special_script(Path::new("/bin/echo some words")).unwrap();
    }

    #[test]
    fn each_worker_gets_an_inspector_port_of_its_own() {
        assert_eq!(inspect_port(&with("", &[]), 1), None);
        assert_eq!(inspect_port(&with("", &["--inspector-nonsense"]), 1), None);
        assert_eq!(inspect_port(&with("", &["--inspect"]), 1), Some(9229));
        assert_eq!(inspect_port(&with("", &["--inspect"]), 2), Some(9230));
        assert_eq!(inspect_port(&with("", &["--inspect=0.0.0.0:7000"]), 3), Some(7002));
        assert_eq!(inspect_port(&with("--inspect-brk=127.0.0.1:0", &[]), 3), Some(0));
        assert_eq!(inspect_port(&with("", &["--inspect=65535"]), 2), Some(1024));
    }

    #[test]
    fn an_app_with_permissions_may_read_the_agent() {
        let agent = Path::new("/srv/forkful/agent-1/agent.cjs");
        let allowed = Some("--allow-fs-read=/srv/forkful/agent-1/*".to_owned());
        let args: &[(&str, &[&str], _)] = &[
            ("", &["--permission", "--allow-fs-read=/app/*"], allowed.clone()),
            ("", &["--experimental-permission"], allowed.clone()),
            ("--permission --allow-net", &[], allowed),
            ("", &["--permissions"], None),
            ("", &[], None),
        ];
        for (options, args, expected) in args {
            assert_eq!(permission_to_read(&with(options, args), agent), *expected, "{options} {args:?}");
        }
    }

    #[test]
    fn profiles_have_a_name_for_each_process() {
        assert!(profiles_into_one_file(&with("", &["--prof"])));
        assert!(!profiles_into_one_file(&with("", &["--prof", "--logfile=x.log"])));
        assert!(!profiles_into_one_file(&with("", &["--prof-process"])));
    }

    #[test]
    fn a_fork_mode_app_keeps_its_inspector_port_over_restarts() {
        assert_eq!([1, 2, 3].map(|worker| inspector_number(Mode::Fork, 0, worker)), [1, 1, 1]);
        assert_eq!([0, 1, 2].map(|slot| inspector_number(Mode::Fork, slot, 9)), [1, 2, 3]);
        assert_eq!([1, 2, 3].map(|worker| inspector_number(Mode::Cluster, 0, worker)), [1, 2, 3]);
    }
}
