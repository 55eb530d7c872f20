//! WebSockets and server-sent events against servers in this process that count what they receive.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use forkful_load::{
    Arrivals, BodyCheck, ErrorCause, HttpVersion, Load, LoadError, Plan, Report, Request, Stop, StopHandle,
    Threads, Url, run,
};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept};

/// What a server has received.
#[derive(Debug, Default)]
struct Seen {
    connections: AtomicU64,
    messages: AtomicU64,
}

impl Seen {
    fn both(&self) -> (u64, u64) {
        (self.connections.load(Ordering::SeqCst), self.messages.load(Ordering::SeqCst))
    }
}

/// A server that handles each connection on its own thread, which ends with the connection.
fn serve(handle: impl Fn(TcpStream, &Seen) + Send + Sync + 'static) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen, handle) =
        (listener.local_addr().unwrap(), Arc::new(Seen::default()), Arc::new(handle));
    let told = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (seen, handle) = (Arc::clone(&seen), Arc::clone(&handle));
            seen.connections.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || handle(stream, &seen));
        }
    });
    (address, told)
}

/// A WebSocket server; `answer` returns the answers to a message, and whether to continue.
fn sockets(
    answer: impl Fn(&mut WebSocket<TcpStream>, Message, u64) -> bool + Send + Sync + 'static,
) -> (SocketAddr, Arc<Seen>) {
    serve(move |stream, seen| {
        let Ok(mut socket) = accept(stream) else { return };
        let mut count = 0;
        while let Ok(message) = socket.read() {
            if !(message.is_text() || message.is_binary()) {
                continue;
            }
            seen.messages.fetch_add(1, Ordering::SeqCst);
            count += 1;
            if !answer(&mut socket, message, count) {
                break;
            }
        }
        // The rest of the closing handshake.
        while socket.read().is_ok() {}
    })
}

fn echo() -> (SocketAddr, Arc<Seen>) {
    sockets(|socket, message, _| socket.send(message).is_ok())
}

fn plan(address: SocketAddr, message: &str, stop: Stop) -> Plan {
    let url = Url::parse_with_sockets(&format!("ws://{address}/")).unwrap();
    let mut request = Request { counter: true, ..Request::to(url) };
    request.body = message.as_bytes().to_vec();
    let mut plan = Plan::of(vec![request]);
    plan.http = HttpVersion::WebSocket;
    plan.connections = 4;
    plan.threads = Threads::Count(2);
    plan.timeout = Duration::from_secs(20);
    plan.stop = stop;
    plan
}

fn go(plan: &Plan) -> Report {
    run(plan, &mut |_| {}, &StopHandle::new()).unwrap()
}

#[test]
fn each_message_is_answered_once_on_the_connections_that_were_asked_for() {
    let (address, seen) = echo();
    let mut plan = plan(address, "number {id}", Stop::Requests(500));
    plan.expect.body = Some(BodyCheck::Contains(b"number ".to_vec()));
    let report = go(&plan);
    assert_eq!((report.counts.started, report.counts.completed, report.errors_total()), (500, 500, 0));
    assert_eq!(seen.both(), (4, 500));
    assert_eq!((report.response.len(), report.statuses.len()), (500, 0));
    assert_eq!((report.messages.unasked, report.messages.reconnects), (0, 0));
    assert!(
        report.messages.closes.is_empty(),
        "our own end is no close of the server: {:?}",
        report.messages
    );
    let first = report.first_response.unwrap();
    assert_eq!((first.status, first.version), (101, "WebSocket"));
    // Several messages under way on a connection are answered in order.
    plan.pipelining = 8;
    plan.stop = Stop::Requests(1_000);
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.errors_total()), (1_000, 0));
}

#[test]
fn a_rate_is_kept_on_the_connections_that_there_are() {
    let (address, seen) = echo();
    let mut plan = plan(address, "x", Stop::Duration(Duration::from_millis(500)));
    plan.pipelining = 1_000;
    plan.load = Load::Open { rate: 400.0, connections_max: 4, arrivals: Arrivals::Even };
    let report = go(&plan);
    assert_eq!((report.offered, report.unsent), (200, 0));
    assert_eq!(report.counts.started, 200);
    assert_eq!(seen.both(), (4, 200));
    assert_eq!(report.slip.len(), 200);
}

#[test]
fn closes_are_counted_by_code_and_the_client_connects_again() {
    let (address, seen) = sockets(|socket, message, count| {
        let sent = socket.send(message);
        if count == 10 {
            let frame = CloseFrame { code: 1012.into(), reason: "restart".into() };
            socket.close(Some(frame)).unwrap();
            return false;
        }
        sent.is_ok()
    });
    let report = go(&plan(address, "x", Stop::Requests(100)));
    assert_eq!(report.counts.started, 100);
    let closed = report.errors_of(ErrorCause::SocketClosed);
    assert_eq!((report.counts.failed, report.errors_total()), (closed, closed), "{:?}", report.errors);
    assert!(report.messages.closes[&1012] >= 5, "{:?}", report.messages);
    assert_eq!(report.messages.reconnects, report.connections.opened - 4);
    assert!(seen.both().0 >= 9);
}

#[test]
fn messages_that_nobody_asked_for_are_told_apart() {
    let (address, _) = sockets(|socket, message, count| {
        if count == 1 {
            // The answer, and two unsolicited messages before the next message is sent.
            let answers = [message, Message::text("news"), Message::text("more news")];
            return answers.into_iter().all(|answer| socket.write(answer).is_ok()) && socket.flush().is_ok();
        }
        socket.send(message).is_ok()
    });
    let mut plan = plan(address, "x", Stop::Requests(8));
    plan.load = Load::Closed { think: forkful_load::Think::Fixed(Duration::from_millis(300)) };
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.messages.unasked), (8, 8));
}

#[test]
fn what_is_no_socket_is_told_with_its_status() {
    let (address, _) = serve(|mut stream, _| {
        let _asked = stream.read(&mut [0; 1024]);
        let _told = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    });
    let error = run(&plan(address, "x", Stop::Requests(4)), &mut |_| {}, &StopHandle::new()).unwrap_err();
    let LoadError::Unreachable { cause, detail, .. } = error else { panic!("{error}") };
    assert_eq!((cause, detail.as_str()), (ErrorCause::NoWebSocket, "status 404"));
    let mut http = plan(address, "x", Stop::Requests(4));
    http.requests[0].url = Url::parse(&format!("http://{address}/")).unwrap();
    let error = run(&http, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(matches!(error, LoadError::Plan { field: "WebSocket", .. }), "{error}");
}

/// Reads and returns the head of a request.
fn asked(stream: &mut TcpStream) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

fn events_plan(address: SocketAddr, stop: Stop) -> Plan {
    let mut plan = Plan::get(&format!("http://{address}/events")).unwrap();
    plan.http = HttpVersion::EventStream;
    plan.connections = 3;
    plan.timeout = Duration::from_secs(20);
    plan.drain = Duration::ZERO;
    plan.stop = stop;
    plan
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";

#[test]
fn events_are_counted_with_the_time_between_them_and_the_stream_goes_on_after_its_end() {
    let (address, seen) = serve(|mut stream, seen| {
        let question = asked(&mut stream);
        assert!(question.contains("\r\nAccept: text/event-stream\r\n"), "{question}");
        if question.contains("\r\nLast-Event-ID: 5\r\n") {
            seen.messages.fetch_add(1, Ordering::SeqCst);
        }
        let _sent = stream.write_all(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
        for id in 1..=5 {
            thread::sleep(Duration::from_millis(20));
            let event = format!("id: {id}\ndata: {id}\n\n");
            let (one, two) = event.split_at(4);
            // Chunks may be split anywhere.
            let chunks = format!("{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n", one.len(), two.len());
            if stream.write_all(chunks.as_bytes()).is_err() {
                return;
            }
        }
        let _ended = stream.write_all(b"0\r\n\r\n");
    });
    let report = go(&events_plan(address, Stop::Requests(60)));
    assert_eq!((report.counts.completed, report.errors_total()), (60, 0), "{:?}", report.errors);
    // On a busy machine one read may bring two events, but no event arrives early.
    assert!(report.response.value_at_quantile(0.9) >= 10_000_000, "{}", report.response.max());
    let (connections, resumed) = seen.both();
    assert!(connections >= 12 && resumed == report.messages.reconnects, "{connections} {resumed}");
    assert_eq!(report.messages.reconnects, report.connections.opened - 3);
    assert!(report.messages.first_event.unwrap().len() >= 12);
}

#[test]
fn what_is_no_event_stream_is_told() {
    for (head, expected) in [
        ("HTTP/1.1 503 Busy\r\n\r\n", "status 503"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", "the content type is `text/html`"),
        ("nonsense\r\n\r\n", "invalid HTTP version; it begins with \"nonsense\\r\\n\\r\\n\""),
    ] {
        let (address, _) = serve(move |mut stream, _| {
            asked(&mut stream);
            let _told = stream.write_all(head.as_bytes());
        });
        let plan = events_plan(address, Stop::Requests(3));
        let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
        let LoadError::Unreachable { detail, .. } = error else { panic!("{error}") };
        assert_eq!(detail, expected);
    }
    let mut plan = events_plan("127.0.0.1:1".parse().unwrap(), Stop::Requests(3));
    plan.load = Load::Open { rate: 5.0, connections_max: 9, arrivals: Arrivals::Even };
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err().to_string();
    assert!(error.contains("when it sends events"), "{error}");
}
