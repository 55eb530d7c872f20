//! TLS for the engines: trust, client certificates, and descriptions of errors.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use crate::LoadError;
use crate::cause::ErrorCause;
use crate::plan::{HttpVersion, TlsOptions};

/// Configuration and server name for one plan.
pub(crate) fn client(
    options: &TlsOptions,
    host: &str,
    http: HttpVersion,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), LoadError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS library", &error))?;
    let trusts = match (options.insecure, &options.authorities) {
        (true, _) => Some(Trusts::Anything),
        (false, Some(file)) => Some(given(file, &provider)?),
        (false, None) => None,
    };
    let builder = match trusts {
        Some(trusts) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Verifier { provider, trusts }))
        }
        None => builder.with_root_certificates(system_roots()),
    };
    let mut config = match (&options.client_certificate, &options.client_key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate, "client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(&read(key, "client key")?)
                .map_err(|error| unusable("client key", &format!("{}: {error}", key.display())))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable("client certificate", &error))?
        }
        (Some(_), None) => return Err(unusable("client certificate", &"it needs a client key")),
        (None, Some(_)) => return Err(unusable("client key", &"it needs a client certificate")),
    };
    config.alpn_protocols = match http {
        HttpVersion::Http10 => Vec::new(),
        HttpVersion::Http11 | HttpVersion::WebSocket | HttpVersion::EventStream => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    let name = options.server_name.as_deref().unwrap_or(host).to_owned();
    let server_name = ServerName::try_from(name.clone())
        .map_err(|error| unusable("server name", &format!("`{name}`: {error}")))?;
    Ok((Arc::new(config), server_name))
}

/// The cause for an error of the TLS library, before or after the handshake.
pub(crate) fn cause(error: &Error, handshaking: bool) -> ErrorCause {
    match error {
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => ErrorCause::TlsCertificate,
        _ if handshaking => ErrorCause::TlsHandshake,
        _ => ErrorCause::TlsBroken,
    }
}

/// Version and cipher suite of a session, such as `TLSv1.3 TLS13_AES_256_GCM_SHA384`.
pub(crate) fn describe(session: &ClientConnection) -> String {
    let version = session.protocol_version().and_then(|version| version.as_str().map(str::to_owned));
    let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str().map(str::to_owned));
    format!("{} {}", version.unwrap_or_default(), suite.unwrap_or_default())
        .trim()
        .replace("TLSv1_", "TLSv1.")
}

/// The authorities of the system.
fn system_roots() -> RootCertStore {
    let mut store = RootCertStore::empty();
    // Unreadable certificates of the system are skipped. If there are none left, verification fails with a message.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    store
}

/// Trust in the authorities of a file.
fn given(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Trusts, LoadError> {
    const WHAT: &str = "certificate authority";
    let authorities = certificates(file, WHAT)?;
    let mut store = RootCertStore::empty();
    for authority in &authorities {
        store.add(authority.clone()).map_err(|error| unusable(WHAT, &error))?;
    }
    let library = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    Ok(Trusts::Given { library: library.map_err(|error| unusable(WHAT, &error))?, authorities })
}

fn certificates(file: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(file, what)?)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(what, &format!("{}: {error}", file.display())))?;
    if chain.is_empty() {
        return Err(unusable(what, &format!("{}: it contains no certificate", file.display())));
    }
    Ok(chain)
}

fn read(file: &Path, what: &'static str) -> Result<Vec<u8>, LoadError> {
    fs_err::read(file).map_err(|error| unusable(what, &error))
}

fn unusable(what: &'static str, reason: &dyn std::fmt::Display) -> LoadError {
    LoadError::Tls { what, reason: reason.to_string() }
}

/// Verifies a server's certificate by other rules than those for public servers. Signatures are always verified.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trusts: Trusts,
}

#[derive(Debug)]
enum Trusts {
    /// Any certificate, for `insecure`.
    Anything,
    /// What the authorities of a file have signed, and these authorities themselves: a self-signed certificate that
    /// `openssl req -x509` has made is an authority, and the library accepts no authority as a server's certificate.
    Given { library: Arc<WebPkiServerVerifier>, authorities: Vec<CertificateDer<'static>> },
}

/// The library's reason for refusing an authority as a server's certificate. It checks the certificate's time before.
const IS_AUTHORITY: &str = "CaUsedAsEndEntity";

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trusts::Given { library, authorities } = &self.trusts else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = library.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match &verified {
            Err(Error::InvalidCertificate(CertificateError::Other(reason)))
                if format!("{:?}", reason.0) == IS_AUTHORITY && authorities.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            _ => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
