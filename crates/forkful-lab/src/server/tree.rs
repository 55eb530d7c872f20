//! A server's process tree: its resource use, its listening addresses, and killing it.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use forkful_load::StopHandle;
use forkful_os::process::Child;
use forkful_os::procinfo::{self, ListeningSocket};
use forkful_os::tree::{Mark, Member, Snapshot};

/// Pause between two checks of processes that should exit.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// How often SIGKILL is sent to remaining processes.
const KILL_ROUNDS_MAX: usize = 200;

/// SIGKILL.
const KILL: i32 = 9;

/// The processes below a root process, and the root.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Child,
}

/// CPU and memory of a tree at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TreeUse {
    /// CPU time used so far, by process.
    pub cpu: BTreeMap<u32, Duration>,
    /// Memory; shared pages count once.
    pub memory_bytes: u64,
}

impl TreeUse {
    /// CPU time between an earlier sample and this one. The time of a process that exited in between is lost.
    pub(crate) fn cpu_since(&self, earlier: &Self) -> Duration {
        let of =
            |pid: &u32, now: &Duration| now.saturating_sub(earlier.cpu.get(pid).copied().unwrap_or_default());
        self.cpu.iter().map(|(pid, now)| of(pid, now)).sum()
    }

    pub(crate) fn processes(&self) -> usize {
        self.cpu.len()
    }
}

impl Tree {
    /// The tree of a child process.
    pub(crate) fn of_child(root: Child) -> Self {
        Self { root }
    }

    /// The tree of any process.
    pub(crate) fn of_pid(pid: u32) -> io::Result<Self> {
        let pidfd = forkful_os::process::pidfd_of(pid)?;
        Ok(Self {
            root: Child {
                pid,
                pidfd,
                start_time: procinfo::start_time(pid)?,
                keeping: forkful_os::keeper::Keeping::default(),
            },
        })
    }

    pub(crate) fn root(&self) -> &Child {
        &self.root
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        Snapshot::take(&HashSet::new())
            .map(|snapshot| snapshot.members(&self.root, Mark::NONE))
            .unwrap_or_default()
    }

    /// Its current resource use.
    pub(crate) fn used(&self, with_memory: bool) -> TreeUse {
        let mut found = TreeUse::default();
        for member in self.members() {
            // A process that exits while it is read is left out.
            let Ok(cpu) = procinfo::cpu_time(member.pid) else { continue };
            found.cpu.insert(member.pid, cpu);
            if with_memory {
                let share = procinfo::proportional_bytes(member.pid);
                found.memory_bytes +=
                    share.or_else(|_| procinfo::resident_bytes(member.pid)).unwrap_or_default();
            }
        }
        found
    }

    /// All TCP addresses that a member listens on.
    pub(crate) fn listening(&self) -> Vec<std::net::SocketAddr> {
        let mut found = Vec::new();
        for member in self.members() {
            for socket in procinfo::listening_sockets_of(member.pid).unwrap_or_default() {
                if let ListeningSocket::Tcp(address) = socket
                    && !found.contains(&address)
                {
                    found.push(address);
                }
            }
        }
        found
    }

    /// Waits until all processes have exited. Returns false if some are alive at the deadline or at an
    /// immediate stop.
    pub(crate) fn wait_gone(&self, deadline: Instant, stop: &StopHandle) -> bool {
        loop {
            if self.members().is_empty() {
                return true;
            }
            if Instant::now() >= deadline || stop.is_at_once() {
                return false;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Kills the remaining processes. `known` are members seen earlier: processes whose parent is gone cannot
    /// be found by descent.
    pub(crate) fn kill(&self, known: &[Member]) {
        for _ in 0..KILL_ROUNDS_MAX {
            let members = self.members();
            let alive = |member: &&Member| member.signal(0).is_ok() && !is_zombie(member.pid);
            let rest: Vec<&Member> = known.iter().chain(&members).filter(alive).collect();
            if rest.is_empty() {
                return;
            }
            for member in rest {
                // It may have exited meanwhile.
                member.signal(KILL).ok();
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

/// Kills every process that has `name=value` in its environment: processes that a manager left behind,
/// including one that is just being started in the background.
pub(super) fn kill_marked(name: &str, value: &str) {
    // A process has no environment for a moment during exec, so a single empty check proves nothing.
    let mut empty_looks = 0;
    for _ in 0..KILL_ROUNDS_MAX {
        let snapshot = Snapshot::take(&HashSet::new());
        let found = snapshot.map(|snapshot| snapshot.with_variable(name, value)).unwrap_or_default();
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 2 {
            return;
        }
        for member in found {
            // It may have exited meanwhile.
            member.signal(KILL).ok();
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// Whether a process has exited and only waits to be reaped.
fn is_zombie(pid: u32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z') || rest.starts_with('X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_counted_for_each_process_that_is_still_there() {
        let ms = Duration::from_millis;
        let before = TreeUse { cpu: [(1, ms(10)), (2, ms(20))].into(), memory_bytes: 0 };
        let after = TreeUse { cpu: [(1, ms(15)), (3, ms(7))].into(), memory_bytes: 5 };
        assert_eq!(after.cpu_since(&before), ms(12));
        assert_eq!(after.processes(), 2);
    }

    #[test]
    fn this_process_is_found_with_its_listener() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tree = Tree::of_pid(std::process::id()).unwrap();
        // The snapshot excludes the process itself, so that it never signals itself.
        assert!(tree.members().iter().all(|member| member.pid != std::process::id()));
        drop(listener);
        assert!(Tree::of_pid(u32::MAX).is_err());
    }
}
