//! A worker with a blocked event loop: only this worker is killed, after the configured limit, and the reason
//! is reported.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::sandbox::{Sandbox, stdout};
use crate::settled::wait_until;

/// `/stick` answers and then blocks the event loop for ever, without using a core, so that the other worker
/// is not slowed down.
const APP: &str = "
require('node:http').createServer((request, response) => {
  response.setHeader('connection', 'close');
  response.end(String(process.pid), () => {
    if (request.url === '/stick') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
}).listen(0, '127.0.0.1');
";

fn workers(sandbox: &Sandbox) -> (Value, BTreeMap<u64, Value>) {
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["list", "--json"]))).unwrap();
    let app = list["apps"][0].clone();
    let workers = app["workers"].as_array().unwrap().iter();
    let workers = workers.map(|worker| (worker["pid"].as_u64().unwrap_or(0), worker.clone())).collect();
    (app, workers)
}

fn ask(address: &str, path: &str) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    // A stuck worker does not close the connection either.
    let mut answer = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    answer.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap().parse().unwrap()
}

fn started(config: &str) -> (Sandbox, String, BTreeMap<u64, Value>) {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    sandbox.write("forkful.config.json", config);
    let output = sandbox.run(&["start"]);
    assert!(output.status.success(), "{}", sandbox.told(&output));
    let (app, before) = workers(&sandbox);
    let address = app["listening"][0].as_str().unwrap().trim_start_matches("tcp://").to_owned();
    (sandbox, address, before)
}

#[test]
fn of_two_workers_the_stuck_one_is_ended_with_a_report_and_the_other_left_alone() {
    let (sandbox, address, before) = started(
        r#"{ "apps": [{ "name": "api", "script": "app.js", "instances": 2, "kill_timeout": 100, "listen_timeout": "60s",
             "health": { "interval": 200, "start_period": 0, "stuck_limit": "5s" } }] }"#,
    );
    assert_eq!(before.len(), 2);
    let stuck = ask(&address, "/stick");
    let slot = before[&stuck]["slot"].as_u64().unwrap();
    let other = *before.keys().find(|pid| **pid != stuck).unwrap();
    let is_replaced = |now: &BTreeMap<u64, Value>| {
        !now.contains_key(&stuck) && now.values().filter(|worker| worker["status"] == "online").count() == 2
    };
    wait_until(|| is_replaced(&workers(&sandbox).1));
    let (_, now) = workers(&sandbox);
    let renewed = now.values().find(|worker| worker["slot"] == slot).unwrap()["renewed"].as_str().unwrap();
    assert!(renewed.contains("did not turn for"), "{renewed}");
    assert!(now.contains_key(&other), "the other worker is the one that it was: {now:?}");
    assert_eq!((&now[&other]["restarts"], &now[&other]["renewed"]), (&0.into(), &Value::Null));
    // It has answered all the time, and both do now.
    assert!(now.contains_key(&ask(&address, "/")));
}

#[test]
fn without_a_limit_a_stuck_worker_is_left_alone() {
    let (sandbox, address, before) = started(
        r#"{ "apps": [{ "name": "api", "script": "app.js", "instances": 2, "kill_timeout": 100, "listen_timeout": "60s" }] }"#,
    );
    let stuck = ask(&address, "/stick");
    // New connections go to the other worker, which answers each; meanwhile nothing happens to it.
    for _ in 0..50 {
        assert_ne!(ask(&address, "/"), stuck);
    }
    let (_, now) = workers(&sandbox);
    assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}
