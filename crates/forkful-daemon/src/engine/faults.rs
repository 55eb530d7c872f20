//! Error descriptions in words.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use forkful_cluster::Port;
use forkful_core::foreign;
use forkful_core::slot::Report;
use forkful_core::spec::environment::shown_arguments;
use forkful_os::identity;
use forkful_os::procinfo::{PortOwner, owner_of_port};

use super::app::ListenFault;
use super::apps::Apps;

const EADDRINUSE: i32 = 98;
const EADDRNOTAVAIL: i32 = 99;
const EACCES: i32 = 13;

const OTHER_PORT: &str = "give the app another port, as in `PORT=… forkful start …`";

/// The ports and processes of this daemon's apps.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    /// Ports of the primaries, with the app's name.
    ports: Vec<(Port, String)>,
    /// Workers, with the app's name.
    workers: BTreeMap<u32, String>,
    /// Whether the daemon runs as root.
    is_root: bool,
}

impl Ours {
    pub(crate) fn of(apps: &Apps) -> Self {
        let mut ours = Self { is_root: forkful_os::identity::euid() == 0, ..Self::default() };
        for entry in apps.values() {
            let name = entry.spec().name.as_str();
            let ports = entry.primary.addresses().filter_map(|(address, _, _)| port_of(address));
            ours.ports.extend(ports.map(|port| (port, name.to_owned())));
            let processes = entry.places.values().flat_map(|place| place.processes.values());
            ours.workers.extend(processes.map(|process| (process.child.pid, name.to_owned())));
        }
        ours
    }

    fn app_on(&self, port: Port) -> Option<&str> {
        self.ports.iter().find(|(taken, _)| *taken == port).map(|(_, name)| name.as_str())
    }
}

/// Of `tcp://127.0.0.1:3000`, and of `udp://…`.
fn port_of(address: &str) -> Option<Port> {
    let (scheme, rest) = address.split_once("://")?;
    let number = rest.rsplit_once(':')?.1.parse().ok()?;
    match scheme {
        "tcp" => Some(Port::Tcp(number)),
        "udp" => Some(Port::Udp(number)),
        _ => None,
    }
}

/// A listen of the app `asking` that the kernel refused.
pub(crate) fn listen_fault(
    asking: &str,
    address: &str,
    errno: i32,
    port: Option<Port>,
    ours: &Ours,
) -> ListenFault {
    match errno {
        EADDRINUSE => taken(asking, address, port, ours),
        EACCES => ListenFault {
            error: format!("cannot listen on {address}: permission denied"),
            hint: Some(denied(port, ours.is_root).to_owned()),
        },
        EADDRNOTAVAIL => ListenFault {
            error: format!("cannot listen on {address}: it is no address of this machine"),
            hint: Some(
                "listen on 127.0.0.1, or on 0.0.0.0 for all addresses; `ip address` lists them".to_owned(),
            ),
        },
        _ => ListenFault {
            error: format!("cannot listen on {address}: {}", std::io::Error::from_raw_os_error(errno)),
            hint: None,
        },
    }
}

/// What to do about a listen that is not allowed.
fn denied(port: Option<Port>, is_root: bool) -> &'static str {
    match port {
        None => {
            "the app's user may not make the socket's file in that folder: change the folder's owner or rights"
        }
        // The kernel refuses root nothing, so the app's user lacked the permission.
        Some(_) if is_root => {
            "the app runs as another user: `low_ports: true` (`--low-ports`) in its configuration lets it listen on \
             ports below 1024, or give it another port"
        }
        Some(_) => {
            "ports below 1024 need CAP_NET_BIND_SERVICE (`setcap cap_net_bind_service=+ep` on forkful), or another port"
        }
    }
}

fn taken(asking: &str, address: &str, port: Option<Port>, ours: &Ours) -> ListenFault {
    let fault = |who: &str, hint: String| ListenFault {
        error: format!("cannot listen on {address}: it is taken{who}"),
        hint: Some(hint),
    };
    let by_app = |app: &str| {
        if app == asking {
            let hint = "it listens there twice: set `exec_mode: \"cluster\"`, in which workers share a port, or give each worker its own \
                        (`increment_var`), then `forkful restart`; a reload cannot change the mode";
            return fault(" by this app itself", hint.to_owned());
        }
        fault(
            &format!(" by the app `{app}`"),
            format!("give the app another port, or `forkful delete {app}`"),
        )
    };
    if let Some(app) = port.and_then(|port| ours.app_on(port)) {
        return by_app(app);
    }
    let owner = match port {
        Some(Port::Tcp(port)) => owner_of_port(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        // The kernel's list of UDP sockets is not read.
        Some(Port::Udp(_)) | None => None,
    };
    let Some(PortOwner { pid, command, uid, user, .. }) = owner else {
        return fault("", "give the app another port, or end what listens there".to_owned());
    };
    let Some(pid) = pid else {
        return fault(&unseen(uid, user, identity::euid()), OTHER_PORT.to_owned());
    };
    if let Some(app) = ours.workers.get(&pid) {
        return by_app(app);
    }
    let command = shown_command(&command);
    if is_forkful(&command) {
        let hint =
            format!("{OTHER_PORT}; `forkful list` of that daemon's `FORKFUL_HOME` shows which app has it");
        return fault(&format!(" by an app of another Forkful daemon, pid {pid} ({command})"), hint);
    }
    let who =
        if command.is_empty() { format!(" by pid {pid}") } else { format!(" by pid {pid} ({command})") };
    fault(&who, format!("stop that process (`kill {pid}`), or {OTHER_PORT}"))
}

/// The owner of a socket whose process was not found: `uid` and `user` are the socket's, `own` is this
/// daemon's user. Root sees every process, and other users their own, except those of another container.
fn unseen(uid: u32, user: Option<String>, own: u32) -> String {
    if own == 0 || own == uid {
        return " by a process that cannot be seen here, such as one of another container".to_owned();
    }
    let user = user.unwrap_or_else(|| format!("with the id {uid}"));
    format!(" by a process of the user {user}")
}

/// The command line of a process that may be anybody's, for messages: without secrets, and without characters that steer a
/// terminal.
fn shown_command(arguments: &[String]) -> String {
    // An argument may be a command line of its own (`sh -c`), or a title that the process has given itself.
    let words = shown_arguments(arguments).join(" ");
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    foreign::replaced(&shown_arguments(&words).join(" "))
}

/// Whether a command line is that of a daemon; stopping it would stop all its apps.
fn is_forkful(command: &str) -> bool {
    let program = command.split(' ').next().unwrap_or_default();
    let is_daemon = ["daemon --ready-fd", "daemon --keeper-fd"].iter().any(|words| command.contains(words));
    is_daemon || Path::new(program).file_name().is_some_and(|name| name == "forkful")
}

/// A port that an app could not bind itself (fork mode, `exclusive`), parsed from Node's output: `Error:
/// listen EADDRINUSE: address already in use :::3000`, and `bind EADDRINUSE 0.0.0.0:3000` of UDP.
pub(crate) fn listen_fault_in(asking: &str, stderr_tail: &[String], ours: &Ours) -> Option<ListenFault> {
    let port_in = |line: &str| line.rsplit(' ').next()?.rsplit(':').next()?.parse().ok();
    let port = stderr_tail.iter().find_map(|line| {
        if line.contains("listen EADDRINUSE") {
            port_in(line).map(Port::Tcp)
        } else if line.contains("bind EADDRINUSE") {
            port_in(line).map(Port::Udp)
        } else {
            None
        }
    })?;
    let (Port::Tcp(number) | Port::Udp(number)) = port;
    Some(listen_fault(asking, &format!("port {number}"), EADDRINUSE, Some(port), ours))
}

/// The line for a report in the daemon's own log; `None` for common reports.
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
            Some(format!("consecutive restart {attempt} in {} ms", delay.as_millis()))
        }
        Report::GaveUp { reason, exit } => Some(format!("not restarted any more: {reason}; last {exit}")),
        Report::Killed(_) => Some("did not end in time and was killed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_port_is_said_as_far_as_it_is_known() {
        let user = || Some("www-data".to_owned());
        assert_eq!(unseen(33, user(), 1000), " by a process of the user www-data");
        assert_eq!(unseen(33, None, 1000), " by a process of the user with the id 33");
        let hidden = " by a process that cannot be seen here, such as one of another container";
        assert_eq!(unseen(33, user(), 0), hidden, "root sees the processes of all users");
        assert_eq!(unseen(1000, None, 1000), hidden);
    }

    #[test]
    fn the_command_line_of_another_process_is_told_without_secrets() {
        let told =
            |words: &[&str]| shown_command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            told(&["/usr/bin/python3", "hold.py", "--password=SEK", "--token", "S E K", "-v"]),
            "/usr/bin/python3 hold.py --password=[redacted] --token [redacted] -v"
        );
        assert_eq!(told(&["sh", "-c", "serve --token SEK 80"]), "sh -c serve --token [redacted] 80");
        assert_eq!(told(&["a\u{202e}b"]), "a\u{fffd}b");
        assert_eq!(told(&[]), "");
    }

    fn ours() -> Ours {
        let port = |address: &str| port_of(address).unwrap();
        Ours {
            ports: vec![
                (port("tcp://[::]:1"), "web".to_owned()),
                (port("udp://127.0.0.1:2"), "dns".to_owned()),
            ],
            workers: BTreeMap::new(),
            is_root: true,
        }
    }

    fn told(line: &str) -> Option<(String, String)> {
        let tail = ["at Server.listen".to_owned(), line.to_owned()];
        listen_fault_in("api", &tail, &ours()).map(|fault| (fault.error, fault.hint.unwrap()))
    }

    #[test]
    fn an_app_of_ours_that_has_the_port_is_named_and_nothing_is_to_be_killed() {
        let (error, hint) = told("Error: listen EADDRINUSE: address already in use :::1").unwrap();
        assert_eq!(error, "cannot listen on port 1: it is taken by the app `web`");
        assert_eq!(hint, "give the app another port, or `forkful delete web`");
        let (error, _) = told("Error: bind EADDRINUSE 127.0.0.1:2").unwrap();
        assert_eq!(error, "cannot listen on port 2: it is taken by the app `dns`");
    }

    #[test]
    fn tcp_and_udp_have_each_their_own_ports() {
        let (error, hint) = told("Error: bind EADDRINUSE 127.0.0.1:1").unwrap();
        assert_eq!(error, "cannot listen on port 1: it is taken");
        assert_eq!(hint, "give the app another port, or end what listens there");
        assert_eq!(port_of("unix:/a:1"), None);
        assert_eq!(told("Error: listen EACCES: permission denied 0.0.0.0:1"), None);
    }

    #[test]
    fn a_refused_listen_says_what_allows_it() {
        let hint = |port, is_root| {
            let ours = Ours { is_root, ..Ours::default() };
            listen_fault("api", "0.0.0.0:80", EACCES, port, &ours).hint.unwrap()
        };
        assert!(hint(Some(Port::Tcp(80)), true).contains("low_ports: true"));
        assert!(hint(Some(Port::Tcp(80)), false).contains("CAP_NET_BIND_SERVICE"));
        assert!(hint(None, true).contains("folder"));
    }

    #[test]
    fn an_app_is_not_told_to_delete_itself() {
        let tail = ["Error: listen EADDRINUSE: address already in use :::1".to_owned()];
        let fault = listen_fault_in("web", &tail, &ours()).unwrap();
        assert_eq!(fault.error, "cannot listen on port 1: it is taken by this app itself");
    }

    #[test]
    fn a_daemon_is_known_by_its_program() {
        assert!(is_forkful("/usr/local/bin/forkful daemon"));
        assert!(is_forkful("forkful run app.js"));
        assert!(!is_forkful("node /srv/forkful/app.js"));
        assert!(!is_forkful(""));
    }
}
