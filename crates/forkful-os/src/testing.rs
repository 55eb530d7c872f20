//! Helpers for this crate's tests: processes that are always cleaned up, and waits with a timeout.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use forkful_testkit::{wait_until, write_executable};

use crate::process::{Child, Exit, SpawnPlan, spawn};
use crate::reactor::{Interest, Reactor};

/// Longer than anything here takes on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// A child that is killed and reaped at the end of the test, even on failure.
pub(crate) struct Guarded(pub(crate) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.signal(libc::SIGKILL);
        wait_exit(&self.0);
        let _ = self.0.try_wait(true);
    }
}

/// A plan for `/bin/sh -c script` with `env`, and the read end of its output.
pub(crate) fn shell(script: &str, env: &[(&str, &str)]) -> (SpawnPlan, OwnedFd) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let plan = SpawnPlan {
        stdin: None,
        program: PathBuf::from("/bin/sh"),
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        cwd: PathBuf::from("/"),
        stderr: write.try_clone().unwrap(),
        stdout: write,
        channel: None,
        run_as: None,
        mark: None,
        groups: None,
        keeping: crate::keeper::Keeping::default(),
    };
    (plan, read)
}

/// Starts a shell script and returns it with the read end of its output.
pub(crate) fn start_shell(script: &str, env: &[(&str, &str)]) -> (Guarded, OwnedFd) {
    let (plan, output) = shell(script, env);
    (Guarded(spawn(plan).unwrap()), output)
}

/// Waits for the next data. Children of other tests hold copies of every descriptor of this process until
/// they execute their program, so an end of file can be late.
pub(crate) fn receive_soon(fd: BorrowedFd<'_>, buf: &mut [u8], handles: &mut Vec<OwnedFd>) -> usize {
    let reactor = Reactor::new().unwrap();
    reactor.add(fd, 0, Interest::READ).unwrap();
    reactor.wait(&mut Vec::new(), Some(BOUND)).unwrap();
    crate::channel::receive(fd, buf, handles).unwrap()
}

/// Everything received until the other side is closed.
pub(crate) fn read_all(fd: OwnedFd) -> String {
    let mut text = String::new();
    std::fs::File::from(fd).read_to_string(&mut text).unwrap();
    text
}

/// The next line, without its end.
pub(crate) fn read_line(fd: &OwnedFd) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while rustix::io::read(fd, &mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Waits for the end of a child without reaping it.
pub(crate) fn wait_exit(child: &Child) -> Exit {
    let reactor = Reactor::new().unwrap();
    reactor.add(child.pidfd.as_fd(), 0, Interest::READ).unwrap();
    let mut events = Vec::new();
    reactor.wait(&mut events, Some(BOUND)).unwrap();
    child.try_wait(false).unwrap().expect("ended within the bound")
}
