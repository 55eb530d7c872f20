//! Why a request failed: one name for each cause, its words, and what can be done about it.

use std::fmt;
use std::time::Duration;

/// Why a request failed, or why a complete answer was not the wanted one.
///
/// The order is that of a request's life: descriptor, address, connection, TLS, sending, answer, judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCause {
    /// `EMFILE`: this process may not open more descriptors.
    TooManyFiles,
    /// `ENFILE`: the system may not open more descriptors.
    TooManyFilesInSystem,
    /// `EADDRNOTAVAIL` on connect: every local port to this address is in use or in `TIME_WAIT`.
    AddressNotAvailable,
    /// `ECONNREFUSED`: nobody listens there, or the unix socket's queue is full.
    ConnectRefused,
    /// No connection within the timeout.
    ConnectTimeout,
    /// The server reset the connection while it was being made.
    ConnectReset,
    /// No route to the host or network.
    Unreachable,
    /// The unix socket does not exist or may not be opened.
    SocketPath,
    /// Any other error of `connect`; the example names it.
    ConnectOther,
    /// The server's certificate is not valid for this name, this time or these authorities.
    TlsCertificate,
    /// The TLS handshake failed in another way.
    TlsHandshake,
    /// The server speaks no HTTP/2: it chose another protocol, or answered with something else.
    NoHttp2,
    /// TLS failed after the handshake.
    TlsBroken,
    /// Sending failed before the answer.
    SendFailed,
    /// The connection was closed before the first byte of an answer.
    ClosedBeforeAnswer,
    /// The connection was closed within an answer.
    ClosedInAnswer,
    /// The connection was reset before the first byte of an answer.
    ResetBeforeAnswer,
    /// The connection was reset within an answer.
    ResetInAnswer,
    /// Not one byte of an answer within the timeout.
    TimeoutBeforeAnswer,
    /// The answer had begun and was not complete within the timeout.
    TimeoutInAnswer,
    /// What came is not HTTP.
    NotHttp,
    /// The head of the answer is longer than [`crate::Plan`] allows.
    HeadTooLarge,
    /// More interim (1xx) answers than a sane server sends.
    TooManyInterim,
    /// `Content-Length` is no number, too large, or given twice with different values.
    BadLength,
    /// A chunk's size line is no hexadecimal number or too large, or its end is missing.
    BadChunk,
    /// Bytes came that no request had asked for.
    UnaskedBytes,
    /// HTTP/2: the server reset this stream.
    StreamReset,
    /// HTTP/2: the server did not take this request (`REFUSED_STREAM`).
    StreamRefused,
    /// HTTP/2: the server ended the connection with `GOAWAY`.
    GoAway,
    /// HTTP/2: the server broke the protocol, or does not speak it.
    Http2Protocol,
    /// A complete answer with a status that was not expected.
    UnexpectedStatus,
    /// A complete answer with a body that was not expected.
    UnexpectedBody,
}

impl ErrorCause {
    /// All causes, in the order of a request's life.
    pub const ALL: [Self; 32] = [
        Self::TooManyFiles,
        Self::TooManyFilesInSystem,
        Self::AddressNotAvailable,
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::ConnectReset,
        Self::Unreachable,
        Self::SocketPath,
        Self::ConnectOther,
        Self::TlsCertificate,
        Self::TlsHandshake,
        Self::NoHttp2,
        Self::TlsBroken,
        Self::SendFailed,
        Self::ClosedBeforeAnswer,
        Self::ClosedInAnswer,
        Self::ResetBeforeAnswer,
        Self::ResetInAnswer,
        Self::TimeoutBeforeAnswer,
        Self::TimeoutInAnswer,
        Self::NotHttp,
        Self::HeadTooLarge,
        Self::TooManyInterim,
        Self::BadLength,
        Self::BadChunk,
        Self::UnaskedBytes,
        Self::StreamReset,
        Self::StreamRefused,
        Self::GoAway,
        Self::Http2Protocol,
        Self::UnexpectedStatus,
        Self::UnexpectedBody,
    ];

    /// A stable key for JSON and CSV, in `snake_case`.
    pub fn key(self) -> &'static str {
        match self {
            Self::TooManyFiles => "too_many_files",
            Self::TooManyFilesInSystem => "too_many_files_in_system",
            Self::AddressNotAvailable => "address_not_available",
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectReset => "connect_reset",
            Self::Unreachable => "unreachable",
            Self::SocketPath => "socket_path",
            Self::ConnectOther => "connect_other",
            Self::TlsCertificate => "tls_certificate",
            Self::TlsHandshake => "tls_handshake",
            Self::NoHttp2 => "no_http2",
            Self::TlsBroken => "tls_broken",
            Self::SendFailed => "send_failed",
            Self::ClosedBeforeAnswer => "closed_before_answer",
            Self::ClosedInAnswer => "closed_in_answer",
            Self::ResetBeforeAnswer => "reset_before_answer",
            Self::ResetInAnswer => "reset_in_answer",
            Self::TimeoutBeforeAnswer => "timeout_before_answer",
            Self::TimeoutInAnswer => "timeout_in_answer",
            Self::NotHttp => "not_http",
            Self::HeadTooLarge => "head_too_large",
            Self::TooManyInterim => "too_many_interim",
            Self::BadLength => "bad_length",
            Self::BadChunk => "bad_chunk",
            Self::UnaskedBytes => "unasked_bytes",
            Self::StreamReset => "stream_reset",
            Self::StreamRefused => "stream_refused",
            Self::GoAway => "goaway",
            Self::Http2Protocol => "http2_protocol",
            Self::UnexpectedStatus => "unexpected_status",
            Self::UnexpectedBody => "unexpected_body",
        }
    }

    /// The cause in words, as a fragment of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::TooManyFiles => "too many open files in this process (EMFILE)",
            Self::TooManyFilesInSystem => "too many open files in the system (ENFILE)",
            Self::AddressNotAvailable => "no free local port to this address (EADDRNOTAVAIL)",
            Self::ConnectRefused => "connection refused",
            Self::ConnectTimeout => "no connection within the timeout",
            Self::ConnectReset => "connection reset while connecting",
            Self::Unreachable => "host or network unreachable",
            Self::SocketPath => "the unix socket is missing or may not be opened",
            Self::ConnectOther => "connecting failed",
            Self::TlsCertificate => "the server's certificate is not valid",
            Self::TlsHandshake => "the TLS handshake failed",
            Self::NoHttp2 => "the server does not speak HTTP/2",
            Self::TlsBroken => "TLS failed on an open connection",
            Self::SendFailed => "sending the request failed",
            Self::ClosedBeforeAnswer => "closed before an answer",
            Self::ClosedInAnswer => "closed within an answer",
            Self::ResetBeforeAnswer => "reset before an answer",
            Self::ResetInAnswer => "reset within an answer",
            Self::TimeoutBeforeAnswer => "no answer within the timeout",
            Self::TimeoutInAnswer => "answer not complete within the timeout",
            Self::NotHttp => "the answer is not HTTP",
            Self::HeadTooLarge => "the head of the answer is too large",
            Self::TooManyInterim => "too many interim (1xx) answers",
            Self::BadLength => "bad Content-Length",
            Self::BadChunk => "bad chunk",
            Self::UnaskedBytes => "bytes that no request asked for",
            Self::StreamReset => "HTTP/2 stream reset by the server",
            Self::StreamRefused => "HTTP/2 stream refused by the server",
            Self::GoAway => "HTTP/2 connection ended by the server",
            Self::Http2Protocol => "HTTP/2 protocol error",
            Self::UnexpectedStatus => "unexpected status",
            Self::UnexpectedBody => "unexpected body",
        }
    }

    /// What the user can do about it, where there is something.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            Self::TooManyFiles => Some("raise the limit with `ulimit -n`, or ask for fewer connections"),
            Self::TooManyFilesInSystem => Some("raise fs.file-max, or ask for fewer connections"),
            Self::AddressNotAvailable => Some(
                "keep connections alive, wait a minute for TIME_WAIT to end, or set net.ipv4.tcp_tw_reuse=1",
            ),
            Self::ConnectRefused => Some("is the server running, and on this port?"),
            Self::TlsCertificate => Some("trust its authority, or skip the check for a server of your own"),
            Self::TlsHandshake => Some("does the server speak TLS on this port?"),
            Self::NotHttp => Some("does the server speak HTTP on this port, or TLS?"),
            Self::NoHttp2 | Self::Http2Protocol => Some("try HTTP/1.1"),
            Self::StreamRefused => Some("ask for fewer streams on a connection"),
            _ => None,
        }
    }

    /// Whether a complete answer came, but not the wanted one. Such a request is completed *and* an error.
    pub fn is_judgement(self) -> bool {
        matches!(self, Self::UnexpectedStatus | Self::UnexpectedBody)
    }

    /// Whether the request got no answer in time.
    pub fn is_timeout(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::TimeoutBeforeAnswer | Self::TimeoutInAnswer)
    }

    /// Whether no connection could be made.
    pub fn is_connect(self) -> bool {
        self <= Self::NoHttp2
    }

    /// Whether the connection was ended by the other side.
    pub fn is_closed_or_reset(self) -> bool {
        matches!(
            self,
            Self::ClosedBeforeAnswer | Self::ClosedInAnswer | Self::ResetBeforeAnswer | Self::ResetInAnswer
        )
    }
}

impl fmt::Display for ErrorCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.words())
    }
}

/// How often a cause occurred, with its first examples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    pub cause: ErrorCause,
    /// Requests that it ended.
    pub count: u64,
    /// The first few, at most [`ErrorExample::PER_CAUSE_MAX`].
    pub examples: Vec<ErrorExample>,
}

/// One occurrence of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorExample {
    /// Since the clock of the measurement started.
    pub at: Duration,
    /// What was seen: the first bytes, the status, the error of the system, the reason of the TLS library.
    pub detail: String,
}

impl ErrorExample {
    /// So many examples of one cause are kept: enough to see whether they are alike.
    pub const PER_CAUSE_MAX: usize = 3;
    /// So many bytes of an unreadable answer are shown in `detail`.
    pub const BYTES_MAX: usize = 64;
}
