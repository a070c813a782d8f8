//! From a host to an open connection: finds its addresses, checks each, connects to one that passed.
//!
//! The address that was checked is the address that is called: the name is not looked up again in between, so a name that
//! changes its mind (DNS rebinding) gains nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::debug;

use super::address::AddressPolicy;
use super::connection::{Connections, Dialed};
use super::fault::ConnectError;
use super::resolve::LookUps;
use crate::delivery::Fault;

/// How many addresses of one name are tried.
const MAX_ADDRESSES: usize = 6;
/// How long an address is alone, before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(250);

/// Connects to hosts.
#[derive(Clone)]
pub(super) struct Dialer {
    look_ups: LookUps,
    connections: Arc<Connections>,
}

impl Dialer {
    pub(super) const fn new(look_ups: LookUps, connections: Arc<Connections>) -> Self {
        Self { look_ups, connections }
    }

    /// A connection to a host by this policy; none: to wherever the operator said.
    pub(super) async fn dial(
        &self,
        host: &str,
        port: u16,
        policy: Option<&AddressPolicy>,
        deadline: Instant,
    ) -> Result<Dialed, ConnectError> {
        let addresses = self.addresses(host, policy, deadline).await?;
        let connecting = self.first_of(&addresses, port);
        let tcp = tokio::time::timeout_at(deadline, connecting)
            .await
            .map_err(|_| ConnectError::new(Fault::Timeout, "no connection came about in time"))?
            .map_err(|error| ConnectError::new(Fault::Connect, format!("no connection: {error}")))?;
        Ok(Dialed::new(tcp, &self.connections))
    }

    /// The addresses of a host that may be called; at least one.
    async fn addresses(
        &self,
        host: &str,
        policy: Option<&AddressPolicy>,
        deadline: Instant,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let check = |address: &IpAddr| policy.map_or(Ok(()), |policy| policy.check(*address));
        if let Some(address) = literal(host) {
            return match check(&address) {
                Ok(()) => Ok(vec![address]),
                Err(denied) => Err(ConnectError::new(Fault::Denied, format!("it is {denied}"))),
            };
        }
        let found = tokio::time::timeout_at(deadline, self.look_ups.of(host))
            .await
            .map_err(|_| ConnectError::new(Fault::Dns, "the name was not found in time"))?
            .map_err(|error| ConnectError::new(Fault::Dns, error.to_string()))?;
        let allowed: Vec<_> =
            found.iter().copied().filter(|address| check(address).is_ok()).take(MAX_ADDRESSES).collect();
        if !allowed.is_empty() {
            return Ok(allowed);
        }
        // What a name of the operator's own network leads to is none of a tenant's business.
        let denied = found.iter().find_map(|address| Some((address, check(address).err()?)));
        let kind = denied.map_or("no address", |(_, denied)| denied.kind());
        debug!(host, address = ?denied.map(|(address, _)| address), kind, "a denied address is not called");
        Err(ConnectError::new(Fault::Denied, format!("the name leads to {kind}")))
    }

    /// The first connection that comes about. Whoever is slow gets company, and whoever fails is followed at once.
    async fn first_of(&self, addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
        let mut rest = addresses.iter();
        let mut trying = FuturesUnordered::new();
        let mut latest = io::Error::other("no address is left");
        loop {
            if let Some(address) = rest.next() {
                self.connections.count_dial();
                trying.push(TcpStream::connect(SocketAddr::new(*address, port)));
            }
            let is_last = rest.as_slice().is_empty();
            tokio::select! {
                done = trying.next() => match done {
                    Some(Ok(tcp)) => {
                        // A request is one write; waiting for more would only delay it.
                        tcp.set_nodelay(true)?;
                        return Ok(tcp);
                    }
                    Some(Err(error)) => latest = error,
                    None => return Err(latest),
                },
                () = tokio::time::sleep(HEAD_START), if !is_last => {}
            }
        }
    }
}

/// The address that a URL's host is, if it is one.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}
