//! A server whose service times are known, and that keeps its own time of every request: what latencies of a
//! generator are held against. `timed constant|bimodal|stall [PORT]`; prints its address; when its standard input
//! ends it prints `{"arrived_us":[…],"service_us":[…]}`, in order of arrival, and ends.
//!
//! `constant` answers after 50 ms; `bimodal` after 1 ms, and every tenth request after 100 ms; `stall` at once, but
//! not in the first 200 ms of every two seconds, at whose end all that came meanwhile is answered. A thread for each
//! connection; requests have no bodies.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
const PERIOD: Duration = Duration::from_secs(2);
const STALL: Duration = Duration::from_millis(200);
/// The last part of a pause is spun away: a sleep ends up to a millisecond late. Not at the end of a stall: hundreds of
/// threads that spin there keep each other from answering for milliseconds.
const SPIN: Duration = Duration::from_micros(300);

/// When requests came and when their answers left, microseconds since the start.
#[derive(Default)]
struct Record {
    times: Mutex<Vec<(u64, u64)>>,
    requests: AtomicU64,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "constant".to_owned());
    if !["constant", "bimodal", "stall"].contains(&kind.as_str()) {
        return Err(io::Error::other(format!("`{kind}` is none of constant, bimodal, stall")));
    }
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("http://{}/", listener.local_addr()?);
    let (record, begun) = (Arc::new(Record::default()), Instant::now());
    let shared = Arc::clone(&record);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (kind, record) = (kind.clone(), Arc::clone(&shared));
            // A connection that breaks has nothing to tell.
            std::thread::spawn(move || drop(serve(stream, &kind, begun, &record)));
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    print(&record)
}

fn serve(mut stream: TcpStream, kind: &str, begun: Instant, record: &Record) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut filled) = ([0; 4096], 0);
    loop {
        let read = stream.read(&mut buffer[filled..])?;
        if read == 0 {
            return Ok(());
        }
        let arrived = begun.elapsed();
        filled += read;
        if !buffer[..filled].ends_with(b"\r\n\r\n") {
            continue;
        }
        filled = 0;
        let number = record.requests.fetch_add(1, Ordering::Relaxed);
        wait_until(begun, due(kind, arrived, number), if kind == "stall" { Duration::ZERO } else { SPIN });
        let left = begun.elapsed();
        stream.write_all(ANSWER)?;
        let times = (arrived.as_micros() as u64, left.as_micros() as u64);
        record.times.lock().expect("no thread panics").push(times);
    }
}

/// When request `number`, which came at `arrived`, is to be answered.
fn due(kind: &str, arrived: Duration, number: u64) -> Duration {
    match kind {
        "constant" => arrived + Duration::from_millis(50),
        "bimodal" => arrived + Duration::from_millis(if number % 10 == 9 { 100 } else { 1 }),
        _ => {
            let into = Duration::from_nanos((arrived.as_nanos() % PERIOD.as_nanos()) as u64);
            arrived + STALL.saturating_sub(into)
        }
    }
}

fn wait_until(begun: Instant, due: Duration, spin: Duration) {
    let left = due.saturating_sub(begun.elapsed());
    if left > spin {
        std::thread::sleep(left.saturating_sub(spin));
    }
    while begun.elapsed() < due {
        std::hint::spin_loop();
    }
}

fn print(record: &Record) -> io::Result<()> {
    let mut times = record.times.lock().expect("no thread panics").clone();
    times.sort_unstable();
    let list = |of: fn(&(u64, u64)) -> u64| {
        times.iter().map(|time| of(time).to_string()).collect::<Vec<_>>().join(",")
    };
    let (arrived, service) = (list(|time| time.0), list(|time| time.1 - time.0));
    writeln!(io::stdout(), "{{\"arrived_us\":[{arrived}],\"service_us\":[{service}]}}")
}
