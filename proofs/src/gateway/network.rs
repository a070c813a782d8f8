//! The gateway's own network: every request to a receiver passes through it, and a test can take it away.
//!
//! The network is one port on all loopback addresses, so that each endpoint has a host of its own. It forwards to the
//! receiver, and counts the requests that are in flight.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

/// The number of connections that fill the queue of a port on which packets are dropped.
const FILL: usize = 4;

/// How the network treats connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// It forwards them.
    Up,
    /// It closes all, and refuses new ones.
    Refusing,
    /// It drops all packets: established connections are silent, and new ones are not established.
    Dropping,
    /// It ends.
    Gone,
}

/// The network. It ends when dropped.
pub(super) struct Network {
    port: u16,
    mode: watch::Sender<Mode>,
    requests: Arc<Requests>,
    serving: Option<JoinHandle<()>>,
}

/// The number of requests in flight.
#[derive(Default)]
struct Requests {
    current: AtomicUsize,
    most: AtomicUsize,
}

impl Requests {
    fn begin(&self) {
        let current = self.current.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(current, Ordering::Relaxed);
    }

    fn end(&self) {
        self.current.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Network {
    /// Starts a network that leads to this receiver.
    pub(super) fn start(receiver: SocketAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(async { listen(0, 1_024) })?;
        let port = listener.local_addr()?.port();
        let (mode, mut seen) = watch::channel(Mode::Up);
        let requests = Arc::new(Requests::default());
        let counted = Arc::clone(&requests);
        let serving = thread::spawn(move || {
            runtime.block_on(async {
                let mut listener = Some(listener);
                while let Err(error) = serve(port, listener.take(), receiver, &mut seen, &counted).await {
                    eprintln!("the network failed, and starts again: {error:#}");
                }
            });
        });
        Ok(Self { port, mode, requests, serving: Some(serving) })
    }

    /// Returns the URL of an endpoint with this number, which has its own host.
    pub(super) fn url(&self, number: usize) -> String {
        let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
        format!("http://127.1.{high}.{low}:{}/{number}", self.port)
    }

    pub(super) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Returns the maximum number of requests that were in flight at the same time.
    pub(super) fn most_in_flight(&self) -> usize {
        self.requests.most.load(Ordering::Relaxed)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.set(Mode::Gone);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn listen(port: u16, backlog: u32) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::UNSPECIFIED, port).into()).context("the port is taken")?;
    Ok(socket.listen(backlog)?)
}

/// Serves until the mode is [`Mode::Gone`].
async fn serve(
    port: u16,
    mut listener: Option<TcpListener>,
    receiver: SocketAddr,
    mode: &mut watch::Receiver<Mode>,
    requests: &Arc<Requests>,
) -> Result<()> {
    loop {
        let current = *mode.borrow_and_update();
        match current {
            Mode::Gone => return Ok(()),
            Mode::Refusing => mode.changed().await?,
            Mode::Dropping => {
                let full = listen(port, 0)?;
                // Nobody accepts them, so the queue is full, and the kernel drops further packets.
                let fill = || async move { TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await };
                let mut filling: Vec<_> = (0..FILL).map(|_| Box::pin(fill())).collect();
                let all = futures_util::future::join_all(filling.iter_mut());
                tokio::select! {
                    _ = all => mode.changed().await?,
                    changed = mode.changed() => changed?,
                }
                drop(full);
            }
            Mode::Up => {
                let listener = match listener.take() {
                    Some(listener) => listener,
                    None => listen(port, 1_024)?,
                };
                loop {
                    tokio::select! {
                        accepted = listener.accept() => {
                            let (client, _) = accepted?;
                            let (mode, requests) = (mode.clone(), Arc::clone(requests));
                            tokio::spawn(async move { forward(client, receiver, mode, &requests).await });
                        }
                        changed = mode.changed() => {
                            changed?;
                            break;
                        }
                    }
                }
            }
        }
    }
}

/// Forwards one connection until it ends or the network changes.
async fn forward(
    mut client: TcpStream,
    receiver: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    requests: &Requests,
) {
    let Ok(mut server) = TcpStream::connect(receiver).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut up, mut down) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    let mut is_busy = false;
    loop {
        let is_open = tokio::select! {
            read = client.read(&mut up) => match read {
                Ok(length) if length > 0 => {
                    if !is_busy {
                        requests.begin();
                    }
                    is_busy = true;
                    server.write_all(&up[..length]).await.is_ok()
                }
                _ => false,
            },
            read = server.read(&mut down) => match read {
                Ok(length) if length > 0 => {
                    if is_busy {
                        requests.end();
                    }
                    is_busy = false;
                    client.write_all(&down[..length]).await.is_ok()
                }
                _ => false,
            },
            _ = mode.changed() => {
                if *mode.borrow_and_update() == Mode::Dropping {
                    // Silent until the network is back, when the receiver no longer knows the connection.
                    let _ = mode.changed().await;
                }
                false
            }
        };
        if !is_open {
            if is_busy {
                requests.end();
            }
            return;
        }
    }
}
