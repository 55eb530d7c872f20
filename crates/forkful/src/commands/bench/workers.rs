//! The share of each worker, if the target is an app of the daemon.
//!
//! The daemon reports the workers' processes. While the load runs, the kernel is asked which of the port's
//! connections each of them holds, how many bytes arrived on each connection, and how much CPU each process
//! used. The requests are divided in proportion to those bytes: exact if all requests are alike and
//! connections are kept, left out if connections are only used for one request. If an app names the worker in
//! a response header (`--worker-header`), that is counted instead.

mod traffic;

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

use forkful_api::types::AppView;
use forkful_load::report::{WorkerShare, Workers};
use forkful_load::{Phase, Plan, Progress, Report};
use forkful_os::procinfo::{self, connections_at, socket_inodes};

use crate::connection;
use traffic::{CONNECTIONS_MAX, Seen, Traffic};

/// Interval between two samples of the connections; a sample takes about a microsecond per connection.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The workers of the target, sampled while the load runs.
#[derive(Debug, Default)]
pub(super) struct Watched {
    app: Option<App>,
    header: bool,
}

#[derive(Debug)]
struct App {
    name: String,
    /// `None`: a unix socket.
    port: Option<u16>,
    workers: Vec<Worker>,
    traffic: Traffic,
    /// Time since the start of the measurement; `None` before the first sample in it.
    looked_at: Option<Duration>,
    /// There was a warm-up before.
    warmed: bool,
    ended: bool,
}

#[derive(Debug)]
struct Worker {
    slot: u16,
    /// The oldest first: a reload or a crash within the run gives the slot another one.
    processes: Vec<Process>,
}

#[derive(Debug)]
struct Process {
    pid: u32,
    /// `None` before the first sample. Zero for a process that began within the run: all of its CPU time counts.
    cpu_first: Option<Duration>,
    cpu_last: Option<Duration>,
}

impl Watched {
    /// Asks the daemon, if there is one, whether the target is one of its apps. On any error there is no
    /// table, but the measurement continues.
    pub(super) fn find(plan: &Plan) -> Self {
        Self { app: app(plan), header: plan.worker_header.is_some() }
    }

    /// Samples the workers before the load, periodically during the measurement, and once more at the end
    /// while the connections still exist, so that even a short measurement has two samples.
    pub(super) fn look(&mut self, progress: &Progress) {
        let Some(app) = &mut self.app else { return };
        match progress.phase {
            Phase::Connecting => app.begin(),
            Phase::Ramp | Phase::Warmup => app.warmed = true,
            Phase::Measuring => {
                if std::mem::take(&mut app.warmed) {
                    app.looked_at = Some(progress.elapsed);
                    return app.begin();
                }
                let due = app.looked_at.is_none_or(|at| progress.elapsed.saturating_sub(at) >= LOOK_INTERVAL);
                if due {
                    app.looked_at = Some(progress.elapsed);
                    app.look();
                }
            }
            Phase::Draining if !app.ended => {
                app.ended = true;
                app.look();
            }
            Phase::Draining => {}
        }
    }

    /// The result.
    pub(super) fn found(self, report: &Report) -> Option<Workers> {
        if !report.workers.is_empty() {
            return Some(by_header(self.app, report));
        }
        if self.header {
            crate::output::warn("no answer had the header of --worker-header");
        }
        Some(self.app?.told(report))
    }
}

impl App {
    /// The sample with which all others are compared.
    fn begin(&mut self) {
        self.traffic = Traffic::default();
        for process in self.workers.iter_mut().flat_map(|worker| &mut worker.processes) {
            (process.cpu_first, process.cpu_last) = (None, None);
        }
        self.look();
    }

    fn look(&mut self) {
        if self.workers.iter_mut().any(|worker| !worker.look()) {
            self.renew();
        }
        let Some(port) = self.port else { return };
        let Ok(connections) = connections_at(port) else { return };
        if connections.len() > CONNECTIONS_MAX {
            return;
        }
        let mut holders = HashMap::new();
        for (index, worker) in self.workers.iter().enumerate() {
            for process in &worker.processes {
                let inodes = socket_inodes(process.pid).unwrap_or_default();
                holders.extend(inodes.into_iter().map(|inode| (inode, index)));
            }
        }
        let seen: Vec<Seen> = connections
            .iter()
            .filter_map(|one| {
                let worker = *holders.get(&one.inode)?;
                Some(Seen { inode: one.inode, worker, received: one.received_bytes })
            })
            .collect();
        self.traffic.look(&seen);
    }

    /// Asks the daemon again, because a process has ended.
    fn renew(&mut self) {
        let Some(view) = view(|view| view.definition.name == self.name) else { return };
        for (slot, pid) in running(&view) {
            let began =
                Process { pid, cpu_first: Some(Duration::ZERO), cpu_last: procinfo::cpu_time(pid).ok() };
            match self.workers.iter_mut().find(|worker| worker.slot == slot) {
                Some(worker) if worker.processes.iter().any(|known| known.pid == pid) => {}
                Some(worker) => worker.processes.push(began),
                None => self.workers.push(Worker { slot, processes: vec![began] }),
            }
        }
    }

    fn told(self, report: &Report) -> Workers {
        let count = self.workers.len();
        let connections = self.traffic.connections(count);
        let requests = self.traffic.requests(count, report.counts.completed, report.bytes.sent);
        let source = match (&requests, self.port) {
            (Some(_), _) => "requests by the bytes that each worker's connections received",
            (None, Some(_)) => "connections were too short to be counted by worker: only CPU is known",
            (None, None) => "a unix socket: only CPU is known",
        };
        let seen = requests.is_some();
        let workers = self.workers.iter().enumerate().map(|(index, worker)| WorkerShare {
            name: worker.slot.to_string(),
            pid: worker.pid(),
            requests: requests.as_ref().map(|requests| requests[index]),
            connections: seen.then(|| connections[index]),
            cpu_seconds: worker.cpu_seconds(),
        });
        Workers { workers: workers.collect(), app: Some(self.name), source: source.to_owned() }
    }
}

impl Worker {
    /// Samples its newest process, and those before it, which may still be leaving. Returns whether the newest lives.
    fn look(&mut self) -> bool {
        let mut lives = false;
        for process in &mut self.processes {
            let now = procinfo::cpu_time(process.pid).ok();
            process.cpu_first = process.cpu_first.or(now);
            process.cpu_last = now.or(process.cpu_last);
            lives = now.is_some();
        }
        lives
    }

    fn pid(&self) -> Option<u32> {
        self.processes.last().map(|process| process.pid)
    }

    fn cpu_seconds(&self) -> Option<f64> {
        let used = |process: &Process| {
            let (first, last) = process.cpu_first.zip(process.cpu_last)?;
            Some(last.saturating_sub(first).as_secs_f64())
        };
        self.processes.iter().filter_map(used).reduce(|a, b| a + b)
    }
}

/// Counted by the app's own header, with the CPU of the daemon's worker with that pid or slot.
fn by_header(app: Option<App>, report: &Report) -> Workers {
    let known = |name: &str| {
        let workers = &app.as_ref()?.workers;
        let has_pid =
            |worker: &&Worker| worker.processes.iter().any(|process| process.pid.to_string() == name);
        let by_pid = workers.iter().find(has_pid);
        by_pid.or_else(|| workers.iter().find(|worker| worker.slot.to_string() == name))
    };
    let workers = report.workers.iter().map(|counted| {
        let worker = known(&counted.name);
        WorkerShare {
            name: counted.name.clone(),
            pid: worker.and_then(Worker::pid),
            requests: Some(counted.requests),
            connections: Some(counted.connections),
            cpu_seconds: worker.and_then(Worker::cpu_seconds),
        }
    });
    let workers = workers.collect();
    Workers { workers, source: "as a response header says".to_owned(), app: app.map(|app| app.name) }
}

/// The daemon's first app that is wanted.
fn view(is_wanted: impl Fn(&AppView) -> bool) -> Option<AppView> {
    let home = crate::home::locate().ok()?;
    if !home.socket().exists() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().ok()?;
    let list = runtime.block_on(async {
        let mut client = connection::running(&home).await.ok()??;
        client.list().await.ok()
    })?;
    list.apps.into_iter().find(is_wanted)
}

/// Slots and processes of an app.
fn running(view: &AppView) -> impl Iterator<Item = (u16, u32)> {
    view.workers.iter().filter_map(|worker| Some((worker.slot, worker.pid?)))
}

/// The daemon's app that listens on the plan's address.
fn app(plan: &Plan) -> Option<App> {
    let view = view(|view| listens_at(view, plan))?;
    let workers: Vec<Worker> = running(&view)
        .map(|(slot, pid)| Worker { slot, processes: vec![Process { pid, cpu_first: None, cpu_last: None }] })
        .collect();
    let port = plan.unix_socket.is_none().then(|| super::server(plan).map(|(_, port)| port)).flatten();
    (!workers.is_empty()).then(|| App {
        name: view.definition.name,
        port,
        workers,
        traffic: Traffic::default(),
        looked_at: None,
        warmed: false,
        ended: false,
    })
}

fn listens_at(view: &AppView, plan: &Plan) -> bool {
    if let Some(path) = &plan.unix_socket {
        return view.listening.iter().any(|address| address.contains(&*path.to_string_lossy()));
    }
    let Some((host, port)) = super::server(plan) else { return false };
    let local =
        (host, port).to_socket_addrs().is_ok_and(|mut found| found.any(|address| is_local(address.ip())));
    let ending = format!(":{port}");
    local && view.listening.iter().any(|address| address.ends_with(&ending))
}

/// Whether an address belongs to this machine: it does if it can be bound.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || std::net::UdpSocket::bind((address, 0)).is_ok()
}
