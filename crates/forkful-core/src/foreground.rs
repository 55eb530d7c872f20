//! How a run in the foreground ends: with the exit code that its workers give it.

use crate::slot::Exit;

/// What a shell says of a program that could not be started.
const NOT_STARTED: i32 = 127;
/// A shell adds the number of the signal that ended a program.
const SIGNAL_BASE: i32 = 128;

/// The exit code of a run whose workers have ended in these ways. After a stop signal it is that of the worker that ended
/// last, since an app that handles the signal decides itself; else it is the worst.
pub fn exit_code<'a>(was_stopped: bool, last: Option<&Exit>, exits: impl Iterator<Item = &'a Exit>) -> i32 {
    if was_stopped { last.map_or(0, code) } else { exits.map(code).max().unwrap_or(0) }
}

fn code(exit: &Exit) -> i32 {
    match exit {
        Exit::Code(code) => *code,
        Exit::Signal(signal) => SIGNAL_BASE + signal,
        Exit::SpawnFailed(_) => NOT_STARTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_the_worst_exit_of_its_workers() {
        let exits = [Exit::Code(0), Exit::Signal(9), Exit::SpawnFailed("no".to_owned()), Exit::Code(3)];
        assert_eq!(exit_code(false, Some(&Exit::Code(0)), exits.iter()), 137);
        assert_eq!(exit_code(false, None, exits[2..].iter()), 127);
        assert_eq!(exit_code(false, None, [].iter()), 0);
    }

    #[test]
    fn a_run_that_was_stopped_ends_as_its_last_worker() {
        let exits = [Exit::Signal(15), Exit::Code(5)];
        assert_eq!(exit_code(true, Some(&exits[1]), exits.iter()), 5);
        assert_eq!(exit_code(true, None, exits.iter()), 0);
    }
}
