//! Whether a reload by a configuration file may leave a running app alone.

use super::environment::is_of_shell;
use super::{AppSpec, EnvSources};

/// What is known of an app that runs, in wall-clock milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningSince {
    /// The start of its oldest process; `None` when one of its workers does not serve.
    pub oldest_start_ms: Option<u64>,
    /// The last change of a file of its code; `None` when that is not known.
    pub code_changed_ms: Option<u64>,
}

/// Whether an app that runs by `before` may run on when it is reloaded with `after`: nothing that a new process would
/// notice has changed, neither in its definition nor in its code. What is not known counts as changed. The number of
/// workers is no reason to replace any: it is changed by scaling.
pub fn may_stay(before: &AppSpec, after: &AppSpec, since: RunningSince) -> bool {
    let RunningSince { oldest_start_ms: Some(started), code_changed_ms: Some(changed) } = since else {
        return false;
    };
    changed < started && comparable(before) == comparable(after)
}

/// A definition without what differs from call to call.
fn comparable(spec: &AppSpec) -> AppSpec {
    let mut spec = spec.clone();
    spec.instances = 1;
    spec.launch.env.retain(|name, _| !is_of_shell(name));
    spec.launch.env_sources = EnvSources::default();
    spec.origins.clear();
    spec
}
