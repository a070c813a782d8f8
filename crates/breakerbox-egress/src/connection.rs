//! One connection: plain or TLS, counted while it is open, and watched for the first byte of a response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::Extensions;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Counts open connections. Above the limit, a new connection serves one request and is not kept for reuse.
#[derive(Debug)]
pub(super) struct Connections {
    max_kept: usize,
    open: AtomicUsize,
    dialed: AtomicU64,
}

impl Connections {
    pub(super) const fn new(max_kept: usize) -> Self {
        Self { max_kept, open: AtomicUsize::new(0), dialed: AtomicU64::new(0) }
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the total number of addresses to which a connection was attempted.
    pub(super) fn dialed(&self) -> u64 {
        self.dialed.load(Ordering::Relaxed)
    }

    pub(super) fn count_dial(&self) {
        self.dialed.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(self: &Arc<Self>) -> ConnectionSlot {
        let is_kept = self.open.fetch_add(1, Ordering::Relaxed) < self.max_kept;
        ConnectionSlot { connections: Arc::clone(self), is_kept }
    }
}

/// Counts as one open connection until the slot is dropped.
#[derive(Debug)]
struct ConnectionSlot {
    connections: Arc<Connections>,
    is_kept: bool,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Observes the traffic on one connection. Clones observe the same connection.
#[derive(Clone, Debug)]
pub(super) struct Wire(Arc<Passed>);

#[derive(Debug, Default)]
struct Passed {
    is_http2: bool,
    is_used: AtomicBool,
    is_answering: AtomicBool,
    /// Whether the first bytes of a plain connection were TLS, not HTTP.
    got_tls: AtomicBool,
}

impl Wire {
    fn new(is_http2: bool) -> Self {
        Self(Arc::new(Passed { is_http2, ..Passed::default() }))
    }

    /// Returns the traffic observer of the connection that a request used, if it has one.
    pub(super) fn of(connected: &Connected) -> Option<Self> {
        let mut extensions = Extensions::new();
        connected.get_extras(&mut extensions);
        extensions.remove()
    }

    /// Returns whether the connection uses HTTP/2. If so, concurrent requests can share it.
    pub(super) fn is_http2(&self) -> bool {
        self.0.is_http2
    }

    /// Records that a request received a response over this connection.
    pub(super) fn note_answer(&self) {
        self.0.is_used.store(true, Ordering::Relaxed);
    }

    /// Returns whether a request has already received a response over this connection.
    pub(super) fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }

    /// Returns whether any byte was received since the last byte was sent.
    pub(super) fn is_answering(&self) -> bool {
        self.0.is_answering.load(Ordering::Relaxed)
    }

    /// Returns whether the receiver answered plain HTTP with a TLS record.
    pub(super) fn got_tls(&self) -> bool {
        self.0.got_tls.load(Ordering::Relaxed)
    }

    /// Checks bytes that were received over a plain connection. A receiver with TLS answers a plain request with an
    /// alert: the record type 21 and a version that begins with 3. No HTTP response begins like this.
    fn inspect(&self, received: &[u8]) {
        if matches!(received, [21, 3, ..]) {
            self.0.got_tls.store(true, Ordering::Relaxed);
        }
    }

    fn passed(&self, is_answering: bool) {
        self.0.is_answering.store(is_answering, Ordering::Relaxed);
    }
}

/// A connection to a checked address, or to the proxy.
#[derive(Debug)]
pub(super) struct Stream<T> {
    io: TokioIo<T>,
    slot: ConnectionSlot,
}

/// A TCP connection as it was dialed, before TLS.
pub(super) type Dialed = Stream<TcpStream>;

impl Dialed {
    pub(super) fn new(tcp: TcpStream, connections: &Arc<Connections>) -> Self {
        Self { io: TokioIo::new(tcp), slot: connections.enter() }
    }

    pub(super) fn plain(self) -> Stream<Io> {
        let io = Io { kind: Kind::Plain(self.io.into_inner()), wire: Wire::new(false) };
        Stream { io: TokioIo::new(io), slot: self.slot }
    }

    /// Runs a handshake, such as TLS, and returns the secured connection.
    pub(super) async fn secured<E>(
        self,
        secure: impl AsyncFnOnce(TcpStream) -> Result<TlsStream<TcpStream>, E>,
    ) -> Result<Stream<Io>, E> {
        let tls = secure(self.io.into_inner()).await?;
        let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = Io { kind: Kind::Tls(Box::new(tls)), wire: Wire::new(is_http2) };
        Ok(Stream { io: TokioIo::new(io), slot: self.slot })
    }
}

/// The byte stream of a connection, plain or TLS, with a record of its traffic.
#[derive(Debug)]
pub(super) struct Io {
    kind: Kind,
    wire: Wire,
}

#[derive(Debug)]
enum Kind {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream<Io> {
    fn connected(&self) -> Connected {
        let wire = &self.io.inner().wire;
        let connected = Connected::new().extra(wire.clone());
        if !self.slot.is_kept {
            connected.poison();
        }
        if wire.is_http2() { connected.negotiated_h2() } else { connected }
    }
}

impl<T: AsyncRead + Unpin> Read for Stream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> Write for Stream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    // Headers and payload are sent together, without being copied into one buffer.
    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = match &mut self.kind {
            Kind::Plain(io) => Pin::new(io).poll_read(cx, buffer),
            Kind::Tls(io) => Pin::new(io).poll_read(cx, buffer),
        };
        if buffer.filled().len() > before {
            if matches!(self.kind, Kind::Plain(_)) && !self.wire.is_answering() {
                self.wire.inspect(&buffer.filled()[before..]);
            }
            self.wire.passed(true);
        }
        polled
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.wire.passed(false);
        match &mut self.kind {
            Kind::Plain(io) => Pin::new(io).poll_write(cx, bytes),
            Kind::Tls(io) => Pin::new(io).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(io) => Pin::new(io).poll_flush(cx),
            Kind::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Kind::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.kind {
            Kind::Plain(io) => io.is_write_vectored(),
            Kind::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wire.passed(false);
        match &mut self.kind {
            Kind::Plain(io) => Pin::new(io).poll_write_vectored(cx, parts),
            Kind::Tls(io) => Pin::new(io).poll_write_vectored(cx, parts),
        }
    }
}
