//! Which ports a daemon binds for an app whose workers run as another user.

use super::AppSpec;

/// The lowest port that is bound for an app; 0 is every port.
///
/// `other_user`: the workers run as another user than the daemon. `unprivileged_from`: the first port that any user of
/// this system may bind. The daemon of root could bind the others for every app, also for one whose user may not.
pub fn lowest_port(spec: &AppSpec, other_user: bool, unprivileged_from: u16) -> u16 {
    if other_user && !spec.low_ports { unprivileged_from } else { 0 }
}
