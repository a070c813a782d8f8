//! Receivers that hang, drip, flood, and send bombs or invalid responses: each attempt ends by its deadline, with the
//! right fault, in bounded memory.
//!
//! With `BREAKERBOX_HOSTILE=1000`, the test makes 1,000 attempts concurrently, and each must end at most a second after
//! its deadline.

use std::env;
use std::time::{Duration, Instant};

use breakerbox_egress::{Incoming, Sender};
use breakerbox_model::delivery::{Fault, Reply};
use breakerbox_testkit::receiver::{Behaviour, Hostile, Receiver};
use breakerbox_testkit::usage::Usage;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::sending::{LIMIT, Scripted, is_answered, settings, to, within};

/// The scale of the test.
struct Scale {
    /// The number of concurrent attempts.
    number: usize,
    /// The timeout of each attempt. It leaves time for the receiver, which is a single thread, to generate all
    /// decompression bombs.
    deadline: Duration,
    /// How long after its deadline an attempt may end. This is long in the ordinary test, because the machine may be
    /// busy.
    margin: Duration,
}

fn scale() -> Scale {
    let secs = Duration::from_secs;
    match env::var("BREAKERBOX_HOSTILE") {
        Ok(number) => {
            let number = number.parse().expect("BREAKERBOX_HOSTILE is a number");
            Scale { number, deadline: secs(15), margin: secs(1) }
        }
        Err(_) => Scale { number: 80, deadline: secs(5), margin: secs(20) },
    }
}

fn sender() -> Sender {
    Sender::with_resolver(&settings(&["127.0.0.0/8"]), Scripted::new(&[&["127.0.0.1"]])).unwrap()
}

/// Returns whether the result is right for this kind of receiver.
fn is_right(how: Option<Hostile>, incoming: &Incoming) -> bool {
    let failed = |fault| incoming.reply == Reply::Failed(fault) && incoming.detail.is_some();
    let kept = |length| is_answered(incoming, 200) && incoming.body.len() == length;
    match how {
        None | Some(Hostile::Drip) => failed(Fault::Timeout),
        Some(Hostile::Flood) => kept(4 << 10),
        // Kept as received, still compressed.
        Some(Hostile::GzipBomb) => kept(4 << 10) && incoming.body.starts_with(&[0x1f, 0x8b]),
        Some(Hostile::HeaderFlood | Hostile::Garbage) => failed(Fault::Protocol),
        Some(Hostile::HalfClose | Hostile::Reset) => failed(Fault::Reset),
        Some(other) => panic!("what does an attempt at {} come to?", other.name()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_end_by_their_deadline_in_bounded_memory() {
    let Scale { number, deadline, margin } = scale();
    let receiver = Receiver::start().unwrap();
    receiver.set("/hang", Behaviour::Hang);
    for how in Hostile::ALL {
        receiver.set(&format!("/{}", how.name()), Behaviour::Hostile(how));
    }
    let kinds: Vec<_> = [None].into_iter().chain(Hostile::ALL.map(Some)).collect();
    let sender = sender();
    let before = Usage::of(std::process::id()).ok();
    let attempts = (0..number).map(|n| {
        let how = kinds[n % kinds.len()];
        let url = receiver.url(&format!("/{}", how.map_or("hang", Hostile::name)));
        let sender = sender.clone();
        tokio::spawn(async move { (how, sender.send(within(&url, deadline)).await) })
    });
    for attempt in join_all(attempts).await {
        let (how, incoming) = attempt.unwrap();
        assert!(is_right(how, &incoming), "{how:?}: {incoming:?}");
        assert!(incoming.latency < deadline + margin, "{how:?}: {incoming:?}");
    }
    // Other tests may run in this process, but ten gigabytes for each flood would show.
    if let (Some(before), Ok(after)) = (before, Usage::of(std::process::id())) {
        let grown = after.peak.saturating_sub(before.peak);
        assert!(grown < (256 << 20) + number as u64 * (512 << 10), "{} MB", grown >> 20);
    }
    // The connections left open are reusable ones: those of the bombs.
    let bombs = number.div_ceil(kinds.len());
    until(|| sender.open_connections() <= bombs, "the connections of the others are closed").await;
}

/// Responds with these bytes, slowly or all at once, and may keep the connection open.
struct Raw {
    url: String,
    task: JoinHandle<()>,
}

impl Raw {
    async fn start<F, S>(serve: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(serve(tcp));
            }
        });
        Self { url, task }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn until(holds: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Writes `first` once and then `then` repeatedly, for as long as the peer reads.
async fn forever(mut tcp: TcpStream, first: &'static [u8], then: &'static [u8], pause: Duration) {
    let mut request = [0; 1_024];
    let _ = tcp.read(&mut request).await;
    let mut result = tcp.write_all(first).await;
    while result.is_ok() {
        tokio::time::sleep(pause).await;
        result = tcp.write_all(then).await;
    }
}

#[tokio::test]
async fn what_goes_on_without_end_is_a_timeout() {
    let table: [(&[u8], &[u8], u64, &str); 5] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", b"x", 100, "incomplete response"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 100, "incomplete response"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"", 100, "incomplete response"),
        (b"HTTP/1.1 200 OK\r\n", b"", 100, "no response"),
        // However many `100 Continue` responses arrive.
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 1, "no response"),
    ];
    for (first, then, pause, what) in table {
        let pause = Duration::from_millis(pause);
        let raw = Raw::start(move |tcp| forever(tcp, first, then, pause)).await;
        let limit = Duration::from_millis(500);
        let incoming = sender().send(within(&raw.url, limit)).await;
        assert_eq!(incoming.reply, Reply::Failed(Fault::Timeout), "{incoming:?}");
        assert!(incoming.detail.as_ref().is_some_and(|detail| detail.starts_with(what)), "{incoming:?}");
        assert!(incoming.latency >= limit && incoming.latency < limit + scale().margin, "{incoming:?}");
    }
}

/// Reads the beginning of a request, writes a response, and closes.
async fn once(mut tcp: TcpStream, answer: &'static [u8]) {
    let mut request = [0; 4_096];
    let _ = tcp.read(&mut request).await;
    let _ = tcp.write_all(answer).await;
}

#[tokio::test]
async fn what_is_no_http_is_a_protocol_error_and_what_ends_early_a_reset() {
    let table: [(&[u8], Reply); 15] = [
        (b"", Reply::Failed(Fault::Reset)),
        (b"HTTP/1.1 200 OK\r\n", Reply::Failed(Fault::Reset)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n123", Reply::Failed(Fault::Reset)),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n123", Reply::Failed(Fault::Reset)),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", Reply::Failed(Fault::Protocol)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Reply::Failed(Fault::Protocol)),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
            Reply::Failed(Fault::Protocol),
        ),
        (b"HTTP/1.1 2000 OK\r\n\r\n", Reply::Failed(Fault::Protocol)),
        (b"HTTP/9.9 200 OK\r\n\r\n", Reply::Failed(Fault::Protocol)),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Reply::Failed(Fault::Protocol)),
        (b"\x16\x03\x01\x02\x00\x01", Reply::Failed(Fault::Protocol)),
        (b"HTTP/1.1 200 OK\r\n bad: folded\r\n\r\n", Reply::Failed(Fault::Protocol)),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", {
            Reply::Answered { status: 101, retry_after: None }
        }),
        // A response without a length ends with its connection.
        (b"HTTP/1.1 500 Oh\r\n\r\nno", Reply::Answered { status: 500, retry_after: None }),
        (b"HTTP/1.0 503 Later\r\nretry-after: 7\r\n\r\n", {
            Reply::Answered { status: 503, retry_after: Some(Duration::from_secs(7)) }
        }),
    ];
    for (answer, expected) in table {
        let raw = Raw::start(move |tcp| once(tcp, answer)).await;
        let incoming = sender().send(to(&raw.url)).await;
        let text = String::from_utf8_lossy(answer);
        assert_eq!(incoming.reply, expected, "{text}: {incoming:?}");
    }
}

#[tokio::test]
async fn nobody_there_and_no_such_name() {
    let gone = Raw::start(|tcp| once(tcp, b"")).await.url.clone();
    let refused = || async { sender().send(to(&gone)).await.reply == Reply::Failed(Fault::Connect) };
    // The listener's task ends shortly after it is aborted.
    let start = Instant::now();
    while !refused().await {
        assert!(start.elapsed() < LIMIT, "the port is closed");
    }
    let nowhere = Sender::with_resolver(&settings(&[]), Scripted::new(&[])).unwrap();
    let incoming = nowhere.send(to("http://nowhere.example/")).await;
    assert_eq!(incoming.reply, Reply::Failed(Fault::Dns), "{incoming:?}");
    assert_eq!(incoming.detail.unwrap(), "DNS name not found: no such name");
}

#[tokio::test]
async fn a_refusal_before_the_whole_payload_was_read_is_an_answer() {
    let raw = Raw::start(|mut tcp| async move {
        let mut head = [0; 512];
        let _ = tcp.read(&mut head).await;
        let _ =
            tcp.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        // Closing immediately would reset the connection, and lose the response.
        let _ = tcp.shutdown().await;
        let mut rest = vec![0; 64 << 10];
        while tcp.read(&mut rest).await.is_ok_and(|length| length > 0) {}
    })
    .await;
    let mut outgoing = to(&raw.url);
    outgoing.body = Bytes::from(vec![b'x'; 8 << 20]);
    let incoming = sender().send(outgoing).await;
    assert!(is_answered(&incoming, 413), "{incoming:?}");
}

#[tokio::test]
async fn connections_are_used_again_and_those_that_closed_meanwhile_do_no_harm() {
    let receiver = Receiver::start().unwrap();
    let sender = sender();
    for _ in 0..20 {
        assert!(is_answered(&sender.send(to(&receiver.url("/"))).await, 200));
    }
    assert_eq!((sender.dialed(), sender.open_connections()), (1, 1));
    // One response per connection, which is then closed without warning.
    let raw = Raw::start(|tcp| once(tcp, b"HTTP/1.1 204 No Content\r\n\r\n")).await;
    for _ in 0..20 {
        let incoming = sender.send(to(&raw.url)).await;
        assert!(is_answered(&incoming, 204), "{incoming:?}");
        until(|| sender.open_connections() == 1, "the end of the connection was noticed").await;
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_not_kept() {
    let receivers: Vec<_> = (0..6).map(|_| Receiver::start().unwrap()).collect();
    let few = breakerbox_egress::SendSettings { max_connections_kept: 3, ..settings(&["127.0.0.0/8"]) };
    let sender = Sender::with_resolver(&few, Scripted::new(&[&[]])).unwrap();
    for receiver in receivers.iter().chain(&receivers) {
        assert!(is_answered(&sender.send(to(&receiver.url("/"))).await, 200));
    }
    until(|| sender.open_connections() == 3, "three are kept").await;
    assert_eq!(sender.dialed(), 9, "three were used again, the other three were made twice");
}
