//! The costs of operations, with the source of each figure. Virtual time advances only by these figures.
//!
//! All were measured on 2 cores of a virtual machine (AMD EPYC, Linux 6.18, Node v20.20.2). Other cores have
//! other figures; their proportions, and so which resource is exhausted first, change less.

use std::time::Duration;

/// Turns of the daemon's loop: after a wake-up, and without one. From the difference between a connection at
/// 400 per second and at 5,750 in docs/SCALE.md (67 µs), divided by the four times that a connection wakes an
/// idle daemon: it arrives, the replies to its probe and its push arrive, it closes.
pub(crate) const WAKE: Duration = Duration::from_micros(17);
pub(crate) const NEXT_TURN: Duration = Duration::from_micros(1);

/// Parts of handing over a connection, without the state machine: 52 µs in total, so that with it and the
/// turns a connection costs the 56 µs of docs/SCALE.md. `accept` is measured by `forkful-os`'s example
/// `costs` (0.8 µs) without the cookie and the watch; the division of the rest is an assumption.
pub(crate) const ACCEPT: Duration = Duration::from_micros(8);
pub(crate) const SEND_CONNECTION: Duration = Duration::from_micros(14);
pub(crate) const SEND_LINE: Duration = Duration::from_micros(6);
pub(crate) const READ_LINE: Duration = Duration::from_micros(8);
pub(crate) const READ_CLOSE: Duration = Duration::from_micros(6);
/// Further closes in the same turn: a `recv` each (`forkful-os/src/closed.rs`) and no other step of the loop.
/// An assumption.
pub(crate) const READ_CLOSE_MORE: Duration = Duration::from_micros(1);

/// Reading the length of a queue, and changing the kernel's choice among 64 sockets: `forkful-os`'s example
/// `costs` (0.28 µs; 5 to 14 µs).
pub(crate) const READ_QUEUE: Duration = Duration::from_nanos(280);
pub(crate) const STEER: Duration = Duration::from_micros(14);

/// A step of the state machine; a connection needs about six. Measured by this crate's example `costs`, which
/// prints the cost of a connection for each number of workers.
pub(crate) const STEP: Duration = Duration::from_nanos(300);

/// A worker's cost of a connection with one request and an empty handler, in direct mode and when handed over
/// (docs/BENCHMARKS.md, "A connection per request": 119 µs, and 280 µs without the daemon's 56). The probe's
/// part of a handover is Node's reply to it (docs/BALANCE.md: 20 to 65 µs).
pub(crate) const TAKE: Duration = Duration::from_micros(40);
pub(crate) const TAKE_HANDED_OVER: Duration = Duration::from_micros(115);
pub(crate) const REQUEST: Duration = Duration::from_micros(79);
pub(crate) const ANSWER_PROBE: Duration = Duration::from_micros(30);
/// Counting kept connections, for each connection: reading and storing its received bytes.
pub(crate) const COUNT_EACH: Duration = Duration::from_nanos(500);

/// Capacity of a socket's queue: Node's default. Above it the kernel drops the client's first packet.
pub(crate) const BACKLOG: usize = 511;
/// A client's kernel sends that packet again after this time, then after twice as long, and so on.
pub(crate) const SENT_AGAIN: Duration = Duration::from_secs(1);

/// From the start of a Node.js process with a few modules to its first `listen`.
pub(crate) const START: Duration = Duration::from_millis(300);
/// A draining worker closes idle connections after this time (`agent/agent.cjs`).
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// From the end of a connection until its client opens another: a round trip within a data centre, or
/// slightly more.
pub(crate) const COMES_BACK: (u64, u64) = (1_000, 20_000);
