//! Trusted certificate authorities: the system's, and those that the operator adds. Verification can't be turned off.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tracing::warn;

/// The maximum number of cached TLS sessions. A cached session shortens the next handshake with its receiver.
const SESSIONS: usize = 2_048;

/// The trusted certificate authorities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trust {
    /// Whether the system's authorities are trusted.
    pub system: bool,
    /// PEM files with additional authorities.
    pub files: Vec<PathBuf>,
}

impl Default for Trust {
    fn default() -> Self {
        Self { system: true, files: Vec::new() }
    }
}

/// The reason why the certificate authorities can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A PEM file can't be read or parsed.
    #[error("can't read PEM certificates from {}", .file.display())]
    File {
        /// The path of the PEM file.
        file: PathBuf,
        /// The error from reading or parsing the file.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A PEM file contains no certificate.
    #[error("{} contains no certificate", .0.display())]
    Empty(PathBuf),
    /// A certificate in a PEM file is invalid.
    #[error("{} contains an invalid certificate", .file.display())]
    Certificate {
        /// The file that contains the certificate.
        file: PathBuf,
        /// The reason why the certificate is invalid.
        #[source]
        source: rustls::Error,
    },
}

impl Trust {
    /// Builds the TLS configuration, reading the PEM files.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring offers what TLS 1.2 and 1.3 need")
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, TrustError> {
        let mut roots = RootCertStore::empty();
        if self.system {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                warn!(%error, "can't read a certificate of the system");
            }
            roots.add_parsable_certificates(found.certs);
        }
        for file in &self.files {
            let in_file = |source| TrustError::File { file: file.clone(), source };
            let before = roots.len();
            for certificate in CertificateDer::pem_file_iter(file).map_err(in_file)? {
                let refused = |source| TrustError::Certificate { file: file.clone(), source };
                roots.add(certificate.map_err(in_file)?).map_err(refused)?;
            }
            if roots.len() == before {
                return Err(TrustError::Empty(file.clone()));
            }
        }
        if roots.is_empty() {
            warn!("the system has no certificate authorities; no https:// endpoint can be called");
        }
        Ok(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_help_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let table = [
            (folder.path().join("missing.pem"), "can't read"),
            (write("empty.pem", "nothing here"), "contains no certificate"),
            (
                write("wrong.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                "contains an invalid",
            ),
        ];
        for (file, problem) in table {
            let error = Trust { system: false, files: vec![file.clone()] }.config().unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains(&file.display().to_string()), "{error}");
        }
    }

    #[test]
    fn the_systems_authorities_and_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.pem");
        let own = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
        std::fs::write(&file, own.cert.pem()).unwrap();
        let added = Trust { system: false, files: vec![file] };
        assert_eq!(added.roots().unwrap().len(), 1);
        assert!(Trust { system: false, files: Vec::new() }.roots().unwrap().is_empty());
    }
}
