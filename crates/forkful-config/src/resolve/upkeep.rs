//! Watching, renewal, health, and the user that workers run as.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use forkful_core::spec::{
    HEALTH_FAILURES_DEFAULT, HealthCheck, Renewal, ResourceLimits, RunAs, Watch, WatchIgnore, WatchPolling,
    WorkerVariables,
};
use forkful_os::users;

use super::{Context, expand_home, tidy};
use crate::error::{ConfigError, Warning};
use crate::options::{AppOptions, HealthOptions, WatchOption};

/// How long nothing more may change, unless the user says another time: an editor's save is several changes.
const WATCH_DELAY: Duration = Duration::from_millis(100);
/// Pause between looks where the kernel does not tell, as chokidar has it for most files.
const POLLING_INTERVAL: Duration = Duration::from_millis(300);
const HEALTH_INTERVAL: Duration = Duration::from_secs(10);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn watch(
    options: &AppOptions,
    cwd: &Path,
    context: &Context,
    warnings: &mut Vec<Warning>,
) -> Option<Watch> {
    let absolute = |path: &Path| tidy(&cwd.join(expand_home(path, context)));
    let paths = match &options.watch {
        None | Some(WatchOption::Off) => return None,
        Some(WatchOption::Directory) => vec![cwd.to_owned()],
        Some(WatchOption::Paths(paths)) => paths.iter().map(|path| absolute(path)).collect(),
    };
    for path in paths.iter().filter(|path| !path.exists()) {
        warnings.push(Warning {
            place: options.place("watch"),
            message: format!("names {}, which does not exist", path.display()),
        });
    }
    let chokidar = options.watch_options.clone().unwrap_or_default();
    let ignore: Vec<WatchIgnore> =
        options.ignore_watch.iter().flatten().chain(&chokidar.ignored).cloned().collect();
    let interval = chokidar.interval.unwrap_or(POLLING_INTERVAL);
    Some(Watch {
        paths,
        ignore,
        delay: options.watch_delay.filter(|delay| !delay.is_zero()).unwrap_or(WATCH_DELAY),
        follow_links: chokidar.follow_links.unwrap_or(true),
        polling: chokidar.use_polling.then_some(WatchPolling { interval }),
    })
}

/// When a worker is replaced by a fresh one.
pub(super) fn renewal(options: &AppOptions) -> Renewal {
    Renewal {
        max_memory_bytes: options.max_memory_restart,
        max_requests: options.max_requests,
        max_age: options.max_age,
        cron: options.cron_restart.clone().flatten(),
    }
}

/// What all processes together may use.
pub(super) fn limits(options: &AppOptions) -> ResourceLimits {
    ResourceLimits { memory_bytes: options.memory_max, millicores: options.cpu_max }
}

/// How a worker is checked.
pub(super) fn health(options: &AppOptions) -> Option<HealthCheck> {
    let HealthOptions { probe, interval, timeout, start_period, failures, stuck_limit } =
        options.health.clone().flatten()?;
    Some(HealthCheck {
        probe,
        interval: interval.unwrap_or(HEALTH_INTERVAL),
        timeout: timeout.unwrap_or(HEALTH_TIMEOUT),
        start_period: start_period.unwrap_or_default(),
        failures_max: failures.unwrap_or(HEALTH_FAILURES_DEFAULT),
        stuck_limit,
    })
}

/// Variables that differ from worker to worker. The one that grows needs a number to begin with.
pub(super) fn variables(
    options: &AppOptions,
    env: &BTreeMap<String, String>,
) -> Result<WorkerVariables, ConfigError> {
    if let Some(name) = &options.increment_var {
        let fault = match env.get(name) {
            None => Some("is not set".to_owned()),
            Some(value) if value.trim().parse::<i64>().is_err() => {
                Some(format!("is {}", crate::tree::quoted(value)))
            }
            Some(_) => None,
        };
        if let Some(fault) = fault {
            let place = options.place("increment_var");
            return Err(ConfigError::NoNumber { place, name: name.clone(), fault });
        }
    }
    Ok(WorkerVariables {
        instance: options.instance_var.clone().unwrap_or(WorkerVariables::default().instance),
        increment: options.increment_var.clone(),
    })
}

/// Whom the workers run as; `None` when that is this process's own user. Sets HOME, USER, LOGNAME and SHELL
/// where the app's own `env` does not.
pub(super) fn run_as(
    options: &AppOptions,
    env: &mut BTreeMap<String, String>,
) -> Result<Option<RunAs>, ConfigError> {
    let unknown = |key: &str, name: &str, kind| ConfigError::UnknownUser {
        place: options.place(key),
        name: name.to_owned(),
        kind,
    };
    let user = match &options.uid {
        None => None,
        Some(name) => Some(users::find_user(name).ok_or_else(|| unknown("uid", name, "user"))?),
    };
    let gid = match &options.gid {
        None => None,
        Some(name) => Some(users::find_group(name).ok_or_else(|| unknown("gid", name, "group"))?),
    };
    let (own_uid, own_gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let uid = user.as_ref().map_or(own_uid, |user| user.uid);
    let gid = gid.or(user.as_ref().map(|user| user.gid)).unwrap_or(own_gid);
    if (uid, gid) == (own_uid, own_gid) {
        return Ok(None);
    }
    if own_uid != 0 {
        let (key, name) = match (&options.uid, &options.gid) {
            (Some(name), _) if uid != own_uid => ("uid", name.clone()),
            (_, Some(name)) => ("gid", name.clone()),
            (name, None) => ("uid", name.clone().unwrap_or_default()),
        };
        return Err(ConfigError::NotRoot { place: options.place(key), name });
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
