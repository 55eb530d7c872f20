//! Messages of the primary to a worker: complete lines including the newline.

use std::net::SocketAddr;
use std::time::Duration;

use forkful_core::profile::ProfileOrder;
use serde::Serialize;
use serde_json::value::RawValue;

use super::incoming::AddressKind;

/// Which converter the receiving Node uses for a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleKind {
    /// A listening or connected stream socket.
    Stream {
        /// Whether it is listening (Deno distinguishes the two by a member that Node ignores).
        listening: bool,
        /// Whether it is a unix socket.
        unix: bool,
    },
    Datagram,
}

#[derive(Serialize)]
struct Reply<'a> {
    cmd: &'static str,
    errno: Option<i32>,
    key: &'a str,
    ack: u64,
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sockname: Option<SockName>,
    seq: u64,
}

#[derive(Serialize)]
struct SockName {
    address: String,
    family: &'static str,
    port: u16,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithHandle<M> {
    cmd: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    native_kind: Option<&'static str>,
    msg: M,
}

#[derive(Serialize)]
struct Act<'a> {
    cmd: &'static str,
    #[serde(rename = "act")]
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    seq: u64,
}

/// The common parts of replies to `queryServer`.
#[derive(Debug, Clone, Copy)]
pub struct ReplyHead<'a> {
    /// Opaque to the worker; must not be in use in it.
    pub key: &'a str,
    /// The query's `seq`.
    pub ack: u64,
    /// The server's data, echoed even on errors: a TLS worker reads it before it checks `errno`.
    pub data: Option<&'a RawValue>,
    /// Our own sequence number.
    pub seq: u64,
}

/// A reply without a handle: the worker creates a fake listener and waits for pushed connections. `address`
/// is `None` for unix sockets.
pub fn reply_push(head: ReplyHead<'_>, address: Option<SocketAddr>) -> Vec<u8> {
    let sockname = address.map(|address| SockName {
        address: address.ip().to_string(),
        family: if address.is_ipv6() { "IPv6" } else { "IPv4" },
        port: address.port(),
    });
    line(&reply(head, None, sockname))
}

/// A reply that the listen failed; `errno` is positive, as from the kernel.
pub fn reply_error(head: ReplyHead<'_>, errno: i32) -> Vec<u8> {
    line(&reply(head, Some(-errno.abs()), None))
}

/// A reply that carries a listening (or bound) socket.
pub fn reply_handle(head: ReplyHead<'_>, kind: HandleKind) -> Vec<u8> {
    line(&with_handle(kind, reply(head, Some(0), None)))
}

pub fn new_connection(key: &str, seq: u64, unix: bool) -> Vec<u8> {
    let act = Act { cmd: "NODE_CLUSTER", name: "newconn", key: Some(key), seq };
    line(&with_handle(HandleKind::Stream { listening: false, unix }, act))
}

/// Asks the worker to close its servers and leave.
pub fn disconnect(seq: u64) -> Vec<u8> {
    line(&Act { cmd: "NODE_CLUSTER", name: "disconnect", key: None, seq })
}

/// Acknowledges `exitedAfterDisconnect`.
pub fn acknowledge(ack: u64, seq: u64) -> Vec<u8> {
    format!("{{\"cmd\":\"NODE_CLUSTER\",\"ack\":{ack},\"seq\":{seq}}}\n").into_bytes()
}

/// Acknowledges a handle that the worker sent.
pub fn handle_acknowledge() -> &'static [u8] {
    b"{\"cmd\":\"NODE_HANDLE_ACK\"}\n"
}

#[derive(Serialize)]
struct Sockets<'a> {
    cmd: &'static str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
}

/// Says that no connection of a worker's server is open here: we close each as it arrives.
pub fn sockets_all_closed(key: &str) -> Vec<u8> {
    line(&Sockets { cmd: "NODE_SOCKET_ALL_CLOSED", key, count: None })
}

/// The number of its open connections.
pub fn sockets_count(key: &str) -> Vec<u8> {
    line(&Sockets { cmd: "NODE_SOCKET_COUNT", key, count: Some(0) })
}

/// A handle line without a handle: every Node replies from JavaScript with `NODE_HANDLE_NACK`, invisible to
/// the app. The reply proves that the event loop is responsive.
pub fn probe() -> &'static [u8] {
    b"{\"cmd\":\"NODE_HANDLE\"}\n"
}

/// How workers leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// How long they may take.
    pub within: Duration,
    /// What an app can listen for when its process is told to stop: the name of a signal, or `message`.
    pub stop: Option<&'static str>,
}

/// Asks the agent to make every response close its connection, to close idle connections after `grace_ms`,
/// and to stop listening on the addresses in `closes` (a port, or the path of a unix socket), which the app
/// has given up. `leaving`: how long connections that do not end by themselves have to leave, and what the
/// process is told to stop by.
pub fn agent_drain(grace_ms: u64, leaving: Option<&Leaving>, closes: &[String]) -> Vec<u8> {
    let mut line = serde_json::json!({ "cmd": "NODE_FORKFUL", "act": "drain", "grace_ms": grace_ms });
    if let Some(Leaving { within, stop }) = leaving {
        line["within_ms"] = (within.as_millis() as u64).into();
        if let Some(stop) = stop {
            line["stop"] = (*stop).into();
        }
    }
    if !closes.is_empty() {
        line["closes"] = closes.into();
    }
    format!("{line}\n").into_bytes()
}

/// Asks the agent for a report at this interval; 0 stops the reports.
pub fn agent_report(every_ms: u64, quiet_ms: u64, at_once: bool) -> Vec<u8> {
    let quiet = if quiet_ms > 0 { format!(",\"quiet_ms\":{quiet_ms}") } else { String::new() };
    let now = if at_once { ",\"now\":true" } else { "" };
    format!("{{\"cmd\":\"NODE_FORKFUL\",\"act\":\"report\",\"every_ms\":{every_ms}{quiet}{now}}}\n")
        .into_bytes()
}

/// Tells the agent that the threads of libuv's pool exist.
pub fn agent_pool() -> &'static [u8] {
    b"{\"cmd\":\"NODE_FORKFUL\",\"act\":\"pool\"}\n"
}

/// Asks the agent to report event-loop stalls of at least this length; 0 stops it.
pub fn agent_stalls(min_ms: u64) -> Vec<u8> {
    format!("{{\"cmd\":\"NODE_FORKFUL\",\"act\":\"stalls\",\"min_ms\":{min_ms}}}\n").into_bytes()
}

/// Asks the agent for the app's prom-client metrics.
pub fn agent_metrics() -> &'static [u8] {
    b"{\"cmd\":\"NODE_FORKFUL\",\"act\":\"metrics\"}\n"
}

/// Tells the agent the merged metrics of all workers (JSON in one line), or that it cannot have them.
pub fn agent_merged(question: u64, metrics: Option<&str>) -> Vec<u8> {
    let metrics = metrics.map_or_else(String::new, |metrics| format!(",\"metrics\":{metrics}"));
    format!("{{\"cmd\":\"NODE_FORKFUL\",\"act\":\"merged\",\"question\":{question}{metrics}}}\n").into_bytes()
}

#[derive(Serialize)]
struct ProfileAct {
    cmd: &'static str,
    #[serde(rename = "act")]
    name: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_us: Option<u64>,
}

/// Asks the agent for a profile, which it writes into the stream that goes with the line.
pub fn agent_profile(order: &ProfileOrder) -> Vec<u8> {
    let (kind, for_ms, interval_us) = match order {
        ProfileOrder::Cpu { length, interval } => {
            ("cpu", Some(length.as_millis() as u64), Some(interval.as_micros() as u64))
        }
        ProfileOrder::Heap => ("heap", None, None),
    };
    let act = ProfileAct { cmd: "NODE_FORKFUL", name: "profile", kind, for_ms, interval_us };
    line(&with_handle(HandleKind::Stream { listening: false, unix: true }, act))
}

/// Asks the agent for its number of kept connections; cancels the rest of an [`agent_move`].
pub fn agent_count() -> &'static [u8] {
    b"{\"cmd\":\"NODE_FORKFUL\",\"act\":\"count\"}\n"
}

/// Asks the agent for an echo, which follows the worker's replies to everything sent before.
pub fn agent_echo() -> &'static [u8] {
    b"{\"cmd\":\"NODE_FORKFUL\",\"act\":\"echo\"}\n"
}

/// Asks the agent to close this number of kept HTTP/1 connections, each with its next response.
pub fn agent_move(connections: u32) -> Vec<u8> {
    format!("{{\"cmd\":\"NODE_FORKFUL\",\"act\":\"move\",\"connections\":{connections}}}\n").into_bytes()
}

/// The kind of handle for an address.
pub fn handle_kind(kind: AddressKind) -> HandleKind {
    match kind {
        AddressKind::Udp4 | AddressKind::Udp6 => HandleKind::Datagram,
        AddressKind::Unix => HandleKind::Stream { listening: true, unix: true },
        AddressKind::Tcp4 | AddressKind::Tcp6 | AddressKind::Descriptor => {
            HandleKind::Stream { listening: true, unix: false }
        }
    }
}

fn reply(head: ReplyHead<'_>, errno: Option<i32>, sockname: Option<SockName>) -> Reply<'_> {
    Reply {
        cmd: "NODE_CLUSTER",
        errno,
        key: head.key,
        ack: head.ack,
        data: head.data,
        sockname,
        seq: head.seq,
    }
}

fn with_handle<M: Serialize>(kind: HandleKind, msg: M) -> WithHandle<M> {
    let (name, socket_type, native_kind) = match kind {
        HandleKind::Stream { listening, unix } => {
            ("net.Native", Some(u8::from(listening)), Some(if unix { "pipe" } else { "tcp" }))
        }
        HandleKind::Datagram => ("dgram.Native", None, None),
    };
    WithHandle { cmd: "NODE_HANDLE", kind: name, socket_type, native_kind, msg }
}

fn line<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("plain structs of strings and numbers serialise");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests;
