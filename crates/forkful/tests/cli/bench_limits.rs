//! `forkful bench` with too few descriptors or local ports: each problem is named, and nothing hangs.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;

use crate::http::{Server, WAIT};
use crate::sandbox::{Guarded, Sandbox};

/// `forkful bench` with a hard descriptor limit.
fn with_descriptors(limit: u32, args: &[&str], sandbox: &Sandbox) -> Output {
    let bench = sandbox.command(args);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {limit}; exec \"$0\" \"$@\"")).arg(bench.get_program());
    shell.args(bench.get_args()).current_dir(sandbox.work()).stdin(Stdio::null());
    shell.env_clear().envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

#[test]
fn more_connections_than_descriptors_are_refused_before_the_run() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/");
    let told = [&[][..], &["--http2"]].map(|http2| {
        let args = [&["bench", "-c", "100", "-n", "200", &url][..], http2].concat();
        sandbox.told(&with_descriptors(40, &args, &sandbox))
    });
    assert_snapshot!(told[0], @r"
    exit: 1
    --- stderr
    error: 100 connections need 500 open files, but only 40 are allowed

    hint: raise the hard limit (`ulimit -Hn`), or ask for fewer connections
    ");
    assert_eq!(told[0], told[1]);
    assert_eq!(server.answered(), 0);
}

#[test]
fn an_open_loop_that_runs_out_of_descriptors_names_the_cause() {
    let sandbox = Sandbox::new();
    // It listens but does not accept: connections are established, but not answered.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let load = ["--rate", "200", "-d", "1s", "-c", "2", "--connections-max", "100", "--timeout", "1s"];
    let output = with_descriptors(40, &[&["bench", "--json"][..], &load, &[&url]].concat(), &sandbox);
    let document = json(&output);
    assert!(document["errors"]["by_cause"]["too_many_files"].as_u64().unwrap() > 0, "{}", document["errors"]);
    assert_eq!(output.status.code(), Some(6), "{}", document["trust"]);
    assert!(
        document["headline"].as_str().unwrap().contains("too many open files"),
        "{}",
        document["headline"]
    );
    let causes = document["errors"]["causes"].to_string();
    assert!(causes.contains("EMFILE") && causes.contains("ulimit -n"), "{causes}");
}

/// A network namespace with ten local ports, in which Node listens on port 8080.
const TEN_PORTS: &str = r#"
ip link set lo up || exit 99
echo '40000 40009' > /proc/sys/net/ipv4/ip_local_port_range || exit 99
node -e 'require("http").createServer((q, s) => s.end("x")).listen(8080, () => console.error("listens"))' 2> node.log &
node=$!
while ! grep -q listens node.log; do kill -0 $node || exit 98; done
"$0" "$@"
code=$?
kill $node
wait $node
exit $code
"#;

/// The exit code of [`TEN_PORTS`] if the namespace's loopback or ports may not be set.
const NO_PORTS: i32 = 99;

/// Whether a network namespace can be created here; the error says why not.
fn network_namespace() -> Result<(), String> {
    let mut probe = Command::new("unshare");
    let probed = probe.args(["--net", "--map-root-user", "true"]).stdin(Stdio::null()).output();
    let probed = probed.map_err(|error| format!("unshare: {error}"))?;
    if probed.status.success() { Ok(()) } else { Err(text(&probed.stderr)) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[test]
fn local_ports_that_run_out_are_named() {
    if let Err(why) = network_namespace() {
        let _ = writeln!(std::io::stderr(), "\n!! ports cannot be made scarce, so that is NOT tested: {why}");
        return;
    }
    let sandbox = Sandbox::new();
    let args = ["bench", "--json", "-c", "20", "-n", "200", "http://127.0.0.1:8080/"];
    let bench = sandbox.command(&args);
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--net", "--map-root-user", "sh", "-c", TEN_PORTS])
        .arg(bench.get_program())
        .args(bench.get_args());
    unshare.current_dir(sandbox.work()).stdin(Stdio::null());
    let output = unshare.output().unwrap();
    if output.status.code() == Some(NO_PORTS) {
        let _ = writeln!(std::io::stderr(), "\n!! local ports may not be set, so their end is NOT tested");
        return;
    }
    let document = json(&output);
    assert_eq!(document["connections"]["reached"], 10, "{}", document["connections"]);
    assert!(
        document["errors"]["by_cause"]["address_not_available"].as_u64().unwrap() > 0,
        "{}",
        document["errors"]
    );
    assert!(document["requests"]["completed"].as_u64().unwrap() > 0, "{}", document["requests"]);
    assert_eq!((output.status.code(), &document["trustworthy"]), (Some(6), &false.into()));
    let headline = document["headline"].as_str().unwrap();
    assert!(headline.contains("found no free local port"), "{headline}");
}

#[test]
fn what_arrived_while_the_generator_did_not_run_is_in_time_and_its_pause_is_told() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/wait");
    let mut bench = sandbox.command(&["bench", "-c", "4", "-d", "6s", "--timeout", "3s", "--json", &url]);
    let mut run = Guarded::spawn(bench.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
    while server.answered() < 8 {
        std::thread::sleep(WAIT / 10);
    }
    let pid = rustix::process::Pid::from_child(&run.child);
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    signal(rustix::process::Signal::STOP);
    std::thread::sleep(Duration::from_millis(3_500));
    signal(rustix::process::Signal::CONT);
    let text: String = std::iter::from_fn(|| Some(run.next_line()).filter(|line| !line.is_empty())).collect();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["errors"]["total"], 0, "{}", document["errors"]);
    let checks = document["trust"]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["key"] == "generator_stood_still").unwrap();
    assert_eq!(check["level"], "fault", "{check}");
    let pause = check["meaning"].as_str().unwrap().strip_prefix("the generator did not run for ").unwrap();
    let seconds: f64 = pause.split(' ').next().unwrap().parse().unwrap();
    assert!(seconds >= 3.0, "{check}");
}
