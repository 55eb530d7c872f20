//! Posts JSON to a URL: alerts over https, or over http to this machine, metrics over both. Bounded in time and in tries. The answer's
//! body is read where it says something: a receiver of metrics may have taken a part of them.

use std::sync::Arc;
use std::time::Duration;

use forkful_core::alerts::AlertPolicy;
use forkful_core::otlp::{Fault, OtlpPolicy, rejected, retry_after};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Pauses before the further tries.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Bytes that are read of the answer of a receiver of metrics.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why a try has failed, and whether another one may succeed.
struct Failed {
    why: String,
    is_final: bool,
}

fn again(why: impl ToString) -> Failed {
    Failed { why: why.to_string(), is_final: false }
}

fn in_the_end(why: impl ToString) -> Failed {
    Failed { why: why.to_string(), is_final: true }
}

/// Posts a body; each try takes at most `timeout`.
pub(crate) async fn post(url: &str, body: Bytes, timeout: Duration) -> Result<(), String> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let tried = tokio::time::timeout(timeout, post_once(url, body.clone())).await;
        let failed = match tried {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failed)) => failed,
            // It may have been taken: a second one would be one too many.
            Err(_) => in_the_end(format_args!("no answer within {} ms", timeout.as_millis())),
        };
        let Some(pause) = pauses.next().filter(|_| !failed.is_final) else { return Err(failed.why) };
        tokio::time::sleep(pause).await;
    }
}

/// Posts metrics, in one try: what is newer comes soon. Headers are sent over https and to this machine alone.
pub(crate) async fn post_metrics(
    otlp: &OtlpPolicy,
    headers: &[(String, String)],
    body: Bytes,
    timeout: Duration,
) -> Result<(), Fault> {
    if !headers.is_empty() && !otlp.may_carry_headers() {
        return Err("headers are sent over https alone, or over http to this machine".to_owned().into());
    }
    let uri = otlp.url().parse::<Uri>().map_err(|error| error.to_string())?;
    let reach = if headers.is_empty() { Reach::Anywhere } else { Reach::HereIfPlain };
    let late = |_| Fault::from(format!("no answer within {} ms", timeout.as_millis()));
    let answer = tokio::time::timeout(timeout, post_to(uri, reach, headers, body, ANSWER_BYTES_MAX));
    let answer = answer.await.map_err(late)?.map_err(|failed| failed.why)?;
    match rejected(&answer.body).filter(|_| answer.status.is_success()) {
        Some(why) => Err(why.into()),
        None if answer.status.is_success() => Ok(()),
        None => Err(Fault { why: answer.status.to_string(), retry_after: answer.retry_after }),
    }
}

async fn post_once(url: &str, body: Bytes) -> Result<(), Failed> {
    // Checked when it was defined; once more, since it is about to be used.
    let uri = url.parse::<Uri>().ok().filter(|_| AlertPolicy::is_webhook(url));
    let uri = uri.ok_or_else(|| in_the_end("the URL may not be posted to"))?;
    match post_to(uri, Reach::HereIfPlain, &[], body, 0).await?.status {
        status if status.is_success() => Ok(()),
        StatusCode::TOO_MANY_REQUESTS => Err(again(StatusCode::TOO_MANY_REQUESTS)),
        status if status.is_server_error() => Err(again(status)),
        status => Err(in_the_end(status)),
    }
}

/// Where plain http may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Anywhere,
    /// To this machine alone.
    HereIfPlain,
}

/// What a server has answered.
struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    /// Empty if it was not asked for, is too long or did not arrive whole.
    body: Bytes,
}

async fn post_to(
    uri: Uri,
    reach: Reach,
    headers: &[(String, String)],
    body: Bytes,
    answer_bytes_max: usize,
) -> Result<Answer, Failed> {
    let is_tls = uri.scheme_str() == Some("https");
    let authority = uri.authority().ok_or_else(|| in_the_end("the URL names no host"))?;
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let found = tokio::net::lookup_host((host.as_str(), port)).await.map_err(again)?;
    let addresses: Vec<_> =
        found.filter(|address| is_tls || reach == Reach::Anywhere || address.ip().is_loopback()).collect();
    if addresses.is_empty() {
        return Err(again(format_args!("{host} has no address that may be posted to")));
    }
    let request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let request = request
        .header(HOST, authority.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("forkful/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Full::new(body))
        .map_err(in_the_end)?;
    let stream = TcpStream::connect(addresses.as_slice()).await.map_err(again)?;
    if is_tls {
        let name = ServerName::try_from(host).map_err(in_the_end)?;
        let stream = tls().await?.connect(name, stream).await.map_err(again)?;
        send(stream, request, answer_bytes_max).await
    } else {
        send(stream, request, answer_bytes_max).await
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
    answer_bytes_max: usize,
) -> Result<Answer, Failed> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(again)?;
    let mut connection = std::pin::pin!(connection);
    let exchange = async {
        let (head, body) = sender.send_request(request).await.map_err(again)?.into_parts();
        let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let body = match answer_bytes_max {
            0 => Bytes::new(),
            most => Limited::new(body, most).collect().await.map(Collected::to_bytes).unwrap_or_default(),
        };
        Ok(Answer { status: head.status, retry_after: seconds.and_then(retry_after), body })
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // With it, what was sent has its answer or an error.
        _ended = &mut connection => exchange.await,
    }
}

/// With the system's certificates, which are read from a disk.
async fn tls() -> Result<TlsConnector, Failed> {
    let config = tokio::task::spawn_blocking(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok::<_, rustls::Error>(builder.with_root_certificates(roots).with_no_client_auth())
    });
    let config = config.await.map_err(again)?.map_err(in_the_end)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one connection after the other; gives what was posted.
    async fn serve(listener: TcpListener, answers: &[&str]) -> Vec<String> {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"{}") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            requests.push(String::from_utf8(request).unwrap());
        }
        requests
    }

    async fn posted(answers: &[&str]) -> (Result<(), String>, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?a=b", listener.local_addr().unwrap());
        let post = post(&url, Bytes::from_static(b"{}"), Duration::from_secs(60));
        tokio::join!(post, serve(listener, answers))
    }

    const FINE: &str = "HTTP/1.1 204 No Content\r\n\r\n";
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    const GONE: &str = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";

    #[tokio::test]
    async fn a_body_is_posted_once() {
        let (outcome, requests) = posted(&[FINE]).await;
        assert_eq!(outcome, Ok(()));
        assert!(requests[0].starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(requests[0].to_lowercase().contains("content-type: application/json\r\n"));
    }

    #[tokio::test]
    async fn a_busy_server_is_tried_again_and_one_that_refuses_is_not() {
        assert_eq!(posted(&[BUSY, FINE]).await.0, Ok(()));
        assert_eq!(posted(&[GONE]).await.0, Err("410 Gone".to_owned()));
    }

    #[tokio::test]
    async fn metrics_are_posted_with_their_headers_in_one_try() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/otlp", listener.local_addr().unwrap());
        let otlp = OtlpPolicy { endpoint, interval: OtlpPolicy::INTERVAL_DEFAULT };
        let headers = [("api-key".to_owned(), "a b".to_owned())];
        let post = post_metrics(&otlp, &headers, Bytes::from_static(b"{}"), Duration::from_secs(60));
        let (outcome, requests) = tokio::join!(post, serve(listener, &[BUSY]));
        assert_eq!(outcome, Err("503 Service Unavailable".to_owned().into()));
        assert!(requests[0].starts_with("POST /otlp/v1/metrics HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(requests[0].to_lowercase().contains("api-key: a b\r\n"));
        let endpoint = "http://192.0.2.1".to_owned();
        let far = OtlpPolicy { endpoint, interval: OtlpPolicy::INTERVAL_DEFAULT };
        let refused = post_metrics(&far, &headers, Bytes::new(), Duration::from_secs(60)).await;
        assert!(refused.unwrap_err().why.starts_with("headers are sent over https"));
    }

    #[tokio::test]
    async fn a_receiver_of_metrics_is_listened_to() {
        let ask = |answer: &'static str| async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let endpoint = format!("http://{}", listener.local_addr().unwrap());
            let otlp = OtlpPolicy { endpoint, interval: OtlpPolicy::INTERVAL_DEFAULT };
            let post = post_metrics(&otlp, &[], Bytes::from_static(b"{}"), Duration::from_secs(60));
            let answers = [answer];
            tokio::join!(post, serve(listener, &answers)).0
        };
        let part = "HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\n{\"partialSuccess\":{\"rejectedDataPoints\":\"3\"}}";
        assert_eq!(ask(part).await, Err("3 data points rejected".to_owned().into()));
        let busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 90\r\nContent-Length: 0\r\n\r\n";
        let pause = Some(Duration::from_secs(90));
        assert_eq!(
            ask(busy).await,
            Err(Fault { why: "429 Too Many Requests".to_owned(), retry_after: pause })
        );
        assert_eq!(ask("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").await, Ok(()));
    }

    #[tokio::test]
    async fn plain_http_does_not_leave_the_machine() {
        let refused = post("http://192.0.2.1/", Bytes::new(), Duration::from_secs(1)).await;
        assert_eq!(refused, Err("the URL may not be posted to".to_owned()));
    }
}
