//! What things cost, and where each figure is from. Virtual time passes by these figures alone.
//!
//! All were measured on 2 cores of a virtual machine (AMD EPYC, Linux 6.18, Node v20.20.2). Other cores have other figures; the
//! proportions between them, and so which resource ends first, change less.

use std::time::Duration;

/// Turns of the daemon's loop: woken, and gone on with. The difference between a connection at 400 a second and at 5,750 in
/// docs/SCALE.md (67 µs), over the four times that one wakes an idle daemon: it arrives, its probe and its push are answered, it ends.
pub(crate) const WAKE: Duration = Duration::from_micros(17);
pub(crate) const NEXT_TURN: Duration = Duration::from_micros(1);

/// Parts of a connection that the daemon hands over, beside the state machine: 52 µs in all, so that with it and the turns a
/// connection comes to the 56 µs of docs/SCALE.md. `accept` is measured by `forkful-os`'s example `costs` (0.8 µs) without
/// the cookie and the watch; how the rest is divided between the parts is an assumption.
pub(crate) const ACCEPT: Duration = Duration::from_micros(8);
pub(crate) const SEND_CONNECTION: Duration = Duration::from_micros(14);
pub(crate) const SEND_LINE: Duration = Duration::from_micros(6);
pub(crate) const READ_LINE: Duration = Duration::from_micros(8);
pub(crate) const READ_CLOSE: Duration = Duration::from_micros(6);
/// Further ends in the same turn: a `recv` each (`forkful-os/src/closed.rs`) and no other step of the loop. An assumption.
pub(crate) const READ_CLOSE_MORE: Duration = Duration::from_micros(1);

/// The length of a queue, and another choice for the kernel among 64 sockets: `forkful-os`'s example `costs` (0.28 µs; 5 to
/// 14 µs).
pub(crate) const READ_QUEUE: Duration = Duration::from_nanos(280);
pub(crate) const STEER: Duration = Duration::from_micros(14);

/// A step of the state machine: about six are a connection. Measured by the example `costs` of this crate, which prints what a
/// connection is with each number of workers.
pub(crate) const STEP: Duration = Duration::from_nanos(300);

/// What a worker uses for a connection with one request and an empty handler, in direct mode and where it is handed over
/// (docs/BENCHMARKS.md, "A connection per request": 119 µs, and 280 µs without the daemon's 56). The part of a handover that
/// is a probe is Node's answer to one (docs/BALANCE.md: 20 to 65 µs).
pub(crate) const TAKE: Duration = Duration::from_micros(40);
pub(crate) const TAKE_HANDED_OVER: Duration = Duration::from_micros(115);
pub(crate) const REQUEST: Duration = Duration::from_micros(79);
pub(crate) const ANSWER_PROBE: Duration = Duration::from_micros(30);
/// A question how many connections stay, for each connection: reading and writing the bytes that it has received.
pub(crate) const COUNT_EACH: Duration = Duration::from_nanos(500);

/// Connections that wait in a socket's queue: Node's default. Above that the kernel drops the client's first packet.
pub(crate) const BACKLOG: usize = 511;
/// A client's kernel sends that packet again after this, then after twice as long, and so on.
pub(crate) const SENT_AGAIN: Duration = Duration::from_secs(1);

/// From the start of a Node.js process to its first `listen`, with a few modules.
pub(crate) const START: Duration = Duration::from_millis(300);
/// A worker that drains closes idle connections after this (`agent/agent.cjs`).
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// From the end of a connection until its client has asked for another: a round trip within a data centre, or little more.
pub(crate) const COMES_BACK: (u64, u64) = (1_000, 20_000);
