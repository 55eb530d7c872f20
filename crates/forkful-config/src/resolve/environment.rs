//! The environment of an app: the caller's, then `env`, then `port`, then the chosen `env_<name>`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::Context;
use crate::error::{ConfigError, Place, Warning};
use crate::options::AppOptions;
use crate::tree::quoted;

/// Variables by which Node finds its own IPC channel. A caller that is itself a Node child must not
/// pass them on: a worker would open a descriptor that is not its channel.
const CHANNEL_VARIABLES: &[&str] = &["NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_UNIQUE_ID"];

/// The environment of this process as apps get it: as it is, without Node's channel variables and
/// without what is not UTF-8, of which a warning tells.
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
    strip_channel(&mut env);
    (env, warnings)
}

fn strip_channel(env: &mut BTreeMap<String, String>) {
    for name in CHANNEL_VARIABLES {
        env.remove(*name);
    }
}

/// Refuses an `env_<name>` that none of the apps has.
pub(super) fn require_block(apps: &[AppOptions], context: &Context) -> Result<(), ConfigError> {
    let Some(name) = &context.env_name else { return Ok(()) };
    let Some(first) = apps.first() else { return Ok(()) };
    if apps.iter().any(|app| app.env_blocks.contains_key(name)) {
        return Ok(());
    }
    let mut known: Vec<String> =
        apps.iter().flat_map(|app| app.env_blocks.keys()).map(|name| format!("env_{name}")).collect();
    known.sort();
    known.dedup();
    let place = match &first.origin {
        Some(origin) if apps.len() > 1 => {
            Place { file: Some(origin.file.clone()), line: None, key: "apps".to_owned() }
        }
        _ => first.app_place(),
    };
    Err(ConfigError::UnknownEnvironment { place, name: name.clone(), known })
}

/// The complete environment of one app.
pub(super) fn of_app(
    options: &AppOptions,
    context: &Context,
    warnings: &mut Vec<Warning>,
) -> BTreeMap<String, String> {
    let mut env = context.caller_env.clone();
    strip_channel(&mut env);
    env.extend(options.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    if let Some(port) = options.port {
        env.insert("PORT".to_owned(), port.to_string());
    }
    if let Some(name) = &context.env_name {
        match options.env_blocks.get(name) {
            Some(block) => env.extend(block.iter().map(|(name, value)| (name.clone(), value.clone()))),
            None => warnings.push(Warning {
                place: options.app_place(),
                message: format!("has no `env_{name}`: it gets its `env` alone"),
            }),
        }
    }
    env
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn variables_that_are_not_utf8_are_left_out_with_a_warning() {
        let broken = (OsString::from("LATIN"), OsString::from_vec(vec![b'a', 0xe4]));
        let good = (OsString::from("PORT"), OsString::from("3000"));
        let channel = (OsString::from("NODE_CHANNEL_FD"), OsString::from("3"));
        let (env, warnings) = from_os([broken, good, channel].into_iter());
        assert_eq!(env, BTreeMap::from([("PORT".to_owned(), "3000".to_owned())]));
        assert_eq!(
            warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["the environment variable \"LATIN\" is not UTF-8 and is left out"]
        );
    }
}
