//! The environment of an app: the caller's as `filter_env` leaves it, then `.env` files, then `env`, then
//! `port`, then what `deploy.<name>.env` and `env_<name>` have for the chosen name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use forkful_core::incidents::Deployment;
use forkful_core::pages::Page;
use forkful_core::spec::environment::{
    ENV_FILE_BYTES_MAX, EnvFilter, Excluded, is_for_other_users, looks_app_specific, parse_env_file,
};
use forkful_core::spec::{EnvBlocks, EnvSources, RunAs};

use forkful_os::behalf::read_whole;
use serde_json::Value;

use super::{Context, expand_home, tidy};
use crate::error::{ConfigError, Place, Warning};
use crate::options::AppOptions;
use crate::tree::quoted;

/// Variables by which Node finds its own IPC channel. A caller that is itself a Node child must not
/// pass them on: a worker would open a descriptor that is not its channel.
const CHANNEL_VARIABLES: &[&str] = &["NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_UNIQUE_ID"];

/// The environment of this process as apps get it: as it is, without Node's channel variables, without the
/// version that a deployment brings, which would make the environment another one each time, and without what is not UTF-8, of which a warning tells.
pub fn caller_environment() -> (BTreeMap<String, String>, Vec<Warning>) {
    from_os(std::env::vars_os())
}

fn from_os(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (BTreeMap<String, String>, Vec<Warning>) {
    let mut env = BTreeMap::new();
    let mut warnings = Vec::new();
    for (name, value) in variables {
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) => {
                env.insert(name.to_owned(), value.to_owned());
            }
            _ => warnings.push(Warning {
                place: Place::default(),
                message: format!(
                    "the environment variable {} is not UTF-8 and is left out",
                    quoted(&name.to_string_lossy())
                ),
            }),
        }
    }
    strip_own(&mut env);
    (env, warnings)
}

/// Removes what is the program's own, and not for apps.
pub fn strip_own(env: &mut BTreeMap<String, String>) {
    for name in CHANNEL_VARIABLES {
        env.remove(*name);
    }
    env.remove(Deployment::VARIABLE);
}

/// Refuses an `env_<name>` that none of the apps has, unless it is the name of a `deploy` target: a deployment chooses
/// that by default.
pub(super) fn require_block(apps: &[AppOptions], context: &Context) -> Result<(), ConfigError> {
    let Some(name) = &context.env_name else { return Ok(()) };
    let Some(first) = apps.first() else { return Ok(()) };
    if apps.iter().any(|app| app.env_blocks.contains_key(name) || app.deploy_env.contains_key(name)) {
        return Ok(());
    }
    let known = known_blocks(apps);
    let place = match &first.origin {
        Some(origin) if apps.len() > 1 => Place::in_file(&origin.file, None, "apps"),
        _ => first.app_place(),
    };
    let hint = if known.is_empty() {
        "an `env_<name>` block of a configuration file is chosen by its <name>; there is none".to_owned()
    } else {
        format!("there is {known}")
    };
    Err(ConfigError::at(place, format!("has no `env_{name}`")).with_hint(hint).with_page(Page::Environment))
}

/// The `env_<name>` that apps have, in words.
fn known_blocks<'a>(apps: impl IntoIterator<Item = &'a AppOptions>) -> String {
    let names: BTreeSet<&String> = apps.into_iter().flat_map(|app| app.env_blocks.keys()).collect();
    names.into_iter().map(|name| format!("env_{name}")).collect::<Vec<_>>().join(", ")
}

/// The complete environment of one app, and where its values came from.
pub(super) fn of_app(
    options: &AppOptions,
    context: &Context,
    cwd: &Path,
    run_as: Option<&RunAs>,
    warnings: &mut Vec<Warning>,
) -> Result<(BTreeMap<String, String>, EnvSources), ConfigError> {
    let mut env = context.caller_env.clone();
    strip_own(&mut env);
    let filter = filter(options, run_as);
    let withheld: Vec<String> = if filter.for_other_users {
        env.keys().filter(|name| !is_for_other_users(name)).cloned().collect()
    } else {
        Vec::new()
    };
    env.retain(|name, _| filter.admits(name));
    let mut layers = Layers {
        sources: EnvSources {
            inherited: env.keys().cloned().collect(),
            keep_inherited: options.flag("save_env").unwrap_or_default(),
            filter,
            ..EnvSources::default()
        },
        env,
    };
    for file in options.texts("env_file").unwrap_or_default() {
        let file = tidy(&cwd.join(expand_home(Path::new(&file), context)));
        let variables = read_env_file(options, &file)?;
        layers.add_file(file, variables);
    }
    let mut common = options.env.clone();
    common.extend(options.port_variable());
    layers.add(&common);
    let named = blocks(options);
    if let Some(name) = &context.env_name {
        match named.get(name) {
            Some(block) => layers.add(block),
            // A deployment of an app that has no blocks at all.
            None if options.env_blocks.is_empty() && options.deploy_env.contains_key(name) => {}
            None => warnings.push(Warning {
                place: options.app_place(),
                message: match known_blocks([options]) {
                    known if known.is_empty() => format!("has no `env_{name}`: it gets its `env` alone"),
                    known => format!("has no `env_{name}` (there is {known}): it gets its `env` alone"),
                },
            }),
        }
    }
    let withheld: Vec<String> = withheld
        .into_iter()
        .filter(|name| looks_app_specific(name) && !layers.env.contains_key(name))
        .collect();
    if !withheld.is_empty() {
        warnings.push(Warning {
            place: options.app_place(),
            message: format!(
                "runs as another user and does not get {} of this environment: write what it needs in its `env` or \
                 `env_file`, or pass everything with `filter_env: false`",
                withheld.join(", ")
            ),
        });
    }
    if !named.is_empty() {
        layers.sources.blocks = EnvBlocks { common, named };
    }
    Ok((layers.env, layers.sources))
}

/// What each name chooses: `deploy.<name>.env`, and `env_<name>` over it. A target without variables is no block.
fn blocks(options: &AppOptions) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut blocks = options.deploy_env.clone();
    blocks.retain(|_, block| !block.is_empty());
    for (name, block) in &options.env_blocks {
        blocks.entry(name.clone()).or_default().extend(block.clone());
    }
    blocks
}

struct Layers {
    env: BTreeMap<String, String>,
    sources: EnvSources,
}

impl Layers {
    fn add(&mut self, variables: &BTreeMap<String, String>) {
        for (name, value) in variables {
            self.sources.inherited.remove(name);
            self.sources.from_files.remove(name);
            self.env.insert(name.clone(), value.clone());
        }
    }

    fn add_file(&mut self, file: std::path::PathBuf, variables: BTreeMap<String, String>) {
        self.add(&variables);
        self.sources.from_files.extend(variables.into_keys());
        self.sources.files.push(file);
    }
}

/// Which variables of the caller's environment the app gets: all, or by default for another user's app a few.
fn filter(options: &AppOptions, run_as: Option<&RunAs>) -> EnvFilter {
    let is_others = run_as.is_some_and(|user| user.uid != rustix::process::geteuid().as_raw());
    let given = options.get("filter_env");
    let excluded = match given {
        Some(Value::Bool(true)) => Excluded::All,
        Some(Value::String(name)) => Excluded::Name(name.clone()),
        Some(Value::Array(parts)) => {
            Excluded::Parts(parts.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => Excluded::Nothing,
    };
    EnvFilter { for_other_users: is_others && given != Some(&Value::Bool(false)), excluded }
}

fn read_env_file(options: &AppOptions, file: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let failed = |cause| {
        ConfigError::at(options.place("env_file"), format!("cannot be read: {}", file.display()))
            .with_hint("paths of env_file start at the app's working directory")
            .caused_by(cause)
    };
    // A fifo does not block the command of root, and a link of the app's user does not lead it to another's file.
    let bytes = read_whole(file, ENV_FILE_BYTES_MAX).map_err(failed)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))?;
    parse_env_file(&text)
        .map_err(|fault| ConfigError::new(format!("{}:{}: {}", file.display(), fault.line, fault.message)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn variables_that_are_not_utf8_are_left_out_with_a_warning_and_those_of_the_command_without() {
        let broken = (OsString::from("LATIN"), OsString::from_vec(vec![b'a', 0xe4]));
        let good = (OsString::from("PORT"), OsString::from("3000"));
        let channel = (OsString::from("NODE_CHANNEL_FD"), OsString::from("3"));
        let deployment = (OsString::from(Deployment::VARIABLE), OsString::from("v2"));
        let (env, warnings) = from_os([broken, good, channel, deployment].into_iter());
        assert_eq!(env, BTreeMap::from([("PORT".to_owned(), "3000".to_owned())]));
        assert_eq!(
            warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["the environment variable \"LATIN\" is not UTF-8 and is left out"]
        );
    }
}
