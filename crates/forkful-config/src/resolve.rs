//! From what the user said to a complete [`AppSpec`]: paths, interpreter, number of workers,
//! environment and defaults.
//!
//! Where relative paths start: `cwd` at the configuration file's directory, or at the caller's for an
//! option of the command line; `script` at the `cwd` if one is given (as in PM2), else, or when it is not
//! there, at the same place as `cwd`; log files of a configuration at the app's working directory, of the
//! command line at the caller's. Without `cwd` an app of a configuration runs in that file's directory
//! (PM2: in the caller's, so that it depended on where one stood), one of the command line in the caller's.

mod change;
pub(crate) mod environment;
mod foreign;
mod given;
pub(crate) mod instances;
mod logs;
mod names;
pub(crate) mod program;
mod script;
mod upkeep;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forkful_core::paths;
use forkful_core::spec::{AppName, AppSpec, Launch, LogRotation, Mode, Named as _, Runtime};

use crate::error::{ConfigError, Warning};
use crate::faults::Faults;
use crate::file::left_out;
use crate::options::AppOptions;
use crate::statics;
use crate::tree::quoted;

pub use change::change;
pub(crate) use script::default_name;

/// What resolution needs to know of the caller and the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The caller's working directory, absolute.
    pub caller_cwd: PathBuf,
    /// The caller's environment, as [`caller_environment`](crate::caller_environment) gives it.
    pub caller_env: BTreeMap<String, String>,
    /// This program, which serves files when an app asks for that; absolute.
    pub own_program: PathBuf,
    /// The folder of log files that nobody gave another place, absolute.
    pub logs_folder: PathBuf,
    /// When log files are set aside of an app that says nothing of it.
    pub log_rotation: LogRotation,
    /// The `env_<name>` block that was chosen.
    pub env_name: Option<String>,
    /// The apps will be started on another machine, or by another user: what this user may do does not matter.
    pub is_elsewhere: bool,
    /// How many cores this process may really use, at least 1.
    pub usable_cores: u16,
    /// Why that is fewer than the machine has, in words that fit after "because"; for the warning.
    pub cores_reason: Option<String>,
}

/// An app that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub spec: AppSpec,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
}

/// Resolves one app. A chosen `env_<name>` that it does not have is a warning.
pub fn resolve(options: &AppOptions, context: &Context) -> Result<Resolved, ConfigError> {
    let mut faults = Faults::default();
    let resolved = resolve_one(options, context, &mut faults);
    faults.or_value(())?;
    Ok(resolved.expect("an app without a fault is resolved"))
}

/// Resolves all apps that can be resolved, and notes what is wrong with the others. That none has a chosen `env_<name>` is a
/// fault here.
pub(crate) fn all(apps: &[AppOptions], context: &Context, faults: &mut Faults) -> Vec<Resolved> {
    let mut context = Cow::Borrowed(context);
    if let Err(fault) = environment::require_block(apps, &context) {
        faults.add(fault);
        // The error says it of all apps; a warning for each would say it again.
        context.to_mut().env_name = None;
    }
    let wanted: Vec<&AppOptions> = apps.iter().collect();
    let (options_of, mut resolved) = each(apps, &wanted, &context, faults);
    names::warn_of_absent(apps, &options_of, &mut resolved, &context);
    resolved
}

/// Resolves the wanted ones of these apps, and notes what is wrong with them and between them. Names must differ. Yields them with
/// their options.
fn each<'a>(
    apps: &'a [AppOptions],
    wanted: &[&'a AppOptions],
    context: &Context,
    faults: &mut Faults,
) -> (Vec<&'a AppOptions>, Vec<Resolved>) {
    let mut options_of = Vec::new();
    let mut resolved: Vec<Resolved> = Vec::new();
    for options in wanted.iter().copied() {
        let Some(app) = resolve_one(options, context, faults) else { continue };
        if resolved.iter().any(|other| other.spec.name == app.spec.name) {
            faults.add(ConfigError::duplicate_name(options.app_place(), app.spec.name.as_str()));
            continue;
        }
        options_of.push(options);
        resolved.push(app);
    }
    names::complete_dependencies(apps, &options_of, &mut resolved, context);
    faults.take(names::check_order(&options_of, &resolved));
    (options_of, resolved)
}

/// Whether names choose an app by the name that its file gives it; without names, all are chosen.
fn is_wanted(options: &AppOptions, only: &[String]) -> bool {
    only.is_empty() || options.declared_name().is_none_or(|name| only.contains(&name))
}

/// The full names of those apps of one file that have these names (all, when there are none). Nothing else about the apps has to be
/// right. An app whose name is not valid cannot exist, and is left out, unless it is the only one.
pub fn full_names(
    apps: &[AppOptions],
    only: &[String],
    context: &Context,
) -> Result<Vec<String>, ConfigError> {
    let wanted = apps.iter().filter(|options| is_wanted(options, only));
    let (names, mut faults): (Vec<_>, Vec<_>) =
        wanted.filter_map(|options| full_name(options, context)).partition(Result::is_ok);
    match faults.pop() {
        Some(Err(fault)) if names.is_empty() => Err(fault),
        _ => Ok(names.into_iter().flatten().map(|name| name.to_string()).collect()),
    }
}

fn full_name(options: &AppOptions, context: &Context) -> Option<Result<AppName, ConfigError>> {
    // The default name of an app that serves files depends on its environment.
    if options.serves_files && options.text("name").is_none() {
        let resolved = resolve_one(options, context, &mut Faults::default());
        if let Some(app) = resolved {
            return Some(Ok(app.spec.name));
        }
    }
    Some(names::name(options, &options.declared_name()?, context))
}

/// Resolves those apps of one file or command that have these names (all, when there are none), with `over` (the command line)
/// winning over the file; what is wrong with the others is told in warnings. Names must differ.
pub fn resolve_only(
    mut apps: Vec<AppOptions>,
    only: &[String],
    over: &AppOptions,
    context: &Context,
) -> Result<(Vec<Resolved>, Vec<Warning>), ConfigError> {
    // `over` may give another name, so the apps are chosen before.
    let are_wanted: Vec<bool> = apps.iter().map(|options| is_wanted(options, only)).collect();
    for (options, _) in apps.iter_mut().zip(&are_wanted).filter(|(_, is_wanted)| **is_wanted) {
        options.overlay(over.clone());
    }
    let (wanted, others): (Vec<_>, Vec<_>) =
        apps.iter().zip(&are_wanted).partition(|(_, is_wanted)| **is_wanted);
    let wanted: Vec<&AppOptions> = wanted.into_iter().map(|(options, _)| options).collect();
    let first_fault = |options: &AppOptions| {
        let mut faults = Faults::default();
        resolve_one(options, context, &mut faults);
        faults.into_list().first().map(left_out)
    };
    let warnings = others.into_iter().filter_map(|(options, _)| first_fault(options)).collect();
    let mut faults = Faults::default();
    let (_, resolved) = each(&apps, &wanted, context, &mut faults);
    faults.or_value((resolved, warnings))
}

/// Resolves one app; `None` when something is wrong with it, all of which is noted then.
fn resolve_one(options: &AppOptions, context: &Context, faults: &mut Faults) -> Option<Resolved> {
    let before = faults.count();
    let mut warnings = Vec::new();
    let namespace = faults.take(names::namespace(options));
    let cwd = faults.take(working_directory(options, context))?;
    let mut own = BTreeMap::new();
    let run_as = faults.take(upkeep::run_as(options, context, &mut own));
    let user = run_as.as_ref().and_then(Option::as_ref).filter(|_| !context.is_elsewhere);
    let (mut env, mut env_sources) =
        faults.take(environment::of_app(options, context, &cwd, user, &mut warnings))?;
    env_sources.inherited.retain(|name| !own.contains_key(name));
    env.extend(own);
    faults.take(upkeep::check_increment(options, &env));
    let mut found = faults.take(script::locate(options, context, &cwd, &env, &mut warnings))?;
    env_sources.in_path = found.in_path.take();
    warnings.extend(statics::address_warning(options, &env));
    if found.runtime == Runtime::Node && wants_source_maps(options, found.script.as_deref()) {
        found.program_args.push("--enable-source-maps".to_owned());
    }
    if found.runtime == Runtime::Other {
        // Python holds back what it prints to a pipe; other programs do not read this. Empty means off to Python.
        env.entry("PYTHONUNBUFFERED".to_owned()).or_insert_with(|| "1".to_owned());
    }
    warnings.extend(foreign::cluster_module(options, &found));
    let name = faults.take(names::name(options, &found.default_name, context))?;
    let workers = faults.take(instances::workers(options, context, &mut warnings));
    let depends_on = faults.take(names::depends_on(options, Some(&name)));
    let mode = mode(options, found.runtime, &mut warnings);
    let watch = upkeep::watch(options, &cwd, context, &mut warnings);
    let mut spec = faults.take(given::spec(options, &name, watch))?;
    spec.namespace = namespace?;
    let workers = workers?;
    (spec.instances, spec.autoscale) = (workers.instances, workers.autoscale);
    spec.mode = mode;
    instances::warn_of_fork_mode(options, &spec, found.runtime, &mut warnings);
    spec.restart.restart_finished = options.flag("autorestart") == Some(true);
    logs::complete(&mut spec.logs, options, &name, mode, &cwd, context);
    spec.pid_file = pid_file(options, &cwd, context);
    spec.depends_on = depends_on?;
    spec.origins = options.origins();
    let node_major = (spec.memory_auto && found.runtime == Runtime::Node)
        .then(|| program::major(&found.program, &cwd, &env))
        .flatten();
    spec.launch = Launch {
        program: found.program,
        program_args: found.program_args,
        script: found.script,
        args: found.args,
        cwd,
        env,
        env_sources,
        run_as: run_as?,
        runtime: found.runtime,
        node_major,
    };
    warn_of_ignored(options, &mut warnings);
    warn_of_low_ports(options, mode, &mut warnings);
    (faults.count() == before).then_some(Resolved { spec, warnings })
}

/// As PM2 does by itself: where a compiler has left a map beside the script.
fn wants_source_maps(options: &AppOptions, script: Option<&str>) -> bool {
    options
        .flag("source_map_support")
        .unwrap_or_else(|| script.is_some_and(|script| Path::new(&format!("{script}.map")).is_file()))
}

fn pid_file(options: &AppOptions, cwd: &Path, context: &Context) -> Option<PathBuf> {
    let file = options.path("pid_file")?;
    let base = if options.is_from_file("pid_file") { cwd } else { &context.caller_cwd };
    Some(tidy(&base.join(expand_home(file, context))))
}

fn working_directory(options: &AppOptions, context: &Context) -> Result<PathBuf, ConfigError> {
    let Some(given) = options.path("cwd") else {
        return Ok(file_directory(options, context));
    };
    let base = base_directory(options, "cwd", context);
    let cwd = tidy(&base.join(expand_home(given, context)));
    let fault = match fs_err::metadata(&cwd) {
        Ok(metadata) if metadata.is_dir() => return Ok(cwd),
        Ok(_) => "is not a directory",
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist",
        Err(_) => "cannot be entered",
    };
    let message = format!("{} {fault}", quoted(&cwd.display().to_string()));
    Err(ConfigError::at(options.place("cwd"), message))
}

/// The directory of the configuration file, or the caller's.
fn file_directory(options: &AppOptions, context: &Context) -> PathBuf {
    match options.origin.as_ref().and_then(|origin| origin.file.parent()) {
        Some(directory) => tidy(&context.caller_cwd.join(directory)),
        None => context.caller_cwd.clone(),
    }
}

/// Where the relative path of a key starts.
fn base_directory(options: &AppOptions, key: &str, context: &Context) -> PathBuf {
    if options.is_from_file(key) { file_directory(options, context) } else { context.caller_cwd.clone() }
}

fn expand_home(path: &Path, context: &Context) -> PathBuf {
    match (path.strip_prefix("~"), context.caller_env.get("HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => path.to_owned(),
    }
}

/// Removes `.`, and `..` where that does not lead through a symbolic link to another place.
pub fn tidy(path: &Path) -> PathBuf {
    paths::tidied(path, |path| fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()))
}

fn mode(options: &AppOptions, runtime: Runtime, warnings: &mut Vec<Warning>) -> Mode {
    match (options.text("exec_mode").and_then(Mode::named), runtime) {
        (Some(Mode::Cluster), Runtime::Other) => {
            warnings.push(Warning {
                place: options.place("exec_mode"),
                message: "is \"cluster\", which only Node.js programs can do: it runs in fork mode"
                    .to_owned(),
            });
            Mode::Fork
        }
        (Some(mode), _) => mode,
        _ if options.flag("execute_command") == Some(true) => Mode::Fork,
        (None, Runtime::Node) if options.get("instances").is_some() => Mode::Cluster,
        (None, Runtime::Other) if options.get("instances").is_some() => {
            warnings.extend(foreign::interpreter(options));
            Mode::Fork
        }
        (None, Runtime::Node | Runtime::Other) => Mode::Fork,
    }
}

/// Only ports that the daemon binds can be allowed by it.
fn warn_of_low_ports(options: &AppOptions, mode: Mode, warnings: &mut Vec<Warning>) {
    if options.flag("low_ports") == Some(true) && mode == Mode::Fork {
        warnings.push(Warning {
            place: options.place("low_ports"),
            message: "has no effect in fork mode, where the app itself binds its ports: use \
                      `exec_mode: \"cluster\"`"
                .to_owned(),
        });
    }
}

/// Keys that have no effect beside others.
fn warn_of_ignored(options: &AppOptions, warnings: &mut Vec<Warning>) {
    let is_something = |name: &str| options.get(name).is_some_and(|value| !value.is_null());
    for key in options.given().filter(|key| !key.yields_to.is_empty()) {
        if is_something(key.name) && is_something(key.yields_to) {
            warnings.push(Warning {
                place: options.place(key.name),
                message: format!("is ignored, because `{}` is given too", key.yields_to),
            });
        }
    }
}
