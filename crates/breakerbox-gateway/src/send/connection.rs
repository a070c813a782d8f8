//! One connection: plain or with TLS, and counted for as long as it is open.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Counts connections. Beyond its limit a new one is used once: it is not kept idle.
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

    /// How many addresses a connection was asked of, ever.
    pub(super) fn dialed(&self) -> u64 {
        self.dialed.load(Ordering::Relaxed)
    }

    pub(super) fn count_dial(&self) {
        self.dialed.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(self: &Arc<Self>) -> Place {
        let is_kept = self.open.fetch_add(1, Ordering::Relaxed) < self.max_kept;
        Place { connections: Arc::clone(self), is_kept }
    }
}

/// An open connection's place in the count.
#[derive(Debug)]
struct Place {
    connections: Arc<Connections>,
    is_kept: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection to an address that was checked, or to the proxy.
#[derive(Debug)]
pub(super) struct Stream<T> {
    io: T,
    place: Place,
}

/// As it was dialed.
pub(super) type Dialed = Stream<TokioIo<TcpStream>>;

impl Dialed {
    pub(super) fn new(tcp: TcpStream, connections: &Arc<Connections>) -> Self {
        Self { io: TokioIo::new(tcp), place: connections.enter() }
    }

    pub(super) fn plain(self) -> Stream<Io> {
        Stream { io: Io::Plain(self.io), place: self.place }
    }

    /// The same connection with what is done to it, such as TLS.
    pub(super) async fn secured<E>(
        self,
        secure: impl AsyncFnOnce(TcpStream) -> Result<TlsStream<TcpStream>, E>,
    ) -> Result<Stream<Io>, E> {
        let tls = secure(self.io.into_inner()).await?;
        Ok(Stream { io: Io::Tls(TokioIo::new(Box::new(tls))), place: self.place })
    }
}

/// Plain or with TLS.
#[derive(Debug)]
pub(super) enum Io {
    Plain(TokioIo<TcpStream>),
    Tls(TokioIo<Box<TlsStream<TcpStream>>>),
}

impl Connection for Stream<Io> {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if !self.place.is_kept {
            connected.poison();
        }
        match &self.io {
            Io::Tls(tls) if tls.inner().get_ref().1.alpn_protocol() == Some(b"h2") => {
                connected.negotiated_h2()
            }
            _ => connected,
        }
    }
}

impl<T: Read + Unpin> Read for Stream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for Stream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    // Headers and payload leave together, without being copied into one buffer.
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

impl Read for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buffer),
            Self::Tls(io) => Pin::new(io).poll_read(cx, buffer),
        }
    }
}

impl Write for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(cx, bytes),
            Self::Tls(io) => Pin::new(io).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(cx),
            Self::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Self::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write_vectored(cx, parts),
            Self::Tls(io) => Pin::new(io).poll_write_vectored(cx, parts),
        }
    }
}
