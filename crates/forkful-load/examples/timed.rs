//! A server whose service times are known, and that keeps its own time of every request: what latencies of a
//! generator are held against. `timed constant|bimodal|stall [PORT]`; prints its address; when its standard input
//! ends it prints `{"arrived_us":[…],"service_us":[…]}`, in order of arrival, and ends.
//!
//! `constant` answers after 50 ms; `bimodal` after 1 ms, and every tenth request after 100 ms; `stall` at once, but
//! not in the first second of every ten, at whose end all that came meanwhile is answered. A thread for each
//! connection, and one that answers at the end of a stall: hundreds of threads that wait for the same moment would keep
//! each other from it for milliseconds. Requests have no bodies.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
const PERIOD: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(1);
/// The last part of a pause is spun away: a sleep ends late. Long enough that cores stay awake: waking a virtual one takes
/// 50 µs, which would be in the latencies.
const SPIN: Duration = Duration::from_micros(300);

/// What all threads share.
struct Server {
    kind: String,
    begun: Instant,
    requests: AtomicU64,
    /// When requests came and when their answers left, microseconds since the start.
    times: Mutex<Vec<(u64, u64)>>,
    /// Requests that came in a stall, in order of arrival.
    stalled: Sender<Request>,
}

/// A request that waits for its answer.
struct Request {
    stream: Arc<TcpStream>,
    arrived: Duration,
    due: Duration,
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
    let (stalled, waiting) = channel();
    let server = Arc::new(Server {
        kind,
        begun: Instant::now(),
        requests: AtomicU64::new(0),
        times: Mutex::default(),
        stalled,
    });
    let (accepting, answering) = (Arc::clone(&server), Arc::clone(&server));
    std::thread::spawn(move || waiting.iter().for_each(|request| answering.answer(&request)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&accepting);
            // A connection that breaks has nothing to tell.
            std::thread::spawn(move || drop(server.serve(stream)));
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    server.print()
}

impl Server {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stream = Arc::new(stream);
        let (mut buffer, mut filled) = ([0; 4096], 0);
        loop {
            let read = (&*stream).read(&mut buffer[filled..])?;
            if read == 0 {
                return Ok(());
            }
            let arrived = self.begun.elapsed();
            filled += read;
            if !buffer[..filled].ends_with(b"\r\n\r\n") {
                continue;
            }
            filled = 0;
            let due = due(&self.kind, arrived, self.requests.fetch_add(1, Ordering::Relaxed));
            let request = Request { stream: Arc::clone(&stream), arrived, due };
            if self.kind == "stall" && due > arrived {
                self.stalled.send(request).expect("its receiver outlives the server");
            } else {
                self.answer(&request);
            }
        }
    }

    /// Waits until it is due.
    fn answer(&self, request: &Request) {
        let left = request.due.saturating_sub(self.begun.elapsed());
        if left > SPIN {
            std::thread::sleep(left.saturating_sub(SPIN));
        }
        while self.begun.elapsed() < request.due {
            std::hint::spin_loop();
        }
        let left = self.begun.elapsed();
        // Who has gone gets no answer, and its thread sees it.
        let _ = (&*request.stream).write_all(ANSWER);
        let times = (request.arrived.as_micros() as u64, left.as_micros() as u64);
        self.times.lock().expect("no thread panics").push(times);
    }

    fn print(&self) -> io::Result<()> {
        let mut times = self.times.lock().expect("no thread panics").clone();
        times.sort_unstable();
        let list = |of: fn(&(u64, u64)) -> u64| {
            times.iter().map(|time| of(time).to_string()).collect::<Vec<_>>().join(",")
        };
        let (arrived, service) = (list(|time| time.0), list(|time| time.1 - time.0));
        writeln!(io::stdout(), "{{\"arrived_us\":[{arrived}],\"service_us\":[{service}]}}")
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
