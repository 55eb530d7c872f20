//! Options of `export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use forkful_core::spec::INSTANCES_MAX;

use super::duration;

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
    #[arg(long, value_name = "IMAGE")]
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
    /// Port of the app if the configuration has no `port`; the platform sets PORT to it.
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
