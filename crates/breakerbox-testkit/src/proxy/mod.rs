//! A TCP proxy in front of a server. Tests set the faults that it applies to connections: delay, loss, close,
//! reset.
//!
//! | item | description |
//! | --- | --- |
//! | [`Proxy`] | listens, takes settings, counts |
//! | `connection` | one connection: both directions, with their queues and faults |
//!
//! Guarantees: a setting applies to existing and new connections; bytes stay in order; a connection that lost
//! bytes never works again, because the bytes after a gap would be meaningless; memory is bounded, because a
//! fast sender has to wait. The proxy uses the real clock and real sockets, listens only on the loopback
//! address, and ends with all its connections when it is dropped. It does not interpret the bytes.

mod connection;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The maximum number of concurrent connections. Further connections are closed.
const AT_ONCE: usize = 1_024;

/// A fault in the connection to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum NetworkFault {
    /// No fault.
    #[default]
    None,
    /// Existing connections are closed normally (FIN), and new connections are closed as soon as they are
    /// accepted.
    Cut,
    /// Existing connections are reset (RST), and new connections are reset as soon as they are accepted.
    Reset,
    /// Connections stay open and can be opened, but all bytes in both directions are lost.
    BlackHole,
    /// Requests arrive, but their responses are lost.
    HalfOpen,
}

/// The delay for bytes in one direction. Default: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delay {
    least: Duration,
    most: Duration,
    seed: u64,
}

impl Delay {
    /// Returns a constant delay.
    #[must_use]
    pub const fn fixed(by: Duration) -> Self {
        Self { least: by, most: by, seed: 0 }
    }

    /// Returns a random delay in this range (inclusive), chosen for each chunk. The same seed gives the same
    /// delays for the same connection. Bytes stay in order.
    #[must_use]
    pub const fn between(least: Duration, most: Duration, seed: u64) -> Self {
        Self { least, most, seed }
    }

    fn draw(&self, rng: &mut SmallRng) -> Duration {
        if self.least >= self.most { self.least } else { rng.random_range(self.least..=self.most) }
    }

    fn rng(&self, connection: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed ^ connection.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// The proxy's current settings. Connections are numbered in the order in which they were accepted.
#[derive(Clone, Copy, Debug)]
struct Settings {
    fault: NetworkFault,
    to_server: Delay,
    to_client: Delay,
    server: SocketAddr,
    /// Connections with lower numbers must be closed, even if the fault has already ended.
    cut_before: u64,
    reset_before: u64,
    silent_before: u64,
}

struct State {
    settings: watch::Sender<Settings>,
    /// The number of connections accepted so far.
    connections: AtomicU64,
    lost_answers: AtomicU64,
    /// The number of bytes received from clients, and from the server.
    passed: [AtomicU64; 2],
    /// The bytes that identify the next request whose response must be dropped. `None` if no response must be
    /// dropped.
    lose_answer_to: std::sync::Mutex<Option<Vec<u8>>>,
}

/// A TCP proxy. The proxy ends with all its connections when the value is dropped.
///
/// ```
/// use std::time::Duration;
///
/// use breakerbox_testkit::proxy::{Delay, Proxy, NetworkFault};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::{TcpListener, TcpStream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = TcpListener::bind("127.0.0.1:0").await?;
/// let proxy = Proxy::before(server.local_addr()?).await?;
/// proxy.delay(Delay::fixed(Duration::from_millis(1)), Delay::default());
///
/// let mut client = TcpStream::connect(proxy.address()).await?;
/// client.write_all(b"ping").await?;
/// let (mut served, _) = server.accept().await?;
/// let mut heard = [0; 4];
/// served.read_exact(&mut heard).await?;
/// assert_eq!(&heard, b"ping");
///
/// proxy.set(NetworkFault::Cut);
/// assert_eq!(client.read(&mut heard).await?, 0);
/// # Ok(())
/// # }
/// ```
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of a server, on a free port, without a fault. The server need not be running
    /// yet.
    ///
    /// # Errors
    /// Returns an error if there is no free port.
    pub async fn before(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let settings = Settings {
            fault: NetworkFault::None,
            to_server: Delay::default(),
            to_client: Delay::default(),
            server,
            cut_before: 0,
            reset_before: 0,
            silent_before: 0,
        };
        let state = Arc::new(State {
            settings: watch::Sender::new(settings),
            connections: AtomicU64::new(0),
            lost_answers: AtomicU64::new(0),
            passed: [AtomicU64::new(0), AtomicU64::new(0)],
            lose_answer_to: std::sync::Mutex::new(None),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, task })
    }

    /// Starts a proxy in front of a server on a local port.
    ///
    /// # Errors
    /// Returns an error if there is no free port.
    pub async fn before_port(port: u16) -> io::Result<Self> {
        Self::before((Ipv4Addr::LOCALHOST, port).into()).await
    }

    /// Returns the address that the proxy listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port that the proxy listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets the fault, until the next call to this method or to [`heal`](Self::heal).
    pub fn set(&self, fault: NetworkFault) {
        self.change_settings(|settings, next| {
            settings.fault = fault;
            match fault {
                NetworkFault::Cut => settings.cut_before = next,
                NetworkFault::Reset => settings.reset_before = next,
                NetworkFault::None | NetworkFault::BlackHole | NetworkFault::HalfOpen => {}
            }
        });
    }

    /// Sets the delay for each direction, until the next call to this method or to [`heal`](Self::heal).
    pub fn delay(&self, to_server: Delay, to_client: Delay) {
        self.change_settings(|settings, _| (settings.to_server, settings.to_client) = (to_server, to_client));
    }

    /// Removes the fault and the delays. Connections on which bytes were lost stay silent.
    pub fn heal(&self) {
        self.change_settings(|settings, _| {
            settings.fault = NetworkFault::None;
            (settings.to_server, settings.to_client) = (Delay::default(), Delay::default());
        });
    }

    /// Makes all existing connections silent: they stay open, but pass no more bytes. New connections work.
    pub fn silence(&self) {
        self.change_settings(|settings, next| settings.silent_before = next);
    }

    /// Sends new connections to another server. Existing connections stay with the old server; use
    /// [`cut`](NetworkFault::Cut) to close them.
    pub fn lead_to(&self, server: SocketAddr) {
        self.change_settings(|settings, _| settings.server = server);
    }

    /// Makes the proxy drop the response to the next request that contains these bytes, and close the
    /// connection. The server then has executed the request, but the client doesn't know. The bytes must
    /// arrive in one read.
    pub fn lose_answer_to(&self, request: impl Into<Vec<u8>>) {
        *self.state.lose_answer() = Some(request.into());
    }

    /// Returns the number of responses dropped by [`lose_answer_to`](Self::lose_answer_to).
    #[must_use]
    pub fn lost_answers(&self) -> u64 {
        self.state.lost_answers.load(Ordering::SeqCst)
    }

    /// Returns the number of connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes received so far from clients, and from the server, including lost bytes.
    #[must_use]
    pub fn passed_bytes(&self) -> (u64, u64) {
        let [from_clients, from_server] = &self.state.passed;
        (from_clients.load(Ordering::Relaxed), from_server.load(Ordering::Relaxed))
    }

    fn change_settings(&self, change: impl FnOnce(&mut Settings, u64)) {
        self.state.settings.send_modify(|settings| change(settings, self.connections()));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The task owns the connections, so they end with it.
        self.task.abort();
    }
}

impl State {
    fn lose_answer(&self) -> std::sync::MutexGuard<'_, Option<Vec<u8>>> {
        self.lose_answer_to.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns whether the response to this request must be dropped.
    fn is_to_be_lost(&self, request: &[u8]) -> bool {
        let has = |bytes: &mut Vec<u8>| {
            bytes.is_empty() || request.windows(bytes.len()).any(|piece| piece == bytes.as_slice())
        };
        self.lose_answer().take_if(has).is_some()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = open.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, _)) if open.len() < AT_ONCE => {
                    let number = state.connections.fetch_add(1, Ordering::SeqCst);
                    open.spawn(connection::keep(client, number, Arc::clone(&state)));
                }
                Ok(_) => {}
                // The client had already disconnected, or no file descriptors are left at the moment.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

async fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
