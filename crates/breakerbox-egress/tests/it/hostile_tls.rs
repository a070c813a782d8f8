//! Receivers with untrusted certificates or slow handshakes, and receivers that violate HTTP/2.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_egress::{SendSettings, Sender, Trust};
use breakerbox_model::delivery::{Fault, Reply};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::sending::{Scripted, is_answered, settings, to, within};

const HOST: &str = "hooks.example";

/// A certificate authority that the sender trusts. Its certificate file exists until the value is dropped.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        Self::named("trusted")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Returns the TLS acceptor for a server with this name.
    fn server(&self, name: &str, alpn: &[u8], expired: bool) -> TlsAcceptor {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate: CertificateDer<'static> = params.signed_by(&key, &self.issuer).unwrap().into();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)
                .unwrap();
        config.alpn_protocols = vec![alpn.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    fn sender(&self) -> Sender {
        let settings = SendSettings {
            trust: Trust { system: false, files: vec![self.file()] },
            ..settings(&["127.0.0.0/8"])
        };
        Sender::with_resolver(&settings, Scripted::new(&[&["127.0.0.1"]])).unwrap()
    }
}

/// A server on loopback that handles each connection with this function.
struct Served {
    port: u16,
    task: JoinHandle<()>,
}

impl Served {
    async fn by<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(serve(tcp));
            }
        });
        Self { port, task }
    }

    /// Responds to each request with these bytes, over HTTP/1.1.
    async fn answering(tls: TlsAcceptor, answer: &'static [u8]) -> Self {
        Self::by(move |tcp| {
            let tls = tls.clone();
            async move {
                let Ok(mut stream) = tls.accept(tcp).await else { return };
                let mut request = [0; 4_096];
                while stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                    let _ = stream.write_all(answer).await;
                }
            }
        })
        .await
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.port)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

#[tokio::test]
async fn only_certificates_that_can_be_believed_are() {
    let (authority, stranger) = (Authority::new(), Authority::named("stranger"));
    let good = Served::answering(authority.server(HOST, b"http/1.1", false), NO_CONTENT).await;
    let by_address = Served::answering(authority.server("127.0.0.1", b"http/1.1", false), NO_CONTENT).await;
    let expired = Served::answering(authority.server(HOST, b"http/1.1", true), NO_CONTENT).await;
    let unknown = Served::answering(stranger.server(HOST, b"http/1.1", false), NO_CONTENT).await;
    let sender = authority.sender();
    let table = [
        (good.url(HOST), Ok(())),
        (good.url("HOOKS.example."), Ok(())),
        (by_address.url("127.0.0.1"), Ok(())),
        (good.url("other.example"), Err("invalid peer certificate: certificate not valid for name")),
        (good.url("127.0.0.1"), Err("invalid peer certificate: certificate not valid for name")),
        (expired.url(HOST), Err("invalid peer certificate: certificate expired")),
        (unknown.url(HOST), Err("invalid peer certificate: UnknownIssuer")),
    ];
    for (url, expected) in table {
        let incoming = sender.send(to(&url)).await;
        match expected {
            Ok(()) => assert!(is_answered(&incoming, 204), "{url}: {incoming:?}"),
            Err(start) => {
                assert_eq!(incoming.reply, Reply::Failed(Fault::Tls), "{url}: {incoming:?}");
                assert!(
                    incoming.detail.as_ref().is_some_and(|detail| detail.starts_with(start)),
                    "{incoming:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_handshake_that_fails_is_no_trust_and_one_that_breaks_is_a_reset() {
    let authority = Authority::new();
    let sender = authority.sender();
    let table: [(&[u8], Fault); 5] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Fault::Tls),
        (b"\x15\x03\x03\x00\x02\x02\x28", Fault::Tls),
        (b"\x16\x03\x03\xff\xff\x00\x00\x00", Fault::Tls),
        (b"", Fault::Reset),
        (b"\x16\x03\x03\x00\x7a\x02", Fault::Reset),
    ];
    for (answer, fault) in table {
        let served = Served::by(move |mut tcp| async move {
            let mut hello = [0; 4_096];
            let _ = tcp.read(&mut hello).await;
            let _ = tcp.write_all(answer).await;
        })
        .await;
        let incoming = sender.send(to(&served.url(HOST))).await;
        assert_eq!(incoming.reply, Reply::Failed(fault), "{answer:?}: {incoming:?}");
    }
}

#[tokio::test]
async fn a_slow_handshake_ends_at_its_deadline() {
    let authority = Authority::new();
    // One sends nothing, the other a byte now and then.
    let silent = Served::by(|tcp| async move {
        let _open = tcp;
        std::future::pending::<()>().await;
    })
    .await;
    let dripping = Served::by(|mut tcp| async move {
        let hello = [0x16, 3, 3, 0x40, 0, 2, 0, 0x3f];
        for byte in hello.into_iter().chain(std::iter::repeat(0)) {
            if tcp.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let limit = Duration::from_millis(500);
    for served in [&silent, &dripping] {
        let incoming = authority.sender().send(within(&served.url(HOST), limit)).await;
        assert_eq!(incoming.reply, Reply::Failed(Fault::Timeout), "{incoming:?}");
        assert!(incoming.latency >= limit, "{incoming:?}");
    }
    // Also by the connect limit, if the request has more time.
    let hasty = SendSettings { connect_limit: limit, ..settings(&["127.0.0.0/8"]) };
    let hasty = Sender::with_resolver(&hasty, Scripted::new(&[&["127.0.0.1"]])).unwrap();
    let incoming = hasty.send(to(&silent.url(HOST))).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Timeout), "{incoming:?}");
    assert_eq!(incoming.detail.as_deref(), Some("TLS handshake timed out"));
}

#[tokio::test]
async fn the_wrong_scheme_for_a_port_is_named() {
    let authority = Authority::new();
    let secure = Served::answering(authority.server(HOST, b"http/1.1", false), b"never").await;
    let incoming = authority.sender().send(to(&secure.url(HOST).replace("https://", "http://"))).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Protocol), "{incoming:?}");
    assert_eq!(incoming.detail.as_deref(), Some("the server speaks TLS on this port; use https://"));

    for answer in [&b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"[..], b"<!DOCTYPE html>"] {
        let plain = Served::by(move |mut tcp| async move {
            let mut hello = [0; 4_096];
            if tcp.read(&mut hello).await.is_ok() {
                let _ = tcp.write_all(answer).await;
            }
        })
        .await;
        let incoming = authority.sender().send(to(&plain.url(HOST))).await;
        assert_eq!(incoming.reply, Reply::Failed(Fault::Tls), "{incoming:?}");
        let expected = "the server does not speak TLS on this port; for plain HTTP, use http://";
        assert_eq!(incoming.detail.as_deref(), Some(expected));
    }
}

/// Builds an HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, stream], payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` from the HPACK static table.
const STATUS_200: &[u8] = &[0x88];

/// Reads frames until one of this kind arrives. Returns false if the connection ended.
async fn read_until(stream: &mut TlsStream<TcpStream>, kind: u8) -> bool {
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return false;
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if stream.read_exact(&mut vec![0; length]).await.is_err() {
            return false;
        }
        if head[3] == kind {
            return true;
        }
    }
}

/// Sends `greeting` first, then `answer` to the first request, and then `again` for as long as the peer reads.
async fn h2(authority: &Authority, greeting: Vec<u8>, answer: Vec<u8>, again: Vec<u8>) -> Served {
    let tls = authority.server(HOST, b"h2", false);
    Served::by(move |tcp| {
        let (tls, greeting, answer, again) = (tls.clone(), greeting.clone(), answer.clone(), again.clone());
        async move {
            let Ok(mut stream) = tls.accept(tcp).await else { return };
            let mut preface = [0; 24];
            let greeted =
                stream.read_exact(&mut preface).await.is_ok() && stream.write_all(&greeting).await.is_ok();
            if !greeted || stream.flush().await.is_err() || !read_until(&mut stream, HEADERS).await {
                return;
            }
            let mut result = stream.write_all(&answer).await;
            while !again.is_empty() && result.is_ok() {
                result = stream.write_all(&again).await;
            }
            let _ = stream.flush().await;
            while read_until(&mut stream, 255).await {}
        }
    })
    .await
}

#[tokio::test]
async fn http2_is_spoken_where_it_is_offered_and_its_rules_are_kept() {
    let authority = Authority::new();
    let hello = frame(SETTINGS, 0, 0, &[]);
    let no_streams = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 0]);
    let good = frame(HEADERS, END_HEADERS | END_STREAM, 1, STATUS_200);
    let open = frame(HEADERS, END_HEADERS, 1, STATUS_200);
    let refused = frame(RST_STREAM, 0, 1, &[0, 0, 0, 7]);
    let goodbye = frame(GOAWAY, 0, 0, &[0; 8]);
    let ok = Reply::Answered { status: 200, retry_after: None };
    let nothing = Vec::new;
    // A header that HPACK does not index: `a: ` and a thousand letters.
    let field: Vec<u8> = [&[0, 1, b'a', 0x7f, 0xe9, 0x06], &[b'b'; 1_000][..]].concat();
    let table = [
        ("good", hello.clone(), good.clone(), nothing(), ok),
        ("never answers", hello.clone(), nothing(), nothing(), Reply::Failed(Fault::Timeout)),
        ("never says hello", nothing(), nothing(), nothing(), Reply::Failed(Fault::Timeout)),
        ("takes no requests", no_streams, nothing(), nothing(), Reply::Failed(Fault::Timeout)),
        ("never ends", hello.clone(), open.clone(), nothing(), Reply::Failed(Fault::Timeout)),
        ("empty data without end", hello.clone(), open.clone(), frame(DATA, 0, 1, &[]), {
            Reply::Failed(Fault::Protocol)
        }),
        ("no HTTP/2", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(), nothing(), nothing(), {
            Reply::Failed(Fault::Protocol)
        }),
        ("resets", hello.clone(), refused, nothing(), Reply::Failed(Fault::Reset)),
        ("leaves", hello.clone(), goodbye, nothing(), Reply::Failed(Fault::Reset)),
        ("pushes", hello.clone(), frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]), nothing(), {
            Reply::Failed(Fault::Protocol)
        }),
        ("another's stream", hello.clone(), frame(HEADERS, END_HEADERS, 9, STATUS_200), nothing(), {
            Reply::Failed(Fault::Protocol)
        }),
        ("bad compression", hello.clone(), frame(HEADERS, END_HEADERS, 1, &[0xff; 40]), nothing(), {
            Reply::Failed(Fault::Protocol)
        }),
        ("too large a frame", hello.clone(), vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1], nothing(), {
            Reply::Failed(Fault::Protocol)
        }),
        (
            "headers without end",
            hello,
            frame(HEADERS, 0, 1, STATUS_200),
            frame(CONTINUATION, 0, 1, &field),
            { Reply::Failed(Fault::Protocol) },
        ),
    ];
    for (name, greeting, answer, again, expected) in table {
        let served = h2(&authority, greeting, answer, again).await;
        let limit =
            Duration::from_millis(if expected == Reply::Failed(Fault::Timeout) { 500 } else { 30_000 });
        let incoming = authority.sender().send(within(&served.url(HOST), limit)).await;
        assert_eq!(incoming.reply, expected, "{name}: {incoming:?}");
    }
}

#[tokio::test]
async fn a_flood_over_http2_is_an_answer_and_its_window_is_bounded() {
    let authority = Authority::new();
    let open = frame(HEADERS, END_HEADERS, 1, STATUS_200);
    // Two more frames than fit in the stream's window would violate the protocol, so it stays within.
    let data = frame(DATA, 0, 1, &[b'x'; 16_000]).repeat(4);
    let end = frame(DATA, END_STREAM, 1, &[b'x'; 1_000]);
    let served =
        h2(&authority, frame(SETTINGS, 0, 0, &[]), [open.clone(), data, end].concat(), Vec::new()).await;
    let incoming = authority.sender().send(to(&served.url(HOST))).await;
    assert!(is_answered(&incoming, 200) && incoming.body.len() == 4 << 10, "{incoming:?}");
    // A receiver that does not stop violates it.
    let flood = frame(DATA, 0, 1, &[b'x'; 16_000]);
    let served = h2(&authority, frame(SETTINGS, 0, 0, &[]), open, flood).await;
    let incoming = authority.sender().send(to(&served.url(HOST))).await;
    let is_fine = is_answered(&incoming, 200) || incoming.reply == Reply::Failed(Fault::Protocol);
    assert!(is_fine, "{incoming:?}");
}
