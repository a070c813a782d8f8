//! Dials a host: resolves it, checks each address, connects to one that passed.
//!
//! The checked address is the one that is called: the name is not looked up again in between, so DNS rebinding (a name
//! that changes its addresses) has no effect.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_model::delivery::{Fault, LocalFault};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::debug;

use super::address::AddressPolicy;
use super::connection::{Connections, Dialed};
use super::fault::ConnectError;
use super::progress::Progress;
use super::resolve::{LookUpError, LookUps};
use crate::host::local_fault;

/// The maximum number of addresses to try per host name.
const MAX_ADDRESSES: usize = 6;
/// How long to wait for a connection before the next address is tried in parallel.
const HEAD_START: Duration = Duration::from_millis(250);

/// Resolves hosts and opens TCP connections to them.
#[derive(Clone)]
pub(super) struct Dialer {
    look_ups: LookUps,
    connections: Arc<Connections>,
}

impl Dialer {
    pub(super) const fn new(look_ups: LookUps, connections: Arc<Connections>) -> Self {
        Self { look_ups, connections }
    }

    /// Connects to a host, at an address that `policy` allows. Without a policy, any address is allowed; this is for
    /// hosts that the operator configured.
    pub(super) async fn dial(
        &self,
        host: &str,
        port: u16,
        policy: Option<&AddressPolicy>,
        progress: &Progress,
        deadline: Instant,
    ) -> Result<Dialed, ConnectError> {
        let addresses = self.addresses(host, policy, progress, deadline).await?;
        let connecting = self.first_of(&addresses, port);
        let tcp = tokio::time::timeout_at(deadline, connecting)
            .await
            .map_err(|_| ConnectError::new(Fault::Timeout, "connection timed out"))?
            .map_err(|error| ConnectError::of_io(Fault::Connect, &error))?;
        Ok(Dialed::new(tcp, &self.connections))
    }

    /// Returns the host's addresses that may be called, or an error if there are none.
    async fn addresses(
        &self,
        host: &str,
        policy: Option<&AddressPolicy>,
        progress: &Progress,
        deadline: Instant,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let check = |address: &IpAddr| policy.map_or(Ok(()), |policy| policy.check(*address));
        if let Some(address) = literal(host) {
            return match check(&address) {
                Ok(()) => Ok(vec![address]),
                Err(denied) => Err(ConnectError::new(Fault::Denied, format!("the address is {denied}"))),
            };
        }
        // Kept after a timeout: its progress shows what it was waiting for.
        let mut look_up = std::pin::pin!(self.look_ups.of(host, progress));
        let found = tokio::time::timeout_at(deadline, &mut look_up)
            .await
            .map_err(|_| match progress.local_fault() {
                Some(cause) => ConnectError::new(Fault::Local(cause), LookUpError::Busy.to_string()),
                None => ConnectError::new(Fault::Dns, "DNS look-up timed out"),
            })?
            .map_err(|error| ConnectError::new(error.fault(), error.to_string()))?;
        let allowed: Vec<_> =
            found.iter().copied().filter(|address| check(address).is_ok()).take(MAX_ADDRESSES).collect();
        if !allowed.is_empty() {
            return Ok(allowed);
        }
        // A tenant must not learn the addresses of names in the operator's own network.
        let denied = found.iter().find_map(|address| Some((address, check(address).err()?)));
        let kind = denied.map_or("no address", |(_, denied)| denied.kind());
        debug!(host, address = ?denied.map(|(address, _)| address), kind, "refused to call a denied address");
        Err(ConnectError::new(Fault::Denied, format!("the name resolves to {kind}")))
    }

    /// Returns the first connection that succeeds. The next address is tried in parallel after a short delay, or
    /// immediately after a failure.
    async fn first_of(&self, addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
        let mut rest = addresses.iter();
        let mut trying = FuturesUnordered::new();
        let mut failed: Option<io::Error> = None;
        loop {
            if let Some(address) = rest.next() {
                self.connections.count_dial();
                let address = SocketAddr::new(*address, port);
                trying
                    .push(async move { TcpStream::connect(address).await.map_err(|error| (address, error)) });
            }
            let is_last = rest.as_slice().is_empty();
            tokio::select! {
                done = trying.next() => match done {
                    Some(Ok(tcp)) => {
                        // A request is one write; waiting for more data would only delay it.
                        tcp.set_nodelay(true)?;
                        return Ok(tcp);
                    }
                    Some(Err((address, error))) => failed = Some(worse(failed, blamed(address, error))),
                    None => return Err(failed.unwrap_or_else(|| io::Error::other("no address is left"))),
                },
                () = tokio::time::sleep(HEAD_START), if !is_last => {}
            }
        }
    }
}

/// Returns the error to report for two failed connections. A local fault takes precedence, because it leaves open
/// whether the receiver can be reached.
fn worse(before: Option<io::Error>, error: io::Error) -> io::Error {
    match before {
        Some(before) if local_fault(&before).is_some() && local_fault(&error).is_none() => before,
        _ => error,
    }
}

/// Replaces `EADDRNOTAVAIL` with `NetworkUnreachable` if its cause is not a lack of ports but a missing route, for
/// example because IPv6 is disabled. A missing route is permanent, so it counts as a failed connection.
fn blamed(address: SocketAddr, error: io::Error) -> io::Error {
    if local_fault(&error) != Some(LocalFault::Ports) {
        return error;
    }
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Sends nothing: connecting a UDP socket only looks up a route, and UDP has its own ports.
    match UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(address)) {
        Ok(()) => error,
        Err(_) => io::Error::new(
            io::ErrorKind::NetworkUnreachable,
            "the gateway's host has no route to the address",
        ),
    }
}

/// Returns the address if the host of a URL is a literal address.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}
