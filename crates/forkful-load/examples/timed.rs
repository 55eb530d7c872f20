//! A server with known service times that records the timing of every request. It is the reference for
//! checking a generator's latencies. `timed constant|bimodal|stall [PORT]` prints its address. When its
//! standard input closes, it prints `{"arrived_us":[…],"service_us":[…]}` in order of arrival and exits.
//!
//! `constant` answers after 50 ms. `bimodal` answers after 1 ms, and every tenth request after 100 ms.
//! `stall` answers at once, except in the first second of every ten: requests that arrive in that second are
//! answered at its end. Each connection has a thread, and one more thread answers at the end of a stall,
//! because hundreds of threads waking at the same moment would delay each other by milliseconds. Requests
//! have no bodies.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
const PERIOD: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(1);
/// The last part of a pause is spent spinning, because sleeps end late. It is long enough to keep the cores
/// awake: waking a virtual core takes 50 µs, which would be part of the latencies.
const SPIN: Duration = Duration::from_micros(300);

/// Shared by all threads.
struct Server {
    kind: String,
    begun: Instant,
    requests: AtomicU64,
    /// Arrival and answer time of each request, in microseconds since the start.
    times: Mutex<Vec<(u64, u64)>>,
    /// Requests that arrived during a stall, in order of arrival.
    stalled: Sender<Request>,
}

/// A request without an answer so far.
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
            // A broken connection needs no report.
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

    /// Waits until the answer is due, and sends it.
    fn answer(&self, request: &Request) {
        let left = request.due.saturating_sub(self.begun.elapsed());
        if left > SPIN {
            std::thread::sleep(left.saturating_sub(SPIN));
        }
        while self.begun.elapsed() < request.due {
            std::hint::spin_loop();
        }
        let left = self.begun.elapsed();
        // If the client is gone, the thread that reads from it notices.
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

/// When to answer request `number`, which arrived at `arrived`.
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
