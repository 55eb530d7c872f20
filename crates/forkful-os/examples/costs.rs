//! Measures the cost of this crate's mechanisms on this machine, as medians: `cargo run --release -p
//! forkful-os --example costs`.
//!
//! For estimating designs, not for comparisons with other programs.

use std::error::Error;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forkful_os::closed::ClosedConnections;
use forkful_os::listener::{Steer, TcpGroup, accept, queue_length};
use forkful_os::process::{Child, SpawnPlan, spawn};
use forkful_os::tree::{self, Snapshot};
use forkful_os::{cores, priority, procinfo};

const ROUNDS: usize = 200;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    procinfo::raise_open_files_limit()?;
    println!("{:?}\n{:?}", cores::usable_cores(), priority::request_short_slice(Duration::from_micros(250))?);
    spawning("spawn, few descriptors")?;
    let descriptors: Vec<_> =
        (0..5000).map(|_| std::fs::File::open("/dev/null")).collect::<std::io::Result<_>>()?;
    let ballast = vec![1_u8; 256 << 20];
    spawning("spawn, 5000 descriptors and 256 MiB")?;
    drop((descriptors, ballast));
    listening()?;
    let child = start()?;
    median("snapshot of all processes", || drop(Snapshot::take(&std::collections::HashSet::new())));
    median("members of a worker's tree", || drop(tree::members(&child, tree::Mark::NONE)));
    median("CPU time", || drop(procinfo::cpu_time(child.pid)));
    median("resident bytes", || drop(procinfo::resident_bytes(child.pid)));
    median("listening sockets of a process", || drop(procinfo::listening_sockets_of(child.pid)));
    end(&child)
}

fn spawning(what: &str) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let plan = plan()?;
        let before = Instant::now();
        let child = spawn(plan)?;
        times.push(before.elapsed());
        end(&child)?;
    }
    report(what, times);
    Ok(())
}

fn listening() -> Result<()> {
    let mut group = TcpGroup::bind("127.0.0.1:0".parse()?, false, 511)?;
    while group.len() < 65 {
        group.add_member()?;
    }
    let random = Steer::Random((1..65).collect());
    let gaps = Steer::Random((1..65).step_by(2).collect());
    median("steer at random over 64", || drop(group.steer(&random)));
    median("steer at random over 32 with gaps", || drop(group.steer(&gaps)));
    median("queue length", || drop(queue_length(group.member(1))));
    group.steer(&Steer::Only(0))?;
    let mut closed = ClosedConnections::open()?;
    closed.only_ports(&[group.local_addr().port()])?;
    let mut times = Vec::new();
    let mut seen = 0;
    for _ in 0..ROUNDS {
        let client = TcpStream::connect(group.local_addr())?;
        let before = Instant::now();
        let connection: Option<OwnedFd> = accept(group.member(0))?;
        times.push(before.elapsed());
        drop((connection, client));
        closed.read(|_, _| seen += 1)?;
    }
    report("accept", times);
    println!("ends told: {seen} of {ROUNDS} so far (descriptor {:?})", closed.as_fd());
    Ok(())
}

fn plan() -> Result<SpawnPlan> {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(SpawnPlan {
        stdin: None,
        program: PathBuf::from("/bin/sleep"),
        argv: vec!["sleep".to_owned(), "1000".to_owned()],
        env: std::env::vars().collect(),
        cwd: PathBuf::from("/"),
        stderr: null.try_clone()?.into(),
        stdout: null.into(),
        channel: None,
        run_as: None,
        mark: None,
        groups: None,
        keeping: forkful_os::keeper::Keeping::default(),
    })
}

fn start() -> Result<Child> {
    Ok(spawn(plan()?)?)
}

fn end(child: &Child) -> Result<()> {
    child.signal(9)?;
    while child.try_wait(true)?.is_none() {
        std::thread::yield_now();
    }
    Ok(())
}

fn median(what: &str, mut act: impl FnMut()) {
    let time = |_| {
        let before = Instant::now();
        act();
        before.elapsed()
    };
    report(what, (0..ROUNDS).map(time).collect());
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100];
    println!("{what:40} median {:>10.1?}   p90 {:>10.1?}", at(50), at(90));
}
