//! During a restart of the service, the service manager keeps the apps' listening sockets: no client is
//! refused, and connections made meanwhile are served afterwards. The test acts as the manager.

use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use forkful_testkit::wait_until;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::sandbox::{Guarded, Sandbox};

/// Passes its stdin as descriptor 3, like systemd. The pid stays the same.
const SERVICE: &str = r#"export LISTEN_PID=$$; exec "$0" daemon --resurrect 3<&0 0</dev/null"#;

/// The part of a service manager that is needed here.
struct Manager {
    ear: UnixDatagram,
    /// The stored descriptors by name.
    stored: Vec<(String, OwnedFd)>,
}

impl Manager {
    fn new(sandbox: &Sandbox) -> Self {
        let ear = UnixDatagram::bind(sandbox.work().join("notify")).unwrap();
        ear.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        Self { ear, stored: Vec::new() }
    }

    /// Starts the service, and waits until it notifies that it is ready.
    fn start(&mut self, sandbox: &Sandbox) -> Guarded {
        let mut service =
            sandbox.command_of(Path::new("sh"), &["-c", SERVICE, env!("CARGO_BIN_EXE_forkful")]);
        service.env("NOTIFY_SOCKET", sandbox.work().join("notify"));
        let passed = self.stored.first().map(|(name, fd)| (name.clone(), fd.try_clone().unwrap()));
        service.env("LISTEN_FDS", if passed.is_some() { "1" } else { "0" });
        if let Some((name, fd)) = passed {
            service.env("LISTEN_FDNAMES", name).stdin(Stdio::from(fd));
        }
        let service = Guarded::spawn(&mut service);
        self.hear_until(|text| text.starts_with("READY=1"));
        service
    }

    fn hear_until(&mut self, is_it: impl Fn(&str) -> bool) {
        while !is_it(&self.hear()) {}
    }

    /// The next notification; stores or removes descriptors as it requests.
    fn hear(&mut self) -> String {
        let mut bytes = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let length = recvmsg(&self.ear, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
            .expect("nothing was told in time")
            .bytes;
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or_default().to_owned();
        let fd = control.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        if text.starts_with("FDSTOREREMOVE=1") {
            self.stored.retain(|(stored, _)| *stored != name);
        }
        if let Some(fd) = fd.filter(|_| text.starts_with("FDSTORE=1"))
            && self.stored.iter().all(|(stored, _)| *stored != name)
        {
            self.stored.push((name, fd));
        }
        text
    }

    /// Reads the remaining notifications of an ended service.
    fn hear_the_rest(&mut self) {
        let last = UnixDatagram::unbound().unwrap();
        last.send_to(b"LAST", self.ear.local_addr().unwrap().as_pathname().unwrap()).unwrap();
        self.hear_until(|text| text == "LAST");
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// Sends a request on an open connection; returns the answer.
fn answer(mut client: TcpStream) -> String {
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut text = String::new();
    client.write_all(b"GET / HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n").unwrap();
    client.read_to_string(&mut text).unwrap();
    text
}

/// The processes of the service, without the first.
fn others(sandbox: &Sandbox) -> Vec<u32> {
    let json =
        |args: &[&str]| -> serde_json::Value { serde_json::from_slice(&sandbox.run(args).stdout).unwrap() };
    let number = |value: &serde_json::Value| u32::try_from(value["pid"].as_u64().unwrap()).unwrap();
    let mut all = vec![number(&json(&["ping", "--json"]))];
    all.extend(json(&["jlist"]).as_array().unwrap().iter().map(number));
    all
}

#[test]
fn who_connects_while_the_service_is_restarted_or_has_crashed_is_served_afterwards() {
    let sandbox = Sandbox::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = format!(
        "require('http').createServer((_, answer) => answer.end('served')).listen({port}, '127.0.0.1');"
    );
    sandbox.write("server.js", &script);
    let mut manager = Manager::new(&sandbox);
    let mut service = manager.start(&sandbox);
    sandbox.run(&["start", "server.js", "--name", "api", "-i", "2", "--listen-timeout", "60s"]);
    sandbox.run(&["save"]);
    manager.hear_until(|text| text.starts_with("FDSTORE=1"));
    manager.hear_the_rest();
    assert_eq!(manager.stored.len(), 1, "one socket for each address");
    let connect = || TcpStream::connect(("127.0.0.1", port));

    // A restart.
    kill_process(pid(service.child.id()), Signal::TERM).unwrap();
    service.child.wait().unwrap();
    manager.hear_the_rest();
    let waiting: Vec<TcpStream> = (0..8).map(|_| connect().unwrap()).collect();
    let mut service = manager.start(&sandbox);
    for client in waiting.into_iter().chain([connect().unwrap()]) {
        assert!(answer(client).ends_with("served"));
    }

    // A crash of the first process: the manager kills all others.
    let others = others(&sandbox);
    assert_eq!(others.len(), 3);
    service.child.kill().unwrap();
    service.child.wait().unwrap();
    for other in &others {
        // It may have exited with the first process.
        let _gone = kill_process(pid(*other), Signal::KILL);
    }
    wait_until("all to end", || others.iter().all(|other| test_kill_process(pid(*other)).is_err()));
    manager.hear_the_rest();
    let waiting = connect().unwrap();
    let _service = manager.start(&sandbox);
    assert!(answer(waiting).ends_with("served"));

    // Sockets without an app are not kept.
    sandbox.run(&["delete", "api"]);
    manager.hear_the_rest();
    assert!(manager.stored.is_empty());
    wait_until("nobody to listen", || connect().is_err());
}
