//! Starts a process with `clone` as in `vfork`, so that the cost does not grow with our memory.
//!
//! Until it executes the program, the child runs on its own stack in *our* memory, while the calling thread
//! is suspended. So it may only make system calls on data prepared before: no allocation, no lock, no panic.
//! In return it can leave its error in a variable, without a pipe.

mod prepared;
mod standing;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::{Child, Flight, RunAs, SpawnError, SpawnPlan, SpawnStep};
use crate::{priority, procinfo};
use prepared::{Files, Image, SHELL};

pub use standing::Standing;

/// Enough for the few frames of [`child_main`]; glibc's `posix_spawn` uses 32 KiB.
const STACK_BYTES: usize = 64 * 1024;

/// The first descriptor number that does not belong to the child (0 to 3 do).
const FIRST_FOREIGN_FD: RawFd = 4;

/// Starts the process. Blocks the calling thread until the program is executed or executing failed, which
/// does not include loading it.
pub fn spawn(plan: SpawnPlan) -> Result<Child, SpawnError> {
    spawn_watched(plan, &Flight::default())
}

/// The same with a flight, by which another thread can see the progress and cancel the start. A start that
/// was cancelled after its process was created returns that process, which SIGKILL ends.
pub fn spawn_watched(plan: SpawnPlan, flight: &Flight) -> Result<Child, SpawnError> {
    let program = plan.program.clone();
    let cwd = plan.cwd.clone();
    let error = |step: SpawnStep, source: io::Error| {
        let path = if step == SpawnStep::ChangeDirectory { &cwd } else { &program };
        SpawnError { step, path: path.clone(), source }
    };
    let run_as = plan.run_as.clone();
    let keeping = plan.keeping.clone();
    let mark = plan.mark;
    let image = Image::prepare(&plan).map_err(|source| error(SpawnStep::Arguments, source))?;
    let groups_required = plan.groups.as_ref().is_some_and(|groups| groups.is_required);
    let files = Files::prepare(plan).map_err(|source| error(SpawnStep::Descriptors, source))?;
    let groups: Vec<RawFd> = files.groups.iter().map(AsRawFd::as_raw_fd).collect();
    let mut stack = new_stack();
    let orders = Orders {
        program: &image.program,
        cwd: &image.cwd,
        argv: &image.argv_pointers,
        shell_argv: &image.shell_argv_pointers,
        env: &image.env_pointers,
        files: files.raw(),
        open_files: procinfo::original_open_files_limit(),
        // A process without a mark of its own does not get our mark either: a daemon started by a worker is
        // not part of the worker's tree.
        mark: mark.map(crate::tree::Mark::limit).or_else(crate::tree::Mark::inherited_limit_without),
        scheduling: priority::original_attributes(),
        run_as: run_as.as_ref(),
        flight,
        groups: &groups,
        groups_required,
        parent: if keeping.is_on() { libc::CLONE_PARENT } else { 0 },
        failure: MaybeUninit::zeroed(),
    };
    if flight.is_cancelled() {
        return Err(error(SpawnStep::Clone, rustix::io::Errno::CANCELED.into()));
    }
    match start(orders, &mut stack) {
        Ok((pid, pidfd)) => {
            let start_time = procinfo::start_time(pid).unwrap_or(0);
            Ok(Child { pid, pidfd, start_time, keeping })
        }
        Err(Failed { step, source, zombie }) => {
            if let Some((pid, pidfd)) = zombie {
                reap_failed(Child { pid, pidfd, start_time: 0, keeping });
            }
            Err(error(step, source))
        }
    }
}

/// It has exited, or is about to. Nobody else knows it, so it must be reaped here.
fn reap_failed(child: Child) {
    if child.keeping.is_on() {
        let _ended = crate::process::wait_readable(&child.pidfd);
        let _reaped = child.try_wait(true);
        return;
    }
    let options = rustix::process::WaitIdOptions::EXITED;
    let id = || rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&child.pidfd));
    let _ = rustix::io::retry_on_intr(|| rustix::process::waitid(id(), options));
}

fn new_stack() -> Vec<MaybeUninit<u8>> {
    Vec::with_capacity(STACK_BYTES)
}

/// A failed start.
struct Failed {
    step: SpawnStep,
    source: io::Error,
    /// The created process that did not reach its program; it must be reaped.
    zombie: Option<(u32, OwnedFd)>,
}

/// The highest signal number.
const SIGNAL_MAX: c_int = 64;

/// The child's instructions, and where it stores its error. On the stack of the parent, which waits.
struct Orders<'a> {
    program: &'a CStr,
    cwd: &'a CStr,
    argv: &'a [*const c_char],
    shell_argv: &'a [*const c_char],
    env: &'a [*const c_char],
    /// Sources of descriptors 0 to 3; the last may be −1.
    files: [RawFd; 4],
    open_files: Option<libc::rlimit>,
    mark: Option<libc::rlimit>,
    scheduling: Option<libc::sched_attr>,
    run_as: Option<&'a RunAs>,
    flight: &'a Flight,
    /// Open `cgroup.procs` files, with numbers that differ from the child's final descriptors.
    groups: &'a [RawFd],
    groups_required: bool,
    /// `CLONE_PARENT` if the process should be the keeper's child.
    parent: c_int,
    failure: MaybeUninit<FailedStep>,
}

/// All zero if nothing failed.
#[derive(Clone, Copy)]
#[repr(C)]
struct FailedStep {
    step: c_int,
    errno: c_int,
}

const FAILED_DESCRIPTORS: c_int = 1;
const FAILED_SESSION: c_int = 2;
const FAILED_DIRECTORY: c_int = 3;
const FAILED_EXECUTE: c_int = 4;
const FAILED_USER: c_int = 5;
const FAILED_GROUP: c_int = 6;

/// The step with this number; `None`: no failure, or no child yet.
pub(super) fn step_of(number: c_int) -> Option<SpawnStep> {
    match number {
        0 => None,
        FAILED_DESCRIPTORS => Some(SpawnStep::Descriptors),
        FAILED_SESSION => Some(SpawnStep::Session),
        FAILED_DIRECTORY => Some(SpawnStep::ChangeDirectory),
        FAILED_USER => Some(SpawnStep::User),
        FAILED_GROUP => Some(SpawnStep::Group),
        _ => Some(SpawnStep::Execute),
    }
}

/// Creates the process on a stack of [`STACK_BYTES`], see [`new_stack`]. Does not allocate.
fn start(mut orders: Orders<'_>, stack: &mut Vec<MaybeUninit<u8>>) -> Result<(u32, OwnedFd), Failed> {
    debug_assert!(stack.capacity() >= STACK_BYTES);
    // SAFETY: one past the end of the allocation, rounded down to the alignment of all our targets' stacks.
    let top = unsafe { stack.as_mut_ptr().add(STACK_BYTES) };
    let top = top.map_addr(|address| address & !15);
    let flight = orders.flight;
    let orders_pointer: *mut Orders<'_> = &raw mut orders;
    let blocked = BlockedSignals::all();
    // SAFETY: the child shares our memory and we are suspended until it executes or exits
    // (CLONE_VM with CLONE_VFORK), so that the stack and the orders outlive it. It runs `child_main`, which
    // makes system calls only. No signal handler of ours can run in it, because all signals are blocked
    // and it resets the dispositions (its own copy, without CLONE_SIGHAND) before it unblocks them.
    // Descriptors are its own copy, without CLONE_FILES.
    let pid = unsafe {
        libc::clone(
            child_main,
            top.cast::<c_void>(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD | orders.parent,
            orders_pointer.cast::<c_void>(),
            flight.pidfd_slot(),
        )
    };
    let clone_error = io::Error::last_os_error();
    drop(blocked);
    let pidfd = flight.take_pidfd();
    if pid < 0 {
        return Err(Failed { step: SpawnStep::Clone, source: clone_error, zombie: None });
    }
    // SAFETY: the kernel stored a new descriptor here, which nobody else has.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    // SAFETY: initialised by us to zero; the child may have written it, and no longer runs in our memory.
    // Volatile because the compiler cannot know that it was written.
    let failure = unsafe { ptr::read_volatile((&raw const orders.failure).cast::<FailedStep>()) };
    let Some(step) = step_of(failure.step) else { return Ok((pid as u32, pidfd)) };
    let source = io::Error::from_raw_os_error(failure.errno);
    Err(Failed { step, source, zombie: Some((pid as u32, pidfd)) })
}

/// All signals of this thread, blocked until dropped.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn all() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are valid for writing; sigfillset initialises the first, and the call the second,
        // which is zeroed (the empty set) in case it failed, as it cannot with these arguments.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self { before: before.assume_init() }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by the kernel.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

/// The child's code before it executes the program.
extern "C" fn child_main(orders: *mut c_void) -> c_int {
    let orders = orders.cast::<Orders<'_>>();
    // SAFETY: the parent passes a valid pointer and is suspended, so we are alone with it. Only system calls
    // follow, on data that the parent prepared.
    unsafe {
        (*orders).flight.note_pid(libc::syscall(libc::SYS_getpid) as u32);
        if (*orders).flight.is_cancelled() {
            libc::syscall(libc::SYS_kill, libc::syscall(libc::SYS_getpid), libc::SIGKILL);
        }
        let step = follow(&*orders);
        let failure = FailedStep { step, errno: *libc::__errno_location() };
        ptr::write_volatile((&raw mut (*orders).failure).cast::<FailedStep>(), failure);
        libc::_exit(127)
    }
}

/// Follows the instructions. Returns only if a step failed: its number, with the error in `errno`.
///
/// # Safety
/// Must be called in a process that is about to execute a program, with all signals blocked.
unsafe fn follow(orders: &Orders<'_>) -> c_int {
    // SAFETY: async-signal-safe calls with valid arguments, as far as the orders are.
    unsafe {
        reset_dispositions();
        orders.flight.note_step(FAILED_GROUP);
        for group in orders.groups {
            // 0 means the writing process.
            let joined = libc::write(*group, c"0".as_ptr().cast::<c_void>(), 1);
            if joined < 0 && orders.groups_required {
                return FAILED_GROUP;
            }
        }
        if libc::setsid() < 0 {
            return FAILED_SESSION;
        }
        for (target, source) in orders.files.iter().enumerate() {
            if *source >= 0 && libc::dup2(*source, target as c_int) < 0 {
                return FAILED_DESCRIPTORS;
            }
        }
        let first_foreign = if orders.files[3] < 0 { 3 } else { FIRST_FOREIGN_FD };
        close_from(first_foreign);
        if let Some(limit) = &orders.open_files {
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        if let Some(mark) = &orders.mark {
            // If it is refused, the environment must suffice.
            libc::setrlimit(libc::RLIMIT_LOCKS, mark);
        }
        if let Some(attributes) = &orders.scheduling {
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0);
        }
        // After changing the user, so that a directory that this user may not enter is an error here.
        orders.flight.note_step(FAILED_USER);
        if let Some(run_as) = orders.run_as
            && !become_user(run_as)
        {
            return FAILED_USER;
        }
        orders.flight.note_step(FAILED_DIRECTORY);
        if libc::chdir(orders.cwd.as_ptr()) < 0 {
            return FAILED_DIRECTORY;
        }
        orders.flight.note_step(FAILED_EXECUTE);
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        libc::execve(orders.program.as_ptr(), orders.argv.as_ptr(), orders.env.as_ptr());
        if *libc::__errno_location() == libc::ENOEXEC {
            libc::execve(SHELL.as_ptr(), orders.shell_argv.as_ptr(), orders.env.as_ptr());
        }
        FAILED_EXECUTE
    }
}

/// Changes to another user's rights: groups first, the user last. False if the kernel refuses.
///
/// # Safety
/// Must be called only in the child. It avoids glibc, whose `setuid` changes every thread of the process,
/// which here would be the parent's threads.
unsafe fn become_user(run_as: &RunAs) -> bool {
    // SAFETY: plain integers, and a list that outlives the call.
    unsafe {
        libc::syscall(libc::SYS_setgroups, run_as.groups.len(), run_as.groups.as_ptr()) >= 0
            && libc::syscall(libc::SYS_setresgid, run_as.gid, run_as.gid, run_as.gid) >= 0
            && libc::syscall(libc::SYS_setresuid, run_as.uid, run_as.uid, run_as.uid) >= 0
    }
}

/// Ignored signals would stay ignored in the program, and handlers must not run in shared memory.
///
/// # Safety
/// Changes the calling process's dispositions.
unsafe fn reset_dispositions() {
    // SAFETY: all zeros are the kernel's sigaction with the default disposition, in every field order, and the
    // buffer is longer than the structure on any target. What cannot be set (SIGKILL, SIGSTOP) fails without effect.
    // Not by way of glibc, which refuses its own two signals even when they come to us ignored.
    unsafe {
        let default = [0_u64; 8];
        for signal in 1..=SIGNAL_MAX {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null_mut::<u64>(), 8);
        }
    }
}

/// Closes every descriptor from `first` on, so that a child that hangs in one of the next steps does not keep
/// others' listeners open.
///
/// # Safety
/// Changes the calling process's descriptors.
unsafe fn close_from(first: RawFd) {
    // SAFETY: plain integers. Before Linux 5.9 the call does not exist; then exec closes all descriptors with
    // the flag, which all of ours have.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Exit;
    use crate::testing::{Guarded, read_all, receive_soon, shell, start_shell, wait_exit, write_executable};
    use std::io::Read;
    use std::path::PathBuf;

    #[test]
    fn a_child_has_its_arguments_environment_directory_and_an_empty_stdin() {
        let script = r#"pwd; echo "$0 $1"; cat; /usr/bin/env | grep -v -e ^PWD= -e ^SHLVL= -e ^_=; exit 7"#;
        let (mut plan, output) = shell(script, &[("A", "1 2"), ("EMPTY", "")]);
        plan.argv.extend(["zero".to_owned(), "one two".to_owned()]);
        plan.cwd = PathBuf::from("/usr");
        let child = Guarded(spawn(plan).unwrap());
        assert_eq!(read_all(output), "/usr\nzero one two\nA=1 2\nEMPTY=\n");
        assert_eq!(wait_exit(&child.0), Exit::Code(7));
        assert_eq!(child.0.try_wait(false).unwrap(), Some(Exit::Code(7)), "still a zombie");
        assert_eq!(child.0.try_wait(true).unwrap(), Some(Exit::Code(7)));
        let gone = child.0.try_wait(false).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ECHILD));
        assert_eq!(child.0.signal(15).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        // Already reaped, so the guard must not wait for it.
        std::mem::forget(child);
    }

    #[test]
    fn a_child_leads_its_session_with_default_signals_and_no_foreign_descriptor() {
        // Rust ignores SIGPIPE in every program; a careless library may leave a descriptor without
        // close-on-exec.
        let leak = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
        assert!(rustix::io::fcntl_getfd(&leak).unwrap().is_empty());
        let script = "echo $$; cut -d' ' -f5,6 /proc/$$/stat; ls /proc/$$/fd;
            exec grep -E '^Sig(Blk|Ign)' /proc/self/status";
        let (mut plan, output) = shell(script, &[("PATH", "/usr/bin:/bin")]);
        let (ours, theirs) = crate::channel::pair().unwrap();
        plan.channel = Some(theirs);
        let child = Guarded(spawn(plan).unwrap());
        let text = read_all(output);
        let lines: Vec<&str> = text.lines().collect();
        let pid = child.0.pid.to_string();
        assert_eq!(lines[0], pid);
        assert_eq!(lines[1], format!("{pid} {pid}"));
        assert_eq!(lines[2..6], ["0", "1", "2", "3"], "{text}");
        assert_eq!(lines[6..], ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"], "{text}");
        assert_eq!(wait_exit(&child.0), Exit::Code(0));
        drop(leak);
        let (mut buf, mut handles) = ([0; 1], Vec::new());
        let end = receive_soon(std::os::fd::AsFd::as_fd(&ours), &mut buf, &mut handles);
        assert_eq!(end, 0, "no one else holds the child's end");
    }

    #[test]
    fn a_child_runs_as_another_user_with_that_users_groups_alone() {
        if rustix::process::geteuid().as_raw() != 0 {
            // Only root can change the user; otherwise the test expects the kernel's refusal.
            let (mut plan, _output) = shell("true", &[]);
            plan.run_as = Some(RunAs { uid: 0, gid: 0, groups: vec![0] });
            assert_eq!(spawn(plan).unwrap_err().step, SpawnStep::User);
            return;
        }
        let (mut plan, output) = shell("id -u; id -g; id -G", &[("PATH", "/usr/bin:/bin")]);
        plan.run_as = Some(RunAs { uid: 65_534, gid: 65_533, groups: vec![65_533, 4_321] });
        let child = Guarded(spawn(plan).unwrap());
        assert_eq!(read_all(output), "65534\n65533\n65533 4321\n");
        assert_eq!(wait_exit(&child.0), Exit::Code(0));
        assert_eq!(rustix::process::geteuid().as_raw(), 0, "the parent stays who it is");
    }

    #[test]
    fn a_signal_is_told_from_an_exit_code() {
        let (child, _output) = start_shell("exec sleep 100", &[("PATH", "/usr/bin:/bin")]);
        assert_eq!(child.0.try_wait(false).unwrap(), None);
        child.0.signal(libc::SIGTERM).unwrap();
        assert_eq!(wait_exit(&child.0), Exit::Signal(libc::SIGTERM, false));
        let started = child.0.start_time;
        assert_eq!(crate::procinfo::start_time(child.0.pid).unwrap(), started);
        assert!(started > 0);
    }

    #[test]
    fn each_step_that_fails_says_so_and_leaves_no_process() {
        let plan = |change: fn(&mut SpawnPlan)| {
            let (mut plan, output) = shell("true", &[]);
            change(&mut plan);
            let error = spawn(plan).unwrap_err();
            assert_eq!(read_all(output), "", "nobody holds the output");
            (error.step, error.errno(), error.to_string())
        };
        let (step, errno, text) = plan(|p| p.cwd = PathBuf::from("/nowhere"));
        assert_eq!((step, errno), (SpawnStep::ChangeDirectory, libc::ENOENT));
        assert_eq!(text, "cannot enter the working directory /nowhere");
        let (step, errno, text) = plan(|p| p.program = PathBuf::from("/usr/bin/no-such-program"));
        assert_eq!((step, errno), (SpawnStep::Execute, libc::ENOENT));
        assert_eq!(text, "cannot execute /usr/bin/no-such-program");
        let (step, errno, _) = plan(|p| p.program = PathBuf::from("/etc/passwd"));
        assert_eq!((step, errno), (SpawnStep::Execute, libc::EACCES));
        assert_eq!(plan(|p| p.argv.push("a\0b".to_owned())).0, SpawnStep::Arguments);
        assert_eq!(plan(|p| p.env.push(("A=B".to_owned(), String::new()))).0, SpawnStep::Arguments);
        assert_eq!(plan(|p| p.argv.clear()).0, SpawnStep::Arguments);
    }

    #[test]
    fn a_script_without_interpreter_line_is_run_by_the_shell() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("bare");
        write_executable(&script, "echo \"bare $1\"\n");
        let (mut plan, output) = shell("", &[]);
        plan.argv = vec!["bare".to_owned(), "argument".to_owned()];
        plan.program = script;
        let child = Guarded(spawn(plan).unwrap());
        assert_eq!(read_all(output), "bare argument\n");
        assert_eq!(wait_exit(&child.0), Exit::Code(0));
    }

    #[test]
    fn a_big_environment_and_many_children_at_once_work() {
        let big = "x".repeat(100_000);
        let children: Vec<_> = (0..20).map(|_| start_shell("echo ${#BIG}", &[("BIG", &big)])).collect();
        for (child, output) in children {
            let mut text = String::new();
            std::fs::File::from(output).read_to_string(&mut text).unwrap();
            assert_eq!(text, "100000\n");
            assert_eq!(wait_exit(&child.0), Exit::Code(0));
        }
    }
}
