//! A small HTTP server inside the test: kept connections, a count of its answers, a body for each path.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Minimum delay of `/wait`.
pub(crate) const WAIT: Duration = Duration::from_millis(100);

/// See the module's documentation. Its threads end with their connections and with the test process.
pub(crate) struct Server {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl Server {
    /// Starts a server on a free port. `/` says hello, `/pid` is a text of varying length, `/error` fails
    /// every fifth time with a body of the same length, `/broken` always fails, `/echo` returns method, path
    /// and body, `/wait` says hello after [`WAIT`].
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&answered);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || drop(serve(stream, &count)));
            }
        });
        Self { address, answered }
    }

    /// A URL of this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The number of answered requests.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, answered: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head)? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let header = |wanted: &str| {
            head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_ascii_lowercase())
            })
        };
        let length = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let first = head.lines().next().unwrap_or_default();
        let is_10 = first.ends_with("HTTP/1.0");
        let connection = header("connection").unwrap_or_default();
        let keep = if is_10 { connection.contains("keep-alive") } else { !connection.contains("close") };
        let number = answered.fetch_add(1, Ordering::SeqCst);
        let (status, text) = answer(first, &body, number);
        let connection = if keep { "keep-alive" } else { "close" };
        let answer = format!(
            "HTTP/1.1 {status}\r\nServer: test\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n{text}",
            text.len()
        );
        writer.write_all(answer.as_bytes())?;
        if !keep {
            return Ok(());
        }
    }
}

fn answer(first: &str, body: &[u8], number: u64) -> (&'static str, String) {
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match path.split('?').next().unwrap_or_default() {
        "/pid" => ("200 OK", "x".repeat(1 + (number % 3) as usize)),
        "/error" if number % 5 == 4 => ("500 Internal Server Error", "wrong\n".to_owned()),
        "/broken" => ("500 Internal Server Error", "wrong\n".to_owned()),
        "/wait" => {
            std::thread::sleep(WAIT);
            ("200 OK", "hello\n".to_owned())
        }
        "/echo" => ("200 OK", format!("{method} {path} {}", String::from_utf8_lossy(body))),
        _ => ("200 OK", "hello\n".to_owned()),
    }
}
