//! Starts a process: the child's steps until it executes the program.
//!
//! They run after `clone` in our memory ([`in_our_memory`]), or after `fork` in a copy of it ([`by_fork`]). In both cases
//! the child may only make system calls on data prepared before: no allocation, no lock, no panic.

mod by_fork;
#[cfg(target_os = "linux")]
mod in_our_memory;
#[cfg(not(target_os = "linux"))]
#[path = "spawn/without_clone.rs"]
mod in_our_memory;
mod prepared;
mod shell_script;
mod standing;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::ptr;

use super::{Child, Flight, RunAs, SpawnError, SpawnPlan, SpawnStep};
use crate::{priority, procinfo};
use prepared::{Files, Image, SHELL};
use shell_script::is_shell_script;

pub use shell_script::needs_shell;
pub use standing::Standing;

/// Enough for the few frames of a child in our memory; glibc's `posix_spawn` uses 32 KiB.
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
        let path = if step == SpawnStep::ChangeDirectory { cwd.clone() } else { named(&program) };
        SpawnError { step, path, source }
    };
    let run_as = plan.run_as.clone();
    if let Some(run_as) = &run_as {
        give_pipes(&plan, run_as);
    }
    let keeping = plan.keeping.clone();
    let mark = plan.mark;
    let image = Image::prepare(&plan).map_err(|source| error(SpawnStep::Arguments, source))?;
    let groups_required = plan.groups.as_ref().is_some_and(|groups| groups.is_required);
    let files = Files::prepare(plan).map_err(|source| error(SpawnStep::Descriptors, source))?;
    let groups: Vec<RawFd> = files.groups.iter().map(AsRawFd::as_raw_fd).collect();
    let mut stack = new_stack();
    let orders = |program, argv| Orders {
        program,
        cwd: &image.cwd,
        argv,
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
        child_of_keeper: keeping.is_on(),
        failure: MaybeUninit::zeroed(),
    };
    let mut attempt = |program, argv| {
        if flight.is_cancelled() {
            return Err(error(SpawnStep::Clone, rustix::io::Errno::CANCELED.into()));
        }
        match start(orders(program, argv), &mut stack) {
            Ok((pid, pidfd)) => {
                let start_time = procinfo::start_time(pid).unwrap_or(0);
                Ok(Child { pid, pidfd, start_time, keeping: keeping.clone() })
            }
            Err(Failed { step, source, zombie }) => {
                if let Some((pid, pidfd)) = zombie {
                    reap_failed(Child { pid, pidfd, start_time: 0, keeping: keeping.clone() });
                }
                let is_too_long = source.raw_os_error() == Some(libc::E2BIG);
                Err(error(step, if is_too_long { io::Error::other(image.excess()) } else { source }))
            }
        }
    };
    match attempt(&image.program, &image.argv_pointers) {
        Err(refused) if refused.is_unknown_format() && is_shell_script(&cwd.join(&program)) => {
            attempt(SHELL, &image.shell_argv_pointers)
        }
        result => result,
    }
}

/// Gives the pipes of the outputs to the process's user. `/dev/stderr` and `/dev/stdout` open a pipe anew, which only its owner may.
fn give_pipes(plan: &SpawnPlan, run_as: &RunAs) {
    let (uid, gid) = (rustix::fs::Uid::from_raw(run_as.uid), rustix::fs::Gid::from_raw(run_as.gid));
    for output in [&plan.stdout, &plan.stderr] {
        let is_pipe = rustix::fs::fstat(output)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo());
        if is_pipe {
            // Without the permission, changing the user fails as well, and says why.
            let _refused = rustix::fs::fchown(output, Some(uid), Some(gid));
        }
    }
}

/// A program's path in messages: for the path of a descriptor, the file that it refers to.
fn named(program: &Path) -> PathBuf {
    let target = program.starts_with("/proc").then(|| std::fs::read_link(program).ok()).flatten();
    target.unwrap_or_else(|| program.to_owned())
}

/// It has exited, or is about to. Nobody else knows it, so it must be reaped here.
fn reap_failed(child: Child) {
    if child.keeping.is_on() {
        let _ended = crate::process::wait_readable(&child.pidfd);
        let _reaped = child.try_wait(true);
        return;
    }
    let options = rustix::process::WaitIdOptions::EXITED;
    let _ = rustix::io::retry_on_intr(|| rustix::process::waitid(child.wait_id(), options));
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

/// The child's instructions, and where it stores its error. On the stack of the parent, which waits.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "what only Linux has"))]
struct Orders<'a> {
    program: &'a CStr,
    cwd: &'a CStr,
    argv: &'a [*const c_char],
    env: &'a [*const c_char],
    /// Sources of descriptors 0 to 3; the last may be −1.
    files: [RawFd; 4],
    open_files: Option<libc::rlimit>,
    mark: Option<libc::rlimit>,
    scheduling: Option<priority::Attributes>,
    run_as: Option<&'a RunAs>,
    flight: &'a Flight,
    /// Open `cgroup.procs` files, with numbers that differ from the child's final descriptors.
    groups: &'a [RawFd],
    groups_required: bool,
    /// The process should be a child of this process's parent.
    child_of_keeper: bool,
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

/// The step that is under way as far as the parent of a copy knows.
pub(super) const LAST_STEP: c_int = FAILED_EXECUTE;

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

/// Creates the process, with its error if it did not reach its program. `stack` is from [`new_stack`]. With `clone`, this does
/// not allocate.
fn start(orders: Orders<'_>, stack: &mut Vec<MaybeUninit<u8>>) -> Result<(u32, OwnedFd), Failed> {
    if crate::portable::is_on() { by_fork::start(&orders) } else { in_our_memory::start(orders, stack) }
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

/// The steps that differ between a child in our memory and one in a copy of it.
///
/// # Safety
/// All of these change the calling process, which must be the child.
trait Kernel {
    /// Ignored signals would stay ignored in the program, and handlers must not run in shared memory.
    unsafe fn reset_dispositions(&self);
    /// Keeps descriptors from `first` on from the program.
    unsafe fn close_from(&self, first: RawFd);
    /// The mark and the scheduling, where the system has them.
    unsafe fn set_attributes(&self, orders: &Orders<'_>);
    /// Changes to another user's rights: groups first, the user last. False if the kernel refuses.
    unsafe fn become_user(&self, run_as: &RunAs) -> bool;
}

/// The number of the last error. Reads one variable of the C library.
fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// Follows the instructions. Returns only if a step failed: its number, with the error in `errno`.
///
/// # Safety
/// Must be called in a process that is about to execute a program, with all signals blocked.
unsafe fn follow(orders: &Orders<'_>, kernel: &impl Kernel) -> c_int {
    // SAFETY: async-signal-safe calls with valid arguments, as far as the orders are.
    unsafe {
        kernel.reset_dispositions();
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
        kernel.close_from(first_foreign);
        if let Some(limit) = &orders.open_files {
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        kernel.set_attributes(orders);
        // After changing the user, so that a directory that this user may not enter is an error here.
        orders.flight.note_step(FAILED_USER);
        if let Some(run_as) = orders.run_as
            && !kernel.become_user(run_as)
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
        FAILED_EXECUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Exit;
    use crate::testing::{
        Guarded, read_all, receive_soon, shell, start_shell, wait_exit, wait_until, write_executable,
    };
    use std::io::Read;
    use std::path::PathBuf;
    use std::sync::Arc;

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
        // The outputs are the user's: they can be opened by their names.
        let commands = "id -u; id -g; id -G; echo opened > /dev/stdout";
        let (mut plan, output) = shell(commands, &[("PATH", "/usr/bin:/bin")]);
        plan.run_as = Some(RunAs { uid: 65_534, gid: 65_533, groups: vec![65_533, 4_321] });
        let child = Guarded(spawn(plan).unwrap());
        assert_eq!(read_all(output), "65534\n65533\n65533 4321\nopened\n");
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
    fn a_process_whose_start_time_is_not_known_is_adopted_until_it_is_reaped() {
        let (child, _output) = start_shell("exec sleep 100", &[("PATH", "/usr/bin:/bin")]);
        let (pid, started, keeping) = (child.0.pid, child.0.start_time, child.0.keeping.clone());
        let pidfd = child.0.pidfd.try_clone().unwrap();
        let adopt = |start_time| {
            let adopted = Child::adopt(pid, pidfd.try_clone().unwrap(), start_time, keeping.clone());
            adopted.map(|child| child.start_time)
        };
        assert_eq!(adopt(started), Some(started));
        assert_eq!(adopt(started + 1), None, "another process has its number");
        assert_eq!(adopt(0), Some(started));
        drop(child);
        assert_eq!(adopt(0), None);
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
    fn a_process_that_is_stopped_before_its_program_holds_no_other_start_and_can_be_given_up() {
        // In the place of a control group's file: the process waits until there is room.
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let room = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
        assert_eq!(rustix::io::write(&writer, &vec![0; room]).unwrap(), room);
        let (mut plan, output) = shell("echo executed", &[]);
        plan.groups = Some(crate::cgroup::Membership { files: vec![writer], is_required: false });
        let flight = Arc::new(Flight::default());
        let watched = Arc::clone(&flight);
        let start = std::thread::spawn(move || spawn_watched(plan, &watched));
        let state = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
        };
        wait_until("it waits", || flight.step() == SpawnStep::Group && state(flight.pid()) == Some('S'));
        let pid = rustix::process::Pid::from_raw(flight.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        wait_until("it is stopped", || state(flight.pid()) == Some('T'));
        // Now the stop alone holds it.
        assert_eq!(rustix::io::read(&reader, &mut vec![0; room]).unwrap(), room);
        let (other, said) = start_shell("echo other", &[]);
        assert_eq!(read_all(said), "other\n");
        assert_eq!(wait_exit(&other.0), Exit::Code(0));
        assert!(!start.is_finished() && flight.step() == SpawnStep::Group);
        flight.cancel();
        let child = Guarded(start.join().unwrap().unwrap());
        assert_eq!(wait_exit(&child.0), Exit::Signal(libc::SIGKILL, false));
        assert_eq!(read_all(output), "", "it did not come to its program");
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
    fn what_is_too_long_for_the_system_is_named_without_its_value() {
        let long = "x".repeat(200_000);
        let excess = |change: &dyn Fn(&mut SpawnPlan)| {
            let (mut plan, _output) = shell("true", &[("A", "1")]);
            change(&mut plan);
            let error = spawn(plan).unwrap_err();
            assert_eq!(error.step, SpawnStep::Execute);
            error.source.to_string()
        };
        let longest = rustix::param::page_size() * 32 - 1;
        assert_eq!(
            excess(&|plan| plan.env.push(("BIG".to_owned(), long.clone()))),
            format!("the variable BIG has 200004 bytes, and the system allows {longest}")
        );
        assert_eq!(
            excess(&|plan| plan.argv.push(long.clone())),
            format!("argument 3 has 200000 bytes, and the system allows {longest}")
        );
        let total = excess(&|plan| plan.argv.extend(std::iter::repeat_n("y".repeat(100_000), 100)));
        assert!(total.starts_with("its arguments and environment have 100000"), "{total}");
    }

    #[test]
    fn a_program_for_another_machine_is_not_run_by_the_shell() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("foreign");
        let mut foreign = std::fs::read("/bin/true").unwrap();
        // The field `e_machine`: no machine has this number.
        foreign[18..20].copy_from_slice(&[0xff, 0xff]);
        std::fs::write(&program, foreign).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let held = crate::process::open_program(&program).unwrap();
        let held = crate::process::path_of(std::os::fd::AsFd::as_fd(&held));
        for path in [program.clone(), held] {
            let (mut plan, output) = shell("", &[]);
            plan.program = path;
            let error = spawn(plan).unwrap_err();
            assert_eq!((error.step, error.errno()), (SpawnStep::Execute, libc::ENOEXEC));
            let said = "is no program for this machine: it is for another architecture, or damaged";
            assert_eq!(error.to_string(), format!("{} {said}", program.display()));
            assert_eq!(read_all(output), "");
        }
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
