//! The worker's side of the channel, as Node implements it: bytes and real descriptors, without Node.
//!
//! It copies the relevant behaviour of Node: one received descriptor is remembered and the next `NODE_HANDLE`
//! line takes it; a second one that arrives earlier replaces (and loses) it. A pushed connection is
//! acknowledged before the app sees it. A key that is in use twice is fatal.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use forkful_os::{channel, listener};
use serde_json::{Value, json};

/// How the worker reacts to a received handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Accepts it.
    Serves,
    /// Its server is closed or full: `accepted: false`.
    Refuses,
    /// It has no free descriptor: the handle is lost in transit.
    LosesHandles,
}

/// A reply to one of its queries.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) message: Value,
    pub(crate) handle: Option<OwnedFd>,
    /// The wrapper's `type`, for replies with a handle.
    pub(crate) kind: Option<String>,
}

impl Reply {
    pub(crate) fn errno(&self) -> Option<i64> {
        self.message["errno"].as_i64()
    }

    pub(crate) fn key(&self) -> String {
        self.message["key"].as_str().expect("every reply has a key").to_owned()
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Served {
    #[expect(dead_code, reason = "held open")]
    connection: OwnedFd,
    pub(crate) cookie: u64,
    /// Its own port; `None` for a unix socket.
    pub(crate) port: Option<u16>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct FakeWorker {
    pub(crate) number: u32,
    channel: OwnedFd,
    partial: Vec<u8>,
    pub(crate) received_handle: Option<OwnedFd>,
    seq: u64,
    /// Its event loop is blocked: it reads, accepts and answers nothing.
    pub(crate) blocked: bool,
    pub(crate) manner: Manner,
    /// Reports `listening` as soon as a query is answered.
    pub(crate) reports: bool,
    queries: HashMap<u64, Value>,
    pub(crate) replies: HashMap<u64, Vec<Reply>>,
    /// The app's servers, by key; with a socket if it was given one.
    pub(crate) servers: HashMap<String, Option<OwnedFd>>,
    pub(crate) served: Vec<Served>,
    /// Total connections served.
    pub(crate) served_total: usize,
    /// Connections pushed to it, accepted or not.
    pub(crate) pushed: usize,
    pub(crate) probed: usize,
    /// Every parsed line that it has read.
    pub(crate) heard: Vec<Value>,
    /// Streams that came with a line for its agent.
    pub(crate) streams: Vec<OwnedFd>,
    /// Connections it has closed whose close the kernel has not reported: cookie and port.
    pub(crate) closed: Vec<(u64, u16)>,
    /// A handle of the app is in transit: all messages except replies to handles wait for the
    /// acknowledgement.
    pub(crate) keeps_back: bool,
    kept_back: Vec<u8>,
    unsent: Vec<u8>,
}

impl FakeWorker {
    pub(crate) fn new(number: u32, channel: OwnedFd) -> Self {
        Self {
            number,
            channel,
            partial: Vec::new(),
            received_handle: None,
            seq: 0,
            blocked: false,
            manner: Manner::Serves,
            reports: true,
            queries: HashMap::new(),
            replies: HashMap::new(),
            servers: HashMap::new(),
            served: Vec::new(),
            served_total: 0,
            pushed: 0,
            probed: 0,
            heard: Vec::new(),
            streams: Vec::new(),
            closed: Vec::new(),
            keeps_back: false,
            kept_back: Vec::new(),
            unsent: Vec::new(),
        }
    }

    /// Closes its channel and lives on, as `process.disconnect()` does.
    pub(crate) fn disconnect(&mut self) {
        let (own, _other) = channel::pair().unwrap();
        self.channel = own;
    }

    /// Sends bytes as they are.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        self.flush();
    }

    /// Sends a line, its newline added.
    pub(crate) fn say(&mut self, line: &str) {
        let bytes = format!("{line}\n").into_bytes();
        let answers = line.contains("NODE_HANDLE_ACK") || line.contains("NODE_HANDLE_NACK");
        if self.keeps_back && !answers {
            self.kept_back.extend(bytes);
        } else {
            self.say_bytes(&bytes);
        }
    }

    /// Sends a line with a descriptor of the app.
    pub(crate) fn say_with_handle(&mut self, line: &str, handle: &OwnedFd) {
        assert!(self.unsent.is_empty(), "a handle goes with the first byte of its line");
        let bytes = format!("{line}\n");
        let sent = channel::send(self.channel.as_fd(), bytes.as_bytes(), Some(handle.as_fd())).unwrap();
        assert_eq!(sent, bytes.len());
    }

    /// Queries an address with these members (`cmd`, `act` and `seq` are added); returns the query's `seq`.
    pub(crate) fn query(&mut self, members: &Value) -> u64 {
        let seq = self.seq;
        self.queries.insert(seq, members.clone());
        self.say_cluster("queryServer", members);
        seq
    }

    /// Reports that a server is listening, with the actual port from the reply.
    pub(crate) fn report(&mut self, seq: u64) {
        let mut members = self.queries[&seq].clone();
        let reply = &self.replies[&seq][0];
        let port = reply.message["sockname"]["port"].as_u64().or_else(|| {
            let address = listener::local_addr(reply.handle.as_ref()?.as_fd()).ok()?;
            Some(u64::from(address.port()))
        });
        if let Some(port) = port {
            members["port"] = port.into();
        }
        self.say_cluster("listening", &members);
    }

    /// Closes the server with this key, as `server.close()` does.
    pub(crate) fn close_server(&mut self, key: &str) {
        self.servers.remove(key).expect("a live key");
        self.say_cluster("close", &json!({ "key": key }));
    }

    /// Closes all of its connections.
    pub(crate) fn close_connections(&mut self) {
        self.closed.extend(self.served.drain(..).filter_map(|served| Some((served.cookie, served.port?))));
    }

    /// Closes those that arrived on one port.
    pub(crate) fn close_connections_of(&mut self, port: u16) {
        let ended = self.served.extract_if(.., |served| served.port == Some(port));
        self.closed.extend(ended.map(|served| (served.cookie, port)));
    }

    pub(crate) fn say_cluster(&mut self, act: &str, members: &Value) {
        let mut line = json!({ "cmd": "NODE_CLUSTER", "act": act });
        let object = line.as_object_mut().expect("made as an object");
        object.extend(members.as_object().expect("members are an object").clone());
        object.insert("seq".to_owned(), self.seq.into());
        self.seq += 1;
        self.say(&line.to_string());
    }

    /// One turn of its event loop; returns whether anything happened.
    pub(crate) fn turn(&mut self) -> bool {
        if self.blocked {
            return false;
        }
        self.flush();
        let lines = self.read();
        let handle_lines = lines.iter().filter(|(line, _)| line["cmd"] == "NODE_HANDLE").count();
        assert!(handle_lines <= 1, "two unanswered handle lines at worker {}: {lines:?}", self.number);
        let mut acted = !lines.is_empty();
        for (line, handle) in lines {
            let ends = |line: &Value| {
                line["act"] == "disconnect"
                    || line["ack"].is_u64() && line["cmd"] == "NODE_CLUSTER" && line["key"].is_null()
            };
            assert!(
                line["cmd"] != "NODE_HANDLE" || !self.heard.iter().any(ends),
                "a handle line behind the end of the channel, for which Node throws in the app: {line}"
            );
            self.heard.push(line.clone());
            self.on_line(line, handle);
        }
        acted |= self.accept_by_itself();
        acted
    }

    /// How many messages with this `act` it has received.
    pub(crate) fn heard_act(&self, act: &str) -> usize {
        let is_act = |line: &&Value| line["act"] == act || line["msg"]["act"] == act;
        self.heard.iter().filter(is_act).count()
    }

    fn read(&mut self) -> Vec<(Value, Option<OwnedFd>)> {
        let mut lines = self.take_lines();
        while self.read_piece() {
            lines.append(&mut self.take_lines());
        }
        lines
    }

    /// One read of the channel, without handling the data; returns whether it read anything.
    pub(crate) fn read_piece(&mut self) -> bool {
        let mut chunk = vec![0; 64 * 1024];
        let mut handles = Vec::new();
        let Ok(read @ 1..) = channel::receive(self.channel.as_fd(), &mut chunk, &mut handles) else {
            return false;
        };
        assert!(handles.len() <= 1, "one handle per message");
        if let Some(handle) = handles.pop() {
            assert!(self.received_handle.is_none(), "a handle replaced one that no line has taken");
            self.received_handle = Some(handle);
        }
        self.partial.extend_from_slice(&chunk[..read]);
        true
    }

    fn take_lines(&mut self) -> Vec<(Value, Option<OwnedFd>)> {
        let mut lines = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let line: Value = serde_json::from_slice(&line).expect("the primary writes JSON lines");
            let takes = line["cmd"] == "NODE_HANDLE";
            let handle = if takes { self.received_handle.take() } else { None };
            lines.push((line, handle));
        }
        lines
    }

    fn on_line(&mut self, line: Value, handle: Option<OwnedFd>) {
        match (line["cmd"].as_str(), handle) {
            (Some("NODE_HANDLE"), None) => {
                self.probed += 1;
                self.say(r#"{"cmd":"NODE_HANDLE_NACK"}"#);
            }
            (Some("NODE_HANDLE"), Some(handle)) => {
                let is_push = line["msg"]["act"] == "newconn";
                self.pushed += usize::from(is_push);
                if self.manner == Manner::LosesHandles {
                    drop(handle);
                    self.say(r#"{"cmd":"NODE_HANDLE_NACK"}"#);
                    return;
                }
                self.say(r#"{"cmd":"NODE_HANDLE_ACK"}"#);
                if line["msg"]["cmd"] == "NODE_FORKFUL" {
                    self.streams.push(handle);
                } else if is_push {
                    self.on_push(&line["msg"], handle);
                } else {
                    let kind = line["type"].as_str().map(str::to_owned);
                    self.on_reply(line["msg"].clone(), Some(handle), kind);
                }
            }
            (Some("NODE_HANDLE_ACK"), None) => {
                self.keeps_back = false;
                let kept_back = std::mem::take(&mut self.kept_back);
                self.say_bytes(&kept_back);
            }
            (Some("NODE_CLUSTER"), None) if line["act"].is_null() => self.on_reply(line, None, None),
            _ => {}
        }
    }

    fn on_push(&mut self, message: &Value, handle: OwnedFd) {
        let key = message["key"].as_str().expect("a push names its key");
        let accepted = self.manner == Manner::Serves && self.servers.contains_key(key);
        let (ack, seq) = (&message["seq"], self.seq);
        self.seq += 1;
        self.say(&format!(r#"{{"cmd":"NODE_CLUSTER","ack":{ack},"accepted":{accepted},"seq":{seq}}}"#));
        if accepted {
            self.serve(handle);
        }
    }

    fn on_reply(&mut self, message: Value, handle: Option<OwnedFd>, kind: Option<String>) {
        let ack = message["ack"].as_u64().expect("a reply names its query");
        let Some(_) = self.queries.get(&ack) else { return };
        let reply = Reply { message, handle, kind };
        if reply.errno().unwrap_or(0) == 0 {
            let socket = reply.handle.as_ref().map(|handle| handle.try_clone().unwrap());
            let before = self.servers.insert(reply.key(), socket);
            assert!(before.is_none(), "key {} is live already", reply.key());
        }
        let works = reply.errno().unwrap_or(0) == 0;
        self.replies.entry(ack).or_default().push(reply);
        if works && self.reports {
            self.report(ack);
        }
    }

    /// In direct mode it accepts from its own sockets, one connection per turn and socket.
    fn accept_by_itself(&mut self) -> bool {
        let accept = |socket: &OwnedFd| listener::accept(socket.as_fd()).ok().flatten();
        let accepted: Vec<OwnedFd> = self.servers.values().flatten().filter_map(accept).collect();
        let acted = !accepted.is_empty();
        for connection in accepted {
            self.serve(connection);
        }
        acted
    }

    /// The app's answer: the worker's number.
    fn serve(&mut self, connection: OwnedFd) {
        let cookie = listener::cookie(connection.as_fd()).unwrap();
        // A client that is gone needs no answer.
        let _sent = channel::send(connection.as_fd(), format!("{}\n", self.number).as_bytes(), None);
        let port = listener::local_addr(connection.as_fd()).ok().map(|address| address.port());
        self.served.push(Served { connection, cookie, port });
        self.served_total += 1;
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match channel::send(self.channel.as_fd(), &self.unsent, None) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(_) => return,
            }
        }
    }
}
