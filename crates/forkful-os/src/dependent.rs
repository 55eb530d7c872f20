//! Helper processes that do not outlive the program that waits for them.

use std::process::Command;

/// Makes the kernel kill the child when the thread that spawns it ends (`PR_SET_PDEATHSIG`), so also when the process ends,
/// in whichever way. For a child that this thread waits for.
///
/// The child's own children are not killed.
#[cfg(target_os = "linux")]
pub fn end_with_this_thread(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let request = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent has ended before the request, no signal comes.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::CHILD.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(request);
    }
}

/// Changes nothing: only Linux has such a signal.
#[cfg(not(target_os = "linux"))]
pub fn end_with_this_thread(_command: &mut Command) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_child_is_killed_when_the_thread_that_spawned_it_ends_and_not_before() {
        let spawn = || {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "exec sleep 600"]);
            end_with_this_thread(&mut command);
            let mut child = command.spawn().unwrap();
            assert_eq!(child.try_wait().unwrap(), None);
            child
        };
        let mut child = std::thread::spawn(spawn).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
