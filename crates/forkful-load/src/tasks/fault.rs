//! The meaning of the library's errors.

use std::io;

use h2::Reason;

use crate::cause::ErrorCause;
use crate::tls;

/// Why a request or a connection attempt failed.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) cause: ErrorCause,
    pub(super) detail: String,
    /// The connection is lost too, not only the request.
    pub(super) connection: bool,
    /// The server says that it did not process the request.
    pub(super) untouched: bool,
}

impl Fault {
    pub(super) fn new(cause: ErrorCause, detail: impl Into<String>) -> Self {
        Self { cause, detail: detail.into(), connection: false, untouched: false }
    }

    /// The meaning of an error for a request; `in_answer`: a part of the answer had arrived.
    pub(super) fn of(error: &h2::Error, in_answer: bool) -> Self {
        let detail = || error.to_string();
        let reason = error.reason();
        if error.is_reset() {
            return match (error.is_remote(), reason) {
                (true, Some(Reason::REFUSED_STREAM)) => Self::new(ErrorCause::StreamRefused, detail()),
                (true, _) => Self::new(ErrorCause::StreamReset, detail()),
                // The library reports a head above the limit in this way.
                (false, Some(Reason::REFUSED_STREAM)) => Self::new(ErrorCause::HeadTooLarge, detail()),
                (false, _) => Self::new(ErrorCause::Http2Protocol, detail()),
            };
        }
        let mut fault = if error.is_go_away() && error.is_remote() {
            Self::new(ErrorCause::GoAway, detail())
        } else if let Some(error) = error.get_io() {
            Self::new(io_cause(error, in_answer), error.to_string())
        } else {
            Self::new(ErrorCause::Http2Protocol, detail())
        };
        fault.connection = true;
        fault.untouched = fault.cause == ErrorCause::GoAway && reason == Some(Reason::NO_ERROR);
        fault
    }

    /// The meaning of an error before the server's settings arrived.
    pub(super) fn before_settings(error: &h2::Error, answered: &str) -> Self {
        let cause = match error.get_io() {
            Some(error) if is_reset(error) => ErrorCause::ConnectReset,
            Some(error) if tls_error(error).is_some() => io_cause(error, false),
            _ => ErrorCause::NoHttp2,
        };
        let detail = if answered.is_empty() { error.to_string() } else { answered.to_owned() };
        Self::new(cause, detail)
    }

    /// The meaning of an error in a TLS handshake.
    pub(super) fn in_handshake(error: &io::Error) -> Self {
        match tls_error(error) {
            Some(error) => Self::new(tls::cause(error, true), error.to_string()),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::new(ErrorCause::TlsHandshake, "closed by the server")
            }
            None => Self::new(ErrorCause::TlsHandshake, error.to_string()),
        }
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted)
}

fn io_cause(error: &io::Error, in_answer: bool) -> ErrorCause {
    if let Some(error) = tls_error(error) {
        return tls::cause(error, false);
    }
    match (is_reset(error), in_answer) {
        (true, false) => ErrorCause::ResetBeforeAnswer,
        (true, true) => ErrorCause::ResetInAnswer,
        (false, false) => ErrorCause::ClosedBeforeAnswer,
        (false, true) => ErrorCause::ClosedInAnswer,
    }
}
