//! `forkful bench`: options, numbers compared with the server's own, exit codes.

use std::process::{Output, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

use crate::http::Server;
use crate::sandbox::{Guarded, Sandbox};
use crate::terminal::{shown, terminal};

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks the exit code of a run: `code` if its document is trustworthy, otherwise 6. A busy machine may make
/// a run untrustworthy, which must not fail a test of something else.
fn assert_exits(output: &Output, code: i32) {
    let document = json(output);
    let expected = if document["trustworthy"].as_bool().unwrap() { code } else { 6 };
    assert_eq!(output.status.code(), Some(expected), "{}", document["trust"]);
}

#[test]
fn wrong_command_lines_are_refused_with_a_reason() {
    let table: [(&[&str], &str); 21] = [
        (&[], "there is no URL"),
        (&["http://"], "`http://` is not a valid URL: there is no host"),
        (&["ftp://h/"], "the scheme must be http, https, ws or wss, not `ftp`"),
        (&["-d", "10", "http://h/"], "a time needs a unit: 10s or 10ms?"),
        (&["-c", "0", "http://127.0.0.1:1/"], "connections"),
        (&["-n", "0", "http://127.0.0.1:1/"], "requests"),
        (&["-n", "2", "-c", "5", "http://127.0.0.1:1/"], "connections"),
        (&["--rate", "0", "http://127.0.0.1:1/"], "rate"),
        (&["-H", "x", "http://h/"], "--header \"x\" is not `Name: value`"),
        (&["--weights", "1,2", "http://h/"], "--weights has 2 numbers for 1 URLs"),
        (&["http://h/", "--expect", "p42<1ms"], "`p42<1ms` is not a valid expectation: there is no `p42`"),
        (&["--expect-status", "200-299", "http://h/"], "expected statuses, each a number, as in 200,404"),
        (&["--as", "jmeter", "http://h/"], "expected ab, siege, loadtest, autocannon, wrk"),
        (&["--json", "--csv", "-", "http://h/"], "only one of --json, --csv - and --hdr - can have stdout"),
        (&["http://a/", "http://b/"], "all requests of a run go to one server"),
        (
            &["--as", "ab", "-c", "5", "--", "-n", "9", "http://h/"],
            "with --as ab, --connections is not allowed",
        ),
        (&["--as", "wrk", "--rate=9", "--", "http://h/"], "use wrk's own flags: `forkful bench --as wrk"),
        (&["--as", "wrk", "--seed", "1", "http://h/"], "--seed is not allowed before `--`"),
        (&["--as", "siege", "-H", "A: b", "--", "http://h/"], "--header is not allowed before `--`"),
        (&["--as", "loadtest", "-k", "--", "http://h/"], "--insecure is not allowed before `--`"),
        (&["--as", "ab", "http://h/", "--", "-n", "9"], "all flags and the URL must follow `--`"),
    ];
    let sandbox = Sandbox::new();
    for (args, what) in table {
        let output = sandbox.run(&[&["bench"][..], args].concat());
        let stderr = text(&output.stderr);
        assert_eq!((code(&output), stderr.contains(what)), (2, true), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn what_sockets_and_event_streams_do_not_have_is_refused() {
    let (socket, events) = ("ws://127.0.0.1:1/", "http://127.0.0.1:1/");
    let table: [(&[&str], &str); 17] = [
        (&["--http2", socket], "WebSockets are opened over HTTP/1.1: leave out --http2 and --http10"),
        (&["--http10", socket], "leave out --http2 and --http10"),
        (&["-m", "PUT", socket], "WebSockets are opened with GET: leave out --method"),
        (&["--message", "x", "--body", "y", socket], "cannot be used with '--body"),
        (&["--expect-status", "200", socket], "expected statuses are for HTTP answers"),
        (&["--worker-header", "X", socket], "worker header is for HTTP answers"),
        (&["-H", "a b: c", socket], "invalid HTTP header name"),
        (&["ws://127.0.0.1:1/{id}"], "`{id}` can be in the message alone"),
        (&["-H", "X: {id}", socket], "`{id}` can be in the message alone"),
        (&["--sse", "http://127.0.0.1:1/{id}"], "`{id}` cannot be used with event streams"),
        (&[socket, "ws://127.0.0.1:1/other"], "requests on WebSockets and event streams must have one URL"),
        (&[socket, events], "requests on WebSockets and event streams must have one URL"),
        (&["--message", "x", events], "--message is for ws:// and wss:// URLs"),
        (&["--sse", socket], "--sse is for http:// and https:// URLs"),
        (&["--sse", "--rate", "5", events], "cannot be used with"),
        (&["--sse", "--expect-body", "x", events], "cannot be used with"),
        (&["--sse", "--search", "p99<1s", events], "cannot be used with"),
    ];
    let sandbox = Sandbox::new();
    for (args, what) in table {
        let output = sandbox.run(&[&["bench", "-c", "1"][..], args].concat());
        let stderr = text(&output.stderr);
        assert_eq!((code(&output), stderr.contains(what)), (2, true), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    // Tools without WebSockets refuse their URLs in their own way.
    let output = sandbox.run(&["bench", "--as", "ab", "--", "-n", "5", socket]);
    let stderr = text(&output.stderr);
    assert_eq!((code(&output), stderr.contains("must be http or https, not `ws`")), (22, true), "{stderr}");
}

#[test]
fn a_target_that_cannot_be_reached_has_its_own_code() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["bench", "-n", "5", "http://127.0.0.1:1/"]), @"
    exit: 7
    --- stderr
    error: `http://127.0.0.1:1` cannot be reached: connection refused

    hint: is the server running, and on this port?
    ");
}

#[test]
fn requests_are_as_many_as_asked_for_and_as_the_server_counted() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let output = sandbox.run(&["bench", "--json", "-n", "2000", "-c", "7", &server.url("/error")]);
    let document = json(&output);
    assert_eq!(document["requests"]["completed"], 2_000);
    assert_eq!(server.answered(), 2_000);
    assert_eq!(document["statuses"]["500"], 400);
    assert_eq!(document["errors"]["total"], 400);
    assert_eq!(document["errors"]["by_cause"]["unexpected_status"], 400);
    assert_eq!(document["connections"]["reached"], 7);
    assert!(document["latency_ms"]["p99"].is_number(), "{document}");
    assert!(document["latency_ms"]["p999"].is_null(), "2,000 samples say nothing of p99.9");
    assert!(document["generator"]["cpu_seconds"].is_number());
    assert_eq!(output.stderr, b"", "nothing but the document in a pipe");
}

#[test]
fn a_recorded_session_is_sent_to_the_server_that_is_named() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let header = |name: &str, value: &str| serde_json::json!({ "name": name, "value": value });
    let entry = |method: &str, url: &str, body: &str| {
        let headers = [header("Host", "shop.test"), header("Cookie", "id=hunter-9")];
        let body = serde_json::json!({ "mimeType": "text/plain", "text": body });
        serde_json::json!({ "request": { "method": method, "url": url, "headers": headers, "postData": body } })
    };
    let entries = [
        entry("GET", "https://shop.test/pid", ""),
        entry("POST", "https://shop.test/echo", "n=1"),
        entry("GET", "https://cdn.test/app.js", ""),
    ];
    sandbox.write("session.har", &serde_json::json!({ "log": { "entries": entries } }).to_string());
    let output =
        sandbox.run(&["bench", "--json", "-n", "20", "-c", "2", "--har", "session.har", &server.url("/")]);
    let document = json(&output);
    assert_eq!((&document["requests"]["completed"], server.answered()), (&20.into(), 20), "{document}");
    let names: Vec<&str> =
        document["urls"].as_array().unwrap().iter().map(|url| url["name"].as_str().unwrap()).collect();
    assert!(names[0].starts_with("GET ") && names[0].ends_with("/pid"), "{names:?}");
    assert!(names[1].starts_with("POST ") && names[1].ends_with("/echo"), "{names:?}");
    assert!(!text(&output.stdout).contains("hunter-9"));
    assert!(
        text(&output.stderr).contains("1 request to other servers of session.har"),
        "{}",
        text(&output.stderr)
    );
    sandbox.write("broken.har", "{}");
    let output = sandbox.run(&["bench", "--har", "broken.har"]);
    assert_eq!(code(&output), 2, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("it is not a HAR file"), "{}", text(&output.stderr));
}

#[test]
fn a_search_ends_with_the_highest_rate_that_may_be_tried_or_with_what_was_missed() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let page = sandbox.work().join("search.html");
    let url = server.url("/");
    let base = ["bench", "--search", "errors<1%", "-d", "300ms", "--rate-max", "20", "-c", "2", "--json"];
    let output = sandbox.run(&[&base[..], &["--html", "search.html", &url]].concat());
    let document = json(&output);
    let steps = document["steps"].as_array().unwrap();
    // A stalled machine may fail one run, but not two of three at such a low rate, and the output says so.
    let expected = if document["verdict"]["word"] == "unlimited" { 0 } else { 6 };
    if expected == 0 {
        assert_eq!((code(&output), &document["verdict"]["rate"]), (0, &20.0.into()), "{document}");
        assert!(
            steps.iter().filter(|step| step["rate"] == 20.0 && step["held"] == true).count() >= 2,
            "{document}"
        );
    }
    assert!(fs_err::read_to_string(page).unwrap().contains("Latency over the rate"));
    // Every answer of /broken is an error.
    let url = server.url("/broken");
    let output = sandbox.run(&[&base[..], &["--search", "5xx<1%", &url]].concat());
    let document = json(&output);
    assert_eq!((code(&output), &document["verdict"]["word"]), (5, &"nothing".into()), "{document}");
    assert_eq!(document["expectations"], serde_json::json!(["errors<1%", "5xx<1%"]));
    let reason = document["verdict"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("errors<1%: 100") || reason == "the target did not keep up", "{reason}");
    for (args, expected) in [
        (&["--search", "p99"][..], "is not a valid expectation"),
        (&["--search", "p99<1s", "--rate", "5"], "cannot be used with"),
        (&["--poisson"], "required"),
    ] {
        let output = sandbox.run(&[&["bench"][..], args, &[&url]].concat());
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
    }
}

/// A Node.js HTTP/2 server that prints its port, and exits when its stdin closes.
const HTTP2: &str = "const server = require('http2').createServer();
    server.on('stream', (stream) => { stream.respond({ ':status': 200 }); stream.end('hello'); });
    server.listen(0, '127.0.0.1', () => console.log(server.address().port));
    process.stdin.resume().on('end', () => process.exit());";

#[test]
fn http2_has_its_engine_and_its_streams() {
    let (sandbox, http1) = (Sandbox::new(), Server::start());
    let mut command = std::process::Command::new("node");
    let mut node = Guarded::spawn(command.args(["-e", HTTP2]).stdin(Stdio::piped()).stdout(Stdio::piped()));
    let url = format!("http://127.0.0.1:{}/", node.next_line().trim());
    let output = sandbox.run(&["bench", "--json", "--http2", "--streams", "5", "-c", "2", "-n", "300", &url]);
    let document = json(&output);
    assert_eq!((&document["requests"]["completed"], &document["errors"]["total"]), (&300.into(), &0.into()));
    assert_eq!(document["generator"]["engine"], "h2, HTTP/2");
    assert_eq!(
        (&document["target"]["protocol"], &document["connections"]["streams"]),
        (&"HTTP/2".into(), &5.into())
    );
    let refused = sandbox.run(&["bench", "--http2", "-n", "5", "-c", "1", &http1.url("/")]);
    assert_eq!(code(&refused), 7);
    assert!(text(&refused.stderr).contains("the server does not speak HTTP/2"), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("hint: try HTTP/1.1"), "{}", text(&refused.stderr));
    for (args, what) in [
        (&["bench", "--streams", "2", "http://h/"][..], "--http2"),
        (&["bench", "--http2", "--streams", "0", "http://127.0.0.1:1/"], "streams must be 1 to 10000, not 0"),
        (
            &["bench", "--http2", "-H", "Connection: close", "http://127.0.0.1:1/"],
            "must not be sent over HTTP/2",
        ),
    ] {
        let output = sandbox.run(args);
        assert_eq!(
            (code(&output), text(&output.stderr).contains(what)),
            (2, true),
            "{}",
            text(&output.stderr)
        );
    }
    drop(node.child.stdin.take());
    node.child.wait().unwrap();
}

#[test]
fn bodies_headers_counters_and_urls_reach_the_server() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/echo?n={id}");
    let args = [
        "bench",
        "--json",
        "-n",
        "1",
        "-m",
        "PUT",
        "--body",
        "b{id}",
        "--expect-body",
        "PUT /echo?n=0 b0",
        &url,
    ];
    assert_eq!(json(&sandbox.run(&args))["errors"]["total"], 0);
    let wrong = ["bench", "--json", "-n", "1", "--expect-body", "something else", &server.url("/")];
    assert_eq!(json(&sandbox.run(&wrong))["errors"]["by_cause"]["unexpected_body"], 1);
    let status = ["bench", "--json", "-n", "1", "--expect-status", "404", &server.url("/")];
    assert_eq!(json(&sandbox.run(&status))["errors"]["by_cause"]["unexpected_status"], 1);
    sandbox.write("urls.txt", &format!("# two\n{}\nPOST {} x y\n", server.url("/"), server.url("/echo")));
    let document = json(&sandbox.run(&["bench", "--json", "-n", "10", "-c", "1", "--urls-file", "urls.txt"]));
    let urls: Vec<(&str, u64)> = document["urls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|url| (url["name"].as_str().unwrap(), url["completed"].as_u64().unwrap()))
        .collect();
    assert_eq!(urls, [("GET /", 5), ("POST /echo", 5)]);
}

#[test]
fn expectations_decide_how_it_exits() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/error");
    let run = |first: &[&str], expectations: &[&str]| {
        sandbox.run(&[first, &["-n", "1500", "-c", "3", &url, "--expect"], expectations].concat())
    };
    let table: [(&[&str], &[Value], i32); 3] = [
        (&["errors<=20%", "p99<60s", "rps>0.001"], &[true.into(), true.into(), true.into()], 0),
        (&["errors<1%", "p99<60s"], &[false.into(), true.into()], 5),
        (&["p99.9<60s"], &[Value::Null], 6),
    ];
    for (expectations, kept, code) in table {
        let output = run(&["bench", "--json"], expectations);
        let document = json(&output);
        let thresholds = document["thresholds"].as_array().unwrap();
        let found: Vec<&Value> = thresholds.iter().map(|threshold| &threshold["kept"]).collect();
        assert_eq!(found, kept.iter().collect::<Vec<_>>(), "{}", document["thresholds"]);
        assert_exits(&output, code);
    }
    let report = text(&run(&["bench"], &["errors<1%", "p99.9<60s"]).stdout);
    assert!(report.contains("MISS  errors<1% missed (20.000 %)"), "{report}");
    assert!(report.contains("p99.9<60s cannot be judged (too few samples: 1,500 of 10,000)"), "{report}");
}

#[test]
fn urls_may_stand_behind_expectations() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let output = sandbox.run(&["bench", "--json", "-n", "5", "--expect", "requests>=5", &server.url("/")]);
    assert_eq!(json(&output)["thresholds"][0]["kept"], true);
    assert_exits(&output, 0);
}

#[test]
fn files_are_written_as_asked_for() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/");
    let files = ["--csv", "r.csv", "--hdr", "r.hdr", "--html", "r.html"];
    let output = sandbox.run(&[&["bench", "--json", "-n", "300", "-c", "3", &url][..], &files].concat());
    assert_exits(&output, 0);
    assert_eq!(text(&output.stderr), "note: the page with plots is r.html\n");
    let read = |name: &str| fs_err::read_to_string(sandbox.work().join(name)).unwrap();
    let rows: u64 = read("r.csv")
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(rows, 300, "the windows hold all answers");
    assert!(read("r.hdr").contains("#[Max     ="), "{}", read("r.hdr"));
    assert!(read("r.html").contains(&format!("GET {url}")));
    let stdout = sandbox.run(&["bench", "-n", "5", "-c", "1", "--hdr", "-", &url]).stdout;
    assert!(text(&stdout).trim_start().starts_with("Value"), "{}", text(&stdout));
    let missing = sandbox.run(&["bench", "-n", "5", "--csv", "no/r.csv", &url]);
    assert_eq!(code(&missing), 2);
    assert!(text(&missing.stderr).contains("there is no folder no"), "{}", text(&missing.stderr));
    let refusals = [
        (vec!["bench", "-n", "5", "--hdr", ".", &url], ".: it is a folder, and a file was expected"),
        (vec!["bench", "-n", "5", "--html", "-", &url], "name one, as in --html page.html"),
        (vec!["compare", "app.js", "--html", "no/r.html"], "no/r.html: there is no folder no"),
        (vec!["tune", "app.js", "--html", "no/r.html"], "no/r.html: there is no folder no"),
        (vec!["experiment", "sum", "--html", "no/r.html"], "no/r.html: there is no folder no"),
    ];
    for (args, error) in refusals {
        let refused = sandbox.run(&args);
        assert_eq!(code(&refused), 2, "{args:?}");
        assert!(text(&refused.stderr).contains(error), "{args:?}: {}", text(&refused.stderr));
    }
}

#[test]
fn a_terminal_sees_progress_and_a_pipe_does_not() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/");
    let args = ["bench", "-d", "1s", "-c", "2", url.as_str()];
    let (ours, theirs) = terminal(120);
    let mut command = sandbox.command(&args);
    let status = command.env("TERM", "xterm").stdout(Stdio::null()).stderr(theirs).status().unwrap();
    drop(command);
    assert!(status.code().is_some());
    let seen = shown(ours);
    assert!(seen.contains("/s  p50 ") && seen.contains("2 open"), "{seen:?}");
    let piped = sandbox.run(&args);
    assert_eq!(text(&piped.stderr), "");
    assert!(!text(&piped.stdout).contains('\x1b'));
}

#[test]
fn the_command_can_be_repeated_but_tells_no_password() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let document = json(&sandbox.run(&["bench", "--json", "-n", "1", "-u", "me:secret", &server.url("/")]));
    let command = document["command"].as_str().unwrap();
    assert!(command.starts_with("forkful bench --json -n 1 -u ") && !command.contains("secret"), "{command}");
}

#[test]
fn an_app_s_workers_are_told_apart_and_their_requests_add_up() {
    const SERVER: &str =
        "require('node:http').createServer((_, answer) => answer.end('hello')).listen(0, '127.0.0.1');";
    let sandbox = Sandbox::new();
    sandbox.write("app.js", SERVER);
    let started = sandbox.run(&["start", "app.js", "-i", "2", "--name", "api", "--listen-timeout", "60s"]);
    assert_eq!(code(&started), 0, "{}", text(&started.stderr));
    let list = json(&sandbox.run(&["list", "--json"]));
    let address = list["apps"][0]["listening"][0].as_str().unwrap();
    let pids: Vec<&Value> =
        list["apps"][0]["workers"].as_array().unwrap().iter().map(|worker| &worker["pid"]).collect();
    let port = address.rsplit(':').next().unwrap();
    let document = json(&sandbox.run(&[
        "bench",
        "--json",
        "-c",
        "16",
        "-n",
        "20000",
        &format!("http://127.0.0.1:{port}/"),
    ]));
    let workers = &document["workers"];
    assert_eq!(workers["app"], "api");
    let rows = workers["workers"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["pid"]).collect::<Vec<_>>(), pids);
    let sum = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("connections"), 16, "{workers}");
    // Each worker's share is rounded.
    let completed = document["requests"]["completed"].as_u64().unwrap();
    assert!(sum("requests").abs_diff(completed) <= 2, "{} of {completed}: {workers}", sum("requests"));
}
