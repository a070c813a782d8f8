//! The sender: makes one request, within one deadline, and returns the result.
//!
//! **Guarantees.** An attempt ends by its deadline. The sender reads and keeps at most the configured sizes of a
//! response body, unchanged and without decompression. It does not follow redirects. It connects only to addresses that
//! the policy allows, or to the proxy. A request whose connection ended before a byte of the response arrived is
//! retried once, immediately, on a new connection, within the same deadline.
//!
//! **Not guaranteed:** that the receiver did not get a request that failed, or that it got a request only once.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use breakerbox_core::format_duration;
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use super::address::AddressPolicy;
use super::connection::{Connections, Wire};
use super::connector::Connector;
use super::dial::Dialer;
use super::fault::{may_repeat, of_exchange, of_request};
use super::progress::Progress;
use super::proxy::Proxy;
use super::resolve::{LookUps, Resolve, SystemResolver};
use super::trust::{Trust, TrustError};
use super::{HttpSender, Incoming, Outgoing};
use crate::host::Pauses;

/// The maximum size of response headers, in bytes.
const MAX_HEADERS: usize = 64 << 10;

/// How long past its deadline a request may still complete, if the timer fired late.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Settings for [`Sender`].
#[derive(Clone, Debug)]
pub struct SendSettings {
    /// The addresses that may be called.
    pub addresses: AddressPolicy,
    /// The proxy for all requests. `None` means direct connections.
    pub proxy: Option<Proxy>,
    /// The trusted certificate authorities.
    pub trust: Trust,
    /// The timeout for opening a connection, including DNS look-up, TCP and TLS.
    pub connect_limit: Duration,
    /// How long a connection may be idle before it is closed.
    pub idle_limit: Duration,
    /// The maximum number of connections that are kept open for reuse. Further connections are used once.
    pub max_connections_kept: usize,
    /// The maximum number of idle connections per host.
    pub max_idle_per_host: usize,
    /// The maximum number of concurrent DNS look-ups.
    pub look_ups: usize,
    /// The maximum number of bytes that are read from a response body. A longer body is not an error, but its
    /// connection is closed.
    pub response_read: usize,
    /// The maximum number of bytes that are kept from a response body.
    pub response_kept: usize,
}

impl Default for SendSettings {
    fn default() -> Self {
        Self {
            addresses: AddressPolicy::default(),
            proxy: None,
            trust: Trust::default(),
            connect_limit: Duration::from_secs(10),
            idle_limit: Duration::from_secs(30),
            max_connections_kept: 1_024,
            max_idle_per_host: 64,
            look_ups: 64,
            response_read: 64 << 10,
            response_kept: 4 << 10,
        }
    }
}

/// Sends HTTP requests. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    client: Client<Connector, Full<Bytes>>,
    /// An HTTP client that keeps no connections, so that each retry uses a new one.
    fresh: Client<Connector, Full<Bytes>>,
    connections: Arc<Connections>,
    pauses: Pauses,
    repeated: Counter,
    response_read: usize,
    response_kept: usize,
}

impl Sender {
    /// Creates a sender with the system's resolver.
    ///
    /// # Errors
    /// Returns an error if a certificate file can't be used.
    pub fn new(settings: &SendSettings) -> Result<Self, TrustError> {
        Self::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// Creates a sender with another resolver.
    ///
    /// # Errors
    /// Returns an error if a certificate file can't be used.
    pub fn with_resolver(settings: &SendSettings, resolver: Arc<dyn Resolve>) -> Result<Self, TrustError> {
        let connections = Arc::new(Connections::new(settings.max_connections_kept));
        let dialer = Dialer::new(LookUps::new(resolver, settings.look_ups), Arc::clone(&connections));
        let connector = Connector::new(
            dialer,
            settings.addresses.clone(),
            settings.proxy.clone(),
            settings.trust.config()?,
            settings.connect_limit,
        );
        let client = |max_idle: usize| {
            Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(settings.idle_limit)
                .pool_max_idle_per_host(max_idle)
                .http1_max_buf_size(MAX_HEADERS)
                .http2_max_header_list_size(16 << 10)
                .http2_initial_stream_window_size(64 << 10)
                .http2_initial_connection_window_size(1 << 20)
                // Detects dead connections. A dead one that many requests share would fail all of them.
                .http2_keep_alive_interval(Duration::from_secs(10))
                .http2_keep_alive_timeout(Duration::from_secs(10))
                .retry_canceled_requests(true)
                .build(connector.clone())
        };
        Ok(Self {
            client: client(settings.max_idle_per_host),
            fresh: client(0),
            connections,
            pauses: Pauses::default(),
            repeated: Counter::default(),
            response_read: settings.response_read,
            response_kept: settings.response_kept,
        })
    }

    /// Sets the detector of process pauses, which [`send`](Self::send) uses to exclude pauses from latencies and
    /// faults.
    #[must_use]
    pub fn with_pauses(self, pauses: Pauses) -> Self {
        Self { pauses, ..self }
    }

    /// Counts retried requests in this counter.
    #[must_use]
    pub fn counting_repeated(self, repeated: Counter) -> Self {
        Self { repeated, ..self }
    }

    /// Makes a request, with the timeout `outgoing.limit`. A fault, such as a timeout, is part of the result.
    pub async fn send(&self, outgoing: Outgoing) -> Incoming {
        let (started, lost_before) = (Instant::now(), self.pauses.lost());
        let limit = outgoing.limit;
        let progress = Progress::new(outgoing.tenant.clone());
        let mut exchange = std::pin::pin!(progress.scope(self.exchange(outgoing, &progress)));
        let mut ended = tokio::time::timeout(limit, &mut exchange).await;
        if ended.is_err() {
            // The timer may fire before a response that arrived earlier is read: after a pause, both are ready at once.
            let late = started.elapsed().saturating_sub(limit);
            ended = tokio::time::timeout(late.min(CATCH_UP), &mut exchange).await;
        }
        let lost = self.pauses.lost().saturating_sub(lost_before);
        let result = ended.unwrap_or_else(|_| Err(timed_out(&progress, limit)));
        let result =
            result.map_err(|failed| if is_paused(failed.0, lost, limit) { paused(lost) } else { failed });
        // The receiver's time, without pauses of this process.
        let latency = started.elapsed().saturating_sub(lost);
        let connection = progress.connection();
        match result {
            Ok((reply, body)) => Incoming { reply, detail: None, body, latency, connection },
            Err((fault, detail)) => {
                let (reply, body) = (Reply::Failed(fault), Bytes::new());
                Incoming { reply, detail: Some(detail), body, latency, connection }
            }
        }
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.connections.open()
    }

    /// Returns the total number of addresses to which a connection was attempted.
    #[must_use]
    pub fn dialed(&self) -> u64 {
        self.connections.dialed()
    }

    async fn exchange(
        &self,
        outgoing: Outgoing,
        progress: &Progress,
    ) -> Result<(Reply, Bytes), (Fault, String)> {
        let response = match self.client.request(request(&outgoing)).await {
            Err(error) if may_repeat(&error) => {
                self.repeated.inc();
                self.fresh.request(request(&outgoing)).await
            }
            ended => ended,
        };
        let response = response.map_err(|error| of_exchange(&error))?;
        progress.answered();
        if let Some(wire) = response.extensions().get::<Wire>() {
            wire.note_answer();
        }
        let status = response.status().as_u16();
        let retry_after = breakerbox::http::retry_after(response.headers(), SystemTime::now());
        let body = self.first_bytes(response).await.map_err(|error| of_request(&error))?;
        Ok((Reply::Answered { status, retry_after }, body))
    }

    /// Returns the first bytes of a body. If the body is too long, the rest is not read, and its connection is closed.
    async fn first_bytes(&self, response: Response<hyper::body::Incoming>) -> Result<Bytes, hyper::Error> {
        let mut body = response.into_body();
        let mut kept = BytesMut::new();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            // Copied, since a slice would keep the whole buffer of the connection.
            let room = self.response_kept.saturating_sub(kept.len());
            kept.extend_from_slice(&data[..data.len().min(room)]);
            read += data.len();
            if read > self.response_read {
                break;
            }
        }
        Ok(kept.freeze())
    }
}

fn request(outgoing: &Outgoing) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = outgoing.target.uri().clone();
    *request.headers_mut() = outgoing.headers.clone();
    request
}

/// Returns the fault and the detail for a timeout. The fault is local if the request was waiting for one of the
/// gateway's own resources.
fn timed_out(progress: &Progress, limit: Duration) -> (Fault, String) {
    let limit = format_duration(limit);
    match progress.local_fault() {
        Some(cause) => {
            (Fault::Local(cause), format!("waited for the gateway's {} for {limit}", cause.name()))
        }
        None => {
            let what = if progress.is_answered() { "incomplete response" } else { "no response" };
            (Fault::Timeout, format!("{what} within {limit}"))
        }
    }
}

/// Returns whether a fault is attributed to pauses of this process, because they took at least an eighth of the
/// request's timeout. Local faults and denied addresses are never attributed to pauses.
fn is_paused(fault: Fault, lost: Duration, limit: Duration) -> bool {
    !matches!(fault, Fault::Local(_) | Fault::Denied) && !lost.is_zero() && lost >= limit / 8
}

fn paused(lost: Duration) -> (Fault, String) {
    let detail = format!("the process was paused for {} ms during the request", lost.as_millis());
    (Fault::Local(LocalFault::Pause), detail)
}

#[async_trait]
impl HttpSender for Sender {
    async fn send(&self, outgoing: Outgoing) -> Incoming {
        Self::send(self, outgoing).await
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("connections", &self.connections).finish_non_exhaustive()
    }
}
