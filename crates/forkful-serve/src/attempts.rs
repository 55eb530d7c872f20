//! Limits failed logins: after several, a client is refused for a while, whatever it sends, so that passwords
//! cannot be guessed. Requests without credentials, such as a browser's first request, do not count.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::time::Instant;

/// Failures of a client allowed within [`WINDOW`]: enough for typing errors.
pub(crate) const FAILURES_MAX: u32 = 10;
/// Failures of all clients of a proxy together: whoever reaches the proxy may be able to choose the address that it passes on.
pub(crate) const PROXY_FAILURES_MAX: u32 = 100;
/// Starts with the first failure; afterwards the client's count is reset.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Tracked clients, about 100 bytes each. Beyond this number, the client whose window ends first is dropped.
const CLIENTS_MAX: usize = 4096;

/// The tracked clients.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    by_client: BTreeMap<(Who, IpAddr), Window>,
}

/// A program of this machine may be a client itself, and a proxy for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Client,
    Proxy,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    ends: Instant,
    failures: u32,
}

impl Attempts {
    /// How long a client is still refused, if it is. `proxy`: the address that it comes from, if that is not its own.
    pub(crate) fn refused_for(
        &self,
        client: IpAddr,
        proxy: Option<IpAddr>,
        now: Instant,
    ) -> Option<Duration> {
        let of_client = self.exceeded((Who::Client, network(client)), FAILURES_MAX, now);
        let of_proxy = |proxy| self.exceeded((Who::Proxy, network(proxy)), PROXY_FAILURES_MAX, now);
        of_client.max(proxy.and_then(of_proxy))
    }

    fn exceeded(&self, who: (Who, IpAddr), failures_max: u32, now: Instant) -> Option<Duration> {
        let window = self.by_client.get(&who)?;
        let is_over = window.ends <= now || window.failures < failures_max;
        (!is_over).then(|| window.ends - now)
    }

    pub(crate) fn failed(&mut self, client: IpAddr, proxy: Option<IpAddr>, now: Instant) {
        self.count((Who::Client, network(client)), now);
        if let Some(proxy) = proxy {
            self.count((Who::Proxy, network(proxy)), now);
        }
    }

    fn count(&mut self, client: (Who, IpAddr), now: Instant) {
        if !self.by_client.contains_key(&client) && self.by_client.len() >= CLIENTS_MAX {
            let first = self.by_client.iter().min_by_key(|(_, window)| window.ends);
            if let Some(first) = first.map(|(client, _)| *client) {
                self.by_client.remove(&first);
            }
        }
        let fresh = Window { ends: now + WINDOW, failures: 0 };
        let window = self.by_client.entry(client).or_insert(fresh);
        if window.ends <= now {
            *window = fresh;
        }
        window.failures += 1;
    }

    /// Clears the failures of a client that has logged in.
    pub(crate) fn succeeded(&mut self, client: IpAddr) {
        self.by_client.remove(&(Who::Client, network(client)));
    }
}

/// A client may use all addresses of a /64 network of IPv6.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_that_fails_often_is_refused_until_its_window_ends() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let ann = client("192.0.2.1");
        for _ in 0..FAILURES_MAX {
            assert_eq!(attempts.refused_for(ann, None, now), None);
            attempts.failed(ann, None, now);
        }
        assert_eq!(attempts.refused_for(ann, None, now), Some(WINDOW));
        assert_eq!(
            attempts.refused_for(client("::ffff:192.0.2.1"), None, now),
            Some(WINDOW),
            "the same client"
        );
        assert_eq!(attempts.refused_for(client("192.0.2.2"), None, now), None, "others are not");
        assert_eq!(attempts.refused_for(ann, None, now + WINDOW), None);
        attempts.failed(ann, None, now + WINDOW);
        assert_eq!(attempts.refused_for(ann, None, now + WINDOW), None, "it begins anew");
    }

    #[test]
    fn addresses_of_one_network_are_one_client_and_a_login_is_a_new_beginning() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for host in 0..FAILURES_MAX {
            attempts.failed(client(&format!("2001:db8::{host:x}")), None, now);
        }
        assert!(attempts.refused_for(client("2001:db8::ffff"), None, now).is_some());
        assert!(attempts.refused_for(client("2001:db8:0:1::1"), None, now).is_none());
        attempts.succeeded(client("2001:db8::1"));
        assert!(attempts.refused_for(client("2001:db8::ffff"), None, now).is_none());
    }

    #[test]
    fn clients_of_a_proxy_are_refused_one_by_one_and_all_together() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let proxy = client("127.0.0.1");
        let refused = |attempts: &Attempts, of: u32| {
            attempts.refused_for(IpAddr::from(of.to_be_bytes()), Some(proxy), now)
        };
        for host in 0..PROXY_FAILURES_MAX {
            assert_eq!(refused(&attempts, host), None, "each from an address of its own");
            attempts.failed(IpAddr::from(host.to_be_bytes()), Some(proxy), now);
        }
        assert_eq!(attempts.refused_for(proxy, None, now), None, "a client of its own");
        attempts.succeeded(proxy);
        assert_eq!(refused(&attempts, 12_345), Some(WINDOW));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for host in 0..2 * CLIENTS_MAX as u32 {
            let now = now + Duration::from_millis(u64::from(host));
            attempts.failed(IpAddr::from(host.to_be_bytes()), None, now);
        }
        assert_eq!(attempts.by_client.len(), CLIENTS_MAX);
        assert!(
            attempts
                .by_client
                .contains_key(&(Who::Client, IpAddr::from((2 * CLIENTS_MAX as u32 - 1).to_be_bytes())))
        );
    }
}
