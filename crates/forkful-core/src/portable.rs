//! What is different where the system lacks the mechanisms of Linux: on macOS, and on Linux with `FORKFUL_PORTABLE=1`.
//! It is meant for development.

use crate::spec::{Balance, Mode};

/// The mode that is used in place of the chosen one: the kernel does not choose among sockets of workers there, so the
/// daemon hands connections over, or all workers accept from one socket.
pub fn balance(chosen: Balance, mode: Mode) -> Balance {
    match (mode, chosen) {
        // A process in fork mode accepts by itself.
        (Mode::Fork, _) | (Mode::Cluster, Balance::Direct) => Balance::Shared,
        (Mode::Cluster, Balance::Auto | Balance::Sticky) => Balance::Exact,
        // The daemon hands connections over, or the workers share one socket.
        (Mode::Cluster, chosen) => chosen,
    }
}

/// What the user is told about an app whose chosen mode cannot be had. `Auto` leaves the choice to Forkful, so nothing is
/// told about it.
pub fn balance_note(chosen: Balance, mode: Mode) -> Option<&'static str> {
    match (mode, chosen) {
        (Mode::Cluster, Balance::Sticky) => Some(
            "`balance` sticky acts as exact in the portable mode: a client's connections go to different workers; for sessions \
             that need one worker, run one (`-i 1`)",
        ),
        (Mode::Cluster, Balance::Direct) => Some(
            "`balance` direct acts as shared in the portable mode: workers accept from one socket, so some get more connections",
        ),
        (Mode::Cluster | Mode::Fork, _) => None,
    }
}

/// What the portable mechanisms lack, a sentence each. docs/MACOS.md has the same list.
pub const LACKS: [&str; 7] = [
    "no keeper: apps end with the daemon, and `forkful update` restarts them",
    "the kernel does not choose workers: `balance` auto and sticky act as exact, and direct acts as shared",
    "no control groups: `memory_max` and `cpu_max` are refused",
    "the kernel does not report closed connections: exact balance hands connections out in turns",
    "connections that wait inside a stuck or killed worker are not taken back",
    "sockets that processes share by themselves (`reusePort`) are not looked after",
    "orphans of workers that left their process group are not found",
];

/// One line for the start of a daemon.
pub const NOTE: &str = "portable mode, for development: apps end with the daemon, `balance` auto and sticky act as exact, and limits \
                        by control groups are refused";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mode_remains_that_needs_the_kernel_to_choose() {
        for chosen in
            [Balance::Auto, Balance::Direct, Balance::Exact, Balance::Least, Balance::Shared, Balance::Sticky]
        {
            let used = balance(chosen, Mode::Cluster);
            assert!(
                matches!(used, Balance::Exact | Balance::Least | Balance::Shared),
                "{chosen:?}: {used:?}"
            );
            assert_eq!(balance(used, Mode::Cluster), used, "it is kept");
            assert_eq!(balance(chosen, Mode::Fork), Balance::Shared);
        }
    }

    #[test]
    fn a_mode_that_the_user_chose_and_does_not_get_is_told() {
        let told = |chosen, mode| balance_note(chosen, mode).is_some();
        for chosen in [Balance::Sticky, Balance::Direct] {
            assert!(told(chosen, Mode::Cluster) && balance(chosen, Mode::Cluster) != chosen, "{chosen:?}");
        }
        for chosen in [Balance::Exact, Balance::Least, Balance::Shared] {
            assert!(!told(chosen, Mode::Cluster) && balance(chosen, Mode::Cluster) == chosen, "{chosen:?}");
        }
        assert!(!told(Balance::Auto, Mode::Cluster), "nothing was chosen");
        assert!(!told(Balance::Sticky, Mode::Fork));
    }
}
