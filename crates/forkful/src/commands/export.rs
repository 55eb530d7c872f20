//! `forkful export`: prints manifests for other schedulers, from a configuration and measurements. This
//! module reads files and prints; `forkful-export` decides the contents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use forkful_config::{AppOptions, is_config};
use forkful_core::pages::Page;
use forkful_core::spec::{AppSpec, INSTANCES_MAX};
use forkful_export::measured::{self, Measured, MeasuredFile};
use forkful_export::plan::{Plan, Request, plans};
use forkful_export::systemd::{self, Host};
use forkful_export::{ExportError, compose, kubernetes, nomad, quadlet};

use crate::cli::duration;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::specs::{Specs, default_config};

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is started. A comment at every number gives its source: the configuration, an option, a
measurement of `forkful tune --save` (forkful.measured.json next to the configuration), or an
assumption. See docs/EXPORT.md.

Examples:
  forkful export kubernetes --image registry.example.com/api:1.4.0 | kubectl apply -f -
  forkful export kubernetes api --image registry.example.com/api:1.4.0 --rate 2000
  forkful export kubernetes forkful.config.js --image api:1 --metric http_requests_per_second=400
  forkful export compose > compose.yaml
  forkful export systemd api --out units
  forkful export quadlet worker.js --image api:1 --no-port
  forkful export nomad api --image api:1 --replicas 3")]
pub(crate) struct ExportArgs {
    /// Target platform.
    #[arg(value_enum)]
    pub(crate) platform: ExportPlatform,
    /// A config file, a script, or an app in this directory's config file; by default all apps of that file.
    #[arg(value_name = "CONFIG|SCRIPT|APP")]
    pub(crate) target: Option<String>,
    /// Image with the app and Forkful; docs/DOCKER.md shows how to build it.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub(crate) image: Option<String>,
    /// Write one file per app to this folder, instead of everything to stdout.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// With --out: overwrite files that `export` did not write.
    #[arg(long, short, requires = "out")]
    pub(crate) force: bool,
    /// Only the apps with these names.
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// KEY=VALUE is a variable that the platform sets; NAME selects the config's block `env_NAME`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE|NAME")]
    pub(crate) env: Vec<String>,
    /// Port of the app, instead of the configuration's `port`; the platform sets PORT to it.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// The app does not accept connections.
    #[arg(long, conflicts_with = "port")]
    pub(crate) no_port: bool,
    /// Workers in each pod or container.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=i64::from(INSTANCES_MAX)))]
    pub(crate) workers: Option<u16>,
    /// Minimum number of pods; 2 by default.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) replicas: Option<u16>,
    /// Maximum number of pods; by default four times --replicas. With the same number as --replicas there is no autoscaler.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) max_replicas: Option<u16>,
    /// Requests per second to serve: calculates --replicas from measurements.
    #[arg(long, value_name = "NUMBER", conflicts_with = "replicas", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// An additional metric of the app for the autoscaler, with the target value per pod. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = metric)]
    pub(crate) metric: Vec<(String, String)>,
    /// How long a pod keeps serving after its termination starts, until load balancers have noticed; 5s by default.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) shutdown_delay: Option<Duration>,
}

/// A target platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportPlatform {
    /// Deployment, service, autoscaler and disruption budget for each app.
    #[value(alias = "k8s")]
    Kubernetes,
    /// A Compose file with a service for each app.
    Compose,
    /// A systemd unit for each app, without Forkful's daemon.
    Systemd,
    /// A Nomad job for each app.
    Nomad,
    /// A Podman container for each app, as a systemd unit (Quadlet).
    Quadlet,
}

fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("expected an image without spaces, such as registry.example.com/api:1.4.0".to_owned());
    }
    Ok(text.to_owned())
}

fn metric(text: &str) -> Result<(String, String), String> {
    let found = text.split_once('=').filter(|(name, value)| !name.is_empty() && is_quantity(value));
    let (name, value) =
        found.ok_or("expected NAME=VALUE, with a number such as 400, 2.5 or 500m as the value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A Kubernetes quantity above zero: a number with an SI suffix.
fn is_quantity(text: &str) -> bool {
    let number = text.trim_end_matches(['m', 'k', 'M', 'G']);
    text.len() - number.len() <= 1
        && number.parse::<f64>().is_ok_and(|number| number.is_finite() && number > 0.0)
}

/// A text in every file written by `export`, to recognise its own files.
const MARK: &str = "made by `forkful export`";

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let hint = error.hint().map(|hint| Page::Export.hint(hint));
        Self::hinted(Exit::WrongUse, error.into(), hint)
    }
}

/// A file of a manifest.
struct Manifest {
    name: String,
    text: String,
}

pub(super) fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    let apps = apps(args)?;
    let measured = read_measured(&measured_file(args)?)?;
    let plans = plans(&apps, &measured)?;
    let manifests = manifests(args.platform, &plans)?;
    match &args.out {
        Some(folder) => write(folder, &manifests, args.force)?,
        None => output::print(&joined(args.platform, &manifests))?,
    }
    Ok(Exit::Done)
}

fn manifests(platform: ExportPlatform, plans: &[Plan]) -> Result<Vec<Manifest>, Failure> {
    let each = |ending: &str, text: &dyn Fn(&Plan) -> Result<String, ExportError>| {
        let one = |plan: &Plan| Ok(Manifest { name: format!("{}.{ending}", plan.name), text: text(plan)? });
        plans.iter().map(one).collect::<Result<Vec<_>, ExportError>>()
    };
    Ok(match platform {
        ExportPlatform::Kubernetes => each("yaml", &kubernetes::manifest)?,
        ExportPlatform::Compose => {
            vec![Manifest { name: "compose.yaml".to_owned(), text: compose::file(plans)? }]
        }
        ExportPlatform::Systemd => {
            let host = host()?;
            each("service", &|plan| Ok(systemd::unit(plan, &host)))?
        }
        ExportPlatform::Nomad => each("nomad.hcl", &nomad::job)?,
        ExportPlatform::Quadlet => each("container", &quadlet::container)?,
    })
}

/// This machine, as in the systemd service of `forkful startup`.
fn host() -> Result<Host, Failure> {
    let failed = |error: std::io::Error| Failure::caused(Exit::Failed, error.into());
    let id = rustix::process::geteuid();
    let user = forkful_os::users::user_by_id(id.as_raw()).filter(|_| !id.is_root());
    Ok(Host {
        program: super::lab::this_program()?,
        folder: std::env::current_dir().map_err(failed)?,
        user: user.map(|user| user.name),
        path: super::startup::search_path(),
    })
}

/// All manifests in one text, for stdout.
fn joined(platform: ExportPlatform, manifests: &[Manifest]) -> String {
    let texts = manifests.iter();
    match platform {
        ExportPlatform::Kubernetes | ExportPlatform::Compose => {
            texts.map(|manifest| manifest.text.as_str()).collect::<Vec<_>>().join("---\n")
        }
        // A single manifest is printed as it is; several are separated by their names.
        _ if manifests.len() == 1 => manifests[0].text.clone(),
        _ => texts.map(|manifest| format!("# {}\n{}\n", manifest.name, manifest.text)).collect(),
    }
}

/// The kind of an argument.
enum Source {
    Config(String),
    Script(String),
    /// An app of the default configuration.
    App(String),
}

fn source(args: &ExportArgs) -> Source {
    match &args.target {
        None => Source::App(String::new()),
        Some(target) if is_config(Path::new(target)) => Source::Config(target.clone()),
        Some(target) if Path::new(target).is_file() || target.contains('/') => Source::Script(target.clone()),
        // An app's name may have a dot, too.
        Some(target) if target.contains('.') && forkful_config::find_default(Path::new("")).is_none() => {
            Source::Script(target.clone())
        }
        Some(target) => Source::App(target.clone()),
    }
}

/// The apps with the request for each.
fn apps(args: &ExportArgs) -> Result<Vec<(AppSpec, Request)>, Failure> {
    let mut only = args.only.clone();
    let config = match source(args) {
        Source::Script(script) => return of_script(args, &script),
        Source::Config(config) => config,
        Source::App(name) => {
            let config = default_config("name a config file or a script, or write one with `forkful init`")?;
            only.extend((!name.is_empty()).then_some(name));
            config
        }
    };
    let specs = Specs { are_elsewhere: true, ..Specs::new(&args.env, &only)? };
    let file = specs.load(Path::new(&config))?;
    let numbers: BTreeMap<String, u16> = file.apps.iter().filter_map(number_of_workers).collect();
    let there = path_there(args.platform, &config);
    let request = |spec: AppSpec| {
        let name = spec.name.to_string();
        let mut run = vec![there.clone(), "--only".to_owned(), name.clone()];
        if let Some(block) = &specs.env_name {
            run.extend(["--env".to_owned(), block.clone()]);
        }
        let configured_workers = numbers.get(&name).copied();
        let request = Request { run, file: there.clone(), configured_workers, ..request(args, &specs) };
        (spec, request)
    };
    Ok(specs.resolved(file, &AppOptions::default())?.into_iter().map(request).collect())
}

fn of_script(args: &ExportArgs, script: &str) -> Result<Vec<(AppSpec, Request)>, Failure> {
    let specs = Specs { are_elsewhere: true, ..Specs::new(&args.env, &args.only)? };
    let spec = specs.app_of_command_line(script, &AppOptions::default())?;
    let there = path_there(args.platform, script);
    let request = Request { run: vec![there.clone()], file: there, ..request(args, &specs) };
    Ok(vec![(spec, request)])
}

fn request(args: &ExportArgs, specs: &Specs) -> Request {
    Request {
        image: args.image.clone(),
        port: args.port,
        no_port: args.no_port,
        workers: args.workers,
        replicas: args.replicas,
        replicas_max: args.max_replicas,
        rate: args.rate,
        shutdown_delay: args.shutdown_delay,
        metrics: args.metric.clone(),
        env: specs.added_env.clone(),
        ..Request::default()
    }
}

/// A configured number of workers, unless it depends on the machine's cores; the greatest one where the number follows the load.
fn number_of_workers(app: &AppOptions) -> Option<(String, u16)> {
    let value = app.get("instances")?;
    let number = value.as_u64().or_else(|| value.as_str()?.rsplit("..").next()?.parse().ok())?;
    let number = u16::try_from(number).ok().filter(|number| *number > 0)?;
    Some((app.declared_name()?, number))
}

/// Relative paths are also valid in the image's working directory; of other paths, an image has the file name. A unit
/// runs on this machine.
fn path_there(platform: ExportPlatform, path: &str) -> String {
    let path = Path::new(path);
    let is_moved = path.is_absolute() && platform != ExportPlatform::Systemd;
    let kept = if is_moved { path.file_name().map_or(path, Path::new) } else { path };
    kept.strip_prefix("./").unwrap_or(kept).display().to_string()
}

/// Next to the configuration, or in the working directory.
fn measured_file(args: &ExportArgs) -> Result<PathBuf, Failure> {
    let folder = match source(args) {
        Source::Config(config) => Path::new(&config).parent().map(Path::to_owned).unwrap_or_default(),
        Source::Script(_) | Source::App(_) => PathBuf::new(),
    };
    Ok(folder.join(measured::FILE))
}

/// The measurements by app; empty if the file does not exist.
pub(super) fn read_measured(path: &Path) -> Result<BTreeMap<String, Measured>, Failure> {
    let unusable = |error: anyhow::Error| {
        Failure::caused(Exit::WrongUse, error.context(format!("cannot use {}", path.display())))
            .hint("remove it, and measure again with `forkful tune … --save`")
            .see(Page::Export)
    };
    let length = match fs_err::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(unusable(error.into())),
    };
    if length > measured::BYTES_MAX {
        return Err(unusable(anyhow::anyhow!("it has {length} bytes, more than {}", measured::BYTES_MAX)));
    }
    let text = fs_err::read_to_string(path).map_err(|e| unusable(e.into()))?;
    Ok(MeasuredFile::parse(&text).map_err(|e| unusable(e.into()))?.apps)
}

/// Writes all files to the folder, unless one exists that `export` did not write.
fn write(folder: &Path, manifests: &[Manifest], force: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::caused(Exit::Failed, error.into());
    fs_err::create_dir_all(folder).map_err(failed)?;
    let paths: Vec<PathBuf> = manifests.iter().map(|manifest| folder.join(&manifest.name)).collect();
    if let Some(path) = paths.iter().find(|path| !force && is_of_others(path)) {
        let error = format!("{} exists, and `forkful export` did not write it", path.display());
        return Err(Failure::new(Exit::Failed, error).hint("`--force` overwrites it").see(Page::Export));
    }
    for (path, manifest) in paths.iter().zip(manifests) {
        fs_err::write(path, &manifest.text)
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(|error| Failure::caused(Exit::Failed, error))?;
        output::say(&format!("{} is written\n", path.display()))?;
    }
    Ok(())
}

fn is_of_others(path: &Path) -> bool {
    path.exists() && !fs_err::read_to_string(path).is_ok_and(|text| text.contains(MARK))
}
