//! Resource use and state of a process from `/proc/PID` and its CPU clock (proc(5)).

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Maximum bytes of a command line to show.
const COMMAND_LINE_MAX: usize = 4096;

/// Nearly all of these files are shorter.
pub(crate) const USUAL_LENGTH: usize = 8192;

/// The highest pid on Linux (`PID_MAX_LIMIT`).
const PID_MAX: u32 = 4_194_304;

/// The fields of `/proc/PID/stat` that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    /// `R`, `S`, `D`, `Z`, …
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) threads: u32,
    /// Ticks since boot.
    pub(crate) start_time: u64,
}

impl Stat {
    /// Whether it is alive. The main thread of a live process may be a zombie too, if it exited before the
    /// other threads.
    pub(crate) fn is_living(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x') || self.threads > 1
    }

    /// Whether it has a core or waits for one.
    pub(crate) fn is_runnable(&self) -> bool {
        self.state == b'R'
    }

    /// Parses the text of a stat file. The name in parentheses may contain anything, also parentheses.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let open = text.iter().position(|b| *b == b'(')?;
        let close = text.iter().rposition(|b| *b == b')')?;
        let pid = std::str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        // Field 3, the state, is number 0 here.
        let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            parent: number(4)? as u32,
            group: number(5)? as u32,
            session: number(6)? as u32,
            threads: number(20)? as u32,
            start_time: number(22)?,
        })
    }
}

pub(crate) fn read_stat(pid: u32) -> io::Result<Stat> {
    let mut buffer = [0; 1024];
    let read = read_some(&format!("/proc/{pid}/stat"), &mut buffer)?;
    Stat::parse(&buffer[..read]).ok_or_else(|| Errno::INVAL.into())
}

/// Whether a process is there and no zombie.
pub fn is_living(pid: u32) -> bool {
    read_stat(pid).is_ok_and(|stat| stat.is_living())
}

/// The calling thread's id, by which the functions here know it as they know a process.
pub fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Start time of an ended process, and its status as `wait(2)` returns it: field 52, which the kernel shows
/// as 0 to processes that may not trace it.
pub(crate) fn end_of(pid: u32) -> io::Result<(u64, i32)> {
    let mut buffer = [0; 1024];
    let read = read_some(&format!("/proc/{pid}/stat"), &mut buffer)?;
    let stat = Stat::parse(&buffer[..read]).filter(|stat| !stat.is_living()).ok_or(Errno::SRCH)?;
    let text = std::str::from_utf8(&buffer[..read]).map_err(|_| Errno::INVAL)?;
    let status =
        text.trim_end().rsplit(' ').next().and_then(|field| field.parse().ok()).ok_or(Errno::INVAL)?;
    Ok((stat.start_time, status))
}

/// Whether a process belongs to this user.
pub(crate) fn is_of_this_user(pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == crate::identity::euid())
}

/// Major page faults of all threads of the process so far: pages that were not in memory and were read from a disk.
pub fn major_faults(pid: u32) -> io::Result<u64> {
    let mut buffer = [0; 1024];
    let read = read_some(&format!("/proc/{pid}/stat"), &mut buffer)?;
    major_faults_in(&buffer[..read]).ok_or_else(|| Errno::INVAL.into())
}

/// Field 12 of a stat file.
fn major_faults_in(text: &[u8]) -> Option<u64> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    fields.split_ascii_whitespace().nth(12 - 3)?.parse().ok()
}

/// When the process started, in the kernel's ticks since boot.
pub fn start_time(pid: u32) -> io::Result<u64> {
    Ok(read_stat(pid)?.start_time)
}

/// CPU time used so far by all threads of the process, user and system, in nanoseconds.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    if !(1..=PID_MAX).contains(&pid) {
        // The clock's id has no room for a larger pid, and 0 means this process.
        return Err(Errno::SRCH.into());
    }
    let mut clock = MaybeUninit::<libc::clockid_t>::uninit();
    // SAFETY: the clock's id is written on success, which is checked.
    let clock = unsafe {
        let error = libc::clock_getcpuclockid(pid as libc::pid_t, clock.as_mut_ptr());
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        clock.assume_init()
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        let error = io::Error::last_os_error();
        // The process ended between the two calls.
        return Err(if error.raw_os_error() == Some(libc::EINVAL) { Errno::SRCH.into() } else { error });
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Memory of a process in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// All of it, including shared pages.
    pub bytes: u64,
    /// Anonymous memory: heaps, buffers, stacks; without files and shared memory.
    pub own_bytes: u64,
}

/// Memory of the process in RAM, including shared pages, in bytes.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    resident(pid).map(|resident| resident.bytes)
}

/// Memory of the process in RAM.
pub fn resident(pid: u32) -> io::Result<Resident> {
    let mut buffer = [0; 128];
    let read = read_some(&format!("/proc/{pid}/statm"), &mut buffer)?;
    let mut pages = std::str::from_utf8(&buffer[..read])
        .map_err(|_| Errno::INVAL)?
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|field| field.parse::<u64>().ok());
    let (all, of_files) = pages.next().zip(pages.next()).ok_or(Errno::INVAL)?;
    let page = rustix::param::page_size() as u64;
    Ok(Resident { bytes: all * page, own_bytes: all.saturating_sub(of_files) * page })
}

/// Whether the main thread of the process is running or ready to run; otherwise it waits in the kernel.
pub fn is_running(pid: u32) -> io::Result<bool> {
    Ok(read_stat(pid)?.is_runnable())
}

/// The kernel function in which the process waits (`/proc/PID/wchan`); `None` if it runs, or if the kernel
/// does not provide it.
pub fn waits_in(pid: u32) -> Option<String> {
    let mut buffer = [0; 128];
    let read = read_some(&format!("/proc/{pid}/wchan"), &mut buffer).ok()?;
    let name = printable(&buffer[..read]);
    (!name.is_empty() && name != "0").then_some(name)
}

/// The arguments of the command line, the program first: control characters replaced, limited to 4 KiB; the
/// kernel's short name in brackets if there is none, empty if the process is gone. They may hold secrets.
pub fn command_line(pid: u32) -> Vec<String> {
    let mut buffer = vec![0; COMMAND_LINE_MAX];
    let read = read_some(&format!("/proc/{pid}/cmdline"), &mut buffer).unwrap_or(0);
    let mut arguments: Vec<String> = buffer[..read].split(|byte| *byte == 0).map(printable).collect();
    // The last one ends with a NUL, too; a process that changed its title leaves several.
    while arguments.pop_if(|last| last.is_empty()).is_some() {}
    if !arguments.is_empty() {
        return arguments;
    }
    let read = read_some(&format!("/proc/{pid}/comm"), &mut buffer).unwrap_or(0);
    let name = printable(&buffer[..read]);
    if name.is_empty() { Vec::new() } else { vec![format!("[{name}]")] }
}

fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace(char::is_control, "\u{fffd}");
    text.trim_end_matches([' ', '\u{fffd}']).to_owned()
}

/// The whole text of a file, with invalid UTF-8 replaced.
pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(USUAL_LENGTH);
    // For a plain file, the standard library asks for the size, which is 0 here, and then reads in small
    // pieces.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Fills `buffer` from the start of a file. These files are generated at the first read, which gives all of it.
pub(super) fn read_some(path: &str, buffer: &mut [u8]) -> io::Result<usize> {
    File::open(path)?.read(buffer)
}

/// Scheduling statistics of a process's main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scheduled {
    /// Time on a core.
    pub ran: Duration,
    /// Time it was ready to run but had no core.
    pub waited: Duration,
}

/// Scheduling statistics of a process's main thread (`/proc/PID/schedstat`). Does not allocate.
pub fn scheduled(pid: u32) -> io::Result<Scheduled> {
    let (mut path, mut text) = ([0; 32], [0; 64]);
    write!(&mut path[..], "/proc/{pid}/schedstat")?;
    let path = CStr::from_bytes_until_nul(&path).map_err(|_unterminated| io::ErrorKind::InvalidInput)?;
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(&file, &mut text)?;
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let mut fields =
        text.split_ascii_whitespace().map_while(|field| field.parse().ok().map(Duration::from_nanos));
    match (fields.next(), fields.next()) {
        (Some(ran), Some(waited)) => Ok(Scheduled { ran, waited }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schedulers_account_of_ourselves_grows() {
        let before = super::scheduled(std::process::id()).unwrap();
        assert!(before.ran > std::time::Duration::ZERO);
        assert!(super::scheduled(u32::MAX).is_err());
    }

    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = b"42 (a) S 1 (b)) Z 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 123456 9 9\n";
        let stat = Stat::parse(text).unwrap();
        let expected =
            Stat { pid: 42, state: b'Z', parent: 7, group: 8, session: 9, threads: 3, start_time: 123_456 };
        assert_eq!(stat, expected);
        assert_eq!(major_faults_in(text), Some(3));
        assert!(stat.is_living(), "other threads run on");
        assert!(!Stat { threads: 1, ..stat }.is_living());
        for broken in [&b""[..], b"42", b"42 (x", b"42 (x) S 1", b"x (y) S 1 1 1"] {
            assert_eq!(Stat::parse(broken), None);
            assert_eq!(major_faults_in(broken), None);
        }
    }

    #[test]
    fn figures_of_this_process_are_those_that_it_measures_itself() {
        let pid = std::process::id();
        let stat = read_stat(pid).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        let before = cpu_time(pid).unwrap();
        let mut used = before;
        let mut rounds: u64 = 0;
        while used < before + Duration::from_millis(20) {
            rounds = std::hint::black_box(rounds + 1);
            used = cpu_time(pid).unwrap();
        }
        assert!(used >= before + Duration::from_millis(20));
        let ballast = vec![1_u8; 32 << 20];
        assert!(resident_bytes(pid).unwrap() > std::hint::black_box(ballast).len() as u64);
        assert!(command_line(pid)[0].contains("forkful_os"));
    }

    #[test]
    fn a_process_that_is_gone_is_an_error_and_an_empty_line() {
        let gone = u32::try_from(i32::MAX).unwrap();
        assert!(read_stat(gone).is_err());
        assert!(major_faults(gone).is_err() && major_faults(std::process::id()).is_ok());
        assert_eq!(cpu_time(gone).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert!(resident_bytes(gone).is_err());
        assert_eq!(command_line(gone), Vec::<String>::new());
        // Kernel threads have no command line (pid 2, if the machine shows them).
        if read_stat(2).is_ok_and(|stat| stat.parent == 0) {
            assert!(command_line(2)[0].starts_with('['));
        }
    }
}
