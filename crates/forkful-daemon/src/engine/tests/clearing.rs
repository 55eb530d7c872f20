//! What a dead worker leaves behind is cleared away before its slot is told.

use super::*;

/// Leads a group with a process that outlives it.
const PARENT: &[&str] = &["/bin/sh", "-c", "/bin/sleep 1000 & wait"];

fn children(pid: u32) -> Vec<u32> {
    let text = fs_err::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Neither gone nor a zombie.
fn lives(pid: u32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn a_tree_that_cannot_be_seen_is_not_taken_for_gone() {
    locally(async {
        forkful_os::tree::set_subreaper().unwrap();
        let mut world = World::new();
        // With a control group the kernel shows the tree.
        world.engine.starts.groups = None;
        let app = world.start("parent", PARENT, 1);
        let leader = |engine: &Engine| Some(engine.apps[&app].current(0)?.child.pid);
        let has_child = |engine: &Engine| leader(engine).is_some_and(|pid| !children(pid).is_empty());
        world.turn_until("it has a child", has_child).await;
        let orphan = children(leader(&world.engine).unwrap())[0];

        world.engine.processes.look = |_| Err(io::Error::from_raw_os_error(24));
        world.engine.apps[&app].current(0).unwrap().child.signal(9).unwrap();
        let is_seen_ended = |engine: &Engine| {
            engine.apps[&app].places[&0].processes.values().all(|process| process.ended.is_some())
        };
        world.turn_until("its end is seen", is_seen_ended).await;
        world.turn().await;
        assert_eq!(world.engine.apps[&app].places[&0].processes.len(), 1, "it is looked for again");
        assert!(lives(orphan));

        world.engine.processes.look = forkful_os::tree::Snapshot::take;
        world.turn_until("it is cleared away", |engine| engine.apps[&app].is_at_rest()).await;
        assert!(!lives(orphan));
        world.close().await;
    });
}
