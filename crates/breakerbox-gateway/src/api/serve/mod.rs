//! The HTTP server: listens, and serves requests until it is stopped. HTTP/1.1 and HTTP/2 without TLS on one port; use
//! a proxy for TLS.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`serve`] | accepts connections, and lets them finish at shutdown |
//! | [`Front`] | the router, or a few responses while the gateway starts |
//! | `table` | the open connections, their number per address, and which one to close for a new one |
//! | `connection` | serves one connection |
//! | `counted_body` | counts a request as in flight until its response is sent |
//! | `finalize_response` | completes every response: request id, security headers |
//! | `write_timeout` | closes connections whose peer does not read |
//!
//! A client can't hold a connection without using it: first requests, headers, bodies, responses and idle connections
//! all have timeouts. One address can't take all connections. If a handler panics, the client gets a response and keeps
//! its connection.

mod connection;
mod counted_body;
mod finalize_response;
mod front;
mod table;
mod write_timeout;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox_egress::host::local_fault;
use breakerbox_model::shares::DEFAULT_SHARE;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::connection::Server;
pub use self::front::Front;
use self::table::{Admission, ConnectionTable};
pub(super) use self::table::{OpenConnection, network};
use crate::telemetry::Metrics;

/// Limits and timeouts for API connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connections {
    /// The maximum number of open connections.
    pub most: usize,
    /// The share of the connections that one client address may have, in percent.
    pub address_share: u32,
    /// The timeout for receiving the headers of the first request.
    pub first_request_timeout: Duration,
    /// The timeout for receiving the headers of a request; also the maximum time that a connection stays idle.
    pub header_timeout: Duration,
    /// The maximum time that a write waits for the client to read.
    pub write_timeout: Duration,
    /// The maximum number of concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// The grace period for requests in flight when the server shuts down.
    pub grace: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            most: 4_096,
            address_share: DEFAULT_SHARE,
            first_request_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            streams: 128,
            grace: Duration::from_secs(30),
        }
    }
}

/// The client address of a request, which is the connection's peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// Serves requests until `stop` completes, and then lets the requests in flight finish within the grace period.
pub(super) async fn serve(
    listener: TcpListener,
    front: Front,
    limits: Connections,
    metrics: &Metrics,
    stop: impl Future<Output = ()> + Send,
) {
    let server = Arc::new(Server::new(front, limits));
    let table = ConnectionTable::new(limits.most, limits.address_share);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut refused_connections = RefusedConnections::default();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => match table.admit(address.ip()) {
                Ok((admitted, admission)) => {
                    refused_connections.replaced += u64::from(admission == Admission::Replaced);
                    let server = Arc::clone(&server);
                    connections.spawn(server.serve_connection(stream, address, admitted, stopped.clone()));
                }
                Err(_) => refused_connections.refused += 1,
            },
            Err(error) => {
                // Usually the process has too many open files. Closing an idle connection frees one.
                let closed = table.close_oldest();
                match local_fault(&error) {
                    Some(fault) => {
                        metrics.local_faults.note(fault, &format!("can't accept a connection: {error}"));
                    }
                    None => {
                        tracing::warn!(%error, closed_idle_connection = closed, "can't accept a connection");
                    }
                }
                tokio::time::sleep(Duration::from_millis(if closed { 10 } else { 100 })).await;
            }
        }
        refused_connections.log();
    }
    drop(listener);
    stopping.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.grace, all_ended).await.is_err() {
        tracing::warn!("some requests did not finish in time; their connections are closed");
    }
    connections.shutdown().await;
}

/// Counts refused connections, and logs them periodically.
#[derive(Default)]
struct RefusedConnections {
    replaced: u64,
    refused: u64,
    logged_at: Option<Instant>,
}

impl RefusedConnections {
    /// The minimum interval between log lines.
    const EVERY: Duration = Duration::from_secs(10);

    fn log(&mut self) {
        let is_new = self.replaced + self.refused > 0;
        if is_new && self.logged_at.is_none_or(|at| at.elapsed() >= Self::EVERY) {
            tracing::warn!(
                closed_idle = self.replaced,
                refused = self.refused,
                "connection refused: limits.connections or limits.address_share is reached"
            );
            *self = Self { logged_at: Some(Instant::now()), ..Self::default() };
        }
    }
}
