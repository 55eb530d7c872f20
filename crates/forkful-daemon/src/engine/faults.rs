//! What went wrong, in words.

use std::net::{Ipv4Addr, SocketAddr};

use forkful_core::slot::Report;

use super::app::ListenFault;

const EADDRINUSE: i32 = 98;
const EACCES: i32 = 13;

/// A listen that the kernel refused.
///
/// `ours` is the name of an app of this daemon that has the port.
pub(crate) fn listen_fault(address: &str, errno: i32, port: Option<u16>, ours: Option<&str>) -> ListenFault {
    if let (EADDRINUSE, Some(ours)) = (errno, ours) {
        return ListenFault {
            error: format!("cannot listen on {address}: it is taken by the app `{ours}`"),
            hint: Some(format!("give the app another port, or `forkful delete {ours}`")),
        };
    }
    let owner = port.filter(|_| errno == EADDRINUSE).and_then(|port| {
        forkful_os::procinfo::owner_of_port(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
    });
    let taken = |who: &str| format!("cannot listen on {address}: it is taken{who}");
    match (errno, owner) {
        (EADDRINUSE, Some(owner)) => {
            let who = match (owner.pid, &owner.command) {
                (Some(pid), Some(command)) => format!(" by pid {pid} ({command})"),
                (Some(pid), None) => format!(" by pid {pid}"),
                (None, _) => " by a process of another user".to_owned(),
            };
            let hint = owner.pid.map(|pid| {
                format!("stop that process (`kill {pid}`), or give the app another port, as in `PORT=… forkful start …`")
            });
            ListenFault { error: taken(&who), hint }
        }
        (EADDRINUSE, None) => ListenFault {
            error: taken(""),
            hint: Some("give the app another port, or end what listens there".to_owned()),
        },
        (EACCES, _) => ListenFault {
            error: format!("cannot listen on {address}: permission denied"),
            hint: Some(
                "ports below 1024 need CAP_NET_BIND_SERVICE (`setcap cap_net_bind_service=+ep` on forkful), \
                 or another port"
                    .to_owned(),
            ),
        },
        _ => ListenFault {
            error: format!("cannot listen on {address}: {}", std::io::Error::from_raw_os_error(errno)),
            hint: None,
        },
    }
}

/// A port that an app could not bind by itself (fork mode, `exclusive`), found in what Node wrote:
/// `Error: listen EADDRINUSE: address already in use :::3000`.
pub(crate) fn listen_fault_in(stderr_tail: &[String]) -> Option<ListenFault> {
    let line = stderr_tail.iter().find(|line| line.contains("listen EADDRINUSE"))?;
    let address = line.rsplit(' ').next()?;
    let port = address.rsplit(':').next()?.parse().ok()?;
    Some(listen_fault(&format!("port {port}"), EADDRINUSE, Some(port), None))
}

/// What the daemon's own log says of a report; `None` for everyday ones.
pub(crate) fn report_text(report: &Report) -> Option<String> {
    match report {
        Report::Online { confirmed: true, .. }
        | Report::Stopped
        | Report::Left { .. }
        | Report::Replaced { .. }
        | Report::StartFailed { .. } => None,
        Report::Online { confirmed: false, .. } => Some("runs, but has not said that it is ready".to_owned()),
        Report::Exited { exit, uptime, .. } => {
            Some(format!("ended with {exit} after {:.1} s", uptime.as_secs_f64()))
        }
        Report::ReplaceFailed { fault, .. } => Some(format!("the new version {fault}; the old one stays")),
        Report::RestartScheduled { attempt, delay, .. } => {
            Some(format!("restart {attempt} in a row, in {} ms", delay.as_millis()))
        }
        Report::GaveUp { reason, exit } => Some(format!("given up: {reason}, the last with {exit}")),
        Report::Killed(_) => Some("did not end in time and was killed".to_owned()),
    }
}
