//! The sender: makes one request, within one deadline, and says what came of it.
//!
//! What is guaranteed: an attempt ends by its deadline; of an answer's body so much is read and so much kept as the settings
//! say, as it came, without unpacking anything; no redirect is followed; connections are made to addresses that the policy allows, or
//! to the proxy. A request that ended with the connection it was
//! made over, before a byte of its answer came, is made again at once on a fresh connection, within the same deadline, once.
//! What is not guaranteed: that the receiver did not get a request that failed, or got it only once.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
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
use super::fault::{may_repeat, of_request};
use super::progress::Progress;
use super::proxy::Proxy;
use super::resolve::{LookUps, Resolve, SystemResolver};
use super::trust::{Trust, TrustError};
use super::{Courier, Incoming, Outgoing};
use crate::host::Pauses;

/// The longest headers of an answer.
const MAX_HEADERS: usize = 64 << 10;

/// How long after its deadline a request is looked at once more, if the deadline was noticed late.
const CATCH_UP: Duration = Duration::from_secs(1);

/// How requests are sent.
#[derive(Clone, Debug)]
pub struct SendSettings {
    /// Which addresses may be called.
    pub addresses: AddressPolicy,
    /// Through which proxy all of it goes.
    pub proxy: Option<Proxy>,
    /// Whose certificates are believed.
    pub trust: Trust,
    /// How long a connection may take to come about: name, TCP, TLS.
    pub connect_limit: Duration,
    /// How long an unused connection is kept.
    pub idle_limit: Duration,
    /// How many connections are kept open for reuse; those beyond are used once.
    pub max_connections_kept: usize,
    /// How many unused ones are kept for each host.
    pub max_idle_per_host: usize,
    /// How many names are looked up at once.
    pub look_ups: usize,
    /// How much of an answer's body is read, in bytes. What is longer ends the connection, and is no error.
    pub response_read: usize,
    /// How much of it is kept.
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

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    client: Client<Connector, Full<Bytes>>,
    /// Keeps no connections.
    fresh: Client<Connector, Full<Bytes>>,
    connections: Arc<Connections>,
    pauses: Pauses,
    repeated: Counter,
    response_read: usize,
    response_kept: usize,
}

impl Sender {
    /// A sender that asks the system for the addresses of names.
    ///
    /// # Errors
    /// If a file of certificates is of no use.
    pub fn new(settings: &SendSettings) -> Result<Self, TrustError> {
        Self::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// A sender that asks someone else.
    ///
    /// # Errors
    /// If a file of certificates is of no use.
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
                // A connection that many requests share would go on failing all of them.
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

    /// With what notices that the process was paused.
    #[must_use]
    pub fn with_pauses(self, pauses: Pauses) -> Self {
        Self { pauses, ..self }
    }

    /// Counts requests that are made again on a fresh connection.
    #[must_use]
    pub fn counting_repeated(self, repeated: Counter) -> Self {
        Self { repeated, ..self }
    }

    /// Makes a request, and says what came of it by its deadline.
    pub async fn send(&self, outgoing: Outgoing) -> Incoming {
        let (started, lost_before) = (Instant::now(), self.pauses.lost());
        let limit = outgoing.limit;
        let progress = Progress::new(outgoing.tenant.clone());
        let mut exchange = std::pin::pin!(progress.scope(self.exchange(outgoing, &progress)));
        let mut ended = tokio::time::timeout(limit, &mut exchange).await;
        if ended.is_err() {
            // The timer may be heard before an answer that came first: after a pause all of them are there at once.
            let late = started.elapsed().saturating_sub(limit);
            ended = tokio::time::timeout(late.min(CATCH_UP), &mut exchange).await;
        }
        let lost = self.pauses.lost().saturating_sub(lost_before);
        let result = ended.unwrap_or_else(|_| Err(timed_out(&progress, limit)));
        let result =
            result.map_err(|failed| if is_paused(failed.0, lost, limit) { paused(lost) } else { failed });
        // How long the receiver took, and not how long this process did not look.
        let latency = started.elapsed().saturating_sub(lost);
        match result {
            Ok((reply, body)) => Incoming { reply, detail: None, body, latency },
            Err((fault, detail)) => {
                Incoming { reply: Reply::Failed(fault), detail: Some(detail), body: Bytes::new(), latency }
            }
        }
    }

    /// How many connections are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.connections.open()
    }

    /// How many addresses a connection was asked of, ever.
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
        let response = response.map_err(|error| of_request(&error))?;
        progress.answered();
        if let Some(wire) = response.extensions().get::<Wire>() {
            wire.note_answer();
        }
        let status = response.status().as_u16();
        let retry_after = breakerbox::http::retry_after(response.headers(), SystemTime::now());
        let body = self.first_bytes(response).await.map_err(|error| of_request(&error))?;
        Ok((Reply::Answered { status, retry_after }, body))
    }

    /// The first bytes of a body. What is too long is left where it is, and its connection closed.
    async fn first_bytes(&self, response: Response<hyper::body::Incoming>) -> Result<Bytes, hyper::Error> {
        let mut body = response.into_body();
        let mut kept = BytesMut::new();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            // Copied, since the rest of the connection's buffer would be kept with it.
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

/// Who kept a request waiting until its time was over.
fn timed_out(progress: &Progress, limit: Duration) -> (Fault, String) {
    let limit = limit.as_millis();
    match progress.local_fault() {
        Some(cause) => {
            (Fault::Local(cause), format!("waited for the gateway's {} for {limit} ms", cause.name()))
        }
        None => {
            let what =
                if progress.is_answered() { "the answer was not complete" } else { "nothing was answered" };
            (Fault::Timeout, format!("{what} within {limit} ms"))
        }
    }
}

/// Whether a fault is blamed on a pause of this process: the pause took a good part of the request's time. An address that is
/// denied is denied at any time.
fn is_paused(fault: Fault, lost: Duration, limit: Duration) -> bool {
    !matches!(fault, Fault::Local(_) | Fault::Denied) && !lost.is_zero() && lost >= limit / 8
}

fn paused(lost: Duration) -> (Fault, String) {
    let detail = format!("the process was not run for {} ms of the request's time", lost.as_millis());
    (Fault::Local(LocalFault::Pause), detail)
}

#[async_trait]
impl Courier for Sender {
    async fn send(&self, outgoing: Outgoing) -> Incoming {
        Self::send(self, outgoing).await
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("connections", &self.connections).finish_non_exhaustive()
    }
}
