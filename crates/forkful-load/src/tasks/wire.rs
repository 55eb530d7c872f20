//! The transport of a connection: TCP, TLS or a unix socket; how it is opened, and its byte counts.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::context::Context;
use super::fault::Fault;
use crate::cause::ErrorCause;
use crate::clock::Nanos;
use crate::network::{Dial, connect_cause, words};
use crate::plan::HttpVersion;

/// First bytes of the answer that are kept, to detect a server that does not speak HTTP/2.
const FIRST_BYTES: usize = 8;

/// A new connection without any traffic.
pub(super) struct Fresh {
    pub(super) io: Counted,
    /// When bytes last arrived.
    pub(super) read_at: Rc<Cell<Nanos>>,
    /// The first bytes received.
    pub(super) first: Rc<Cell<[u8; FIRST_BYTES]>>,
    /// Version and cipher suite.
    pub(super) tls: Option<String>,
}

/// Opens a connection: address and TLS.
pub(super) async fn connect(context: &Rc<Context>) -> Result<Fresh, Fault> {
    let raw = dial(context).await?;
    if context.plan().reuse.is_one_each() {
        // Each request under way has a connection, or one that is being opened.
        let in_use = context.under_way.get().min(context.places_max as u64);
        context.meter.borrow_mut().opened(in_use);
    }
    let to_connect = raw.tcp().map_or(0, retransmits);
    context.recorder.borrow_mut().report.connections.syn_retransmits += to_connect;
    let (io, tls) = match &context.shared.compiled.tls {
        None => (raw, None),
        Some((config, name)) => {
            let connector = TlsConnector::from(config.clone());
            let stream = connector.connect(name.clone(), raw).await;
            let stream = stream.map_err(|error| Fault::in_handshake(&error))?;
            let session = stream.get_ref().1;
            if context.plan().http == HttpVersion::Http2 && session.alpn_protocol() != Some(b"h2") {
                let detail = "it did not choose `h2` in the TLS handshake (ALPN)";
                return Err(Fault::new(ErrorCause::NoHttp2, detail));
            }
            let told = crate::tls::describe(session);
            (Box::new(stream) as Box<dyn Wire>, Some(told))
        }
    };
    let (read_at, first) = (Rc::new(Cell::new(0)), Rc::new(Cell::new([0; FIRST_BYTES])));
    let io = Counted {
        io,
        context: Rc::clone(context),
        read_at: Rc::clone(&read_at),
        first: Rc::clone(&first),
        to_connect,
    };
    Ok(Fresh { io, read_at, first, tls })
}

async fn dial(context: &Context) -> Result<Box<dyn Wire>, Fault> {
    let unix = context.shared.compiled.is_unix();
    let failed = |error| Fault::new(connect_cause(error, unix), words(error));
    let (fd, pending) = match context.shared.compiled.address.dial().map_err(failed)? {
        Dial::Open(fd) => (fd, false),
        Dial::Pending(fd) => (fd, true),
    };
    let other = |error: io::Error| match rustix::io::Errno::from_io_error(&error) {
        Some(error) => failed(error),
        None => Fault::new(ErrorCause::ConnectOther, error.to_string()),
    };
    if unix {
        let stream = UnixStream::from_std(StdUnixStream::from(fd)).map_err(other)?;
        return Ok(Box::new(stream));
    }
    let stream = TcpStream::from_std(fd.into()).map_err(other)?;
    if pending {
        stream.writable().await.map_err(other)?;
        if let Some(error) = stream.take_error().map_err(other)? {
            return Err(other(error));
        }
    }
    Ok(Box::new(stream))
}

/// A transport of a connection.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin {
    /// Its TCP socket, if any.
    fn tcp(&self) -> Option<BorrowedFd<'_>>;
}

impl Wire for TcpStream {
    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Wire for UnixStream {
    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Wire for TlsStream<Box<dyn Wire>> {
    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        self.get_ref().0.tcp()
    }
}

/// Counts the bytes and records when the last ones arrived.
pub(super) struct Counted {
    io: Box<dyn Wire>,
    context: Rc<Context>,
    read_at: Rc<Cell<Nanos>>,
    first: Rc<Cell<[u8; FIRST_BYTES]>>,
    /// Segments retransmitted while connecting.
    to_connect: u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.context.is_measured(self.context.now()) {
            let again = self.io.tcp().map_or(0, retransmits).saturating_sub(self.to_connect);
            self.context.recorder.borrow_mut().report.connections.retransmits += again;
        }
    }
}

fn retransmits(fd: BorrowedFd<'_>) -> u64 {
    forkful_os::connection::retransmits(fd).map_or(0, u64::from)
}

impl Counted {
    fn wrote(&self, bytes: usize) {
        let measured = self.context.is_measured(self.context.now());
        self.context.recorder.borrow_mut().sent(measured, bytes, 0);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        let (now, came) = (self.context.now(), &buffer.filled()[before..]);
        if self.read_at.get() == 0 {
            let mut first = [0; FIRST_BYTES];
            first.iter_mut().zip(came).for_each(|(kept, byte)| *kept = *byte);
            self.first.set(first);
        }
        self.read_at.set(now);
        let measured = self.context.is_measured(now);
        self.context.recorder.borrow_mut().received(measured, came.len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, parts))?;
        self.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
