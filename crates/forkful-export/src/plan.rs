//! Every number of a manifest with its source: the app's specification, the measurements, and the user's
//! request. The platforms' files convert the plan to text.

mod notes;
mod size;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::foreground::longest_stop;
use forkful_core::spec::{AppSpec, Balance, Mode, Runtime};

use crate::measured::Measured;
use crate::names::label;
use crate::{ExportError, Figure};

/// Port of `forkful run --probes` inside a container.
pub const PROBES_PORT: u16 = 9640;

/// How long load balancers may still send requests to a pod that is terminating.
pub const SHUTDOWN_DELAY: Duration = Duration::from_secs(5);

/// Time from the last SIGKILL of a worker to the exit of Forkful.
const END_SECONDS: u64 = 5;

/// The longest start if the configuration has no `listen_timeout`: an app may have to load a lot first.
const START_SECONDS: u32 = 60;

/// Maximum replicas for a rate.
pub const REPLICAS_MAX: u16 = 1000;

/// What a container needs whose configuration has limits of Forkful's own.
const OWN_LIMITS: &str = "\
# `memory_max` and `cpu_max` need control groups, which a container cannot create: the app does not start with
# them. Leave them out of the configuration in the image; the limits below take their place.
";

/// The user's options beside the configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The arguments of `forkful run` in the image: a configuration with `--only NAME`, or a script.
    pub run: Vec<String>,
    /// The source of the app's specification, for comments.
    pub file: String,
    pub image: Option<String>,
    pub port: Option<u16>,
    /// The app does not accept connections.
    pub no_port: bool,
    pub workers: Option<u16>,
    /// The configured number of workers, if it is a number and not `max`.
    pub configured_workers: Option<u16>,
    pub replicas: Option<u16>,
    pub replicas_max: Option<u16>,
    /// Requests per second that the minimum number of replicas must serve.
    pub rate: Option<u32>,
    pub shutdown_delay: Option<Duration>,
    /// The app's own metrics for the autoscaler, each with the target value per pod.
    pub metrics: Vec<(String, String)>,
    /// Environment variables that the platform sets.
    pub env: BTreeMap<String, String>,
}

/// Who queries the probes of `forkful run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probes {
    /// A command inside the container.
    Local,
    /// The platform, over the container's network.
    Open,
}

/// An app's plan, independent of the platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The app's name in the configuration.
    pub app: String,
    /// Its name on the platform: a DNS label.
    pub name: String,
    pub image: Option<String>,
    /// The arguments of `forkful run`, without the options of the platform.
    pub run: Vec<String>,
    pub workers: Figure<u16>,
    /// The number of workers if the app has a whole machine; `None`: as in the configuration.
    pub workers_of_machine: Option<Figure<u16>>,
    /// The app's port; `None` if it accepts no connections.
    pub port: Option<Figure<u16>>,
    pub env: BTreeMap<String, Figure<String>>,
    /// A pod's CPU request, in thousandths of a core.
    pub cpu: Figure<u32>,
    /// A pod's CPU limit in thousandths of a core, if configured.
    pub cpu_max: Option<Figure<u32>>,
    /// A pod's memory request and limit; they are equal, because memory cannot be taken back from a process.
    pub memory: Figure<u64>,
    /// Whether the memory is configured or measured, not assumed.
    pub is_memory_known: bool,
    /// Whether Forkful itself limits the app: it has `memory_max` or `cpu_max`.
    pub has_own_limits: bool,
    pub replicas: Figure<u16>,
    pub replicas_max: Figure<u16>,
    /// The autoscaler's target load of a pod, in percent of its CPU request.
    pub load_percent: Figure<u32>,
    pub metrics: Vec<(String, String)>,
    /// How long a pod keeps serving after its termination starts.
    pub delay: Figure<u64>,
    /// Seconds from then to the last SIGKILL.
    pub stop: Figure<u64>,
    /// Seconds within which the app must start.
    pub start: Figure<u32>,
    /// Requests of a client go to the same pod.
    pub sticky: bool,
    /// User and group id of the workers.
    pub user: Option<(u32, u32)>,
    /// Platform names of apps that must be ready first.
    pub depends_on: Vec<String>,
    /// Notes for readers of the manifest.
    pub notes: Vec<String>,
    /// A comparison of few pods with many workers and many pods with few, if measured.
    pub tradeoff: Vec<String>,
}

impl Plan {
    /// The notes as comments. Names given by users cannot end a comment line.
    pub(crate) fn comment(&self) -> String {
        let plain = |note: &String| note.replace(char::is_control, " ");
        self.notes.iter().map(|note| format!("# {}\n", plain(note).trim_end())).collect()
    }

    /// The notes for a container.
    pub(crate) fn comment_of_container(&self) -> String {
        self.comment() + if self.has_own_limits { OWN_LIMITS } else { "" }
    }

    /// The notes for a container and the comparison, for platforms with several machines.
    pub(crate) fn comment_with_tradeoff(&self) -> String {
        self.comment_of_container()
            + &self.tradeoff.iter().map(|line| format!("# {line}\n")).collect::<String>()
    }

    /// Seconds from the start of the termination to the end, if the platform's delay precedes Forkful's stop.
    pub fn grace(&self) -> Figure<u64> {
        let Self { delay, stop, .. } = self;
        if delay.value == 0 {
            return stop.clone();
        }
        Figure::new(delay.value + stop.value, format!("{} s of preStop + {}", delay.value, stop.source))
    }

    /// The command line in a container, word by word. The platform handles the delay for load balancers, or
    /// there are none.
    pub fn command(&self, probes: Probes) -> Vec<Figure<String>> {
        let mut words: Vec<Figure<String>> = ["forkful", "run"].into_iter().map(Figure::from).collect();
        words.extend(self.run.iter().map(|word| Figure::from(word.as_str())));
        words.push("-i".into());
        words.push(self.workers.map(ToString::to_string));
        let address = match probes {
            Probes::Local => PROBES_PORT.to_string(),
            Probes::Open => format!(":{PROBES_PORT}"),
        };
        let options = ["--probes", address.as_str(), "--shutdown-delay", "0s"];
        words.extend(options.map(Figure::from));
        words
    }
}

/// Plans every app of a configuration. `apps` are all apps of the manifests, so that dependencies between
/// them can be resolved.
pub fn plans(
    apps: &[(AppSpec, Request)],
    measured: &BTreeMap<String, Measured>,
) -> Result<Vec<Plan>, ExportError> {
    let mut plans: Vec<Plan> = Vec::new();
    for (spec, request) in apps {
        let plan = plan(spec, request, measured.get(spec.name.as_str()))?;
        if let Some(other) = plans.iter().find(|other| other.name == plan.name) {
            let (one, other) = (other.app.clone(), plan.app.clone());
            return Err(ExportError::SameName { one, other, name: plan.name });
        }
        plans.push(plan);
    }
    let known: Vec<String> = plans.iter().map(|plan| plan.name.clone()).collect();
    plans.iter_mut().for_each(|plan| plan.depends_on.retain(|name| known.contains(name)));
    Ok(plans)
}

fn plan(spec: &AppSpec, request: &Request, measured: Option<&Measured>) -> Result<Plan, ExportError> {
    let app = spec.name.to_string();
    let name = label(&app).ok_or_else(|| ExportError::Name { app: app.clone(), platform: "a service" })?;
    if let Some(name) = request.env.keys().find(|name| forkful_core::spec::environment::has_secret_name(name))
    {
        return Err(ExportError::Secret { name: name.clone() });
    }
    if let Some(name) = request.env.keys().find(|name| !is_variable(name)) {
        return Err(ExportError::Variable { name: name.clone() });
    }
    let given = given_variables(spec, request)?;
    let port = port(spec, request)?;
    let workers = workers(spec, request, measured);
    let candidate = measured.and_then(|measured| measured.nearest(workers.value));
    let (replicas, replicas_max) = size::replicas(&app, request, candidate, workers.value)?;
    let delay = match request.shutdown_delay {
        Some(delay) => Figure::new(ceil_seconds(delay), "--shutdown-delay"),
        None if port.is_none() => Figure::new(0, "no load balancer sends requests to it"),
        None => Figure::new(SHUTDOWN_DELAY.as_secs(), "for load balancers to learn that it leaves"),
    };
    let mut plan = Plan {
        run: run(spec, request, &given),
        env: variables(given, measured),
        image: request.image.clone(),
        cpu: size::cpu(spec, workers.value, candidate),
        cpu_max: spec.limits.millicores.map(|cpu| Figure::new(cpu, origin(spec, "cpu_max"))),
        workers_of_machine: workers_of_machine(request, measured),
        is_memory_known: candidate.is_some()
            || spec.limits.memory_bytes.is_some()
            || spec.renewal.max_memory_bytes.is_some(),
        has_own_limits: spec.limits.memory_bytes.is_some() || spec.limits.millicores.is_some(),
        memory: size::memory(spec, workers.value, candidate),
        replicas,
        replicas_max,
        load_percent: size::load(workers.value, measured),
        metrics: request.metrics.clone(),
        stop: stop(spec),
        start: start(spec),
        sticky: spec.balance == Balance::Sticky,
        user: spec.launch.run_as.as_ref().map(|user| (user.uid, user.gid)),
        depends_on: spec.depends_on.iter().filter_map(|name| label(name.as_str())).collect(),
        notes: Vec::new(),
        tradeoff: Vec::new(),
        app,
        name,
        port,
        workers,
        delay,
    };
    plan.notes = notes::of(spec, request, measured);
    plan.tradeoff = notes::of_tradeoff(measured, &plan);
    Ok(plan)
}

/// The source of a key: where it was set, or that it is the default.
fn origin(spec: &AppSpec, key: &str) -> String {
    spec.origins.get(key).map_or_else(|| format!("default of {key}"), |place| format!("{key}, {place}"))
}

fn port(spec: &AppSpec, request: &Request) -> Result<Option<Figure<u16>>, ExportError> {
    if request.no_port {
        return Ok(None);
    }
    if let Some(port) = request.port {
        return Ok(Some(Figure::new(port, "--port")));
    }
    let (written, source) = match request.env.get("PORT") {
        Some(port) => (Some(port), "--env PORT".to_owned()),
        None => (configured(spec, "PORT"), format!("PORT of {}", request.file)),
    };
    match written.and_then(|port| port.parse().ok()).filter(|port| *port > 0) {
        Some(port) => Ok(Some(Figure::new(port, source))),
        None => Err(ExportError::NoPort { app: spec.name.to_string() }),
    }
}

/// Explicit values come first, then measurements. `max` refers to the machine on which the export runs, not
/// to the cluster's.
fn workers(spec: &AppSpec, request: &Request, measured: Option<&Measured>) -> Figure<u16> {
    let can_many = spec.mode == Mode::Cluster || spec.launch.runtime == Runtime::Other;
    match (request.workers, request.configured_workers, measured) {
        (Some(workers), ..) => Figure::new(workers, "workers: --workers"),
        (_, Some(workers), _) => Figure::new(workers, format!("workers: {}", origin(spec, "instances"))),
        (.., Some(measured)) => Figure::new(measured.workers, "workers: chosen by measurement"),
        _ if can_many && spec.origins.contains_key("instances") => {
            Figure::new(2, "workers: assumed, so that a pod serves on when one worker crashes or blocks")
        }
        _ => Figure::new(1, "workers: default of instances"),
    }
}

/// A measurement on a machine is valid for a machine, unless the configuration has a number.
fn workers_of_machine(request: &Request, measured: Option<&Measured>) -> Option<Figure<u16>> {
    match (request.workers, request.configured_workers, measured) {
        (Some(workers), ..) => Some(Figure::new(workers, "workers: --workers")),
        (None, None, Some(measured)) => Some(Figure::new(measured.workers, "workers: chosen by measurement")),
        _ => None,
    }
}

/// Whether a shell accepts this name for a variable.
fn is_variable(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// The value that the configuration has for a variable. One from the caller's environment is not in the image.
fn configured<'a>(spec: &'a AppSpec, name: &str) -> Option<&'a String> {
    spec.launch.env.get(name).filter(|_| !spec.launch.env_sources.inherited.contains(name))
}

/// The variables of `--port` and `--env`.
fn given_variables(
    spec: &AppSpec,
    request: &Request,
) -> Result<BTreeMap<String, Figure<String>>, ExportError> {
    let mut given: BTreeMap<String, Figure<String>> =
        request.env.iter().map(|(name, value)| (name.clone(), Figure::new(value.clone(), "--env"))).collect();
    if let Some(port) = request.port {
        let text = port.to_string();
        if let Some(other) = given.insert("PORT".to_owned(), Figure::new(text.clone(), "--port"))
            && other.value != text
        {
            return Err(ExportError::TwoPorts { port, other: other.value });
        }
    }
    for (name, value) in &mut given {
        if configured(spec, name).is_some() {
            value.source += "; also in the command, because the configuration sets it";
        }
    }
    Ok(given)
}

/// The arguments of `forkful run`. The configuration overrides the platform's variables, and the command line overrides the
/// configuration.
fn run(spec: &AppSpec, request: &Request, given: &BTreeMap<String, Figure<String>>) -> Vec<String> {
    let mut run = request.run.clone();
    for (name, value) in given.iter().filter(|(name, _)| configured(spec, name).is_some()) {
        run.extend(["--env".to_owned(), format!("{name}={}", value.value)]);
    }
    run
}

fn variables(
    given: BTreeMap<String, Figure<String>>,
    measured: Option<&Measured>,
) -> BTreeMap<String, Figure<String>> {
    let mut env = BTreeMap::new();
    if let Some(measured) = measured.filter(|measured| measured.pool_matters) {
        let pool = Figure::new(measured.pool.to_string(), "chosen by measurement");
        env.insert("UV_THREADPOOL_SIZE".to_owned(), pool);
    }
    env.extend(given);
    env
}

fn stop(spec: &AppSpec) -> Figure<u64> {
    let longest = ceil_seconds(longest_stop(std::slice::from_ref(spec), Duration::ZERO));
    let source = format!(
        "{longest} s until SIGKILL ({}) + {END_SECONDS} s for Forkful to end",
        origin(spec, "kill_timeout")
    );
    Figure::new(longest + END_SECONDS, source)
}

fn start(spec: &AppSpec) -> Figure<u32> {
    match spec.readiness.listen_timeout {
        // Workers of an app start concurrently, on shared cores.
        Some(timeout) => {
            let seconds = ceil_seconds(timeout).saturating_mul(2).clamp(10, 3600) as u32;
            Figure::new(seconds, format!("seconds: twice {}", origin(spec, "listen_timeout")))
        }
        None => Figure::new(START_SECONDS, "seconds: assumed; listen_timeout in the configuration sets it"),
    }
}

fn ceil_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
