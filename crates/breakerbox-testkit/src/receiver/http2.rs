//! An HTTP/2 receiver over TLS that ends connections like ordinary servers: with GOAWAY, or by refusing
//! streams.
//!
//! Implemented frame by frame, so that a connection ends exactly at the intended request.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, as an index into HPACK's static table.
const STATUS_200: &[u8] = &[0x88];
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

/// How long incoming bytes are read and discarded after the connection was closed.
const LINGERS: Duration = Duration::from_secs(1);

/// What a connection does with requests beyond its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Http2End {
    /// The connection sends GOAWAY with the ID of the last request that gets a response, and ends.
    GoAway,
    /// The connection stays open, and refuses each further request with `REFUSED_STREAM`.
    RefuseStreams,
}

/// An HTTP/2 receiver on its own thread. It stops when the value is dropped.
pub struct Http2Receiver {
    address: SocketAddr,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    turned_away: AtomicU64,
    connections: AtomicU64,
}

impl Http2Receiver {
    /// Starts a receiver that responds with 200 to the first `answers` requests on each connection. The
    /// acceptor must offer `h2` with ALPN.
    ///
    /// # Errors
    /// Returns an error if no port or thread is available.
    pub fn start(acceptor: TlsAcceptor, answers: u32, end: Http2End) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let (address, (stop, stopped)) = (listener.local_addr()?, oneshot::channel());
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        let serve = async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, counts) = (acceptor.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    let tls = acceptor.accept(tcp).await?;
                    counts.connections.fetch_add(1, Ordering::Relaxed);
                    Connection { tls, counts, left: answers, end, begun: BTreeSet::new() }.serve().await
                });
            }
        };
        let thread = thread::Builder::new().name("http2-receiver".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve => {}
                }
            });
        })?;
        Ok(Self { address, counts, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address that the receiver listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of requests that got a 200.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.counts.answered.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that got no 200: those that were refused, and those that arrived after
    /// GOAWAY.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.counts.turned_away.load(Ordering::Relaxed)
    }

    /// Returns the number of connections established.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Http2Receiver {
    fn drop(&mut self) {
        // The thread may have already ended.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Connection {
    tls: TlsStream<TcpStream>,
    counts: Arc<Counts>,
    left: u32,
    end: Http2End,
    /// The IDs of the streams whose request is incomplete, and gets a response once it is complete.
    begun: BTreeSet<u32>,
}

impl Connection {
    async fn serve(mut self) -> io::Result<()> {
        let mut preface = [0; 24];
        self.tls.read_exact(&mut preface).await?;
        self.write(SETTINGS, 0, 0, &[]).await?;
        let (mut last, mut is_leaving) = (0, false);
        loop {
            let mut head = [0; 9];
            self.tls.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            let mut payload = vec![0; length as usize];
            self.tls.read_exact(&mut payload).await?;
            match kind {
                SETTINGS if flags & ACK == 0 => self.write(SETTINGS, ACK, 0, &[]).await?,
                PING if flags & ACK == 0 => self.write(PING, ACK, 0, &payload).await?,
                HEADERS if self.left > 0 => {
                    self.left -= 1;
                    last = stream;
                    self.begun.insert(stream);
                }
                HEADERS => {
                    self.counts.turned_away.fetch_add(1, Ordering::Relaxed);
                    match self.end {
                        Http2End::RefuseStreams => self.write(RST_STREAM, 0, stream, &REFUSED_STREAM).await?,
                        Http2End::GoAway if is_leaving => {}
                        Http2End::GoAway => {
                            is_leaving = true;
                            let no_error = 0_u32.to_be_bytes();
                            self.write(GOAWAY, 0, 0, &[last.to_be_bytes(), no_error].concat()).await?;
                        }
                    }
                }
                DATA if length > 0 => self.write(WINDOW_UPDATE, 0, 0, &length.to_be_bytes()).await?,
                _ => {}
            }
            let is_complete = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
            if is_complete && self.begun.remove(&stream) {
                self.write(HEADERS, END_HEADERS | END_STREAM, stream, STATUS_200).await?;
                self.counts.answered.fetch_add(1, Ordering::Relaxed);
            }
            if is_leaving && self.begun.is_empty() {
                return self.close().await;
            }
        }
    }

    /// Closes the connection gracefully, by first reading the bytes that still arrive. Closing a socket with
    /// unread bytes resets the connection, and the client may lose a response that is in flight.
    async fn close(mut self) -> io::Result<()> {
        self.tls.shutdown().await?;
        let mut rest = [0; 1_024];
        let reading = async { while self.tls.read(&mut rest).await.is_ok_and(|read| read > 0) {} };
        let _ = timeout(LINGERS, reading).await;
        Ok(())
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
        let frame = [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.tls.write_all(&frame).await?;
        self.tls.flush().await
    }
}
