//! For any sequence of actions by workers and clients: no connection is lost, none is answered twice,
//! messages to an app arrive complete and in order, no worker has two unanswered handles, nothing loops
//! endlessly and nothing panics.
//!
//! The world and its workers assert the last three at every turn.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use forkful_cluster::WorkerId;
use forkful_core::spec::Balance;
use proptest::prelude::*;
use proptest::sample::Index;

use super::client::{Client, connect, own_host, tcp};
use super::worker::Manner;
use super::world::World;

/// Maximum live workers at the same time, including leaving ones.
const WORKERS_MAX: usize = 5;
/// Further connection attempts are skipped if this many are waiting.
const CLIENTS_MAX: usize = 150;

/// The next action.
#[derive(Debug, Clone)]
enum Step {
    /// A few clients connect.
    Connect(u8),
    /// Runs the daemon's loop until nothing is left to do.
    Daemon,
    /// A worker's event loop turns once.
    Turn(Index),
    /// How a worker handles handles from now on.
    Manner(Index, Manner),
    Spawn {
        open: bool,
        agent: bool,
    },
    Kill(Index),
    Open(Index),
    CloseTraffic(Index),
    Drain(Index),
    /// The app closes its server, or listens again.
    ToggleServer(Index),
    /// The worker closes its connections.
    Finish(Index),
    /// The app sends messages to its primary.
    Chatter(Index),
    /// A message of this many bytes for the app.
    Tell(Index, usize),
    /// A worker reads a piece of its channel, and is blocked before it handles it.
    Read(Index),
    Leave(Index),
    Advance(Duration),
}

fn step() -> impl Strategy<Value = Step> {
    let worker = any::<Index>;
    let manner = prop_oneof![Just(Manner::Serves), Just(Manner::Refuses), Just(Manner::LosesHandles)];
    prop_oneof![
        6 => (1..6_u8).prop_map(Step::Connect),
        8 => Just(Step::Daemon),
        12 => worker().prop_map(Step::Turn),
        2 => (worker(), manner).prop_map(|(at, manner)| Step::Manner(at, manner)),
        2 => any::<(bool, bool)>().prop_map(|(open, agent)| Step::Spawn { open, agent }),
        2 => worker().prop_map(Step::Kill),
        2 => worker().prop_map(Step::Open),
        1 => worker().prop_map(Step::CloseTraffic),
        1 => worker().prop_map(Step::Drain),
        1 => worker().prop_map(Step::ToggleServer),
        2 => worker().prop_map(Step::Finish),
        1 => worker().prop_map(Step::Chatter),
        3 => (worker(), 1..120_000_usize).prop_map(|(at, bytes)| Step::Tell(at, bytes)),
        2 => worker().prop_map(Step::Read),
        1 => worker().prop_map(Step::Leave),
        6 => (10..6000_u64).prop_map(|micros| Step::Advance(Duration::from_micros(micros))),
    ]
}

struct System {
    world: World,
    host: std::net::Ipv4Addr,
    address: SocketAddr,
    clients: Vec<Client>,
    /// The number of messages sent to each worker.
    told: BTreeMap<u32, u64>,
}

impl System {
    fn new(balance: Balance) -> Self {
        let mut world = World::new(balance);
        let host = own_host();
        let first = world.spawn_serving(&tcp(host, 8080));
        let address = world.address(first, 1);
        let mut system = Self { world, host, address, clients: Vec::new(), told: BTreeMap::new() };
        system.spawn(true, false);
        for worker in system.world.workers.values_mut() {
            worker.blocked = true;
        }
        system
    }

    fn spawn(&mut self, open: bool, agent: bool) {
        if self.world.workers.len() < WORKERS_MAX {
            let number = self.world.spawn();
            if agent {
                self.world.worker(number).say(r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1}"#);
            }
            if open {
                self.world.open(number);
            }
            self.world.worker(number).query(&tcp(self.host, 8080));
            self.world.block(number);
        }
    }

    fn pick(&self, at: Index) -> Option<u32> {
        let numbers: Vec<u32> = self.world.workers.keys().copied().collect();
        (!numbers.is_empty()).then(|| *at.get(&numbers))
    }

    fn on_worker(&mut self, at: Index, act: impl FnOnce(&mut Self, u32)) {
        if let Some(number) = self.pick(at) {
            act(self, number);
        }
    }

    fn perform(&mut self, step: &Step) {
        match step {
            Step::Connect(count) => {
                let room = CLIENTS_MAX.saturating_sub(self.clients.len());
                let address = self.address;
                self.clients.extend((0..room.min(usize::from(*count))).map(|_| connect(address)));
            }
            Step::Daemon => self.world.settle(),
            Step::Turn(at) => self.on_worker(*at, |system, number| {
                let worker = system.world.worker(number);
                worker.blocked = false;
                worker.turn();
                worker.blocked = true;
            }),
            Step::Manner(at, manner) => {
                self.on_worker(*at, |system, number| system.world.worker(number).manner = *manner);
            }
            Step::Spawn { open, agent } => self.spawn(*open, *agent),
            Step::Kill(at) => self.on_worker(*at, |system, number| system.world.kill(number)),
            Step::Open(at) => self.on_worker(*at, |system, number| system.world.open(number)),
            Step::CloseTraffic(at) => self.on_worker(*at, |system, number| {
                system.world.primary.close_traffic(WorkerId(number), system.world.now);
            }),
            Step::Drain(at) => self.on_worker(*at, |system, number| {
                system.world.primary.drain(WorkerId(number), system.world.now);
            }),
            Step::ToggleServer(at) => self.on_worker(*at, Self::toggle_server),
            Step::Finish(at) => {
                self.on_worker(*at, |system, number| system.world.worker(number).close_connections());
            }
            Step::Chatter(at) => self.on_worker(*at, |system, number| {
                system.world.worker(number).say(&format!("{:?}", "chatter ".repeat(2000)));
            }),
            Step::Tell(at, bytes) => self.on_worker(*at, |system, number| system.tell(number, *bytes)),
            Step::Read(at) => self.on_worker(*at, |system, number| {
                system.world.worker(number).read_piece();
            }),
            Step::Leave(at) => self.on_worker(*at, |system, number| {
                let worker = system.world.worker(number);
                worker.say_cluster("exitedAfterDisconnect", &serde_json::json!({}));
            }),
            Step::Advance(by) => self.world.advance(*by),
        }
        for client in &mut self.clients {
            assert!(client.read().len() <= 1, "answered twice: {:?}", client.answers);
            assert!(!client.ended || client.answers.len() == 1, "lost");
        }
        for worker in self.world.workers.values() {
            let heard = worker.heard.iter().filter_map(|line| line["told"].as_u64());
            assert!(heard.zip(0..).all(|(heard, expected)| heard == expected), "messages in another order");
        }
    }

    fn tell(&mut self, number: u32, bytes: usize) {
        let count = self.told.entry(number).or_default();
        let line = serde_json::json!({ "told": *count, "text": "x".repeat(bytes) }).to_string();
        let sent = self.world.primary.send_message(WorkerId(number), line.as_bytes(), self.world.now);
        *count += u64::from(sent.is_ok());
    }

    fn toggle_server(&mut self, number: u32) {
        let host = self.host;
        let worker = self.world.worker(number);
        if let Some(key) = worker.servers.keys().next().cloned() {
            worker.close_server(&key);
        } else {
            worker.query(&tcp(host, 8080));
        }
    }

    /// All failures are removed: every client is served.
    fn recover(mut self) {
        for worker in self.world.workers.values_mut() {
            worker.manner = Manner::Serves;
            worker.blocked = false;
        }
        self.world.settle();
        self.world.spawn_serving(&tcp(self.host, 8080));
        let Self { world, clients, told, .. } = &mut self;
        world.advance_until("every connection is answered", |_| {
            clients.iter_mut().all(|client| !client.read().is_empty())
        });
        assert!(clients.iter().all(|client| client.answers.len() == 1), "answered twice");
        for (number, worker) in &world.workers {
            let heard = worker.heard.iter().filter(|line| line["told"].is_u64()).count() as u64;
            assert_eq!(heard, told.get(number).copied().unwrap_or(0), "messages to {number}");
        }
        world.advance(Duration::from_secs(2));
        assert!(clients.iter_mut().all(|client| client.read().len() == 1), "answered twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_connection_is_answered_once(
        balance in prop_oneof![
            3 => Just(Balance::Exact), 2 => Just(Balance::Auto), 2 => Just(Balance::Direct),
            1 => Just(Balance::Sticky), 1 => Just(Balance::Least)
        ],
        recalls: bool,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut system = System::new(balance);
        system.world.recalls = recalls;
        for step in &steps {
            system.perform(step);
        }
        system.recover();
    }
}
