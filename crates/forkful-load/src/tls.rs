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
    let builder = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate { provider }))
    } else {
        let roots = roots(options.authorities.as_deref())?;
        match &options.authorities {
            None => builder.with_root_certificates(roots),
            Some(file) => {
                let inner =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                        .build()
                        .map_err(|error| unusable("certificate authority", &error))?;
                let given = certificates(file, "certificate authority")?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(GivenCertificate { inner, given }))
            }
        }
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

fn roots(file: Option<&Path>) -> Result<RootCertStore, LoadError> {
    let mut store = RootCertStore::empty();
    if let Some(file) = file {
        for certificate in certificates(file, "certificate authority")? {
            store.add(certificate).map_err(|error| unusable("certificate authority", &error))?;
        }
    } else {
        // Unreadable certificates of the system are skipped. If there are none left, verification fails with
        // a message.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(store)
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

/// Accepts what the given authorities have signed, and each of them itself: the self-signed certificate that `openssl req -x509`
/// makes is an authority, which no server's certificate should be.
#[derive(Debug)]
struct GivenCertificate {
    inner: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

/// The library's reason for refusing an authority as a server's certificate; time and usage are checked before it.
const IS_AUTHORITY: &str = "CaUsedAsEndEntity";

impl ServerCertVerifier for GivenCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match &verified {
            Err(Error::InvalidCertificate(CertificateError::Other(reason)))
                if format!("{:?}", reason.0) == IS_AUTHORITY && self.given.contains(end_entity) =>
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
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Accepts any certificate, for `insecure`; signatures are still verified.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
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
