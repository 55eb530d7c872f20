//! Checks of the network: connections, local ports, listener queues, retransmitted segments.

use super::{Check, Level, percent};
use crate::report::spread::thousands;
use crate::{ErrorCause, HttpVersion, Load, Plan, Report};

/// Whether the requested number of connections was reached.
pub(super) fn connections(plan: &Plan, report: &Report) -> Option<Check> {
    let (asked, reached) = (report.connections.asked, report.connections.reached);
    let files =
        report.errors_of(ErrorCause::TooManyFiles) + report.errors_of(ErrorCause::TooManyFilesInSystem);
    if !matches!(plan.load, Load::Closed { .. }) {
        return (files > 0).then(|| without_descriptor(files));
    }
    if asked == 0 {
        return None;
    }
    if plan.reuse.is_one_each() {
        return one_each(report, files);
    }
    let why = if files > 0 { " (too many open files: raise `ulimit -n`)" } else { "" };
    Some(
        Check::graded(
            "connections",
            "connections reached",
            if reached < asked { Level::Fault } else { Level::Fine },
        )
        .found(format!("{} of {}", thousands(reached), thousands(asked)), "all")
        .means(format!("only {reached} of {asked} connections could be made{why}")),
    )
}

/// With a connection for each request, there is no number to reach, but attempts may fail.
fn one_each(report: &Report, files: u64) -> Option<Check> {
    let (made, failed) = (report.connections.opened, report.connections.failed);
    let attempts = made + failed;
    if attempts == 0 {
        return None;
    }
    let share = failed as f64 / attempts as f64;
    let worst = report.errors.iter().filter(|error| error.cause.is_connect()).max_by_key(|error| error.count);
    let why = match worst {
        _ if files > 0 => ": too many open files; raise `ulimit -n`".to_owned(),
        Some(error) => format!(": {}", error.cause.words()),
        None => String::new(),
    };
    Some(
        Check::graded(
            "connections",
            "connections made, one for each request",
            if files > 0 { Level::Fault } else { Level::above(share, 0.01, 0.1) },
        )
        .found(
            format!("{} of {} attempts", thousands(made), thousands(attempts)),
            "99 %; below 90 %, or without a descriptor, it is another load",
        )
        .means(format!(
            "{} of {} attempts at a connection failed{why}",
            thousands(failed),
            thousands(attempts)
        )),
    )
}

/// An open loop needed more connections than it has descriptors.
fn without_descriptor(requests: u64) -> Check {
    Check::graded("connections", "requests that could not connect: no free descriptor", Level::Fault)
        .found(thousands(requests), "none")
        .means(format!(
            "{} requests could not be sent: too many open files; raise `ulimit -n`, or lower \
                 --connections-max",
            thousands(requests)
        ))
}

/// HTTP/2: whether the server allowed the requested number of streams.
pub(super) fn streams(plan: &Plan, report: &Report) -> Option<Check> {
    let (asked, allowed) = (plan.pipelining as u64, report.connections.streams);
    if plan.http != HttpVersion::Http2 || allowed == 0 || report.connections.opened == 0 {
        return None;
    }
    Some(
        Check::graded(
            "streams",
            "streams per connection",
            if allowed < asked { Level::Warning } else { Level::Fine },
        )
        .found(format!("{} of {}", thousands(allowed), thousands(asked)), "all")
        .means(format!(
            "the target allows {allowed} streams on a connection, and {asked} were asked for: ask for more \
             connections instead"
        )),
    )
}

/// Whether local ports ran out, or nearly.
pub(super) fn ports(report: &Report) -> Option<Check> {
    let failed = report.errors_of(ErrorCause::AddressNotAvailable);
    let waiting = report.kernel.time_wait_after;
    let all = report.kernel.local_ports.filter(|ports| *ports > 0);
    if failed == 0 && (waiting.is_none() || all.is_none()) {
        return None;
    }
    let share = match (waiting, all) {
        (Some(waiting), Some(all)) => waiting as f64 / all as f64,
        _ => 0.0,
    };
    let level = match (failed, share > 0.8) {
        (1.., _) => Level::Fault,
        (0, true) => Level::Note,
        (0, false) => Level::Fine,
    };
    let meaning = if failed > 0 {
        format!(
            "{} requests found no free local port: keep connections alive, wait a minute between runs, or set \
             net.ipv4.tcp_tw_reuse=1",
            thousands(failed)
        )
    } else {
        "nearly all local ports wait in TIME_WAIT; leave a minute between runs".to_owned()
    };
    Some(
        Check::graded("local_ports", "local ports in TIME_WAIT", level)
            .found(
                match (waiting, all) {
                    (Some(waiting), Some(all)) => {
                        // The machine's, of all its addresses: they may be more than one address has.
                        format!(
                            "{} in the machine, of {} for each address",
                            thousands(waiting),
                            thousands(all)
                        )
                    }
                    _ => format!("{} requests without a port", thousands(failed)),
                },
                "none refused",
            )
            .means(meaning),
    )
}

/// How long the kernel waits before it tries to connect again.
const CONNECT_AGAIN_NS: u64 = 1_000_000_000;

/// Whether a listener's queue overflowed. Each such connection waits one or three seconds. The kernel counts all
/// listeners of the machine together; those of others are only noted.
pub(super) fn queues(report: &Report) -> Option<Check> {
    let kernel = report.kernel;
    let overflows = kernel.listen_overflows?.max(kernel.listen_drops.unwrap_or(0));
    let connections = report.connections;
    let attempts = (connections.opened + connections.failed).max(1);
    let is_ours = connections.syn_retransmits > 0
        || connections.failed > 0
        || (!report.connect.is_empty() && report.connect.max() >= CONNECT_AGAIN_NS);
    let (level, meaning) = match overflows {
        0 => (Level::Fine, String::new()),
        _ if is_ours => (
            Level::above(overflows.min(attempts) as f64 / attempts as f64, 0.0, 0.01),
            format!(
                "the target's listen queue overflowed, up to {} times: those connections waited 1 or 3 s for \
                 the kernel, not for the app (Node.js queues 511)",
                thousands(overflows)
            ),
        ),
        _ => (
            Level::Note,
            format!(
                "listen queues of this machine overflowed {} times; no connection of this run waited for it",
                thousands(overflows)
            ),
        ),
    };
    Some(
        Check::graded("listen_queue", "listen queue overflows", level)
            .found(thousands(overflows), "0; 1 % of the connections")
            .means(meaning),
    )
}

/// Whether segments were retransmitted on our connections. The machine's count includes all traffic.
pub(super) fn retransmits(report: &Report) -> Option<Check> {
    if report.connections.opened == 0 {
        return None;
    }
    let connecting = report.connections.syn_retransmits;
    let again = report.connections.retransmits + connecting;
    let share = again as f64 / report.counts.started.max(1) as f64;
    let to_connect = match connecting {
        0 => String::new(),
        some => format!(", {} of them to connect, each after 1 s or more", thousands(some)),
    };
    let level = match (connecting, share > 0.001) {
        (1.., _) | (_, true) => Level::Warning,
        (0, false) => Level::Fine,
    };
    Some(
        Check::graded("retransmits", "segments sent again", level)
            .found(
                format!("{} ({} of them to connect)", thousands(again), thousands(connecting)),
                "0.1 % of the requests; none to connect",
            )
            .means(format!(
                "{} segments were sent again ({} of the requests{to_connect}): part of the tail is the network",
                thousands(again),
                percent(share)
            )),
    )
}
