//! A server under test: started as an arm specifies, observed as a process tree, and stopped without leaving
//! processes behind.

mod launch;
mod probe;
mod tree;

use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forkful_api::types::AppList;
use forkful_core::outgoing::HostLoad;
use forkful_core::spec::AppSpec;
use forkful_load::StopHandle;
use forkful_os::process::Exit;

use crate::LabError;
use crate::arms::Arm;
use crate::scratch::Scratch;
use crate::target::Target;
pub(crate) use launch::kill_managed;
use launch::{Launched, Manager, lines_from_end};
use probe::NoAnswer;
pub(crate) use tree::{Tree, TreeUse};

/// Pause between two readiness checks.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// If the app listens on a port other than the given one, it must be its only port for this long before it is
/// used.
const OTHER_PORT_SETTLES: Duration = Duration::from_millis(300);

/// From SIGTERM to SIGKILL for a plain process.
const END_GRACE: Duration = Duration::from_secs(2);

/// Timeout of the first request; a slower route cannot be measured in blocks of seconds.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// SIGTERM.
const TERMINATE: i32 = 15;

/// What a server is started from, and a directory only for this server.
#[derive(Debug)]
struct Options<'a> {
    start: StartOptions<'a>,
    scratch: &'a Path,
}

impl<'a> std::ops::Deref for Options<'a> {
    type Target = StartOptions<'a>;

    fn deref(&self) -> &Self::Target {
        &self.start
    }
}

impl Options<'_> {
    fn log(&self) -> PathBuf {
        self.scratch.join("output.log")
    }
}

/// A running server. Dropping it kills all of its processes.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    started_in: Duration,
    first_answer: Duration,
    ignores_port: bool,
    tree: Tree,
    manager: Option<Manager>,
    scratch: Scratch,
    stop: StopHandle,
}

impl Server {
    /// Starts a server and waits until it answers the target with an accepted status. If another program takes
    /// the chosen port before the server, another port is chosen.
    pub(crate) fn start(options: &StartOptions<'_>) -> Result<Self, LabError> {
        if let Some(port) = options.port {
            return Self::start_at(options, port);
        }
        let mut attempts_left = START_ATTEMPTS;
        loop {
            let port = free_port()?;
            attempts_left -= 1;
            match Self::start_at(options, port) {
                Err(error) if attempts_left > 0 && error.is_port_in_use(port) => {}
                result => return result,
            }
        }
    }

    fn start_at(options: &StartOptions<'_>, port: u16) -> Result<Self, LabError> {
        let begun = Instant::now();
        let scratch =
            Scratch::new("forkful-lab-").map_err(LabError::system("cannot make a temporary directory"))?;
        let directory = scratch.path().to_owned();
        let options = Options { start: *options, scratch: &directory };
        let command = launch::Command::of(&options, port)?;
        let Launched { tree, manager, ready_file } = launch::launch(&options, &command)?;
        scratch.holds(&tree);
        let mut server = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            started_in: Duration::ZERO,
            first_answer: Duration::ZERO,
            ignores_port: false,
            tree,
            manager,
            scratch,
            stop: options.stop.clone(),
        };
        server.wait_ready(&options, port, ready_file.as_deref())?;
        server.started_in = begun.elapsed();
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Time from the start of its processes to its first answer.
    pub(crate) fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Duration of its first answer, without other load and without warm-up.
    pub(crate) fn first_answer(&self) -> Duration {
        self.first_answer
    }

    /// Whether it listens on a port other than `PORT`.
    pub(crate) fn ignores_port(&self) -> bool {
        self.ignores_port
    }

    /// CPU and memory of the whole process tree, including the manager. Measuring memory takes milliseconds;
    /// it is 0 unless requested.
    pub(crate) fn used(&self, with_memory: bool) -> TreeUse {
        self.tree.used(with_memory)
    }

    /// The host that refused most connections of its workers because it had too many. Only a Forkful daemon
    /// knows.
    pub(crate) fn refused(&self) -> Option<HostLoad> {
        let said = self.manager.as_ref()?.said(&["list", "--json"], self.scratch.path(), &self.stop)?;
        let list: AppList = serde_json::from_str(&said).ok()?;
        let hosts = list.apps.into_iter().flat_map(|app| app.outgoing);
        hosts.filter(|host| host.refused > 0).max_by_key(|host| host.refused)
    }

    /// The last lines of its output.
    pub(crate) fn tail(&self) -> Vec<String> {
        let mut logs: Vec<PathBuf> = vec![self.scratch.path().join("output.log")];
        if let Ok(entries) = fs_err::read_dir(self.scratch.path().join("logs")) {
            logs.extend(entries.flatten().map(|entry| entry.path()));
        }
        let texts: String = logs.iter().filter_map(|path| Some(end_of(path)? + "\n")).collect();
        lines_from_end(&texts)
    }

    fn wait_ready(
        &mut self,
        options: &Options<'_>,
        port: u16,
        ready_file: Option<&Path>,
    ) -> Result<(), LabError> {
        let deadline = Instant::now() + options.start_timeout;
        // An app that has opened another port may be about to open the given one.
        let mut other_since: Option<(SocketAddr, Instant)> = None;
        loop {
            if options.stop.is_stopped() {
                return Err(LabError::Interrupted);
            }
            self.must_live(options)?;
            let is_ready = ready_file.is_none_or(Path::is_file);
            if is_ready && let Some(listening) = choose(&self.tree.listening(), port, options.port.is_some())
            {
                let since = match other_since {
                    Some((address, since)) if address == listening => since,
                    _ => Instant::now(),
                };
                if listening.port() == port || since.elapsed() >= OTHER_PORT_SETTLES {
                    self.ignores_port = listening.port() != port;
                    self.address = probe::reachable(listening);
                    return self.first_request(options);
                }
                other_since = Some((listening, since));
            }
            if Instant::now() >= deadline {
                return Err(LabError::NotListening {
                    arm: options.arm.name.clone(),
                    waited: options.start_timeout,
                    tail: tail_of(options),
                });
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    fn must_live(&self, options: &Options<'_>) -> Result<(), LabError> {
        let Some(how) = self.ended() else { return Ok(()) };
        let what = format!("the app ended {how} before it listened on a port");
        Err(LabError::Failed { arm: options.arm.name.clone(), what, tail: tail_of(options) })
    }

    /// How it ended by itself, in words. A manager starts what has ended again.
    pub(crate) fn ended(&self) -> Option<String> {
        if self.manager.is_some() {
            return None;
        }
        match self.tree.root().try_wait(false) {
            Ok(Some(Exit::Code(code))) => Some(format!("with exit code {code}")),
            Ok(Some(Exit::Signal(signal, _))) => Some(format!("by {}", forkful_core::signals::words(signal))),
            Ok(None) | Err(_) => None,
        }
    }

    fn first_request(&mut self, options: &Options<'_>) -> Result<(), LabError> {
        let target = options.target;
        let answer = probe::ask(self.address, target, FIRST_ANSWER_TIMEOUT, options.stop);
        if options.stop.is_stopped() {
            return Err(LabError::Interrupted);
        }
        match answer {
            Ok(answer) if target.accepts(answer.status) => {
                self.first_answer = answer.took;
                Ok(())
            }
            Ok(answer) => Err(LabError::WrongStatus {
                arm: options.arm.name.clone(),
                method: target.method.clone(),
                path: target.path.clone(),
                status: answer.status,
            }),
            Err(NoAnswer::Tls(reason)) => {
                Err(LabError::Tls { arm: options.arm.name.clone(), port: self.address.port(), reason })
            }
            Err(NoAnswer::Other { reason, may_be_tls }) => Err(LabError::NoAnswer {
                arm: options.arm.name.clone(),
                method: target.method.clone(),
                path: target.path.clone(),
                port: self.address.port(),
                reason,
                may_be_tls,
                tail: tail_of(options),
            }),
        }
    }

    fn end(&mut self) {
        let known = self.tree.members();
        match &self.manager {
            // It may have exited already.
            None => drop(self.tree.root().signal(TERMINATE)),
            Some(manager) => manager.end(self.scratch.path(), &self.stop),
        }
        self.tree.wait_gone(Instant::now() + END_GRACE, &self.stop);
        self.tree.kill(&known);
        if self.manager.is_none() {
            // Otherwise it stays a zombie until this process exits.
            drop(self.tree.root().try_wait(true));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a server is started from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartOptions<'a> {
    pub app: &'a AppSpec,
    /// How it is run.
    pub arm: &'a Arm,
    /// The request that it will get.
    pub target: &'a Target,
    /// Path of the `forkful` program.
    pub forkful: &'a Path,
    /// The port for requests; `None`: detected.
    pub port: Option<u16>,
    /// Timeout until it is ready.
    pub start_timeout: Duration,
    /// Interrupts the wait.
    pub stop: &'a StopHandle,
}

/// The address to use among those a server listens on: the given port, otherwise (unless the user set the
/// port) the lowest port.
fn choose(listening: &[SocketAddr], port: u16, insist: bool) -> Option<SocketAddr> {
    let given = listening.iter().find(|address| address.port() == port);
    let lowest = || listening.iter().min_by_key(|address| address.port());
    given.or_else(|| if insist { None } else { lowest() }).copied()
}

/// Ports that the server gets one of: below those that the kernel gives to outgoing connections, which
/// would otherwise take the port between our look and the server's start.
const PORTS: std::ops::Range<u16> = 12_000..30_000;

/// How many of [`PORTS`] are tried before the kernel chooses.
const PORT_ATTEMPTS: usize = 100;

/// Maximum starts of a server, each with another port, if other programs take its ports.
const START_ATTEMPTS: usize = 3;

/// A port that is free now, chosen at random, so that two runs at a time do not choose the same one.
fn free_port() -> Result<u16, LabError> {
    let random = std::hash::RandomState::new();
    let drawn = (0..PORT_ATTEMPTS)
        .map(|attempt| PORTS.start + (random.hash_one(attempt) % PORTS.len() as u64) as u16)
        .find(|port| is_free(*port));
    drawn.map_or_else(kernels_choice, Ok)
}

/// Whether no program listens on the port, on any address of a server's choice.
fn is_free(port: u16) -> bool {
    let taken = |address: IpAddr| {
        TcpListener::bind((address, port)).is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
    };
    let addresses: [IpAddr; 4] = [
        Ipv4Addr::LOCALHOST.into(),
        Ipv6Addr::LOCALHOST.into(),
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv6Addr::UNSPECIFIED.into(),
    ];
    !addresses.into_iter().any(taken)
}

fn kernels_choice() -> Result<u16, LabError> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(LabError::system("there is no free port"))?;
    Ok(listener.local_addr().map_err(LabError::system("there is no free port"))?.port())
}

fn tail_of(options: &Options<'_>) -> Vec<String> {
    end_of(&options.log()).map(|text| lines_from_end(&text)).unwrap_or_default()
}

/// The last 16 KiB of a file.
fn end_of(path: &Path) -> Option<String> {
    use std::io::{Read, Seek, SeekFrom};
    const BYTES_MAX: u64 = 16 * 1024;
    let mut file = fs_err::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES_MAX))).ok()?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_port_is_chosen_before_the_lowest() {
        let listening: Vec<SocketAddr> =
            ["0.0.0.0:9000", "[::]:3000", "127.0.0.1:9229"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(choose(&listening, 9000, false).unwrap().port(), 9000);
        assert_eq!(choose(&listening, 8080, false).unwrap().port(), 3000);
        assert_eq!(choose(&listening, 8080, true), None);
        assert_eq!(choose(&[], 8080, false), None);
    }

    #[test]
    fn a_chosen_port_is_free_and_no_outgoing_connection_takes_it() {
        for _ in 0..20 {
            assert!(PORTS.contains(&free_port().unwrap()));
        }
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!(is_free(taken));
        let another_host = IpAddr::from([127, 0, 0, 2]);
        for address in [Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into(), another_host] {
            let other = TcpListener::bind((address, 0)).unwrap();
            assert!(!is_free(other.local_addr().unwrap().port()));
        }
    }
}
