//! Real lines of workers, recorded from Node 18 to 26, Bun, and the agent.

use super::*;

/// A short description of a line's meaning.
fn meaning(line: &str) -> String {
    match parse(line.as_bytes()) {
        Incoming::QueryServer { query, seq } => format!("query {seq}: {}", words(&query)),
        Incoming::Listening(query) => format!("listening: {}", words(&query)),
        other => format!("{other:?}"),
    }
}

fn words(query: &Query) -> String {
    let Query { address, port, kind, fd, index, flags, exclusive, backlog, readable_all, writable_all, data } =
        query;
    let given = |number: u64| (number != 0).then(|| number.to_string());
    let members = [
        ("port", port.map(|port| port.to_string())),
        ("fd", fd.map(|fd| fd.to_string())),
        ("index", given(*index)),
        ("flags", given(u64::from(*flags))),
        ("exclusive", exclusive.then(|| "yes".to_owned())),
        ("backlog", given(u64::from(*backlog))),
        ("readable", readable_all.then(|| "by all".to_owned())),
        ("writable", writable_all.then(|| "by all".to_owned())),
        ("data", data.as_ref().map(|data| data.get().to_owned())),
    ];
    let mut words = vec![format!("{kind:?}"), address.clone().unwrap_or_else(|| "any".to_owned())];
    words.extend(members.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))));
    words.join(" ")
}

fn table(lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(meaning(line), *expected, "{line}");
    }
}

#[test]
fn the_agent_asks_for_what_a_worker_would_open_by_itself() {
    table(&[
        (
            r#"{"act":"queryServer","index":0,"data":null,"address":"127.0.0.1","port":18080,"addressType":4,"flags":2,"fd":null,"backlog":511,"exclusive":false,"cmd":"NODE_CLUSTER","seq":1}"#,
            "query 1: Tcp4 127.0.0.1 port 18080 flags 2 backlog 511",
        ),
        (
            r#"{"act":"queryServer","index":0,"data":null,"address":null,"port":18080,"addressType":4,"flags":0,"backlog":0,"exclusive":true,"cmd":"NODE_CLUSTER","seq":1}"#,
            "query 1: Tcp4 any port 18080 exclusive yes",
        ),
    ]);
}

#[test]
fn every_version_of_node_is_understood() {
    table(&[
        (r#"{"cmd":"NODE_CLUSTER","act":"online","seq":0}"#, "Online"),
        // 22 and later send `flags` without a host, 18 and 20 do not.
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":null,"port":18080,"addressType":4,"flags":0,"backlog":0,"seq":1}"#,
            "query 1: Tcp4 any port 18080",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":null,"port":18080,"addressType":4,"backlog":0,"seq":1}"#,
            "query 1: Tcp4 any port 18080",
        ),
        // `listen(port, host, callback)` has a backlog of `false`.
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"127.0.0.1","port":0,"addressType":4,"flags":0,"backlog":false,"seq":1}"#,
            "query 1: Tcp4 127.0.0.1 port 0",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":3,"data":null,"address":"127.0.0.1","port":18080,"addressType":4,"flags":0,"backlog":77,"seq":9}"#,
            "query 9: Tcp4 127.0.0.1 port 18080 index 3 backlog 77",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"::1","port":18080,"addressType":6,"flags":1,"backlog":0,"seq":2}"#,
            "query 2: Tcp6 ::1 port 18080 flags 1",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"/run/app.sock","port":-1,"addressType":-1,"backlog":0,"readableAll":true,"writableAll":true,"seq":2}"#,
            "query 2: Unix /run/app.sock port -1 readable by all writable by all",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"fd":7,"address":null,"port":null,"addressType":null,"backlog":0,"seq":2}"#,
            "query 2: Descriptor any fd 7",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"0.0.0.0","port":5353,"addressType":"udp4","fd":-1,"flags":4,"seq":2}"#,
            "query 2: Udp4 0.0.0.0 port 5353 flags 4",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"::","port":5353,"addressType":"udp6","fd":-1,"flags":1,"seq":2}"#,
            "query 2: Udp6 :: port 5353 flags 1",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":{"ticketKeys":"00ff"},"address":null,"port":443,"addressType":4,"flags":0,"backlog":0,"seq":1}"#,
            r#"query 1: Tcp4 any port 443 data {"ticketKeys":"00ff"}"#,
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"listening","index":0,"data":null,"address":null,"port":43210,"addressType":4,"flags":0,"backlog":0,"seq":2}"#,
            "listening: Tcp4 any port 43210",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"close","key":"forkful:7","seq":3}"#,
            r#"Close { key: "forkful:7" }"#,
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","act":"exitedAfterDisconnect","seq":4}"#,
            "ExitedAfterDisconnect { seq: 4 }",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","ack":12,"accepted":true,"seq":5}"#,
            "Accepted { ack: 12, accepted: true }",
        ),
        (
            r#"{"cmd":"NODE_CLUSTER","ack":0,"accepted":false,"seq":5}"#,
            "Accepted { ack: 0, accepted: false }",
        ),
        (r#"{"cmd":"NODE_HANDLE_ACK"}"#, "HandleAck"),
        (r#"{"cmd":"NODE_HANDLE_NACK"}"#, "HandleNack"),
        (r#"{"cmd":"NODE_HANDLE","type":"net.Socket","msg":{"hello":1},"key":"6::::8080"}"#, "HandleSent"),
        (r#"{"cmd":"NODE_HANDLE","type":"net.BoundSocket","msg":"text"}"#, "HandleSent"),
    ]);
}

#[test]
fn bun_marks_its_lines_and_the_agent_speaks_its_own() {
    table(&[
        ("\u{2}{\"cmd\":\"NODE_CLUSTER\",\"act\":\"online\",\"seq\":0}", "Online"),
        ("\u{2}{\"cmd\":\"NODE_HANDLE_ACK\"}", "HandleAck"),
        (r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1,"can":["drain"]}"#, "Agent(Hello(None))"),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1,"can":[],"node":"22.11.0-nightly2026"}"#,
            "Agent(Hello(Some(NodeVersion { major: 22, minor: 11, patch: 0 })))",
        ),
        (r#"{"cmd":"NODE_FORKFUL","act":"hello","node":"22.11"}"#, "Agent(Hello(None))"),
        (r#"{"cmd":"NODE_FORKFUL","act":"hello","node":"1.2.3.4"}"#, "Agent(Hello(None))"),
        (r#"{"cmd":"NODE_FORKFUL","act":"hello","node":"1.2.70000"}"#, "Agent(Hello(None))"),
        (r#"{"cmd":"NODE_FORKFUL","act":"drained","idle":3,"busy":0}"#, "Agent(Drained { stops: false })"),
        (r#"{"cmd":"NODE_FORKFUL","act":"drained","stops":true}"#, "Agent(Drained { stops: true })"),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"report","requests":1,"values":{"heap_used_bytes":4,"unknown":5}}"#,
            r#"Agent(Report(AgentReport { requests: 1, readings: {"heap_used_bytes": 4.0}, .. }))"#,
        ),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"report","requests":1}"#,
            "Agent(Report(AgentReport { requests: 1, readings: {}, .. }))",
        ),
        (r#"{"cmd":"NODE_FORKFUL","act":"report","values":{}}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"report","requests":1,"latency":["x"]}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"report","requests":1,"values":{"heap_used_bytes":"4"}}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"stalls"}"#, "Agent(Stalls([]))"),
        (r#"{"cmd":"NODE_FORKFUL","act":"peers"}"#, "Agent(Peers(Peers({})))"),
        (r#"{"cmd":"NODE_FORKFUL","act":"peers","peers":[["db"]]}"#, "Ignored"),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"peers","peers":[["db","::ffff:10.0.0.1",5432,2],["a b","10.0.0.2",1,0],["x","y",1,1]]}"#,
            r#"Agent(Peers(Peers({10.0.0.1:5432: Named { name: Some("db"), refused: 2 }, 10.0.0.2:1: Named { name: None, refused: 0 }})))"#,
        ),
        (r#"{"cmd":"NODE_FORKFUL","act":"lacks-workers"}"#, "Agent(LacksWorkers)"),
        (r#"{"cmd":"NODE_FORKFUL","act":"merge","question":3}"#, "Agent(WantsMerged(3))"),
        (r#"{"cmd":"NODE_FORKFUL","act":"merge"}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"unmerged"}"#, "Agent(Unmerged)"),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"metrics","none":true}"#,
            "Agent(Metrics { answer: None, inventory: None })",
        ),
        (r#"{"cmd":"NODE_FORKFUL","act":"metrics"}"#, "Agent(Metrics { answer: Failed, inventory: None })"),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"metrics","metrics":[ {"a":1}]}"#,
            r#"Agent(Metrics { answer: Report { text: "[ {\"a\":1}]", left_out: 0 }, inventory: None })"#,
        ),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"metrics","metrics":[],"leftOut":7}"#,
            r#"Agent(Metrics { answer: Report { text: "[]", left_out: 7 }, inventory: None })"#,
        ),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"metrics","none":true,"inventory":{"handles":{"Socket":2}}}"#,
            r#"Agent(Metrics { answer: None, inventory: Some(Inventory { spaces: {}, active: [{}, {"Socket": 2}, {}] }) })"#,
        ),
        (r#"{"cmd":"NODE_FORKFUL","act":"metrics","none":true,"inventory":{"handles":2}}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"metrics","metrics":[}"#, "Ignored"),
        (
            r#"{"cmd":"NODE_FORKFUL","act":"count","staying":4294967295,"movable":0}"#,
            "Agent(Count(Connections { staying: 4294967295, movable: 0 }))",
        ),
        (r#"{"cmd":"NODE_FORKFUL","act":"count","staying":4294967296,"movable":0}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"count","staying":-1,"movable":-2}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"count","staying":1,"movable":2}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"count","staying":1}"#, "Ignored"),
        (r#"{"cmd":"NODE_FORKFUL","act":"of a later version","idle":3}"#, "Ignored"),
    ]);
}

#[test]
fn the_apps_own_messages_are_told_apart_as_node_does() {
    table(&[
        (r#""ready""#, "Ready"),
        (r#""Ready""#, "User"),
        (r#"["ready"]"#, "User"),
        (r#"{"type":"process:msg","data":{"success":true}}"#, "User"),
        (r#"{"cmd":"NODE"}"#, "User"),
        (r#"{"cmd":"NODE_"}"#, "User"),
        (r#"{"cmd":"NODE_FOO"}"#, "Ignored"),
        (r#"{"cmd":"node_cluster","act":"online"}"#, "User"),
        (r#"{"data":{"cmd":"NODE_CLUSTER","act":"online"}}"#, "User"),
        (r#""NODE_HANDLE_ACK""#, "User"),
        (r#"{"cmd":"NODE_SOCKET_NOTIFY_CLOSE","key":"6::::8080"}"#, r#"SocketsClosed { key: "6::::8080" }"#),
        (r#"{"cmd":"NODE_SOCKET_GET_COUNT","key":"6::::8080"}"#, r#"SocketsCounted { key: "6::::8080" }"#),
        (r#"{"cmd":"NODE_SOCKET_GET_COUNT"}"#, "Ignored"),
        (r#"{"cmd":"NODE_DEBUG_ENABLED"}"#, "Ignored"),
        ("", "User"),
        ("null", "User"),
    ]);
}

#[test]
fn a_query_that_makes_no_sense_is_answered_all_the_same() {
    let query = |members: &str| format!(r#"{{"cmd":"NODE_CLUSTER","act":"queryServer",{members},"seq":3}}"#);
    let deep = format!(r#""backlog":{}1{}"#, "[".repeat(5000), "]".repeat(5000));
    for members in [
        r#""address":5,"port":1,"addressType":4"#,
        r#""port":"http","addressType":4"#,
        r#""port":1,"addressType":5"#,
        r#""port":1,"addressType":"tcp""#,
        r#""port":1,"addressType":[4]"#,
        r#""port":1,"addressType":4,"index":-1"#,
        r#""port":1,"addressType":4,"flags":4294967296"#,
        &deep,
    ] {
        assert_eq!(meaning(&query(members)), "BadQuery { seq: 3 }", "{members}");
    }
    table(&[
        (r#"{"cmd":"NODE_CLUSTER","act":"queryServer","port":1,"addressType":4}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"queryServer","port":1,"addressType":4,"seq":-1}"#, "Ignored"),
    ]);
}

#[test]
fn what_makes_no_sense_is_ignored() {
    table(&[
        (r#"{"cmd":"NODE_CLUSTER"}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"suicide","seq":1}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"close","seq":1}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"close","key":5,"seq":1}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"exitedAfterDisconnect"}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","ack":1}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","accepted":true}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","ack":1,"accepted":"yes"}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"listening","addressType":9}"#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"online""#, "Ignored"),
        (r#"{"cmd":"NODE_CLUSTER","act":"online"} trailing"#, "Ignored"),
    ]);
}

#[test]
fn a_message_behind_an_unfinished_line_is_understood() {
    let drained = r#"{"cmd":"NODE_FORKFUL","act":"drained","idle":1,"busy":0}"#;
    assert_eq!(meaning(drained), "Agent(Drained { stops: false })");
    for unfinished in ["{\"half\":", "half a line", "\"", "[1,", "{\"cmd\":\"NODE_CLUSTER\",\"act\":"] {
        assert_eq!(
            meaning(&format!("{unfinished}{drained}")),
            "Agent(Drained { stops: false })",
            "{unfinished}"
        );
    }
    assert_eq!(meaning(&format!("[{drained}]")), "User", "a whole line is the app's");
    assert_ne!(meaning(&format!("{{\"a\":{drained}}}")), "Agent(Drained { stops: false })");
}

#[test]
fn lines_of_log4js_are_told_by_their_beginning() {
    assert!(is_log4js(br#"{"topic":"log4js:message","data":"[]"}"#));
    for other in [
        "",
        "{",
        r#"{"topic":"log4js:message"}"#,
        r#"{"topic":"log4js:other","data":1}"#,
        r#"["log4js:message"]"#,
    ] {
        assert!(!is_log4js(other.as_bytes()), "{other}");
    }
}

#[test]
fn a_report_has_as_many_numbers_as_are_known_and_no_others() {
    let report = |text: &str| match parse(
        format!(r#"{{"cmd":"NODE_FORKFUL","act":"report","requests":1,{text}}}"#).as_bytes(),
    ) {
        Incoming::Agent(AgentMessage::Report(report)) => *report,
        other => panic!("{other:?}"),
    };
    let ones = vec!["1"; 1000].join(",");
    let long =
        report(&format!(r#""latency":[{ones}],"gc":[{ones}],"ms":1000.5,"quiet":true,"sampled":true"#));
    assert_eq!((long.latency.count(), long.latency.sum_ms), (25, 1.0));
    assert!(long.gc.iter().all(|pauses| pauses.count() == 7 && pauses.sum_ms.total_cmp(&1.0).is_eq()));
    assert_eq!((long.period, long.quiet), (Some(std::time::Duration::from_micros(1_000_500)), true));
    assert!(long.sampled);
    let short = report(r#""latency":[2,-1],"gc":[],"ms":-1,"quiet":false"#);
    assert_eq!((short.latency.count(), short.gc[0].count(), short.period, short.quiet), (2, 0, None, false));
    assert!(!short.sampled);
    assert_eq!(report(r#""ms":1e300"#).period, None);
}
