//! Requests to a worker without traffic: with a connection that is handed only to it, or at its own port.

use std::io;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::supervisor::Warmed;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::super::Back;
use super::super::app::{App, ProcessKey};
use super::health::{Way, connect};

/// The beginning of each answer.
const BEGINNING: &[u8] = b"HTTP/1.";

impl App {
    /// Sends a request to a worker. An immediate result is returned; a later one goes `back`.
    pub(in crate::engine) fn warm_up(
        &mut self,
        key: ProcessKey,
        path: &str,
        back: &mpsc::UnboundedSender<Back>,
        now: Time,
    ) -> Option<Warmed> {
        let (_, slot, generation) = key;
        let timeout = self.spec().warmup.as_ref().map_or(Duration::ZERO, |warmup| warmup.timeout);
        let asker = Asker { key, path: path.to_owned(), timeout, back: back.clone() };
        match self.way_to(slot, generation, None, now) {
            Way::Busy => return Some(Warmed::Busy),
            Way::None(why) => return Some(Warmed::Failed(why)),
            Way::Connection(stream) => asker.ask(async move {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)
            }),
            Way::Addresses(addresses) => asker.ask(async move { connect(&addresses).await }),
        }
        None
    }
}

/// One request.
struct Asker {
    key: ProcessKey,
    path: String,
    timeout: Duration,
    back: mpsc::UnboundedSender<Back>,
}

impl Asker {
    fn ask(self, connected: impl Future<Output = io::Result<TcpStream>> + 'static) {
        let Self { key: (app, slot, generation), path, timeout, back } = self;
        tokio::task::spawn_local(async move {
            let asked = async { request(connected.await?, &path).await };
            let outcome = match tokio::time::timeout(timeout, asked).await {
                Ok(Ok(())) => Warmed::Answered,
                Ok(Err(error)) => Warmed::Failed(format!("{path}: {error}")),
                Err(_) => Warmed::Failed(format!("{path}: no answer within {} ms", timeout.as_millis())),
            };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Warmed { app, slot, generation, outcome });
        });
    }
}

/// Sends a request and reads the complete answer.
async fn request(mut stream: TcpStream, path: &str) -> io::Result<()> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: forkful-warmup\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut beginning = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            break;
        }
        let missing = BEGINNING.len() - beginning.len();
        beginning.extend_from_slice(&chunk[..read.min(missing)]);
    }
    match beginning.as_slice() {
        BEGINNING => Ok(()),
        [] => Err(io::Error::other("the connection was closed without an answer")),
        _ => Err(io::Error::other("the answer is not HTTP")),
    }
}
