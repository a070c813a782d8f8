//! The proxy: its effects on existing and new connections.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use breakerbox_testkit::proxy::{Delay, NetworkFault, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The maximum time that a test waits for an expected event.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// How long a test waits before it concludes that an event does not happen.
const A_WHILE: Duration = Duration::from_millis(50);

/// A server that echoes all bytes, and reports the bytes that it received.
struct Echo {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<Vec<u8>>,
    tasks: JoinSet<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let sender = sender.clone();
                connections.spawn(async move {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                        let _ = sender.send(buffer[..count].to_vec());
                        if stream.write_all(&buffer[..count]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, received, tasks }
    }

    async fn receives(&mut self, what: &[u8]) {
        let received = timeout(WAIT_LIMIT, self.received.recv()).await.expect("it arrives");
        assert_eq!(received.unwrap(), what);
    }
}

async fn started() -> (Echo, Proxy) {
    let echo = Echo::start().await;
    let proxy = Proxy::before(echo.address).await.unwrap();
    (echo, proxy)
}

async fn connected(proxy: &Proxy) -> TcpStream {
    timeout(WAIT_LIMIT, TcpStream::connect(proxy.address())).await.unwrap().unwrap()
}

/// Sends some bytes, and receives them back.
async fn works(client: &mut TcpStream) {
    client.write_all(b"hello").await.unwrap();
    let mut received = [0; 5];
    timeout(WAIT_LIMIT, client.read_exact(&mut received)).await.expect("it is answered").unwrap();
    assert_eq!(&received, b"hello");
}

/// Checks that the connection stays open, and that nothing arrives on it.
async fn is_silent(client: &mut TcpStream) {
    let received = timeout(A_WHILE, client.read(&mut [0; 64])).await;
    assert!(received.is_err(), "{received:?}");
}

#[tokio::test]
async fn it_passes_on_what_it_gets_and_the_end_of_it() {
    let (mut echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    works(&mut client).await;
    echo.receives(b"hello").await;
    // A client that has closed its sending side still receives the rest.
    client.write_all(b"and goodbye").await.unwrap();
    client.shutdown().await.unwrap();
    let mut received = Vec::new();
    timeout(WAIT_LIMIT, client.read_to_end(&mut received)).await.unwrap().unwrap();
    assert_eq!((received.as_slice(), proxy.connections()), (&b"and goodbye"[..], 1));
}

#[tokio::test]
async fn a_delay_holds_each_way_and_keeps_the_order() {
    let (_echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    works(&mut client).await;
    let by = Duration::from_millis(40);
    for (to_server, to_client) in [(by, Duration::ZERO), (Duration::ZERO, by), (by, by)] {
        proxy.delay(Delay::fixed(to_server), Delay::fixed(to_client));
        let since = Instant::now();
        works(&mut client).await;
        assert!(since.elapsed() >= to_server + to_client, "{:?}", since.elapsed());
    }
    let random = Delay::between(Duration::from_millis(1), Duration::from_millis(20), 7);
    proxy.delay(random, random);
    let (mut sent, mut received) = (Vec::new(), vec![0; 4 * 200]);
    let (mut from, mut to) = client.split();
    let sending = async {
        for number in 0..200_u32 {
            sent.extend(number.to_be_bytes());
            to.write_all(&number.to_be_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let both = async { tokio::join!(sending, from.read_exact(&mut received)) };
    timeout(WAIT_LIMIT, both).await.unwrap().1.unwrap();
    assert_eq!(received, sent);
}

#[tokio::test]
async fn a_cut_closes_old_and_new_connections_until_it_is_healed() {
    let (_echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    works(&mut client).await;
    proxy.set(NetworkFault::Cut);
    for client in [&mut client, &mut connected(&proxy).await] {
        assert_eq!(timeout(WAIT_LIMIT, client.read(&mut [0; 8])).await.unwrap().unwrap(), 0);
    }
    proxy.heal();
    works(&mut connected(&proxy).await).await;
}

#[tokio::test]
async fn a_reset_is_one_for_old_and_new_connections() {
    let (_echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    works(&mut client).await;
    proxy.set(NetworkFault::Reset);
    // A new connection may be reset before the client knows that it is connected.
    let is_reset = async |mut client: TcpStream| {
        let received = timeout(WAIT_LIMIT, client.read(&mut [0; 8])).await.unwrap();
        assert_eq!(received.unwrap_err().kind(), ErrorKind::ConnectionReset);
    };
    is_reset(client).await;
    if let Ok(client) = timeout(WAIT_LIMIT, TcpStream::connect(proxy.address())).await.unwrap() {
        is_reset(client).await;
    }
    proxy.heal();
    works(&mut connected(&proxy).await).await;
}

#[tokio::test]
async fn however_short_a_cut_is_connections_feel_it() {
    let (_echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    works(&mut client).await;
    proxy.set(NetworkFault::Cut);
    proxy.heal();
    assert_eq!(timeout(WAIT_LIMIT, client.read(&mut [0; 8])).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_black_hole_takes_everything_and_answers_nothing() {
    let (mut echo, proxy) = started().await;
    let (mut old, mut idle) = (connected(&proxy).await, connected(&proxy).await);
    works(&mut old).await;
    works(&mut idle).await;
    echo.receives(b"hello").await;
    echo.receives(b"hello").await;
    proxy.set(NetworkFault::BlackHole);
    let mut new = connected(&proxy).await;
    for client in [&mut old, &mut new] {
        // Far more than buffers hold: the bytes are dropped, not stored.
        for _ in 0..100 {
            timeout(WAIT_LIMIT, client.write_all(&vec![7; 1 << 20])).await.expect("it is taken").unwrap();
        }
        is_silent(client).await;
    }
    assert!(echo.received.try_recv().is_err(), "nothing arrives");
    proxy.heal();
    // Bytes after a gap would be meaningless.
    for client in [&mut old, &mut new] {
        client.write_all(b"are you there?").await.unwrap();
        is_silent(client).await;
    }
    works(&mut idle).await;
    works(&mut connected(&proxy).await).await;
}

#[tokio::test]
async fn a_server_that_ends_in_a_black_hole_is_not_missed() {
    let (mut echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    works(&mut client).await;
    proxy.set(NetworkFault::BlackHole);
    echo.tasks.shutdown().await;
    is_silent(&mut client).await;
    client.write_all(b"hello").await.unwrap();
    is_silent(&mut client).await;
}

#[tokio::test]
async fn half_open_means_that_requests_arrive_and_answers_do_not() {
    let (mut echo, proxy) = started().await;
    let mut old = connected(&proxy).await;
    works(&mut old).await;
    echo.receives(b"hello").await;
    proxy.set(NetworkFault::HalfOpen);
    let mut new = connected(&proxy).await;
    for (client, sent) in [(&mut old, b"old"), (&mut new, b"new")] {
        client.write_all(sent).await.unwrap();
        echo.receives(sent).await;
        is_silent(client).await;
    }
    proxy.heal();
    is_silent(&mut old).await;
    works(&mut connected(&proxy).await).await;
    // A client that gives up is disconnected.
    drop((old, new));
}

#[tokio::test]
async fn silence_holds_for_those_that_were_there() {
    let (_echo, proxy) = started().await;
    let mut old = connected(&proxy).await;
    works(&mut old).await;
    proxy.silence();
    old.write_all(b"hello").await.unwrap();
    is_silent(&mut old).await;
    works(&mut connected(&proxy).await).await;
}

#[tokio::test]
async fn an_answer_is_lost_once_the_server_has_given_it() {
    let (mut echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    proxy.lose_answer_to(b"EVAL");
    works(&mut client).await;
    echo.receives(b"hello").await;
    client.write_all(b"now EVALuate").await.unwrap();
    assert_eq!(
        timeout(WAIT_LIMIT, client.read(&mut [0; 8])).await.unwrap().unwrap(),
        0,
        "no answer, and the end"
    );
    echo.receives(b"now EVALuate").await;
    assert_eq!(proxy.lost_answers(), 1);
    let mut client = connected(&proxy).await;
    client.write_all(b"EVAL!").await.unwrap();
    timeout(WAIT_LIMIT, client.read_exact(&mut [0; 5])).await.expect("only the one").unwrap();
}

#[tokio::test]
async fn it_leads_elsewhere_when_it_is_told() {
    let (mut echo, proxy) = started().await;
    let mut other = Echo::start().await;
    let mut old = connected(&proxy).await;
    works(&mut old).await;
    proxy.lead_to(other.address);
    works(&mut connected(&proxy).await).await;
    other.receives(b"hello").await;
    works(&mut old).await;
    echo.receives(b"hello").await;
    echo.receives(b"hello").await;
}

#[tokio::test]
async fn it_is_gone_with_its_connections_when_it_is_dropped() {
    let (_echo, proxy) = started().await;
    let mut client = connected(&proxy).await;
    works(&mut client).await;
    let address = proxy.address();
    drop(proxy);
    assert_eq!(timeout(WAIT_LIMIT, client.read(&mut [0; 8])).await.unwrap().unwrap(), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

/// The server never reads, so a client that sends too much must be made to wait.
#[tokio::test]
async fn what_is_under_way_is_bounded() {
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before(deaf.local_addr().unwrap()).await.unwrap();
    let mut client = connected(&proxy).await;
    let _held = deaf.accept().await.unwrap();
    let mut sent = 0_usize;
    let piece = vec![7; 1 << 20];
    while timeout(Duration::from_millis(500), client.write_all(&piece)).await.is_ok() {
        sent += piece.len();
        assert!(sent < 200 << 20, "nobody holds it back");
    }
}
