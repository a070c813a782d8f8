//! One connection for one request: TCP, TLS for https URLs, HTTP/1.1.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// The reason why there was no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("{0}")]
    Connect(io::Error),
    #[error("TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("the server speaks plain HTTP there, not TLS; use http:// instead of https://")]
    NotTls,
    #[error("the system has no certificate authorities; install them, or set SSL_CERT_FILE")]
    NoAuthorities,
    #[error("{0} is not a valid server name")]
    Name(String),
    #[error("the response is not HTTP; if the server uses TLS, use https:// instead of http://")]
    NotHttp,
    #[error("HTTP error: {0}")]
    Http(hyper::Error),
}

/// Sends a request to the URL's host.
pub(super) async fn send(
    url: &Url,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, ConnectionError> {
    let host = url.host().ok_or_else(|| ConnectionError::Name(url.to_string()))?;
    let port = url.port_or_known_default().unwrap_or(80);
    let trust = (url.scheme() == "https").then(trust).transpose()?;
    let connected = match host {
        Host::Domain(name) => TcpStream::connect((name, port)).await,
        Host::Ipv4(address) => TcpStream::connect((address, port)).await,
        Host::Ipv6(address) => TcpStream::connect((address, port)).await,
    };
    let stream = connected.map_err(ConnectionError::Connect)?;
    let Some(trust) = trust else { return exchange(stream, request).await };
    let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let server = ServerName::try_from(name.clone()).map_err(|_| ConnectionError::Name(name))?;
    let stream = TlsConnector::from(trust).connect(server, stream).await.map_err(tls_failed)?;
    exchange(stream, request).await
}

/// Builds a TLS configuration that trusts the system's certificate authorities, or those in the file that
/// `SSL_CERT_FILE` names.
fn trust() -> Result<Arc<ClientConfig>, ConnectionError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(ConnectionError::NoAuthorities);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectionError::Tls(io::Error::other(error)))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ConnectionError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http_failed)?;
    // The task ends with the response, or with the program.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(http_failed)
}

/// Returns the reason why the handshake failed. A server without TLS responds with something that is not TLS.
fn tls_failed(error: io::Error) -> ConnectionError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) => ConnectionError::NotTls,
        _ => ConnectionError::Tls(error),
    }
}

fn http_failed(error: hyper::Error) -> ConnectionError {
    if error.is_parse() { ConnectionError::NotHttp } else { ConnectionError::Http(error) }
}
