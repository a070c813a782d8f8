//! Receivers with faulty TLS: one never completes the handshake, and one has an untrusted certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The way in which a receiver's TLS is faulty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// The receiver sends the handshake at one byte per second.
    Slow,
    /// The receiver's certificate is self-signed.
    Untrusted,
}

/// A receiver on its own thread. It stops when the value is dropped.
pub(super) struct WrongTls {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WrongTls {
    /// Starts a receiver with this fault.
    pub(super) fn start(wrong: Wrong) -> Result<Self> {
        let acceptor = acceptor()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let (address, (stop, stopped)) = (listener.local_addr()?, oneshot::channel());
        let serve = async move {
            while let Ok((stream, _)) = listener.accept().await {
                match wrong {
                    Wrong::Slow => drop(tokio::spawn(drip(stream))),
                    Wrong::Untrusted => drop(tokio::spawn(greet(stream, acceptor.clone()))),
                }
            }
        };
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve => {}
                }
            });
        });
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the URL for a path at the receiver.
    #[must_use]
    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }
}

impl Drop for WrongTls {
    fn drop(&mut self) {
        // The receiver may have already ended.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn acceptor() -> Result<TlsAcceptor> {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .context("a certificate of one's own")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Reads the client's hello, and starts a record of 16 KB that never ends, at one byte per second.
async fn drip(mut stream: TcpStream) {
    let mut greeting = [0; 4_096];
    let _ = stream.read(&mut greeting).await;
    for byte in [0x16, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat(0)) {
        if stream.write_all(&[byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn greet(stream: TcpStream, acceptor: TlsAcceptor) {
    // A client that checks the certificate disconnects. If it does not, it gets a response, and the test
    // detects that.
    if let Ok(mut stream) = acceptor.accept(stream).await {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    }
}
