//! Options of `experiment`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Each experiment reproduces a published benchmark of Node.js on many cores: it starts the sample app
as one process and as a cluster in a private home, loads it as in the report, and compares the
results with the reported ones. It only uses loopback, and stops everything at the end. Nothing is
installed: without Express, the apps use a small stand-in, and the result says so.

Examples:
  forkful experiment list
  forkful experiment slow-fast
  forkful experiment 4 --full --html heavy.html
  forkful experiment all --json > found.json")]
pub(crate) struct ExperimentArgs {
    /// Name or number of an experiment, `all`, or `list`.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Run at the original's full length, which may take more than two minutes.
    #[arg(long)]
    pub(crate) full: bool,
    /// Fraction of the usual length (0.1 for a tenth), for a quick check.
    #[arg(long, value_name = "PART", conflicts_with = "full", value_parser = part)]
    pub(crate) scale: Option<f64>,
    /// Workers of the cluster; by default one per core.
    #[arg(long, short, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) instances: Option<u16>,
    /// File for the HTML page; by default forkful-experiment-NAME.html in this directory.
    #[arg(long, value_name = "FILE", conflicts_with = "no_html")]
    pub(crate) html: Option<PathBuf>,
    /// Do not write a page.
    #[arg(long)]
    pub(crate) no_html: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Directory of the sample apps; by default `examples` in this directory or in Forkful's repository.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) examples: Option<PathBuf>,
    /// Seed of the random order of arms; printed, so that a run can be repeated.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err("expected a number above 0, up to 1".to_owned()),
    }
}
