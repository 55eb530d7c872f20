//! The ports that a daemon binds for an app whose workers run as another user.

use super::AppSpec;

/// The lowest port that is bound for an app; 0 means every port.
///
/// `other_user`: the workers run as another user than the daemon. `unprivileged_from`: the first port that
/// any user of this system may bind. A daemon of root could bind lower ports for every app, even for an app
/// whose user may not.
pub fn lowest_port(spec: &AppSpec, other_user: bool, unprivileged_from: u16) -> u16 {
    if other_user && !spec.low_ports { unprivileged_from } else { 0 }
}
