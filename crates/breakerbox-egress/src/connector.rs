//! The HTTP client's connector: dialing, an optional proxy and TLS, all within the connect timeout, which is
//! independent of the request's own timeout.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use breakerbox_model::delivery::{Fault, LocalFault};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tower::Service;

use super::address::AddressPolicy;
use super::connection::{Dialed, Io, Stream};
use super::dial::{Dialer, literal};
use super::fault::ConnectError;
use super::progress::Progress;
use super::proxy::Proxy;

/// Opens connections to receivers, directly or through the proxy.
#[derive(Clone)]
pub(super) struct Connector(Arc<Parts>);

struct Parts {
    dialer: Dialer,
    policy: AddressPolicy,
    proxy: Option<Proxy>,
    tls: TlsConnector,
    limit: Duration,
}

impl Connector {
    pub(super) fn new(
        dialer: Dialer,
        policy: AddressPolicy,
        proxy: Option<Proxy>,
        tls: Arc<ClientConfig>,
        limit: Duration,
    ) -> Self {
        Self(Arc::new(Parts { dialer, policy, proxy, tls: TlsConnector::from(tls), limit }))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream<Io>;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Stream<Io>, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let parts = Arc::clone(&self.0);
        // The client may finish a connection in another task, where the progress is not set, so it is read here.
        let progress = Progress::current();
        progress.dialing();
        async move { parts.connect(&uri, progress).await }.boxed()
    }
}

impl Parts {
    async fn connect(&self, uri: &Uri, progress: Progress) -> Result<Stream<Io>, ConnectError> {
        let deadline = Instant::now() + self.limit;
        let host = uri.host().ok_or_else(|| ConnectError::new(Fault::Connect, "the URL has no host"))?;
        let is_secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let dialed = match &self.proxy {
            None => self.dialer.dial(host, port, Some(&self.policy), &progress, deadline).await?,
            Some(proxy) => self.through(proxy, host, port, progress.clone(), deadline).await?,
        };
        progress.connected();
        if !is_secure {
            return Ok(dialed.plain());
        }
        let name = server_name(host)?;
        let handshake = dialed.secured(async |tcp| self.tls.connect(name, tcp).await);
        tokio::time::timeout_at(deadline, handshake)
            .await
            .map_err(|_| ConnectError::new(Fault::Timeout, "TLS handshake timed out"))?
            .map_err(|error| ConnectError::of_handshake(&error))
    }

    /// Connects through the proxy. A literal address is checked before the proxy is called. The proxy resolves host
    /// names itself, so it has to deny private addresses behind them.
    async fn through(
        &self,
        proxy: &Proxy,
        host: &str,
        port: u16,
        progress: Progress,
        deadline: Instant,
    ) -> Result<Dialed, ConnectError> {
        if let Some(Err(denied)) = literal(host).map(|address| self.policy.check(address)) {
            return Err(ConnectError::new(Fault::Denied, format!("the address is {denied}")));
        }
        let uri =
            Uri::builder().scheme("http").authority(format!("{host}:{port}")).path_and_query("/").build();
        let uri = uri
            .map_err(|_| ConnectError::new(Fault::Connect, "the host of the URL can't be sent to a proxy"))?;
        let to_proxy = ToProxy { dialer: self.dialer.clone(), limit: self.limit / 2, progress };
        let tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
        let mut tunnel = match proxy.credentials() {
            Some(credentials) => tunnel.with_auth(credentials.clone()),
            None => tunnel,
        };
        tokio::time::timeout_at(deadline, tunnel.call(uri))
            .await
            .map_err(|_| ConnectError::new(Fault::Timeout, "the proxy did not connect in time"))?
            .map_err(|error| ConnectError::of_proxy(&error))
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, ConnectError> {
    if let Some(address) = literal(host) {
        return Ok(ServerName::IpAddress(address.into()));
    }
    // Certificates name hosts without the trailing dot that a fully qualified name may have.
    let host = host.strip_suffix('.').unwrap_or(host).to_owned();
    ServerName::try_from(host)
        .map_err(|_| ConnectError::new(Fault::Tls, "the host name can't be in a certificate"))
}

/// Connects to the proxy. Its address is not checked, since the operator configured it. Connecting to the proxy may
/// take half of the connect timeout; the other half is for the receiver.
#[derive(Clone)]
struct ToProxy {
    dialer: Dialer,
    limit: Duration,
    progress: Progress,
}

impl Service<Uri> for ToProxy {
    type Response = Dialed;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Dialed, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { dialer, limit, progress } = self.clone();
        async move {
            let host = uri.host().unwrap_or_default();
            let (port, deadline) = (uri.port_u16().unwrap_or(80), Instant::now() + limit);
            let _stage = progress.enter(LocalFault::Proxy);
            let operator = Progress::default();
            dialer.dial(host, port, None, &operator, deadline).await.map_err(ConnectError::at_proxy)
        }
        .boxed()
    }
}
