//! Real process trees of shells that try to escape, without success.

use super::*;
use crate::keeper::Keeping;
use crate::process::spawn;
use crate::procinfo;
use crate::testing::{Guarded, read_line, shell, wait_exit, wait_until};

const PATH: (&str, &str) = ("PATH", "/usr/bin:/bin");

/// Kills a tree at the end of the test, even on failure, and reaps its processes.
struct GuardedTree {
    child: Guarded,
    mark: Mark,
}

impl Drop for GuardedTree {
    fn drop(&mut self) {
        signal_tree(&self.child.0, self.mark, libc::SIGKILL);
    }
}

fn start_tree(script: &str) -> (GuardedTree, OwnedFd) {
    set_subreaper().unwrap();
    let mark = Marks::new().give();
    let (mut plan, output) = shell(script, &[PATH, (MARK_VARIABLE, &mark.to_string())]);
    plan.mark = Some(mark);
    (GuardedTree { child: Guarded(spawn(plan).unwrap()), mark }, output)
}

fn pids(tree: &GuardedTree) -> Vec<u32> {
    let mut pids: Vec<u32> = members(&tree.child.0, tree.mark).iter().map(|member| member.pid).collect();
    pids.sort_unstable();
    pids
}

/// Reads `count` pids that the script prints, one per line.
fn announced(output: &OwnedFd, count: usize) -> Vec<u32> {
    let mut pids: Vec<u32> = (0..count).map(|_| read_line(output).parse().unwrap()).collect();
    pids.sort_unstable();
    pids
}

#[test]
fn children_and_grandchildren_are_found_and_signalled() {
    let script = "echo $$; sh -c 'echo $$; sleep 100 & echo $!; wait' & wait";
    let (tree, output) = start_tree(script);
    let expected = announced(&output, 3);
    assert_eq!(pids(&tree), expected);
    assert_eq!(signal_tree(&tree.child.0, tree.mark, libc::SIGTERM), 3);
    assert_eq!(wait_exit(&tree.child.0), crate::process::Exit::Signal(libc::SIGTERM, false));
    wait_until("the tree is gone", || pids(&tree).is_empty());
}

#[test]
fn a_daemonised_grandchild_is_found_by_its_mark_after_the_worker_ended() {
    // A double fork with its own session: the parent is gone, session and group differ.
    let script = "setsid sh -c '(trap \"\" TERM INT; echo $$ > /dev/null; sh -c \"echo \\$PPID\"; \
                  while :; do sleep 0.01; done) &' & wait";
    let (tree, output) = start_tree(script);
    let escaped = announced(&output, 1)[0];
    wait_exit(&tree.child.0);
    wait_until("the orphan is ours", || {
        procinfo::read_stat(escaped).is_ok_and(|stat| stat.parent == std::process::id())
    });
    let stat = procinfo::read_stat(escaped).unwrap();
    assert_ne!(stat.session, tree.child.0.pid);
    assert!(pids(&tree).contains(&escaped));
    assert!(!pids(&tree).contains(&tree.child.0.pid), "a zombie is not a member");
    let other = members(&tree.child.0, Marks::new().give());
    assert!(!other.iter().any(|member| member.pid == escaped), "the mark decides");
    signal_tree(&tree.child.0, tree.mark, libc::SIGTERM);
    assert!(pids(&tree).contains(&escaped), "it ignores SIGTERM");
    assert!(signal_tree(&tree.child.0, tree.mark, libc::SIGKILL) >= 1);
    wait_until("the tree is gone", || pids(&tree).is_empty());
}

#[test]
fn an_orphan_without_environment_is_found_by_the_session() {
    let script = "(env -i PATH=/usr/bin:/bin sh -c 'echo $$; exec sleep 100' &); exit 3";
    let (tree, output) = start_tree(script);
    let orphan = announced(&output, 1)[0];
    assert_eq!(wait_exit(&tree.child.0), crate::process::Exit::Code(3));
    wait_until("the orphan is ours", || {
        procinfo::read_stat(orphan).is_ok_and(|stat| stat.parent == std::process::id())
    });
    assert_eq!(pids(&tree), [orphan]);
    assert_eq!(signal_tree(&tree.child.0, tree.mark, libc::SIGKILL), 1);
    wait_until("the tree is gone", || pids(&tree).is_empty());
}

#[test]
fn a_tree_that_forks_all_the_time_is_killed_whole() {
    let script = "echo $$; f() { while :; do (sleep 0.001; sleep 0.001) & done; }; f";
    let (tree, output) = start_tree(script);
    announced(&output, 1);
    wait_until("it forks", || pids(&tree).len() > 3);
    signal_tree(&tree.child.0, tree.mark, libc::SIGKILL);
    wait_exit(&tree.child.0);
    wait_until("the tree is gone", || {
        signal_tree(&tree.child.0, tree.mark, libc::SIGKILL);
        pids(&tree).is_empty()
    });
}

#[test]
fn orphans_are_reaped_and_known_children_are_not() {
    set_subreaper().unwrap();
    let script = "(sh -c 'echo $$; exit 0' &); exit 5";
    let (tree, output) = start_tree(script);
    let orphan = announced(&output, 1)[0];
    assert_eq!(wait_exit(&tree.child.0), crate::process::Exit::Code(5));
    wait_until("the orphan is a zombie of ours", || {
        procinfo::read_stat(orphan).is_ok_and(|s| s.parent == std::process::id() && s.state == b'Z')
    });
    // Other tests run in this process: all processes except this orphan are theirs.
    assert_eq!(reap_orphans(&|pid| pid != orphan, &Keeping::default()).unwrap(), 1);
    assert!(procinfo::read_stat(orphan).is_err());
    assert_eq!(tree.child.0.try_wait(false).unwrap(), Some(crate::process::Exit::Code(5)));
    assert_eq!(reap_orphans(&|_| true, &Keeping::default()).unwrap(), 0);
}

#[test]
fn what_has_left_everything_behind_is_found_by_its_mark() {
    // A double fork, its own session and no environment at all.
    let script = "(env -i setsid /bin/sh -c 'echo $$; exec /bin/sleep 100' &); exec sleep 100";
    let (tree, output) = start_tree(script);
    let escaped = announced(&output, 1)[0];
    wait_until("the orphan is ours", || {
        procinfo::read_stat(escaped).is_ok_and(|stat| stat.parent == std::process::id())
    });
    assert!(pids(&tree).contains(&escaped));
    let of_this = || -> Vec<u32> {
        let snapshot = Snapshot::take(&HashSet::new()).unwrap();
        snapshot.of_instance(tree.mark.instance()).iter().map(|member| member.pid).collect()
    };
    assert!(of_this().contains(&escaped) && of_this().contains(&tree.child.0.pid));
    assert!(Snapshot::take(&HashSet::new()).unwrap().of_instance(Instance::random()).is_empty());
    signal_tree(&tree.child.0, tree.mark, libc::SIGKILL);
    wait_until("the tree is gone", || pids(&tree).is_empty() && of_this().is_empty());
}
