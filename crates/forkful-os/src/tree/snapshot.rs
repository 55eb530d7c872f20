//! All processes of the machine at one time, and the search for a worker's tree among them.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
#[cfg(target_os = "linux")]
use std::{fmt::Write, os::fd::OwnedFd};

#[cfg(target_os = "linux")]
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::process::getpid;

use super::mark::read_variable;
use super::{Instance, Mark, Member};
use crate::process::Child;
use crate::procinfo::Stat;
#[cfg(not(target_os = "linux"))]
use crate::procinfo::read_stat;

/// Longer than any line of `/proc/PID/stat`.
#[cfg(target_os = "linux")]
const STAT_MAX: usize = 1024;

/// The processes at one time. Taking a snapshot costs one read per process of the machine; searching it is
/// cheap.
#[derive(Debug)]
pub struct Snapshot {
    processes: Vec<Stat>,
    own_pid: u32,
    /// The process that orphans are re-parented to: this one, or the keeper.
    head: u32,
    /// Our children that are workers, not orphans.
    workers: HashSet<u32>,
    /// The marks of our other children by pid; read on first use.
    marks: OnceCell<HashMap<u32, Mark>>,
}

impl Snapshot {
    /// Reads `/proc` once. `workers` are children of this process that belong to no other worker's tree, so
    /// their environments need not be read.
    pub fn take(workers: &HashSet<u32>) -> io::Result<Self> {
        let processes = all_processes()?;
        let snapshot = Self::of(processes, getpid().as_raw_nonzero().get() as u32);
        Ok(Self { workers: workers.clone(), head: super::reap::head(), ..snapshot })
    }

    fn of(processes: Vec<Stat>, own_pid: u32) -> Self {
        Self { processes, own_pid, head: own_pid, workers: HashSet::new(), marks: OnceCell::new() }
    }

    /// Every process of the worker's tree that was alive at the snapshot and is alive now, each with a pidfd
    /// that was verified to be the same process.
    pub fn members(&self, child: &Child, mark: Mark) -> Vec<Member> {
        self.tree(child, mark).into_iter().filter(Stat::is_living).filter_map(|stat| hold(&stat)).collect()
    }

    /// The pids of the worker and its descendants; for inspection, not for signalling.
    pub fn pids(&self, child: &Child, mark: Mark) -> Vec<u32> {
        self.tree(child, mark).iter().map(|process| process.pid).collect()
    }

    /// Whether a process of the worker's tree that was alive at the snapshot had a core or waited for one.
    pub fn any_runnable(&self, child: &Child, mark: Mark) -> bool {
        self.tree(child, mark).iter().any(Stat::is_runnable)
    }

    /// The worker and the processes below it, and what they have left to others, by its mark.
    fn tree(&self, child: &Child, mark: Mark) -> Vec<Stat> {
        let has_mark = |pid: u32| self.marks().get(&pid).is_some_and(|found| *found == mark);
        self.search(child.pid, child.start_time, has_mark)
    }

    /// Every live process whose environment had `name=value` when it was executed; processes of other users
    /// cannot be read and are left out.
    pub fn with_variable(&self, name: &str, value: &str) -> Vec<Member> {
        let others = self.processes.iter().filter(|p| p.pid != self.own_pid && p.is_living());
        others
            .filter(|p| read_variable(p.pid, name).is_some_and(|found| found == value))
            .filter_map(hold)
            .collect()
    }

    /// Every live process with a mark of this daemon. Reads all processes of the machine.
    pub fn of_instance(&self, instance: Instance) -> Vec<Member> {
        self.marked(&HashSet::new(), |mark| mark.instance() == instance)
    }

    /// Every live process with a wanted mark, except these. Reads all other processes of the machine.
    pub fn marked(&self, besides: &HashSet<u32>, is_wanted: impl Fn(Mark) -> bool) -> Vec<Member> {
        let is_other = |p: &&Stat| p.pid != self.own_pid && p.is_living() && !besides.contains(&p.pid);
        let others = self.processes.iter().filter(is_other);
        others.filter(|p| Mark::of(p.pid).is_some_and(&is_wanted)).filter_map(hold).collect()
    }

    /// The children of this process at the snapshot.
    pub(super) fn children_of_ours(&self) -> Vec<u32> {
        self.processes.iter().filter(|p| self.is_left_to_us(p)).map(|p| p.pid).collect()
    }

    fn is_left_to_us(&self, process: &Stat) -> bool {
        process.parent == self.own_pid || (process.parent == self.head && process.pid != self.own_pid)
    }

    /// The search described in the module's documentation, zombies included.
    fn search(&self, leader: u32, leader_start: u64, has_mark: impl Fn(u32) -> bool) -> Vec<Stat> {
        // If the worker was reaped, its pid may be reused; then only the mark counts.
        let leader_is_there = self.processes.iter().any(|p| p.pid == leader && p.start_time == leader_start);
        let mut queue: VecDeque<Stat> = self
            .processes
            .iter()
            .filter(|p| {
                let by_ids = leader_is_there && (p.pid == leader || p.group == leader || p.session == leader);
                by_ids || (self.is_left_to_us(p) && p.pid != leader && has_mark(p.pid))
            })
            .copied()
            .collect();
        // The worker first, and parents before children: a parent that sees its child die first may start
        // another.
        if let Some(place) = queue.iter().position(|p| p.pid == leader) {
            queue.swap(0, place);
        }
        let mut found = Vec::new();
        let mut seen: HashSet<u32> = HashSet::from([self.own_pid, self.head]);
        while let Some(member) = queue.pop_front() {
            if !seen.insert(member.pid) {
                continue;
            }
            queue.extend(self.processes.iter().filter(|p| {
                p.parent == member.pid
                    || (p.session == member.session && member.session == member.pid)
                    || (p.group == member.group && member.group == member.pid)
            }));
            found.push(member);
        }
        found
    }

    fn marks(&self) -> &HashMap<u32, Mark> {
        self.marks.get_or_init(|| {
            let is_looked_at = |p: &&Stat| self.is_left_to_us(p) && !self.workers.contains(&p.pid);
            let own = self.processes.iter().filter(is_looked_at);
            own.filter_map(|p| Some((p.pid, Mark::of(p.pid)?))).collect()
        })
    }
}

/// Every process of the machine.
#[cfg(target_os = "linux")]
fn all_processes() -> io::Result<Vec<Stat>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open(c"/proc", flags, Mode::empty())?;
    let mut processes = Vec::with_capacity(512);
    let mut path = String::with_capacity(32);
    for entry in Dir::read_from(&proc)? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        path.clear();
        // Writing to a string cannot fail.
        let _ = write!(path, "{pid}/stat");
        // Skip a process that ended meanwhile.
        if let Ok(stat) = read_stat_at(&proc, &path) {
            processes.extend(stat);
        }
    }
    Ok(processes)
}

/// Every process of the machine.
#[cfg(not(target_os = "linux"))]
fn all_processes() -> io::Result<Vec<Stat>> {
    Ok(crate::procinfo::all_pids()?.into_iter().filter_map(|pid| read_stat(pid).ok()).collect())
}

#[cfg(target_os = "linux")]
fn read_stat_at(proc: &OwnedFd, path: &str) -> io::Result<Option<Stat>> {
    let file = openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [0; STAT_MAX];
    // The kernel generates the whole line at the first read.
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer))?;
    Ok(Stat::parse(&buffer[..read]))
}

/// Takes hold of a process, unless its pid belongs to another process by now.
fn hold(found: &Stat) -> Option<Member> {
    let pidfd = if crate::portable::is_on() { None } else { Some(crate::process::pidfd_of(found.pid).ok()?) };
    if crate::procinfo::start_time(found.pid).ok()? != found.start_time {
        return None;
    }
    let member = Member { pid: found.pid, pidfd, start_time: found.start_time };
    // A process whose pidfd still exists had the pid all the time, also when its start time was read.
    member.signal(0).ok()?;
    Some(member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procinfo::read_stat;
    use crate::testing::wait_until;

    fn process(pid: u32, parent: u32, group: u32, session: u32) -> Stat {
        Stat { pid, state: b'S', parent, group, session, threads: 1, start_time: u64::from(pid) * 10 }
    }

    fn found(snapshot: &Snapshot, leader_start: u64, marked: &[u32]) -> Vec<u32> {
        let mut pids: Vec<u32> =
            snapshot.search(100, leader_start, |pid| marked.contains(&pid)).iter().map(|p| p.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn the_closure_follows_parents_sessions_groups_and_marks() {
        let snapshot = Snapshot::of(
            vec![
                process(1, 0, 1, 1),
                process(50, 1, 50, 50),      // this process
                process(60, 50, 60, 60),     // another worker
                process(61, 60, 60, 60),     // and its child
                process(100, 50, 100, 100),  // the worker
                process(101, 100, 100, 100), // a child
                process(102, 101, 102, 102), // a grandchild with its own session
                process(103, 50, 102, 102),  // an orphan of that session
                process(104, 50, 100, 100),  // an orphan of the worker's session
                process(105, 50, 105, 105),  // an orphan with the mark
                process(106, 105, 105, 105), // and its child
            ],
            50,
        );
        assert_eq!(found(&snapshot, 1000, &[105]), [100, 101, 102, 103, 104, 105, 106]);
        assert_eq!(found(&snapshot, 999, &[105]), [105, 106], "the number belongs to someone else");
        assert_eq!(found(&snapshot, 1000, &[]), [100, 101, 102, 103, 104]);
    }

    #[test]
    fn a_process_is_found_by_a_variable_of_its_environment() {
        let value = format!("of-{}", std::process::id());
        let mut child =
            std::process::Command::new("sleep").arg("30").env("FORKFUL_TEST_MARK", &value).spawn().unwrap();
        let found = |value: &str| -> Vec<u32> {
            let snapshot = Snapshot::take(&HashSet::new()).unwrap();
            snapshot.with_variable("FORKFUL_TEST_MARK", value).iter().map(|member| member.pid).collect()
        };
        // The kernel releases the parent a moment before the environment is readable.
        wait_until("it is found", || found(&value) == [child.id()]);
        assert_eq!(found("of-nobody"), [0; 0]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found(&value), [0; 0]);
    }

    #[test]
    fn a_process_that_was_replaced_is_not_held() {
        let own = read_stat(std::process::id()).unwrap();
        assert_eq!(hold(&own).unwrap().pid, own.pid);
        assert!(hold(&Stat { start_time: own.start_time + 1, ..own }).is_none());
        assert!(hold(&Stat { pid: 4_194_304, ..own }).is_none());
    }
}
