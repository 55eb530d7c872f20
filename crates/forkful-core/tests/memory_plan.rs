//! How memory is divided over workers: no sum is above the limit, and a worker is replaced before anything ends it.

use forkful_core::memory_plan::{
    Available, Claim, Heap, Inputs, MemoryPlan, OwnHeap, OwnOptions, Replaces, Source,
};
use forkful_core::spec::{AppName, AppSpec, Runtime};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn inputs(available: &Available) -> Inputs<'_> {
    Inputs { available, workers: 4, others: &[], node_major: Some(22), own: OwnOptions::default() }
}

fn of(mib: u64, source: Source) -> Available {
    Available { bytes: mib * MIB, source }
}

fn heap(plan: &MemoryPlan) -> u64 {
    match plan.heap {
        Heap::Mib(mib) => mib * MIB,
        Heap::Users | Heap::TooSmall => 0,
    }
}

fn limit(plan: &MemoryPlan) -> u64 {
    match plan.replaces {
        Replaces::Above(bytes) => bytes,
        Replaces::Users | Replaces::NoRoom => 0,
    }
}

/// A spec whose Node.js has these options, on its command line and in its environment.
fn with(args: &[&str], options: &str) -> AppSpec {
    let mut spec = AppSpec::new(AppName::new("api").unwrap());
    spec.launch.runtime = Runtime::Node;
    spec.launch.program_args = args.iter().map(|arg| (*arg).to_owned()).collect();
    spec.launch.env = [("NODE_OPTIONS".to_owned(), options.to_owned())].into();
    spec
}

#[test]
fn a_plan_is_told_in_a_sentence() {
    let available = of(512, Source::MemoryMax);
    let roomy = MemoryPlan::new(&inputs(&available));
    insta::assert_snapshot!(roomy, @"512 MiB (`memory_max`) for 4 workers on Node.js 22: 106 MiB each, 79 MiB of it heap; a worker is replaced above 71 MiB of its own");
    insta::assert_snapshot!(roomy.node_options().join(" "), @"--max-old-space-size=79 --max-semi-space-size=2");
    let group = of(2048, Source::Group("/kubepods/pod1".to_owned()));
    insta::assert_snapshot!(MemoryPlan::new(&inputs(&group)), @"2048 MiB (cgroup /kubepods/pod1) for 4 workers on Node.js 22: 472 MiB each, 381 MiB of it heap; a worker is replaced above 313 MiB of its own");
    let machine = of(32_768, Source::Machine);
    insta::assert_snapshot!(MemoryPlan::new(&Inputs { workers: 1, ..inputs(&machine) }), @"32768 MiB (the machine) for 1 worker on Node.js 22: 23488 MiB each, 4096 MiB of it heap; a worker is replaced above 3284 MiB of its own");
    let little = of(192, Source::MemoryMax);
    insta::assert_snapshot!(MemoryPlan::new(&inputs(&little)), @"192 MiB (`memory_max`) for 4 workers on Node.js 22: 33 MiB each, 17 MiB of it heap; none is replaced in time, because a second worker has no room beside it: 212 MiB would do, or fewer workers");
    let own = OwnOptions { heap: OwnHeap::Mib(64), replaces: true, ..OwnOptions::default() };
    insta::assert_snapshot!(MemoryPlan::new(&Inputs { own, ..inputs(&available) }), @"512 MiB (`memory_max`) for 4 workers on Node.js 22: 106 MiB each, with the heap limit that the app has; `max_memory_restart` says when a worker is replaced");
}

#[test]
fn what_is_said_to_be_enough_is_enough() {
    for workers in [1, 2, 4, 16] {
        for node_major in [None, Some(18), Some(24)] {
            let little = of(96, Source::MemoryMax);
            let plan = MemoryPlan::new(&Inputs { workers, node_major, ..inputs(&little) });
            let text = plan.to_string();
            let enough = text.split("beside it: ").nth(1).and_then(|rest| rest.split(' ').next());
            let enough: u64 = enough.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
            let more = of(enough, Source::MemoryMax);
            let plan = MemoryPlan::new(&Inputs { workers, node_major, ..inputs(&more) });
            assert!(matches!(plan.replaces, Replaces::Above(_)), "{workers}: {plan}");
            let less = of(enough - enough / 10, Source::MemoryMax);
            let plan = MemoryPlan::new(&Inputs { workers, node_major, ..inputs(&less) });
            assert_eq!(plan.replaces, Replaces::NoRoom, "{workers}: {plan}");
        }
    }
}

#[test]
fn what_the_user_has_set_stays() {
    let own = |args: &[&str], options: &str| OwnOptions::of(&with(args, options));
    assert_eq!(own(&[], ""), OwnOptions::default());
    assert_eq!(own(&["--max-old-space-size=300"], "").heap, OwnHeap::Mib(300));
    assert_eq!(own(&["--max_old_space_size", "300"], "").heap, OwnHeap::Mib(300));
    assert_eq!(own(&[], "--enable-source-maps --max-old-space-size=64").heap, OwnHeap::Mib(64));
    assert_eq!(own(&[], "--max-old-space-size-percentage=50").heap, OwnHeap::Other);
    assert_eq!(own(&["--max-heap-size=90"], "").heap, OwnHeap::Other);
    assert_eq!(own(&["--max-old-space-size=much"], "").heap, OwnHeap::Other);
    assert!(own(&["--max-semi-space-size=4"], "").semi_space);

    let available = of(512, Source::MemoryMax);
    let plan = |own| MemoryPlan::new(&Inputs { own, ..inputs(&available) });
    let users = plan(own(&["--max-old-space-size=48"], ""));
    assert_eq!((users.heap, users.node_options()), (Heap::Users, Vec::new()));
    let planned = plan(OwnOptions::default());
    assert!(limit(&users) < limit(&planned), "a smaller heap is full earlier");
    let semi_space = plan(own(&["--max-semi-space-size=2"], "")).node_options();
    assert!(semi_space.len() == 1 && semi_space[0].starts_with("--max-old-space-size="), "{semi_space:?}");
    let mut spec = with(&[], "");
    spec.renewal.max_memory_bytes = Some(300 * MIB);
    let own = OwnOptions::of(&spec);
    assert_eq!(plan(own).replaces, Replaces::Users);
    spec.launch.runtime = Runtime::Other;
    assert_eq!(
        plan(OwnOptions::of(&spec)).semi_space_mib,
        None,
        "not every version takes it in NODE_OPTIONS"
    );
}

#[test]
fn other_apps_of_the_same_limit_have_their_part() {
    let available = of(4096, Source::Group("/".to_owned()));
    let share = |others: &[Claim]| MemoryPlan::new(&Inputs { others, ..inputs(&available) }).share;
    let alone = share(&[]);
    let bounded = share(&[Claim { workers: 9, bytes: Some(1024 * MIB) }]);
    assert_eq!(bounded, alone - 256 * MIB);
    let equal = share(&[Claim { workers: 4, bytes: None }]);
    assert!((alone / 2 - 8 * MIB..=alone / 2).contains(&equal), "{equal} of {alone}");
    assert_eq!(share(&[Claim { workers: 1, bytes: Some(u64::MAX) }]), 0);
}

#[test]
fn a_heap_is_not_larger_than_node_makes_it_by_itself() {
    let machine = of(256 * 1024, Source::Machine);
    let plan = MemoryPlan::new(&Inputs { workers: 2, ..inputs(&machine) });
    assert_eq!(plan.heap, Heap::Mib(4096));
    assert!(limit(&plan) < 4096 * MIB && plan.share > 64 * 1024 * MIB, "{plan}");
}

proptest! {
    #[test]
    fn nothing_adds_up_to_more_than_there_is(
        mib in 1_u64..65_536,
        workers in 1_u16..128,
        node_major in prop::option::of(16_u16..30),
        source in prop::sample::select(vec![
            Source::MemoryMax, Source::Group("/a".to_owned()), Source::Machine,
        ]),
    ) {
        let available = of(mib, source);
        let plan = MemoryPlan::new(&Inputs { workers, node_major, ..inputs(&available) });
        let all = plan.share * u64::from(workers) + plan.spare;
        prop_assert!(plan.share == 0 || all + plan.beside <= available.bytes, "{plan:?}");
        let young = plan.semi_space_mib.unwrap_or(0) * 3 * MIB;
        prop_assert!(heap(&plan) + young <= plan.share, "{plan:?}");
        if let Replaces::Above(bytes) = plan.replaces {
            prop_assert!(bytes < plan.share && bytes > plan.idle, "{plan:?}");
            prop_assert!(plan.spare == plan.idle, "{plan:?}");
            // V8 would end it with this much, and none of it is garbage.
            prop_assert!(heap(&plan) == 0 || bytes < plan.idle + heap(&plan), "{plan:?}");
        }
        // More memory is never a smaller heap.
        let more = Available { bytes: available.bytes * 2, ..available.clone() };
        let larger = MemoryPlan::new(&Inputs { workers, node_major, ..inputs(&more) });
        prop_assert!(heap(&larger) >= heap(&plan), "{plan:?} {larger:?}");
    }
}
