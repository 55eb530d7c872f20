//! Whether a reload with a configuration file may leave a running app unchanged.

use super::environment::is_of_shell;
use super::{AppSpec, EnvSources};

/// What is known about a running app, in wall-clock milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningSince {
    /// The start of its oldest process; `None` if one of its workers does not serve.
    pub oldest_start_ms: Option<u64>,
    /// The last change of a file of its code; `None` if unknown.
    pub code_changed_ms: Option<u64>,
}

/// A tolerated difference of two clocks.
const CLOCKS_DIFFER_MS: u64 = 1000;

/// When a process was started, on the wall clock as it is set now: files that change are stamped by it. `started_ms` is the start on the
/// clock of that time; where the age of the process says that it was later, the clock was set back since.
pub fn start_by_clock(started_ms: u64, age_ms: u64, wall_ms: u64) -> u64 {
    let by_age = wall_ms.saturating_sub(age_ms);
    if by_age.saturating_add(CLOCKS_DIFFER_MS) < started_ms { by_age } else { started_ms }
}

/// Whether an app that runs with `before` may keep running when it is reloaded with `after`: neither its
/// definition nor its code has a change that a new process would notice. Unknown values count as changed. The
/// number of workers does not matter: scaling changes it.
pub fn may_stay(before: &AppSpec, after: &AppSpec, since: RunningSince) -> bool {
    let RunningSince { oldest_start_ms: Some(started), code_changed_ms: Some(changed) } = since else {
        return false;
    };
    changed < started && is_same(before, after)
}

/// Whether a new process would notice no difference between two definitions, the number of workers apart.
pub fn is_same(before: &AppSpec, after: &AppSpec) -> bool {
    comparable(before) == comparable(after)
}

/// A definition without the parts that differ from call to call.
fn comparable(spec: &AppSpec) -> AppSpec {
    let mut spec = spec.clone();
    spec.instances = 1;
    spec.launch.env.retain(|name, _| !is_of_shell(name));
    spec.launch.env_sources = EnvSources::default();
    spec.origins.clear();
    spec
}
