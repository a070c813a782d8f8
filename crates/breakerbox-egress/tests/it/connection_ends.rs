//! Connections that the receiver closes as ordinary servers do. No request fails because of that, and none is retried
//! for another reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breakerbox_egress::{SendSettings, Sender, Trust};
use breakerbox_model::delivery::{Fault, Reply};
use breakerbox_testkit::receiver::{Behaviour, Http2End, Http2Receiver, Receiver};
use futures_util::future::join_all;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::sending::{Scripted, is_answered, settings, to};

fn sender() -> Sender {
    Sender::with_resolver(&settings(&["127.0.0.0/8"]), Scripted::new(&[&[]])).unwrap()
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A receiver that responds to the first request on each connection with 200, and to the second request with the given
/// bytes, after which it closes the connection.
struct SecondFails {
    url: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl SecondFails {
    async fn with(bytes: &'static [u8]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counts = (Arc::clone(&connections), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                counts.0.fetch_add(1, Ordering::Relaxed);
                let requests = Arc::clone(&counts.1);
                tokio::spawn(async move { Self::serve(tcp, &requests, bytes).await });
            }
        });
        Self { url, connections, requests, task }
    }

    async fn serve(mut tcp: TcpStream, requests: &AtomicUsize, bytes: &[u8]) {
        for answer in [OK, bytes] {
            let (mut request, mut piece) = (Vec::new(), [0; 4_096]);
            while !request.ends_with(b"{}") {
                match tcp.read(&mut piece).await {
                    Ok(length) if length > 0 => request.extend_from_slice(&piece[..length]),
                    _ => return,
                }
            }
            requests.fetch_add(1, Ordering::Relaxed);
            let _ = tcp.write_all(answer).await;
        }
    }

    fn seen(&self) -> (usize, usize) {
        (self.connections.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }
}

impl Drop for SecondFails {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn a_kept_connection_that_ends_without_an_answer_is_followed_by_a_fresh_one() {
    let receiver = SecondFails::with(b"").await;
    let sender = sender();
    for _ in 0..10 {
        let incoming = sender.send(to(&receiver.url)).await;
        assert!(is_answered(&incoming, 200), "{incoming:?}");
    }
    let (connections, requests) = receiver.seen();
    assert!(
        connections > 1 && requests > 10,
        "kept connections were used, and ended: {connections}, {requests}"
    );
}

#[tokio::test]
async fn what_got_a_byte_of_an_answer_is_not_repeated() {
    let receiver = SecondFails::with(b"HTTP/1.1 2").await;
    let sender = sender();
    assert!(is_answered(&sender.send(to(&receiver.url)).await, 200));
    let incoming = sender.send(to(&receiver.url)).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Reset), "{incoming:?}");
    assert_eq!(receiver.seen(), (1, 2), "once, over the same connection");
}

#[tokio::test]
async fn what_fails_on_a_fresh_connection_is_not_repeated() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let _ = tcp.read(&mut [0; 4_096]).await;
        drop(tcp);
        // A short timeout: no other connection is expected.
        tokio::time::timeout(Duration::from_millis(200), listener.accept()).await.is_ok()
    });
    let incoming = sender().send(to(&url)).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Reset), "{incoming:?}");
    assert!(!served.await.unwrap(), "there is no second connection");
}

/// Sends each request at about the moment when the receiver closes the connection of the previous one.
#[tokio::test]
async fn no_request_fails_at_a_receiver_that_closes_soon_after_its_answer() {
    let receiver = Receiver::start().unwrap();
    for (path, after) in [("/at-once", 0), ("/soon", 5), ("/as-idle", 20)] {
        let after = Duration::from_millis(after);
        receiver.set(path, Behaviour::Closes { after });
        let (sender, url) = (sender(), receiver.url(path));
        for number in 0..100 {
            let incoming = sender.send(to(&url)).await;
            assert!(is_answered(&incoming, 200), "{path} {number}: {incoming:?}");
            // The next request is sent at about the moment when the connection is closed.
            tokio::time::sleep(after).await;
        }
        assert_eq!(receiver.seen(path).delivered, 100, "{path}: each was answered once");
    }
}

/// Creates an HTTP/2 acceptor on 127.0.0.1, and a sender that trusts it.
fn http2() -> (TlsAcceptor, Sender, TempDir) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.pem");
    std::fs::write(&file, cert.pem()).unwrap();
    let trust = Trust { system: false, files: vec![file] };
    let settings = SendSettings { trust, ..settings(&["127.0.0.0/8"]) };
    let sender = Sender::with_resolver(&settings, Scripted::new(&[&[]])).unwrap();
    (TlsAcceptor::from(Arc::new(config)), sender, folder)
}

#[tokio::test]
async fn what_http2_calls_safe_is_made_again_on_a_fresh_connection() {
    for end in [Http2End::GoAway, Http2End::RefuseStreams] {
        let (acceptor, sender, _folder) = http2();
        let receiver = Http2Receiver::start(acceptor, 3, end).unwrap();
        let url = format!("https://{}/", receiver.address());
        // One after another, and many concurrently.
        for _ in 0..10 {
            let incoming = sender.send(to(&url)).await;
            assert!(is_answered(&incoming, 200), "{end:?}: {incoming:?}");
        }
        for incoming in join_all((0..10).map(|_| sender.send(to(&url)))).await {
            assert!(is_answered(&incoming, 200), "{end:?}: {incoming:?}");
        }
        assert_eq!(receiver.answered(), 20, "{end:?}: each was answered once");
        assert!(receiver.turned_away() > 0, "{end:?}: there was something to repeat");
    }
}

#[tokio::test]
async fn a_receiver_that_refuses_every_stream_fails() {
    let (acceptor, sender, _folder) = http2();
    let receiver = Http2Receiver::start(acceptor, 0, Http2End::RefuseStreams).unwrap();
    let incoming = sender.send(to(&format!("https://{}/", receiver.address()))).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Reset), "{incoming:?}");
    assert_eq!((receiver.turned_away(), receiver.connections()), (2, 2), "repeated once, and not more");
}
