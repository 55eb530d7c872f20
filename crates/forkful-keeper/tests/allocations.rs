//! A keeper allocates nothing after its start: neither for descriptors of daemons, nor for daemons that die
//! or hang. Two keepers are compared, one with a single daemon and one with several, so that the cost of a
//! start is the same in both.
//!
//! Without libtest's harness: keepers and daemons are this program again, each in a separate process.

use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode};
use std::time::Duration;

use forkful_keeper::{KeeperPlan, run};
use forkful_os::identity::take_inherited_fd;
use forkful_os::keeper::{Handover, Kind, Name};
use forkful_testkit::allocations::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// How daemons end, by turn: one dies, one hangs until the keeper kills it, one dies again, and the last one
/// leaves.
const ENDS: [End; 4] = [End::Dies, End::Hangs, End::Dies, End::Leaves];
/// How long a daemon may hang.
const PATIENCE: Duration = Duration::from_millis(100);
/// The descriptors that each daemon has kept; half of them are dropped again.
const KEPT: u32 = 100;
/// The first descriptor that a keeper uses for a daemon.
const KEEPER_FD: i32 = 3;

#[derive(Debug, Clone, Copy)]
enum End {
    Dies,
    Hangs,
    Leaves,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["keeper", first] => keeper(first),
        ["daemon", first] => daemon(first.parse().expect("a number")),
        _ => compare(),
    }
}

/// The test.
fn compare() -> ExitCode {
    let alone = counted(ENDS.len() - 1);
    let several = counted(0);
    assert!(alone > 0, "the allocator counts");
    assert_eq!(several, alone, "a keeper of {} daemons allocates as often as a keeper of one", ENDS.len());
    println!("a keeper allocates nothing after its start: ok");
    ExitCode::SUCCESS
}

/// Number of allocations of a keeper whose first daemon ends like that of this turn.
fn counted(first: usize) -> usize {
    let program = std::env::current_exe().expect("this program");
    let keeper = Command::new(program).args(["keeper", &first.to_string()]).output().expect("a keeper");
    let said = String::from_utf8_lossy(&keeper.stdout).into_owned();
    assert!(keeper.status.success(), "{said}{}", String::from_utf8_lossy(&keeper.stderr));
    said.trim().parse().expect("a number")
}

fn keeper(first: &str) -> ExitCode {
    let program = std::env::current_exe().expect("this program");
    let argv = ["allocations", "daemon", first].map(str::to_owned).to_vec();
    let plan = KeeperPlan {
        program,
        argv,
        successor: Vec::new(),
        passage: None,
        env: Vec::new(),
        ready: None,
        manager: Some("@nobody-listens-here".to_owned()),
        stored: Vec::new(),
        patience: Some(PATIENCE),
    };
    let code = run(plan).expect("a keeper");
    println!("{}", allocations());
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// One daemon; a kept word counts the previous ones.
fn daemon(first: usize) -> ExitCode {
    let socket = take_inherited_fd(KEEPER_FD).expect("the way to the keeper");
    let mut handover = Handover::receive(socket).expect("what is kept");
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let counter = Name::only(Kind::Lock);
    let hold = match handover.take(counter) {
        Some(kept) => kept.hold,
        None => handover.keeping.keep(counter, &reader),
    };
    let word = hold.word().expect("its word");
    let turn = word.load(std::sync::atomic::Ordering::SeqCst) as usize;
    word.store(turn as u64 + 1, std::sync::atomic::Ordering::SeqCst);
    let reader = OwnedFd::from(reader);
    let held: Vec<_> = (0..KEPT)
        .map(|of| handover.keeping.keep(Name { kind: Kind::Out, app: 1, of, part: 0 }, &reader))
        .collect();
    std::mem::forget(held.into_iter().step_by(2).collect::<Vec<_>>());
    handover.keeping.let_go();
    handover.keeping.tell_manager("READY=1");
    handover.keeping.serves();
    match ENDS[(first + turn).min(ENDS.len() - 1)] {
        End::Dies => std::process::abort(),
        End::Hangs => loop {
            std::thread::park();
        },
        End::Leaves => handover.keeping.leave(),
    }
    ExitCode::SUCCESS
}
