//! Connections that workers open, such as to databases: to which host, and the limit of the host, as far as refused
//! connections show it. The kernel's table has the two ends of each connection; the agent reports which name the app
//! used, and which server refused a connection because the server has too many.
//!
//! Workers are untrusted, and an app may connect to any number of hosts: everything has a bound.

// Addresses as values; only `std::net` can open sockets.
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Maximum servers that an agent reports.
pub const PEERS_MAX: usize = 32;
/// Maximum length of a host name in bytes, as in DNS.
const NAME_BYTES_MAX: usize = 253;
/// Maximum servers of a worker that are counted separately; a crawler may have thousands.
const SERVERS_MAX: usize = 256;
/// Maximum hosts of a worker or an app that are shown, those with most connections.
pub const HOSTS_MAX: usize = 16;
/// Reading the kernel's tables takes at most one part in `READ_SHARE` of a core's time.
const READ_SHARE: u32 = 500;
/// The shortest pause between two readings.
const READ_PAUSE_MIN: Duration = Duration::from_secs(1);

/// When the tables are read again, after a reading that took so long: they may contain very many connections.
pub fn pause_after(cost: Duration) -> Duration {
    (cost * READ_SHARE).max(READ_PAUSE_MIN)
}

/// Whether a process has opened this connection itself. A connection that it has accepted has the port of a
/// listener as its own; the kernel does not give such a port to a connection that is opened.
pub fn is_outgoing(local: SocketAddr, listening: &BTreeSet<u16>) -> bool {
    !listening.contains(&local.port())
}

/// A server in an agent's report: name, address, port, and refused connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer(pub String, pub String, pub u16, pub u64);

/// The servers that the agent of a worker has reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peers(BTreeMap<SocketAddr, Named>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    name: Option<String>,
    refused: u64,
}

impl<'de> Deserialize<'de> for Peers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PeersVisitor)
    }
}

/// Takes at most [`PEERS_MAX`] of a list, however long it is.
struct PeersVisitor;

impl<'de> Visitor<'de> for PeersVisitor {
    type Value = Peers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of servers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Peers, A::Error> {
        let mut peers = Vec::new();
        while peers.len() < PEERS_MAX {
            match list.next_element()? {
                Some(peer) => peers.push(peer),
                None => return Ok(Peers::of(peers)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Peers::of(peers))
    }
}

impl Peers {
    /// From an agent's report, which contains all of them. What cannot be true is left out.
    pub fn of(reported: Vec<Peer>) -> Self {
        let valid = reported.into_iter().take(PEERS_MAX).filter_map(|Peer(name, address, port, refused)| {
            let address: IpAddr = address.parse().ok()?;
            let name = Some(name).filter(|name| is_host_name(name));
            Some((canonical(SocketAddr::new(address, port)), Named { name, refused }))
        });
        Self(valid.collect())
    }
}

fn is_host_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_usual)
}

/// IPv4 addresses in their usual form, whichever kind of socket it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The number of connections of a worker to each server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outgoing {
    servers: BTreeMap<SocketAddr, u32>,
    /// Connections to servers beyond the bound.
    others: u32,
}

impl Outgoing {
    /// Counts a connection to this server.
    pub fn count(&mut self, server: SocketAddr) {
        let server = canonical(server);
        if self.servers.len() >= SERVERS_MAX && !self.servers.contains_key(&server) {
            self.others = self.others.saturating_add(1);
        } else {
            let count = self.servers.entry(server).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// All connections.
    pub fn total(&self) -> u32 {
        self.servers.values().fold(self.others, |sum, count| sum.saturating_add(*count))
    }

    /// The hosts by name where it is known, most connections first; also hosts that only refused connections.
    pub fn hosts(&self, peers: &Peers) -> Vec<HostUse> {
        let mut hosts: BTreeMap<String, HostUse> = BTreeMap::new();
        let addresses: BTreeSet<&SocketAddr> = self.servers.keys().chain(peers.0.keys()).collect();
        for address in addresses {
            let peer = peers.0.get(address);
            let host = name_of(address, peer);
            let known = hosts.entry(host.clone()).or_insert(HostUse { host, connections: 0, refused: 0 });
            known.connections =
                known.connections.saturating_add(self.servers.get(address).copied().unwrap_or(0));
            known.refused = known.refused.saturating_add(peer.map_or(0, |peer| peer.refused));
        }
        let mut hosts: Vec<HostUse> =
            hosts.into_values().filter(|host| host.connections > 0 || host.refused > 0).collect();
        keep_foremost(&mut hosts, |host| (host.refused, host.connections, &host.host));
        hosts
    }
}

/// Sorts hosts by their refused connections (any before none), connections and name, and keeps the first
/// [`HOSTS_MAX`].
fn keep_foremost<T>(hosts: &mut Vec<T>, facts: impl Fn(&T) -> (u64, u32, &String)) {
    hosts.sort_by(|a, b| {
        let ((refused_a, a, host_a), (refused_b, b, host_b)) = (facts(a), facts(b));
        (refused_b > 0, b, host_a).cmp(&(refused_a > 0, a, host_b))
    });
    hosts.truncate(HOSTS_MAX);
}

/// `db:5432`, `10.0.0.1:5432`, `[::1]:5432`.
fn name_of(address: &SocketAddr, peer: Option<&Named>) -> String {
    match peer.and_then(|peer| peer.name.as_deref()) {
        Some(name) => format!("{name}:{}", address.port()),
        None => address.to_string(),
    }
}

/// The connections of a worker to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostUse {
    /// Host and port, such as `db:5432`: by the name that the app used, where its agent knows it.
    pub host: String,
    /// Established connections that the worker has opened.
    pub connections: u32,
    /// Connections that the host refused because it had too many, since the start of the worker.
    pub refused: u64,
}

/// The connections of all workers of an app to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostLoad {
    /// Host and port, such as `db:5432`.
    pub host: String,
    /// Connections of all workers.
    pub connections: u32,
    /// Workers that have any.
    pub workers: u16,
    /// The most connections of one worker: the size of its pool under load. If the host has refused any, only
    /// connections that were open at two readings in a row count, because a connection that the host is about to
    /// refuse is open for a moment, too.
    pub most: u32,
    /// Connections that the host refused because it had too many, since the start of the present workers.
    pub refused: u64,
    /// The connections that the app had while the host refused others: what the host's limit leaves for
    /// this app. Missing while it has refused none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Readings with refused connections that decide a limit.
const READINGS: usize = 5;

/// The limits of hosts, as far as refused connections show them: the median of the last readings in which a host
/// refused some. One reading may come while pools still grow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits(BTreeMap<String, Refusing>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Refusing {
    /// Refused connections at the last reading.
    refused: u64,
    /// The connections of the app at readings with more of them, newest last.
    readings: VecDeque<u32>,
}

impl Limits {
    /// Learns from a reading of the connections of all workers.
    pub fn learn(&mut self, workers: &[Opened]) {
        let kept: Vec<&[HostUse]> = workers.iter().map(|worker| worker.kept.as_slice()).collect();
        let hosts = sums(&kept, &Self::default());
        // The counts of new workers begin at 0. The host's limit may have changed since, so the old readings go.
        self.0.retain(|known, _| hosts.iter().any(|host| host.host == *known && host.refused > 0));
        for host in hosts.into_iter().filter(|host| host.refused > 0) {
            let known = self.0.entry(host.host).or_default();
            if host.refused > known.refused {
                known.readings.push_back(host.connections);
                known.readings.drain(..known.readings.len().saturating_sub(READINGS));
            }
            known.refused = host.refused;
        }
    }

    fn of(&self, host: &str) -> Option<u32> {
        let mut readings: Vec<u32> = self.0.get(host)?.readings.iter().copied().collect();
        readings.sort_unstable();
        readings.get(readings.len() / 2).copied()
    }
}

/// The connections of a worker by host, at one reading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opened {
    /// All of them.
    pub all: Vec<HostUse>,
    /// Those that were there at the reading before, too. A connection that a host is about to refuse is
    /// established for a moment; it takes no place.
    pub kept: Vec<HostUse>,
}

/// The connections of an app by host, the most first.
pub fn loads(workers: &[Opened], limits: &Limits) -> Vec<HostLoad> {
    let all: Vec<&[HostUse]> = workers.iter().map(|worker| worker.all.as_slice()).collect();
    let kept: Vec<&[HostUse]> = workers.iter().map(|worker| worker.kept.as_slice()).collect();
    let kept = sums(&kept, limits);
    let mut hosts = sums(&all, limits);
    for load in hosts.iter_mut().filter(|load| load.refused > 0) {
        load.most = kept.iter().find(|one| one.host == load.host).map_or(0, |one| one.most);
    }
    keep_foremost(&mut hosts, |load| (load.refused, load.connections, &load.host));
    hosts
}

/// The sums over all workers, by host.
fn sums(workers: &[&[HostUse]], limits: &Limits) -> Vec<HostLoad> {
    let mut hosts: BTreeMap<&str, HostLoad> = BTreeMap::new();
    for HostUse { host, connections, refused } in workers.iter().copied().flatten() {
        let load = hosts.entry(host).or_insert_with(|| HostLoad {
            host: host.clone(),
            connections: 0,
            workers: 0,
            most: 0,
            refused: 0,
            limit: limits.of(host),
        });
        load.connections = load.connections.saturating_add(*connections);
        load.workers = load.workers.saturating_add(u16::from(*connections > 0));
        load.most = load.most.max(*connections);
        load.refused = load.refused.saturating_add(*refused);
    }
    hosts.into_values().collect()
}

impl HostLoad {
    /// The largest number of workers whose pools fit into the host's limit, at least one; `None` without a known
    /// limit.
    pub fn workers_max(&self) -> Option<u16> {
        let limit = self.limit.filter(|_| self.most > 0)?;
        Some(u16::try_from(limit / self.most).unwrap_or(u16::MAX).max(1))
    }
}

/// Notices hosts that refuse connections while an app is watched.
#[derive(Debug, Clone, Default)]
pub struct RefusalWatch {
    /// The refused connections by host at the last look.
    last: Option<BTreeMap<String, u64>>,
    /// What was seen of a host when it had refused connections, with those refused since the first look.
    seen: BTreeMap<String, HostLoad>,
}

impl RefusalWatch {
    /// Takes another look. What was refused before the first one does not count.
    pub fn look(&mut self, hosts: &[HostLoad]) {
        let now = hosts.iter().map(|load| (load.host.clone(), load.refused)).collect();
        let Some(before) = self.last.replace(now) else { return };
        for load in hosts {
            // A worker that was replaced has refused none; then the sum falls.
            let more = load.refused.saturating_sub(before.get(&load.host).copied().unwrap_or(0));
            let (known, most, limit) =
                self.seen.get(&load.host).map_or((0, 0, None), |seen| (seen.refused, seen.most, seen.limit));
            let refused = known.saturating_add(more);
            // While it has refused none of the present workers, one may be counted that it is about to refuse.
            if refused > 0 && load.refused > 0 {
                let most = most.max(load.most);
                let limit = load.limit.or(limit);
                self.seen.insert(load.host.clone(), HostLoad { most, refused, limit, ..load.clone() });
            }
        }
    }

    /// Begins to count anew, from the last look on.
    pub fn begin_anew(&mut self) {
        self.seen.clear();
    }

    /// The host that refused most.
    pub fn worst(&self) -> Option<&HostLoad> {
        self.seen.values().max_by_key(|load| load.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn connected(servers: &[(&str, u32)]) -> Outgoing {
        let mut outgoing = Outgoing::default();
        for (server, count) in servers {
            (0..*count).for_each(|_| outgoing.count(address(server)));
        }
        outgoing
    }

    fn peer(name: &str, ip: &str, port: u16, refused: u64) -> Peer {
        Peer(name.to_owned(), ip.to_owned(), port, refused)
    }

    fn host(name: &str, connections: u32, refused: u64) -> HostUse {
        HostUse { host: name.to_owned(), connections, refused }
    }

    #[test]
    fn a_connection_with_the_port_of_a_listener_was_accepted() {
        let listening = BTreeSet::from([3000]);
        assert!(!is_outgoing(address("127.0.0.1:3000"), &listening));
        assert!(is_outgoing(address("127.0.0.1:40312"), &listening));
    }

    #[test]
    fn hosts_have_the_name_that_the_app_used_and_several_addresses_of_one_are_one() {
        let outgoing =
            connected(&[("10.0.0.1:5432", 3), ("10.0.0.2:5432", 2), ("[::ffff:10.0.0.9]:6379", 4)]);
        assert_eq!(outgoing.total(), 9);
        let peers = Peers::of(vec![
            peer("db.internal", "10.0.0.1", 5432, 1),
            peer("db.internal", "10.0.0.2", 5432, 0),
            peer("gone", "10.0.0.3", 5432, 0),
        ]);
        assert_eq!(outgoing.hosts(&peers), [host("db.internal:5432", 5, 1), host("10.0.0.9:6379", 4, 0)]);
        assert_eq!(connected(&[("[::1]:5432", 1)]).hosts(&Peers::default()), [host("[::1]:5432", 1, 0)]);
    }

    #[test]
    fn a_host_that_refuses_everything_is_shown_too() {
        let peers = Peers::of(vec![peer("", "127.0.0.1", 5432, 7)]);
        assert_eq!(Outgoing::default().hosts(&peers), [host("127.0.0.1:5432", 0, 7)]);
    }

    #[test]
    fn whatever_an_agent_reports_stays_within_its_bounds() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["a b", "<script>", "a\n", "\"", &long] {
            let peers = Peers::of(vec![peer(name, "10.0.0.1", 1, 1), peer("x", "no address", 1, 1)]);
            assert_eq!(Outgoing::default().hosts(&peers), [host("10.0.0.1:1", 0, 1)], "{name}");
        }
        let many: Vec<Peer> = (0..100).map(|at| peer("x", "10.0.0.1", at, 1)).collect();
        let told = serde_json::to_string(&many).unwrap();
        let taken: Peers = serde_json::from_str(&told).unwrap();
        assert_eq!((taken.0.len(), &taken), (PEERS_MAX, &Peers::of(many)));
        let servers: Vec<String> = (1..=1000).map(|port| format!("10.0.0.1:{port}")).collect();
        let outgoing = connected(&servers.iter().map(|server| (server.as_str(), 1)).collect::<Vec<_>>());
        assert_eq!((outgoing.servers.len(), outgoing.total()), (SERVERS_MAX, 1000));
        assert_eq!(outgoing.hosts(&Peers::default()).len(), HOSTS_MAX);
    }

    /// Workers of whose connections all were there before.
    fn settled(workers: &[Vec<HostUse>]) -> Vec<Opened> {
        workers.iter().map(|hosts| Opened { all: hosts.clone(), kept: hosts.clone() }).collect()
    }

    #[test]
    fn refused_connections_show_the_limit_of_a_host() {
        let mut limits = Limits::default();
        let full: Vec<Vec<HostUse>> = (0..4).map(|_| vec![host("db:5432", 10, 0)]).collect();
        limits.learn(&settled(&full));
        let load = loads(&settled(&full), &limits).remove(0);
        assert_eq!((load.connections, load.workers, load.most, load.limit), (40, 4, 10, None));
        assert_eq!(load.workers_max(), None, "it has refused none");

        let mut beyond = full;
        beyond.push(vec![host("db:5432", 0, 0), host("cache:6379", 1, 0)]);
        let mut reading = |connections: u32, refused: u64| {
            beyond[0][0].connections = connections;
            beyond[4][0].refused = refused;
            limits.learn(&settled(&beyond));
            loads(&settled(&beyond), &limits)
        };
        assert_eq!(reading(3, 1)[0].limit, Some(33), "its pool is still growing");
        assert_eq!(reading(10, 2)[0].limit, Some(40));
        assert_eq!(reading(10, 3)[0].limit, Some(40));
        assert_eq!(reading(12, 4)[0].limit, Some(40), "one reading is none");
        assert_eq!(reading(2, 4)[0].limit, Some(40), "it has refused no more");
        let found = reading(9, 4);
        let expected = HostLoad {
            host: "db:5432".to_owned(),
            connections: 39,
            workers: 4,
            most: 10,
            refused: 4,
            limit: Some(40),
        };
        assert_eq!(found[0], expected);
        assert_eq!(found[0].workers_max(), Some(4));
        assert_eq!((found[1].host.as_str(), found[1].limit), ("cache:6379", None));

        limits.learn(&settled(&[vec![host("db:5432", 10, 0)]]));
        assert_eq!(limits, Limits::default(), "all its workers are new");
    }

    #[test]
    fn a_connection_that_is_about_to_be_refused_takes_no_place() {
        let workers = |refused: u64| -> Vec<Opened> {
            (0..4)
                .map(|_| Opened {
                    all: vec![host("db:5432", 11, refused)],
                    kept: vec![host("db:5432", 10, refused)],
                })
                .collect()
        };
        let mut limits = Limits::default();
        for refused in 1..10 {
            limits.learn(&workers(refused));
        }
        let load = loads(&workers(9), &limits).remove(0);
        assert_eq!((load.connections, load.most, load.limit), (44, 10, Some(40)));
        assert_eq!(load.workers_max(), Some(4));
        let before = loads(&workers(0), &Limits::default()).remove(0);
        assert_eq!(before.most, 11, "a host that has refused none has accepted them");

        let mut all_new = workers(3);
        all_new.iter_mut().for_each(|worker| worker.kept.clear());
        let load = loads(&all_new, &Limits::default()).remove(0);
        assert_eq!((load.connections, load.most, load.workers_max()), (44, 0, None));
    }

    #[test]
    fn at_least_one_worker_remains() {
        let load = HostLoad {
            host: "db:5432".to_owned(),
            connections: 5,
            workers: 1,
            most: 10,
            refused: 1,
            limit: Some(5),
        };
        assert_eq!(load.workers_max(), Some(1));
    }

    #[test]
    fn only_what_is_refused_while_one_watches_counts() {
        let at = |refused: u64, connections: u32| HostLoad {
            host: "db:5432".to_owned(),
            connections,
            workers: 5,
            most: 10,
            refused,
            limit: Some(40),
        };
        let mut watch = RefusalWatch::default();
        watch.look(&[at(7, 40)]);
        watch.look(&[at(7, 40)]);
        assert_eq!(watch.worst(), None, "they were refused before");
        watch.look(&[at(9, 40)]);
        watch.look(&[at(1, 39)]);
        watch.look(&[at(4, 38)]);
        assert_eq!(watch.worst(), Some(&at(5, 38)));
        watch.look(&[HostLoad { most: 11, limit: None, ..at(0, 44) }]);
        assert_eq!(watch.worst(), Some(&at(5, 38)), "new workers, of which one is about to be refused");
        watch.look(&[]);
        watch.look(&[HostLoad { host: "new:1".to_owned(), ..at(6, 1) }]);
        assert_eq!(watch.worst().unwrap().host, "new:1");
        watch.begin_anew();
        assert_eq!(watch.worst(), None);
        watch.look(&[HostLoad { host: "new:1".to_owned(), ..at(8, 1) }]);
        assert_eq!(watch.worst().unwrap().refused, 2, "the first look after that counts");
    }

    #[test]
    fn tables_that_take_long_to_read_are_read_seldom() {
        assert_eq!(pause_after(Duration::from_micros(200)), READ_PAUSE_MIN);
        assert_eq!(pause_after(Duration::from_millis(20)), Duration::from_secs(10));
    }
}
