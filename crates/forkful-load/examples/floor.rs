//! The lower bound of a load generator's CPU cost: `floor http://HOST:PORT/PATH CONNECTIONS SECONDS
//! [PAUSE_US]`. One `recv` and one `send` for each request and nothing else: no polling, no clock, no parsing
//! of answers, no latencies. It sleeps until about half of the connections have an answer, so that there are
//! hardly any wake-ups on either side. For benchmarks of generators; prints one line of JSON.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A Node.js process needs about twice this time for 32 answers. A much shorter pause would measure waiting,
/// a much longer one would measure waking the server.
const PAUSE_US: u64 = 300;
const READ_BYTES: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = arguments.first().map_or("http://127.0.0.1:8000/", String::as_str);
    let number = |index: usize, default: u64| {
        arguments.get(index).map_or(Ok(default), |text| text.parse().map_err(io::Error::other))
    };
    let (connections, seconds, pause) = (number(1, 64)?, number(2, 4)?, number(3, PAUSE_US)?);
    let rest =
        url.strip_prefix("http://").ok_or_else(|| io::Error::other(format!("{url}: expected http://")))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.write_all(&request)?;
        streams.push(stream);
    }
    let mut buffer = vec![0; READ_BYTES];
    let started = Instant::now();
    let mut requests = 0u64;
    let half = streams.len().div_ceil(2).max(1);
    while started.elapsed() < Duration::from_secs(seconds) {
        for (index, stream) in streams.iter_mut().enumerate() {
            if index % half == 0 {
                std::thread::sleep(Duration::from_micros(pause));
            }
            // Answers are small enough to arrive in one read. An answer that arrives in pieces is counted
            // more than once, so the figure is then too low, which is acceptable for a lower bound.
            if stream.read(&mut buffer)? == 0 {
                return Err(io::Error::other("the server closed a connection"));
            }
            stream.write_all(&request)?;
            requests += 1;
        }
    }
    println!("{{\"requests\":{requests},\"seconds\":{:.6}}}", started.elapsed().as_secs_f64());
    Ok(())
}
