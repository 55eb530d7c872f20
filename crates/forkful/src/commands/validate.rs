//! `forkful validate`: what a configuration comes to, without starting anything.

use std::path::Path;

use forkful_api::types::{AppDefinition, ModeKind};
use forkful_config::AppOptions;

use crate::cli::ValidateArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::format::{count, visible};
use crate::specs::Specs;

pub(super) fn run(args: &ValidateArgs) -> Result<Exit, Failure> {
    if args.schema {
        output::print_json(&forkful_config::json_schema())?;
        return Ok(Exit::Done);
    }
    let specs = Specs::new(&args.env, &[])?;
    let configs = configs(args, &specs)?;
    let mut text = String::new();
    let mut all = Vec::new();
    for config in &configs {
        let file = specs.load(Path::new(config))?;
        let targets = file.deploy_targets()?;
        let definitions: Vec<AppDefinition> =
            specs.resolved(file, &AppOptions::default())?.iter().map(AppDefinition::from).collect();
        text.push_str(&format!("{config}: {}\n", count(definitions.len(), "app")));
        for definition in definitions {
            text.push_str(&format!("  {}\n", line(&definition)));
            // Values are nobody's business who only wants to know whether the file is right.
            all.push(AppDefinition { env: std::collections::BTreeMap::new(), ..definition });
        }
        for target in targets {
            let hosts = target.hosts.join(", ");
            text.push_str(&format!(
                "  deploy {}: {} of {} to {hosts}\n",
                target.name, target.reference, target.repo
            ));
        }
    }
    if args.json {
        output::print_json(&all)?;
    } else {
        output::print(&text)?;
    }
    Ok(Exit::Done)
}

fn configs(args: &ValidateArgs, specs: &Specs) -> Result<Vec<String>, Failure> {
    if !args.configs.is_empty() {
        return Ok(args.configs.clone());
    }
    match forkful_config::find_default(Path::new("")) {
        Some(path) => Ok(vec![path.to_string_lossy().into_owned()]),
        None => Err(Failure::new(Exit::WrongUse, format!("{} holds no config file", specs.cwd().display()))
            .hint("`forkful init` writes one")),
    }
}

/// `api: cluster of 2 workers, /usr/bin/node /srv/app.js`.
fn line(definition: &AppDefinition) -> String {
    let mode = match definition.mode {
        ModeKind::Cluster => "cluster",
        ModeKind::Fork => "fork",
    };
    let workers = count(usize::from(definition.instances), "worker");
    let script = definition.script.as_deref().unwrap_or_default();
    let command = format!("{} {script}", definition.program);
    visible(&format!("{}: {mode}, {workers}, {}", definition.name, command.trim_end()))
}
