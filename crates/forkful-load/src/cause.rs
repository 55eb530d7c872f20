//! Why a request failed: a name, a description and a hint for each cause.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::report::json;

/// Defines each cause with its key and its description in one place.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident, $key:literal, $words:literal;)*) => {
        /// Why a request failed, or why a complete answer was not the expected one.
        ///
        /// Causes are in the order of a request's life: descriptor, address, connection, TLS, sending,
        /// answer, expectation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCause {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCause {
    /// Whether its text says all that the system's error does.
    pub(crate) fn is_one_errno(self) -> bool {
        matches!(
            self,
            Self::TooManyFiles
                | Self::TooManyFilesInSystem
                | Self::AddressNotAvailable
                | Self::ConnectRefused
                | Self::ConnectReset
        )
    }

            /// All causes, in the order of a request's life.
            pub const ALL: [Self; [$($key),*].len()] = [$(Self::$name),*];

            /// A stable key for JSON and CSV, in `snake_case`.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$name => $key,)*
                }
            }

            /// A description of the cause, as a fragment of a sentence.
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

causes! {
    /// `EMFILE`: this process has no free descriptors.
    TooManyFiles, "too_many_files", "too many open files in this process (EMFILE)";
    /// `ENFILE`: the system has no free descriptors.
    TooManyFilesInSystem, "too_many_files_in_system", "too many open files in the system (ENFILE)";
    /// `EADDRNOTAVAIL` on connect: every local port to this address is in use or in `TIME_WAIT`.
    AddressNotAvailable, "address_not_available", "no free local port to this address (EADDRNOTAVAIL)";
    /// `ECONNREFUSED`: no listener, or the unix socket's queue is full.
    ConnectRefused, "connect_refused", "connection refused";
    /// No connection within the timeout.
    ConnectTimeout, "connect_timeout", "no connection within the timeout";
    /// The server reset the connection while it was being established.
    ConnectReset, "connect_reset", "connection reset while connecting";
    /// No route to the host or network.
    Unreachable, "unreachable", "host or network unreachable";
    /// The unix socket does not exist or may not be opened.
    SocketPath, "socket_path", "the unix socket is missing or may not be opened";
    /// Any other error of `connect`; the example names it.
    ConnectOther, "connect_other", "connecting failed";
    /// The server's certificate is not valid for this name, this time or these authorities.
    TlsCertificate, "tls_certificate", "the server's certificate is not valid";
    /// The TLS handshake failed for another reason.
    TlsHandshake, "tls_handshake", "the TLS handshake failed";
    /// The server refused the upgrade to a WebSocket.
    NoWebSocket, "no_websocket", "the server did not accept the WebSocket";
    /// The server answered with something other than an event stream.
    NoEventStream, "no_event_stream", "the server did not answer with an event stream";
    /// The server does not speak HTTP/2: it chose another protocol or sent something else.
    NoHttp2, "no_http2", "the server does not speak HTTP/2";
    /// TLS failed after the handshake.
    TlsBroken, "tls_broken", "TLS failed on an open connection";
    /// Sending failed before an answer arrived.
    SendFailed, "send_failed", "sending the request failed";
    /// The connection was closed before the first byte of an answer.
    ClosedBeforeAnswer, "closed_before_answer", "closed before an answer";
    /// The connection was closed in the middle of an answer.
    ClosedInAnswer, "closed_in_answer", "closed within an answer";
    /// The connection was reset before the first byte of an answer.
    ResetBeforeAnswer, "reset_before_answer", "reset before an answer";
    /// The connection was reset in the middle of an answer.
    ResetInAnswer, "reset_in_answer", "reset within an answer";
    /// No byte of an answer arrived within the timeout.
    TimeoutBeforeAnswer, "timeout_before_answer", "no answer within the timeout";
    /// The answer began, but was not complete within the timeout.
    TimeoutInAnswer, "timeout_in_answer", "answer not complete within the timeout";
    /// The received bytes are not HTTP.
    NotHttp, "not_http", "the answer is not HTTP";
    /// The head of the answer is longer than [`crate::Plan`] allows.
    HeadTooLarge, "head_too_large", "the head of the answer is too large";
    /// Too many interim (1xx) answers.
    TooManyInterim, "too_many_interim", "too many interim (1xx) answers";
    /// `Content-Length` is not a number, is too large, or occurs twice with different values.
    BadLength, "bad_length", "bad Content-Length";
    /// The size line of a chunk is not a hexadecimal number or is too large, or the line end after the chunk
    /// is missing.
    BadChunk, "bad_chunk", "bad chunk";
    /// Bytes arrived although no request was under way.
    UnaskedBytes, "unasked_bytes", "bytes that no request asked for";
    /// HTTP/2: the server reset this stream.
    StreamReset, "stream_reset", "HTTP/2 stream reset by the server";
    /// HTTP/2: the server refused this request (`REFUSED_STREAM`).
    StreamRefused, "stream_refused", "HTTP/2 stream refused by the server";
    /// HTTP/2: the server ended the connection with `GOAWAY`.
    GoAway, "goaway", "HTTP/2 connection ended by the server";
    /// HTTP/2: the server violated the protocol, or does not speak it.
    Http2Protocol, "http2_protocol", "HTTP/2 protocol error";
    /// The server closed the WebSocket before a message had its answer; the example contains the close code.
    SocketClosed, "socket_closed", "WebSocket closed by the server before an answer";
    /// Received data is not a valid WebSocket frame, or too large.
    SocketProtocol, "socket_protocol", "WebSocket protocol error";
    /// A complete answer with an unexpected status.
    UnexpectedStatus, "unexpected_status", "unexpected status";
    /// A complete answer with an unexpected body.
    UnexpectedBody, "unexpected_body", "unexpected body";
}

impl ErrorCause {
    /// What the user can do about it, if anything.
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
            Self::ClosedBeforeAnswer => {
                Some("did the server crash, or does it speak TLS on this port (https)?")
            }
            Self::NotHttp => Some("does the server speak HTTP on this port, or TLS?"),
            Self::NoHttp2 | Self::Http2Protocol => Some("try HTTP/1.1"),
            Self::NoWebSocket => Some("is there a WebSocket server on this path?"),
            Self::NoEventStream => Some("does this path answer with `Content-Type: text/event-stream`?"),
            Self::StreamRefused => Some("ask for fewer streams on a connection"),
            _ => None,
        }
    }

    /// Whether a complete answer arrived that was not the expected one. Such a request counts as completed
    /// *and* as an error.
    pub fn is_judgement(self) -> bool {
        matches!(self, Self::UnexpectedStatus | Self::UnexpectedBody)
    }

    /// Whether the request had no complete answer within the timeout.
    pub fn is_timeout(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::TimeoutBeforeAnswer | Self::TimeoutInAnswer)
    }

    /// Whether no connection could be made.
    pub fn is_connect(self) -> bool {
        self <= Self::NoHttp2
    }

    /// Whether the server ended the connection.
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
    /// Requests that failed for this cause.
    pub count: u64,
    /// The first few, at most [`ErrorExample::PER_CAUSE_MAX`].
    pub examples: Vec<ErrorExample>,
}

/// One occurrence of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchErrorExample"))]
pub struct ErrorExample {
    /// Time since the measurement started.
    #[serde(rename = "at_s", serialize_with = "json::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// What was received: the first bytes, the status, the system error, or the TLS library's reason.
    pub detail: String,
}

impl ErrorExample {
    /// Examples kept for each cause: enough to see whether they are alike.
    pub const PER_CAUSE_MAX: usize = 3;
    /// Bytes of an unreadable answer shown in `detail`.
    pub const BYTES_MAX: usize = 64;
}
