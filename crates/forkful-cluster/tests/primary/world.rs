//! A [`Primary`] with its reactor, a manual clock, and fake workers.
//!
//! The loop is the daemon's: wait, feed events, advance time. Time only passes when a test advances it;
//! delays of the kernel (loopback) are waited for without advancing it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use forkful_cluster::primary::TOKEN_BITS;
use forkful_cluster::{Primary, PrimaryConfig, PrimaryEvent, WorkerId};
use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_os::channel::{self, RemoteEnd};
use forkful_os::listener;
use forkful_os::reactor::Reactor;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::client::{Client, connect, only_answers, own_host, tcp};
use super::worker::{FakeWorker, Reply};

/// How long the kernel may take for operations that are usually immediate.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// More turns mean an endless loop.
const TURNS_MAX: usize = 20_000;

/// See the module's documentation.
pub(crate) struct World {
    pub(crate) primary: Primary,
    reactor: Rc<Reactor>,
    pub(crate) now: Time,
    pub(crate) workers: BTreeMap<u32, FakeWorker>,
    pub(crate) events: Vec<PrimaryEvent>,
    /// How often the clock woke the primary.
    pub(crate) wakes: usize,
    /// Total CPU time of the primary, which `examples/handover` measures.
    pub(crate) spent: Duration,
    next_worker: u32,
    /// Whether what a worker has not read can be taken back.
    pub(crate) recalls: bool,
    /// The keeper's copies of the daemon's ends of all channels.
    channels: BTreeMap<u32, OwnedFd>,
}

impl World {
    pub(crate) fn new(balance: Balance) -> Self {
        Self::with_closes(balance, true)
    }

    /// `counts_closes`: whether closed connections are reported to the primary.
    pub(crate) fn with_closes(balance: Balance, counts_closes: bool) -> Self {
        let reactor = Rc::new(Reactor::new().unwrap());
        Self {
            primary: Primary::new(config_of(balance), Rc::clone(&reactor), counts_closes),
            reactor,
            now: Time::from_start(Duration::from_secs(1000)),
            workers: BTreeMap::new(),
            events: Vec::new(),
            wakes: 0,
            spent: Duration::ZERO,
            next_worker: 1,
            recalls: true,
            channels: BTreeMap::new(),
        }
    }

    /// The daemon dies, and another one takes its place; no address may be bound yet.
    pub(crate) fn take_over(&mut self, balance: Balance) {
        let written = self.primary.write_down();
        self.reactor = Rc::new(Reactor::new().unwrap());
        let config = config_of(balance);
        let next = Primary::take_up(config, Rc::clone(&self.reactor), &written, |_| None, self.now).unwrap();
        // It does not close anything in order.
        std::mem::forget(std::mem::replace(&mut self.primary, next));
        for (number, channel) in &self.channels {
            let kept = (channel.try_clone().unwrap(), forkful_os::keeper::Hold::default());
            let of = (None, u32::MAX);
            assert!(self.primary.attach_again(WorkerId(*number), &written, kept, of, self.now).unwrap());
        }
        self.primary.taken_up(self.now);
        self.settle();
    }

    /// Lower ports are refused from now on.
    pub(crate) fn refuse_ports_below(&mut self, port: u16) {
        self.primary.set_owner(None, port, false);
    }

    /// A worker whose process has started; it has sent `online`, and gets no traffic yet.
    pub(crate) fn spawn(&mut self) -> u32 {
        let (ours, theirs) = channel::pair().unwrap();
        let number = self.next_worker;
        self.next_worker += 1;
        let remote = self.recalls.then(|| remote_end(&theirs));
        self.channels.insert(number, ours.try_clone().unwrap());
        self.primary.attach(WorkerId(number), (ours, forkful_os::keeper::Hold::default()), remote).unwrap();
        // It has no process, so there are no scheduling statistics.
        let slot = u16::try_from(self.workers.len()).unwrap();
        self.primary.identify(WorkerId(number), u32::MAX, slot);
        let mut worker = FakeWorker::new(number, theirs);
        worker.say_cluster("online", &json!({}));
        self.workers.insert(number, worker);
        self.settle();
        number
    }

    /// A worker that listens on the address and gets traffic.
    pub(crate) fn spawn_serving(&mut self, address: &Value) -> u32 {
        let number = self.spawn();
        self.open(number);
        self.listen(number, address);
        number
    }

    pub(crate) fn open(&mut self, number: u32) {
        self.primary.open(WorkerId(number), self.now);
        self.settle();
    }

    /// Queries, and waits for the reply; returns the query's `seq`.
    pub(crate) fn ask(&mut self, number: u32, address: &Value) -> u64 {
        let seq = self.worker(number).query(address);
        self.settle();
        let replies = self.workers[&number].replies.get(&seq).map_or(0, Vec::len);
        assert_eq!(replies, 1, "replies to {address}");
        seq
    }

    /// Queries, and returns the address on which the worker listens.
    pub(crate) fn listen(&mut self, number: u32, address: &Value) -> u64 {
        let seq = self.ask(number, address);
        let reply = self.reply(number, seq);
        assert_eq!(reply.errno().unwrap_or(0), 0, "listen on {address}: {:?}", reply.message);
        seq
    }

    pub(crate) fn reply(&self, number: u32, seq: u64) -> &Reply {
        &self.workers[&number].replies[&seq][0]
    }

    /// The address of a reply's server for clients.
    pub(crate) fn address(&self, number: u32, seq: u64) -> SocketAddr {
        let reply = self.reply(number, seq);
        if let Some(handle) = &reply.handle {
            return listener::local_addr(handle.as_fd()).unwrap();
        }
        let sockname = &reply.message["sockname"];
        let host: IpAddr = sockname["address"].as_str().unwrap().parse().unwrap();
        SocketAddr::new(host, u16::try_from(sockname["port"].as_u64().unwrap()).unwrap())
    }

    pub(crate) fn worker(&mut self, number: u32) -> &mut FakeWorker {
        self.workers.get_mut(&number).expect("a worker of this world")
    }

    /// The process is gone: its descriptors are closed, then the daemon is informed.
    pub(crate) fn kill(&mut self, number: u32) {
        self.vanish(number);
        self.primary.detach(WorkerId(number), self.now);
        self.settle();
    }

    /// The process is gone and the daemon is not yet informed.
    pub(crate) fn vanish(&mut self, number: u32) {
        let mut worker = self.workers.remove(&number).expect("a worker of this world");
        self.channels.remove(&number);
        worker.close_connections();
        let closed = std::mem::take(&mut worker.closed);
        drop(worker);
        self.tell_closed(&closed);
    }

    /// One turn of the daemon's loop and of every worker's; returns whether anything happened.
    pub(crate) fn turn(&mut self, timeout: Duration) -> bool {
        let mut ready = Vec::new();
        self.reactor.wait(&mut ready, Some(timeout)).unwrap();
        let began = cpu_time();
        for event in &ready {
            self.primary.on_event(event, self.now);
        }
        let mut acted = !ready.is_empty() | self.pass_time();
        self.spent += cpu_time() - began;
        let mut closed = Vec::new();
        for worker in self.workers.values_mut() {
            acted |= worker.turn();
            closed.append(&mut worker.closed);
        }
        self.tell_closed(&closed);
        while let Some(event) = self.primary.take_event() {
            self.events.push(event);
        }
        acted
    }

    /// The kernel reports only closes for the requested ports.
    fn tell_closed(&mut self, closed: &[(u64, u16)]) {
        for (cookie, port) in closed {
            if self.primary.counted_ports().any(|counted| counted == *port) {
                self.primary.connection_closed(*cookie);
            }
        }
    }

    fn pass_time(&mut self) -> bool {
        if self.primary.next_wake().is_none_or(|at| at > self.now) {
            return false;
        }
        self.wakes += 1;
        self.primary.on_time(self.now);
        let next = self.primary.next_wake();
        assert!(next.is_none_or(|at| at > self.now), "wants to be woken in the past, for ever");
        true
    }

    /// Runs turns until nothing happens; time does not pass.
    pub(crate) fn settle(&mut self) {
        let mut turns = 0;
        while self.turn(Duration::ZERO) {
            turns += 1;
            assert!(turns < TURNS_MAX, "the loop spins");
        }
    }

    /// Runs turns until `done`; waits for the kernel, but time does not pass.
    pub(crate) fn run_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let began = Instant::now();
        loop {
            self.settle();
            if done(self) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never: {what}");
            self.turn(Duration::from_millis(1));
        }
    }

    /// Advances the clock, and wakes the primary when due.
    pub(crate) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        self.settle();
        while let Some(at) = self.primary.next_wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.settle();
        }
        self.now = until;
        self.settle();
    }

    /// Advances the clock in small steps until `done`.
    pub(crate) fn advance_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let began = Instant::now();
        loop {
            self.settle();
            if done(self) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "never: {what}");
            self.turn(Duration::from_micros(200));
            self.advance(Duration::from_millis(1));
        }
    }

    /// Waits until every client has an answer; returns each client's worker.
    pub(crate) fn answered(&mut self, clients: &mut [Client]) -> Vec<u32> {
        self.run_until("every connection is answered", |_| {
            clients.iter_mut().all(|client| !client.read().is_empty())
        });
        only_answers(clients)
    }

    /// Connects and waits for the answer; returns the connection and the worker.
    pub(crate) fn request(&mut self, address: SocketAddr) -> (Client, u32) {
        let mut client = connect(address);
        let worker = self.answered(std::slice::from_mut(&mut client))[0];
        (client, worker)
    }

    /// The number of open connections of each worker, in order.
    pub(crate) fn shares(&self) -> Vec<usize> {
        self.workers.values().map(|worker| worker.served.len()).collect()
    }

    /// The number of connections each worker has had, in order.
    pub(crate) fn totals(&self) -> Vec<usize> {
        self.workers.values().map(|worker| worker.served_total).collect()
    }

    pub(crate) fn block(&mut self, number: u32) {
        self.worker(number).blocked = true;
    }

    pub(crate) fn block_all(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.block(*number);
        }
    }

    pub(crate) fn unblock_all(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.unblock(*number);
        }
    }

    pub(crate) fn unblock(&mut self, number: u32) {
        self.worker(number).blocked = false;
    }
}

/// `count` workers that serve one address, and that address.
pub(crate) fn serving(balance: Balance, count: usize) -> (World, Vec<u32>, SocketAddr) {
    let mut world = World::new(balance);
    let query = tcp(own_host(), 8080);
    let workers: Vec<u32> = (0..count).map(|_| world.spawn_serving(&query)).collect();
    let address = world.address(workers[0], 1);
    (world, workers, address)
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// The worker's end, as the daemon accesses it through the process, which is this one.
fn config_of(balance: Balance) -> PrimaryConfig {
    PrimaryConfig {
        balance,
        token_base: 5 << TOKEN_BITS,
        owner: None,
        lends: false,
        lowest_port: 0,
        keeping: forkful_os::keeper::Keeping::default(),
    }
}

fn remote_end(theirs: &OwnedFd) -> RemoteEnd {
    let own = rustix::process::getpid();
    let pidfd = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).unwrap();
    RemoteEnd::new(pidfd, theirs.as_raw_fd(), channel::cookie(theirs.as_fd()).unwrap())
}
