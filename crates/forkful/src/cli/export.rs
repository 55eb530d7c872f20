//! Options of `export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use forkful_core::spec::INSTANCES_MAX;

use super::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is started. Every number has a comment that says where it comes from: the configuration, an
option, what `forkful tune --save` measured (forkful.measured.json beside the configuration), or an
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
    /// What runs the app.
    #[arg(value_enum)]
    pub(crate) platform: ExportPlatform,
    /// A config file, a script, or an app of this directory's config file; by default all apps of that file.
    #[arg(value_name = "CONFIG|SCRIPT|APP")]
    pub(crate) target: Option<String>,
    /// The image that holds the app and Forkful; docs/DOCKER.md shows how it is built.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Write a file for each app into this folder, instead of everything to stdout.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// With --out: overwrite files that `export` did not write.
    #[arg(long, short, requires = "out")]
    pub(crate) force: bool,
    /// Only the apps of these names.
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// KEY=VALUE is a variable that the platform sets; NAME chooses the config's block `env_NAME`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE|NAME")]
    pub(crate) env: Vec<String>,
    /// The port that the app listens on, where the configuration has no `port`; the platform sets PORT to it.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// The app takes no connections.
    #[arg(long, conflicts_with = "port")]
    pub(crate) no_port: bool,
    /// Workers in each pod or container.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=i64::from(INSTANCES_MAX)))]
    pub(crate) workers: Option<u16>,
    /// Pods at least; 2 by default.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) replicas: Option<u16>,
    /// Pods at most; as many as --replicas leave the autoscaler out. By default four times as many.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) max_replicas: Option<u16>,
    /// Requests per second that the pods have to serve: --replicas by what was measured.
    #[arg(long, value_name = "NUMBER", conflicts_with = "replicas", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// A metric of the app that the autoscaler also looks at, with the value for one pod. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = metric)]
    pub(crate) metric: Vec<(String, String)>,
    /// How long a pod serves on after its end was asked for, while load balancers learn of it; 5s by default.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) shutdown_delay: Option<Duration>,
}

/// What runs apps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportPlatform {
    /// Deployment, service, autoscaler and disruption budget of each app.
    #[value(alias = "k8s")]
    Kubernetes,
    /// One file of Compose, with a service for each app.
    Compose,
    /// A unit for each app, without a daemon of Forkful's own.
    Systemd,
    /// A job of Nomad for each app.
    Nomad,
    /// A container of Podman for each app, as a unit of systemd.
    Quadlet,
}

fn metric(text: &str) -> Result<(String, String), String> {
    let found = text.split_once('=').filter(|(name, value)| !name.is_empty() && is_quantity(value));
    let (name, value) =
        found.ok_or("expected NAME=VALUE, with a number such as 400, 2.5 or 500m as the value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A quantity of Kubernetes above zero: a number with a suffix of the SI.
fn is_quantity(text: &str) -> bool {
    let number = text.trim_end_matches(['m', 'k', 'M', 'G']);
    text.len() - number.len() <= 1
        && number.parse::<f64>().is_ok_and(|number| number.is_finite() && number > 0.0)
}
