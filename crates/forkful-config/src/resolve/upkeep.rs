//! Resolves file watching, a variable that differs from worker to worker, and the user of the workers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use forkful_core::spec::{RunAs, Watch};
use forkful_os::users;
use serde_json::{Value, json};

use super::{Context, expand_home, tidy};
use crate::error::{ConfigError, Warning};
use crate::options::AppOptions;
use crate::tree::quoted;

/// The watch settings in the format of `Watch`.
pub(super) fn watch(
    options: &AppOptions,
    cwd: &Path,
    context: &Context,
    warnings: &mut Vec<Warning>,
) -> Option<Value> {
    let absolute = |path: &str| tidy(&cwd.join(expand_home(Path::new(path), context)));
    let (paths, excluded) = match options.get("watch")? {
        Value::Bool(true) => (vec![cwd.to_owned()], Vec::new()),
        Value::Array(paths) => Watch::sort(paths.iter().filter_map(Value::as_str), absolute),
        _ => return None,
    };
    for path in paths.iter().filter(|path| !path.exists()) {
        let place = options.place("watch");
        let missing = Watch::folder_of_pattern(path).unwrap_or_else(|| path.clone());
        if !missing.exists() {
            let message = format!("names {}, which does not exist", missing.display());
            warnings.push(Warning { place, message });
        }
    }
    let chokidar = options.get("watch_options").cloned().unwrap_or_default();
    let ignore = [options.get("ignore_watch"), chokidar.get("ignore")];
    let ignore = ignore.into_iter().flatten().filter_map(Value::as_array).flatten().cloned();
    let ignore: Vec<Value> = ignore.chain(excluded.into_iter().map(|ignore| json!(ignore))).collect();
    let delay = options.get("watch_delay").and_then(Value::as_u64).map(Duration::from_millis);
    Some(json!({
        "paths": paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "ignore": ignore,
        "delay_ms": Watch::delay_or_default(delay).as_millis() as u64,
        "follow_links": chokidar["follow_links"].as_bool().unwrap_or(true),
        "polling_ms": chokidar["polling_ms"],
    }))
}

/// A variable that increases from worker to worker needs a number as its first value.
pub(super) fn check_increment(
    options: &AppOptions,
    env: &BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    let Some(name) = options.text("increment_var") else { return Ok(()) };
    let fault = match env.get(name) {
        None => "is not set".to_owned(),
        Some(value) if value.trim().parse::<i64>().is_err() => {
            format!("is {}", quoted(value))
        }
        Some(_) => return Ok(()),
    };
    let message = format!("is {}, but that variable {fault}", quoted(name));
    Err(ConfigError::at(options.place("increment_var"), message)
        .with_hint(format!("give `{name}` a number in `env`")))
}

/// The user of the workers; `None` if it is this process's user, or if none is given for another machine. Sets HOME, USER, LOGNAME and SHELL unless
/// the app's own `env` does.
pub(super) fn run_as(
    options: &AppOptions,
    context: &Context,
    env: &mut BTreeMap<String, String>,
) -> Result<Option<RunAs>, ConfigError> {
    let unknown = |key: &str, name: &str, kind: &str| {
        let message = format!("is {}, which is not a {kind} of this system", quoted(name));
        ConfigError::at(options.place(key), message)
    };
    let (uid_name, gid_name) = (options.text("uid"), options.text("gid"));
    let user = match uid_name {
        None => None,
        Some(name) => Some(users::find_user(name).ok_or_else(|| unknown("uid", name, "user"))?),
    };
    let gid = match gid_name {
        None => None,
        Some(name) => Some(users::find_group(name).ok_or_else(|| unknown("gid", name, "group"))?),
    };
    let (own_uid, own_gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let uid = user.as_ref().map_or(own_uid, |user| user.uid);
    let gid = gid.or(user.as_ref().map(|user| user.gid)).unwrap_or(own_gid);
    if context.is_elsewhere {
        let is_given = uid_name.is_some() || gid_name.is_some();
        return Ok(is_given.then(|| RunAs { uid, gid, groups: Vec::new() }));
    }
    if (uid, gid) == (own_uid, own_gid) {
        return Ok(None);
    }
    if own_uid != 0 {
        let (key, name) = match (uid_name, gid_name) {
            (Some(name), _) if uid != own_uid => ("uid", name),
            (_, Some(name)) => ("gid", name),
            (name, None) => ("uid", name.unwrap_or_default()),
        };
        let message = format!("is {}, but only root can start processes as another user", quoted(name));
        return Err(ConfigError::at(options.place(key), message)
            .with_hint("run the daemon as that user, or start it as root"));
    }
    let groups = user.as_ref().map_or_else(|| vec![gid], |user| users::groups_of(&user.name, gid));
    if let Some(user) = &user {
        let own =
            [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name), ("SHELL", &user.shell)];
        for (name, value) in own {
            if !options.env.contains_key(name) {
                env.insert(name.to_owned(), value.clone());
            }
        }
    }
    Ok(Some(RunAs { uid, gid, groups }))
}
