//! TLS and unix sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forkful_load::report::{Level, Trust};
use forkful_load::{
    Arrivals, ErrorCause, HttpVersion, Load, LoadError, Plan, Reuse, Stop, StopHandle, Threads, run,
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::node_server::NodeServer;
use crate::support::{Peer, Server, ok};

/// TLS configuration of a server for `localhost`, and its self-signed certificate.
pub(crate) fn tls_server() -> (Arc<ServerConfig>, String) {
    tls_server_of(rcgen::IsCa::NoCa)
}

/// The same, where the certificate says whether it is an authority.
fn tls_server_of(is_authority: rcgen::IsCa) -> (Arc<ServerConfig>, String) {
    let signing_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = is_authority;
    let cert = params.self_signed(&signing_key).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (Arc::new(config), cert.pem())
}

/// The server's end of a TLS connection.
pub(crate) fn accept(
    config: &Arc<ServerConfig>,
    peer: &Peer,
) -> StreamOwned<ServerConnection, std::net::TcpStream> {
    let session = ServerConnection::new(Arc::clone(config)).unwrap();
    StreamOwned::new(session, peer.stream.try_clone().unwrap())
}

/// An HTTPS server with a certificate for `localhost`, and the file of its authority.
pub(crate) fn https(folder: &tempfile::TempDir) -> (Server, PathBuf) {
    https_of(folder, tls_server())
}

fn https_of(
    folder: &tempfile::TempDir,
    (config, certificate): (Arc<ServerConfig>, String),
) -> (Server, PathBuf) {
    let authority = folder.path().join("authority.pem");
    fs_err::write(&authority, certificate).unwrap();
    let server = Server::new(move |peer| {
        let mut stream = accept(&config, peer);
        let (mut buffer, mut rest) = ([0; 4096], Vec::new());
        while let Ok(length) = stream.read(&mut buffer) {
            if length == 0 {
                return;
            }
            rest.extend_from_slice(&buffer[..length]);
            while let Some(end) = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                rest.drain(..end + 4);
                peer.seen.requests.fetch_add(1, Ordering::SeqCst);
                // Longer than a TLS record, so that an answer has several.
                if stream.write_all(&ok(&"x".repeat(40_000))).is_err() {
                    return;
                }
            }
        }
    });
    (server, authority)
}

fn https_plan(server: &Server) -> Plan {
    let mut plan = Plan::get(&format!("https://127.0.0.1:{}/", server.address.port())).unwrap();
    plan.connections = 4;
    plan.threads = Threads::Count(2);
    plan.stop = Stop::Requests(200);
    plan.tls.server_name = Some("localhost".to_owned());
    plan
}

#[test]
fn https_with_a_trusted_authority_or_without_a_check() {
    let folder = tempfile::tempdir().unwrap();
    let (server, authority) = https(&folder);
    for insecure in [false, true] {
        let mut plan = https_plan(&server);
        plan.tls.insecure = insecure;
        plan.tls.authorities = (!insecure).then(|| authority.clone());
        let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
        assert_eq!((report.counts.completed, report.errors_total()), (200, 0), "{:?}", report.errors);
        assert_eq!(report.bytes.received_bodies, 200 * 40_000);
        let first = report.first_response.unwrap();
        assert!(first.tls.unwrap().starts_with("TLSv1.3 TLS"));
    }
    assert_eq!((server.requests(), server.connections()), (400, 8));
}

/// As `openssl req -x509` makes it.
#[test]
fn a_self_signed_authority_is_trusted_by_its_file_and_for_its_name_alone() {
    let folder = tempfile::tempdir().unwrap();
    let made = || tls_server_of(rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    let (server, authority) = https_of(&folder, made());
    let other = folder.path().join("other.pem");
    fs_err::write(&other, made().1).unwrap();
    let mut plan = https_plan(&server);
    plan.tls.authorities = Some(authority.clone());
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
    assert_eq!((report.counts.completed, report.errors_total()), (200, 0), "{:?}", report.errors);
    for (file, name) in [(authority, "example.org"), (other, "localhost")] {
        plan.tls.authorities = Some(file);
        plan.tls.server_name = Some(name.to_owned());
        let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
        let is_refused = matches!(error, LoadError::Unreachable { cause: ErrorCause::TlsCertificate, .. });
        assert!(is_refused, "{error:?}");
    }
}

#[test]
fn a_connection_for_each_request_is_trusted_though_few_are_open_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = https(&folder);
    let mut node = NodeServer::start(&[]);
    let mut http2 = Plan::get(&node.url("/")).unwrap();
    http2.http = HttpVersion::Http2;
    let mut https = https_plan(&server);
    https.tls.insecure = true;
    for mut plan in [http2, https] {
        (plan.reuse, plan.connections, plan.threads) = (Reuse::Never, 10, Threads::Count(1));
        plan.stop = Stop::Requests(600);
        let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
        assert_eq!((report.counts.completed, report.connections.opened), (600, 600), "{:?}", report.errors);
        assert_eq!((report.connections.asked, report.connections.reached), (10, 10));
        let trust = Trust::of(&plan, &report);
        let level = |key| trust.check(key).map(forkful_load::report::Check::level);
        assert_eq!(level("connections"), Some(Level::Fine), "{:#?}", trust.checks);
        // Rate and times depend on a busy machine; what is tested is that the check uses the requested
        // connections.
        let law = trust.check("littles_law").unwrap();
        assert!(law.value.ends_with(" of 10 under way"), "{law:?}");
    }
    assert_eq!((node.requests(), server.requests()), (600, 600));
}

#[test]
fn https_whose_answer_comes_with_the_end_of_the_session() {
    let (config, _) = tls_server();
    let server = Server::new(move |peer| {
        let mut stream = accept(&config, peer);
        let mut buffer = [0; 4096];
        if !matches!(stream.read(&mut buffer), Ok(length) if length > 0) {
            return;
        }
        peer.seen.requests.fetch_add(1, Ordering::SeqCst);
        // The answer and the end of the connection are sent together.
        stream.conn.writer().write_all(&ok("hello")).unwrap();
        stream.conn.send_close_notify();
        let _ = stream.conn.complete_io(&mut stream.sock);
    });
    for (reuse, requests) in [(Reuse::Always, 60), (Reuse::Never, 4)] {
        let mut plan = https_plan(&server);
        plan.tls.insecure = true;
        (plan.reuse, plan.stop) = (reuse, Stop::Requests(requests));
        let before = server.requests();
        let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
        assert_eq!((report.counts.completed, report.errors_total()), (requests, 0), "{:?}", report.errors);
        assert_eq!(server.requests() - before, requests);
    }
}

#[test]
fn a_wrong_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (server, authority) = https(&folder);
    let mut plan = https_plan(&server);
    for (authorities, name) in [(None, "localhost"), (Some(authority.clone()), "example.org")] {
        plan.tls.authorities = authorities;
        plan.tls.server_name = Some(name.to_owned());
        let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
        let is_certificate =
            matches!(error, LoadError::Unreachable { cause: ErrorCause::TlsCertificate, .. });
        assert!(is_certificate, "{error:?}");
    }
    plan.tls.authorities = Some(folder.path().join("none.pem"));
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err().to_string();
    assert!(
        error.starts_with("the certificate authority cannot be used") && error.contains("none.pem"),
        "{error}"
    );
}

#[test]
fn tls_to_a_server_without_it_is_named() {
    let server = Server::answering(|_| Some(ok("x")));
    let mut plan = https_plan(&server);
    plan.timeout = Duration::from_secs(20);
    let plaintext = Server::new(|peer| {
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        peer.hold();
    });
    plan.requests = https_plan(&plaintext).requests;
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { cause: ErrorCause::TlsHandshake, .. }), "{error:?}");
}

#[test]
fn unix_sockets_in_both_loops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let requests = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&requests);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while matches!(stream.read(&mut buffer), Ok(length) if length > 0) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    if stream.write_all(&ok("hello")).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let mut plan = Plan::get("http://localhost/").unwrap();
    plan.unix_socket = Some(path);
    plan.connections = 5;
    plan.stop = Stop::Requests(500);
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
    assert_eq!(
        (report.counts.completed, report.errors_total(), requests.load(Ordering::SeqCst)),
        (500, 0, 500)
    );
    plan.load = Load::Open { rate: 1_000.0, connections_max: 20, arrivals: Arrivals::Poisson { seed: 1 } };
    plan.stop = Stop::Requests(200);
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
    assert_eq!((report.counts.completed, requests.load(Ordering::SeqCst)), (200, 700));
    plan.unix_socket = Some(folder.path().join("none.sock"));
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { cause: ErrorCause::SocketPath, .. }), "{error:?}");
}
