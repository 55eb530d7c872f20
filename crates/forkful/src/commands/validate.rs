//! `forkful validate`: checks configurations and shows the resolved apps, without starting anything.

use std::path::Path;

use annotate_snippets::Level;
use clap::Args;
use forkful_api::types::{AppDefinition, ConfigFault, Validated};
use forkful_config::{ConfigError, Place, Report, Warning};

use crate::exit::{Exit, Failure, See};
use crate::output;
use crate::output::excerpt::excerpt;
use crate::output::format::{count, visible};
use crate::output::paint::Paint;
use crate::specs::{Specs, default_config};

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is started, and no daemon is needed. All errors are shown at once, each with its line, and
the exit code is then 2. Warnings do not change the exit code.

Examples:
  forkful validate
  forkful validate ecosystem.config.js --env production
  forkful validate --schema > forkful.schema.json      for editors")]
pub(crate) struct ValidateArgs {
    /// Config files; by default the one in this directory.
    #[arg(value_name = "CONFIG")]
    pub(crate) configs: Vec<String>,
    /// Use the blocks `env_NAME`.
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Print the JSON Schema of a configuration.
    #[arg(long)]
    pub(crate) schema: bool,
    /// Print the resolved apps, or the errors, as JSON; without environments.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) fn run(args: &ValidateArgs) -> Result<Exit, Failure> {
    if args.schema {
        output::print_json(&forkful_config::json_schema())?;
        return Ok(Exit::Done);
    }
    let specs = Specs::new(&args.env, &[])?;
    let mut text = String::new();
    let mut all = Vec::new();
    let mut faults = Vec::new();
    for config in configs(args)? {
        let report = specs.check(Path::new(&config))?;
        tell(&config, &report, args.json);
        faults.extend(report.faults.iter().map(fault_view));
        if !report.faults.is_empty() {
            continue;
        }
        let mut definitions: Vec<AppDefinition> =
            report.apps.iter().map(|app| AppDefinition::from(&app.spec)).collect();
        definitions.iter_mut().for_each(AppDefinition::redact_secrets);
        text.push_str(&summary(&config, &definitions, &report));
        // Values may be secrets, and are not needed to check the file.
        let without_env = |definition| AppDefinition { env: std::collections::BTreeMap::new(), ..definition };
        all.extend(definitions.into_iter().map(without_env));
    }
    let exit = if faults.is_empty() { Exit::Done } else { Exit::WrongUse };
    if args.json {
        let checked = if faults.is_empty() { Validated::Apps(all) } else { Validated::Faults { faults } };
        output::print_json(&checked)?;
    } else {
        output::print(&text)?;
    }
    Ok(exit)
}

fn configs(args: &ValidateArgs) -> Result<Vec<String>, Failure> {
    if args.configs.is_empty() {
        Ok(vec![default_config("`forkful init` writes one")?])
    } else {
        Ok(args.configs.clone())
    }
}

/// Prints all warnings and errors to stderr, each with an excerpt of the file, then the number of errors.
fn tell(config: &str, report: &Report, is_json: bool) {
    if !report.output.is_empty() {
        output::talk(&output::format::visible(&report.output));
    }
    let paint = Paint::stderr();
    for warning in &report.warnings {
        let Warning { place, .. } = warning;
        output::warn(&warning.to_string());
        output::talk(&shown(&report.text, Some(place), Level::WARNING, paint));
    }
    if is_json {
        return;
    }
    for fault in &report.faults {
        let causes: Vec<String> = causes(fault);
        output::talk(&output::failure::text(paint, &fault.to_string(), &causes, &[], None));
        output::talk(&shown(&report.text, fault.place(), Level::ERROR, paint));
        if let Some(hint) = fault.hint() {
            output::talk(&output::failure::hint_lines(paint, &hint.text, See::At(hint.see)));
        }
        output::talk("\n");
    }
    if !report.faults.is_empty() {
        output::talk(&format!("{config}: {}\n", count(report.faults.len(), "fault")));
    }
}

fn causes(fault: &ConfigError) -> Vec<String> {
    let first = std::error::Error::source(fault);
    std::iter::successors(first, |error| error.source()).map(ToString::to_string).collect()
}

fn shown(text: &str, place: Option<&Place>, level: Level<'static>, paint: Paint) -> String {
    match place.and_then(|place| place.at) {
        Some(at) => excerpt(text, at, level, paint),
        None => String::new(),
    }
}

fn fault_view(fault: &ConfigError) -> ConfigFault {
    let place = fault.place();
    let at = place.and_then(|place| place.at);
    let (hint, see) = fault.hint().map(|hint| (hint.text, hint.see)).unzip();
    ConfigFault {
        message: fault.to_string(),
        hint,
        see,
        file: place.and_then(|place| place.file.as_ref()).map(|file| file.display().to_string()),
        line: at.map(|at| at.line),
        column: at.and_then(|at| at.column),
        key: place.map(|place| place.key.clone()),
    }
}

fn summary(config: &str, definitions: &[AppDefinition], report: &Report) -> String {
    let mut text = format!("{config}: {}\n", count(definitions.len(), "app"));
    for definition in definitions {
        text.push_str(&format!("  {}\n", line(definition)));
    }
    for target in &report.targets {
        let hosts = target.hosts.join(", ");
        text.push_str(&format!(
            "  deploy {}: {} of {} to {hosts}\n",
            target.name, target.reference, target.repo
        ));
    }
    text
}

/// `api: cluster, 2 workers, /usr/bin/node /srv/app.js`.
fn line(definition: &AppDefinition) -> String {
    let workers = match definition.autoscale {
        Some(bounds) => format!("{bounds} workers"),
        None => count(usize::from(definition.instances), "worker"),
    };
    let script = definition.script.as_deref().unwrap_or_default();
    let command = format!("{} {script}", definition.program);
    visible(&format!("{}: {}, {workers}, {}", definition.name, definition.mode, command.trim_end()))
}
