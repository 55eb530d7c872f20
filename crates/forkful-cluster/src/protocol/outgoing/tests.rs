//! Messages of the primary, byte for byte as Node's own primary writes them (plus two members, for Deno).

use super::*;

fn head<'a>(key: &'a str, data: Option<&'a RawValue>) -> ReplyHead<'a> {
    ReplyHead { key, ack: 4, data, seq: 7 }
}

fn data(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn says(line: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(String::from_utf8_lossy(line.as_ref()), format!("{expected}\n"));
}

#[test]
fn replies_without_a_handle() {
    says(
        reply_push(head("k", None), Some("[::]:18080".parse().unwrap())),
        r#"{"cmd":"NODE_CLUSTER","errno":null,"key":"k","ack":4,"data":null,"sockname":{"address":"::","family":"IPv6","port":18080},"seq":7}"#,
    );
    says(
        reply_push(head("k", None), Some("127.0.0.1:1".parse().unwrap())),
        r#"{"cmd":"NODE_CLUSTER","errno":null,"key":"k","ack":4,"data":null,"sockname":{"address":"127.0.0.1","family":"IPv4","port":1},"seq":7}"#,
    );
    says(
        reply_push(head("k", None), None),
        r#"{"cmd":"NODE_CLUSTER","errno":null,"key":"k","ack":4,"data":null,"seq":7}"#,
    );
}

#[test]
fn errors_are_negative_and_carry_the_data() {
    let keys = data(r#"{"ticketKeys":"00"}"#);
    let expected =
        r#"{"cmd":"NODE_CLUSTER","errno":-98,"key":"k","ack":4,"data":{"ticketKeys":"00"},"seq":7}"#;
    says(reply_error(head("k", Some(&keys)), 98), expected);
    says(reply_error(head("k", Some(&keys)), -98), expected);
}

#[test]
fn replies_with_a_handle_name_its_converter() {
    let message = r#"{"cmd":"NODE_CLUSTER","errno":0,"key":"k","ack":4,"data":null,"seq":7}"#;
    for (kind, wrapper) in [
        (AddressKind::Tcp4, r#""type":"net.Native","socketType":1,"nativeKind":"tcp""#),
        (AddressKind::Tcp6, r#""type":"net.Native","socketType":1,"nativeKind":"tcp""#),
        (AddressKind::Unix, r#""type":"net.Native","socketType":1,"nativeKind":"pipe""#),
        (AddressKind::Udp4, r#""type":"dgram.Native""#),
        (AddressKind::Udp6, r#""type":"dgram.Native""#),
    ] {
        says(
            reply_handle(head("k", None), handle_kind(kind)),
            &format!(r#"{{"cmd":"NODE_HANDLE",{wrapper},"msg":{message}}}"#),
        );
    }
}

#[test]
fn connections_and_orders() {
    says(
        new_connection("k", 9, false),
        r#"{"cmd":"NODE_HANDLE","type":"net.Native","socketType":0,"nativeKind":"tcp","msg":{"cmd":"NODE_CLUSTER","act":"newconn","key":"k","seq":9}}"#,
    );
    says(
        new_connection("k", 9, true),
        r#"{"cmd":"NODE_HANDLE","type":"net.Native","socketType":0,"nativeKind":"pipe","msg":{"cmd":"NODE_CLUSTER","act":"newconn","key":"k","seq":9}}"#,
    );
    says(disconnect(3), r#"{"cmd":"NODE_CLUSTER","act":"disconnect","seq":3}"#);
    says(acknowledge(5, 6), r#"{"cmd":"NODE_CLUSTER","ack":5,"seq":6}"#);
    says(handle_acknowledge(), r#"{"cmd":"NODE_HANDLE_ACK"}"#);
    says(sockets_all_closed("k\""), r#"{"cmd":"NODE_SOCKET_ALL_CLOSED","key":"k\""}"#);
    says(sockets_count("k"), r#"{"cmd":"NODE_SOCKET_COUNT","key":"k","count":0}"#);
    says(probe(), r#"{"cmd":"NODE_HANDLE"}"#);
    says(agent_metrics(), r#"{"cmd":"NODE_FORKFUL","act":"metrics"}"#);
    says(agent_stalls(50), r#"{"cmd":"NODE_FORKFUL","act":"stalls","min_ms":50}"#);
    says(agent_drain(1000, None, &[]), r#"{"cmd":"NODE_FORKFUL","act":"drain","grace_ms":1000}"#);
    let closes = ["8080".to_owned(), "/a \"b\".sock".to_owned()];
    says(
        agent_drain(1000, Some(&Leaving { within: Duration::from_secs(30), stop: Some("SIGINT") }), &closes),
        r#"{"cmd":"NODE_FORKFUL","act":"drain","grace_ms":1000,"within_ms":30000,"stop":"SIGINT","closes":["8080","/a \"b\".sock"]}"#,
    );
}

#[test]
fn every_line_is_one_line_whatever_keys_and_data_hold() {
    let odd = data(r#"{"a":"line\nbreak","b":[null,1e5,"\u2028"]}"#);
    for key in ["", "with \"quotes\"", "line\nbreak", "\u{0}\u{2028}ü"] {
        let lines = [
            reply_push(head(key, Some(&odd)), None),
            reply_error(head(key, Some(&odd)), 1),
            reply_handle(head(key, Some(&odd)), HandleKind::Datagram),
            new_connection(key, 1, false),
        ];
        for line in lines {
            let end = line.iter().position(|byte| *byte == b'\n');
            assert_eq!(end, Some(line.len() - 1), "{}", String::from_utf8_lossy(&line));
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let message = value.get("msg").unwrap_or(&value);
            assert_eq!(message["key"], key);
        }
    }
}
