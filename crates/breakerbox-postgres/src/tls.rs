//! TLS: which certificates are trusted.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::ConnectError;
use crate::url::Trust;

/// Creates a TLS connector that trusts these certificates.
pub(crate) fn connector(trust: &Trust) -> Result<MakeRustlsConnect, ConnectError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Tls { reason: error.to_string() })?;
    let config = match trust {
        Trust::Anybody => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        }
        _ => builder.with_root_certificates(roots(trust)?),
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn roots(trust: &Trust) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    let wrong = |reason: String| ConnectError::Tls { reason };
    if let Trust::File(file) = trust {
        let unreadable = |error| wrong(format!("sslrootcert: {}: {error}", file.display()));
        for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
            let certificate = certificate.map_err(unreadable)?;
            roots
                .add(certificate)
                .map_err(|error| wrong(format!("sslrootcert: {}: {error}", file.display())))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate to check the server's against".to_owned()));
    }
    Ok(roots)
}

/// A verifier that accepts any certificate, as `psql` does with `sslmode=prefer` or `require`. Traffic is
/// encrypted, but the server is not authenticated.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
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
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
