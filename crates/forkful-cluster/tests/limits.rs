//! Limits of what a worker can make the daemon use: memory, descriptors, turns of its loop.
//!
//! A separate test process, one test at a time, because the limits apply to the process.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]
#![expect(dead_code, reason = "a part of the helpers is used")]

#[path = "primary/client.rs"]
mod client;
#[path = "primary/worker.rs"]
mod worker;
#[path = "primary/world.rs"]
mod world;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forkful_core::spec::Balance;
use forkful_os::channel;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use client::{connect_all, own_host, tcp};
use world::{World, serving};

/// One test at a time, even if the previous test failed.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn resident_bytes() -> usize {
    let statm = fs_err::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

fn open_descriptors() -> usize {
    fs_err::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// Lowers this process's descriptor limit until dropped.
struct Descriptors(Rlimit);

impl Descriptors {
    /// No further descriptors.
    fn none_more() -> Self {
        // The kernel assigns the lowest free number.
        let next = fs_err::File::open("/dev/null").unwrap().as_raw_fd();
        Self::at_most(usize::try_from(next).unwrap())
    }

    /// This many further descriptors.
    fn spare(count: usize) -> Self {
        let next = fs_err::File::open("/dev/null").unwrap().as_raw_fd();
        Self::at_most(usize::try_from(next).unwrap() + count)
    }

    fn at_most(count: usize) -> Self {
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(count as u64), ..before }).unwrap();
        Self(before)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.0).unwrap();
    }
}

#[test]
fn a_line_of_64_megabytes_is_passed_over_in_flat_memory() {
    let _alone = alone();
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let piece = vec![b'x'; 64 * 1024];
    world.worker(workers[0]).say_bytes(&piece);
    world.settle();
    let before = resident_bytes();
    let mut most = before;
    for _ in 0..1024 {
        world.worker(workers[0]).say_bytes(&piece);
        world.settle();
        most = most.max(resident_bytes());
    }
    world.worker(workers[0]).say("");
    world.settle();
    assert!(most - before < 4 << 20, "{} KiB more", (most - before) / 1024);
    let mut clients = connect_all(address, 4);
    world.answered(&mut clients);
    assert_eq!(world.shares(), [2, 2]);
}

#[test]
fn a_worker_that_listens_and_closes_without_reading_costs_few_descriptors() {
    let _alone = alone();
    for balance in [Balance::Auto, Balance::Shared] {
        let (mut world, workers, address) = serving(balance, 2);
        world.block(workers[0]);
        let key = world.reply(workers[0], 1).key();
        let before = open_descriptors();
        let query = tcp(own_host(), 8081);
        for _ in 0..2000 {
            let worker = world.worker(workers[0]);
            worker.say_cluster("queryServer", &query);
            worker.say_cluster("close", &serde_json::json!({ "key": key }));
            worker.say_cluster("close", &serde_json::json!({ "key": "forkful:1" }));
            world.settle();
        }
        let more = open_descriptors().saturating_sub(before);
        assert!(more < 300, "{more} descriptors more ({balance:?})");
        let mut clients = connect_all(address, 10);
        assert_eq!(world.answered(&mut clients), [workers[1]; 10]);
    }
}

#[test]
fn without_descriptors_connections_wait_and_nothing_spins() {
    let _alone = alone();
    let (mut world, _, address) = serving(Balance::Exact, 2);
    let mut clients = connect_all(address, 10);
    let limit = Descriptors::none_more();
    world.settle();
    let before = world.wakes;
    world.advance(Duration::from_secs(2));
    assert!(world.wakes - before < 500, "{} wakes", world.wakes - before);
    assert!(clients.iter_mut().all(|client| client.read().is_empty()), "none could be accepted");
    drop(limit);
    world.advance(Duration::from_secs(2));
    world.answered(&mut clients);
}

#[test]
fn an_address_that_could_not_be_handed_over_is_free_again_at_once() {
    let _alone = alone();
    for balance in [Balance::Direct, Balance::Exact, Balance::Auto, Balance::Shared] {
        let mut failed = 0;
        for spare in 0..6 {
            let mut world = World::new(balance);
            let worker = world.spawn();
            world.open(worker);
            let address = free_address();
            let before = open_descriptors();
            let limit = Descriptors::spare(spare);
            let seq = world.worker(worker).query(&tcp(address.ip(), address.port()));
            // It is this process too, and must not need a descriptor now.
            world.block(worker);
            world.settle();
            drop(limit);
            world.unblock(worker);
            world.settle();
            if world.reply(worker, seq).errno().unwrap_or(0) == 0 {
                continue;
            }
            failed += 1;
            assert_eq!(world.reply(worker, seq).errno(), Some(-24), "{balance:?}, {spare} to spare");
            assert!(!world.primary.listens(), "{balance:?}, {spare} to spare");
            assert_eq!(open_descriptors(), before, "{balance:?}, {spare} to spare");
            std::net::TcpListener::bind(address).expect("the port is free");
            world.listen(worker, &tcp(address.ip(), address.port()));
        }
        assert!((1..6).contains(&failed), "{failed} failed");
    }
}

/// An address that is not in use.
fn free_address() -> std::net::SocketAddr {
    std::net::TcpListener::bind((own_host(), 0)).unwrap().local_addr().unwrap()
}

#[test]
fn with_too_many_handles_under_way_connections_wait_and_nothing_spins() {
    let _alone = alone();
    // Capabilities belong to the thread; the limit does not apply to privileged users.
    let outcome = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RESOURCE;
        set_capabilities(None, sets).unwrap();
        let (mut world, _, address) = serving(Balance::Exact, 2);
        let mut clients = connect_all(address, 10);
        let under_way = HandlesUnderWay::new(150);
        let limit = Descriptors::at_most(100);
        world.settle();
        let before = world.wakes;
        world.advance(Duration::from_secs(2));
        assert!(world.wakes - before < 500, "{} wakes", world.wakes - before);
        drop(under_way);
        drop(limit);
        world.advance(Duration::from_secs(2));
        world.answered(&mut clients);
    })
    .join();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Descriptors in flight in sockets, in no process's table.
struct HandlesUnderWay {
    #[expect(dead_code, reason = "held open")]
    ends: (OwnedFd, OwnedFd),
}

impl HandlesUnderWay {
    fn new(count: usize) -> Self {
        let ends = channel::pair().unwrap();
        for _ in 0..count {
            channel::send(ends.0.as_fd(), b"x", Some(ends.0.as_fd())).unwrap();
        }
        Self { ends }
    }
}

#[test]
fn an_app_may_listen_on_1024_addresses() {
    let _alone = alone();
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let _limit = Descriptors::at_most(usize::try_from(most).unwrap());
    let mut world = World::new(Balance::Exact);
    let worker = world.spawn();
    world.worker(worker).reports = false;
    let mut query = tcp("127.0.0.1", 0);
    for index in 0..1024 {
        query["index"] = index.into();
        world.listen(worker, &query);
    }
    query["index"] = 1024.into();
    let seq = world.ask(worker, &query);
    assert_eq!(world.reply(worker, seq).errno(), Some(-24));
}

#[test]
fn the_sockets_of_an_app_are_at_most_a_quarter_of_the_descriptors() {
    let _alone = alone();
    let mut world = World::new(Balance::Direct);
    let workers = [world.spawn(), world.spawn()];
    let descriptors = 400;
    let limit = Descriptors::at_most(descriptors);
    let host = own_host();
    // Each address has a socket of the daemon and one for each worker that listens there.
    let mut sockets = 0;
    let mut refused = None;
    for port in 8000..8200 {
        for worker in workers {
            let seq = world.ask(worker, &tcp(host, port));
            match world.reply(worker, seq).errno().unwrap_or(0) {
                0 if worker == workers[0] => sockets += 2,
                0 => sockets += 1,
                errno => refused = refused.or(Some(errno)),
            }
        }
        if refused.is_some() {
            break;
        }
    }
    drop(limit);
    assert_eq!(refused, Some(-24));
    // A new address needs two sockets, so the last one of the quarter may stay unused.
    assert!((descriptors / 4 - 1..=descriptors / 4 + 1).contains(&sockets), "{sockets} sockets");
}

#[test]
fn the_world_of_a_test_leaves_no_descriptor_behind() {
    let _alone = alone();
    let before = open_descriptors();
    for balance in
        [Balance::Exact, Balance::Least, Balance::Auto, Balance::Direct, Balance::Shared, Balance::Sticky]
    {
        let (mut world, workers, address) = serving(balance, 3);
        let mut clients = connect_all(address, 20);
        world.answered(&mut clients);
        world.kill(workers[0]);
        let mut world: World = world;
        world.primary.close_all();
    }
    assert_eq!(open_descriptors(), before);
}
