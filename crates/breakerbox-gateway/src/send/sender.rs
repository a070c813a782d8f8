//! The sender: makes one request, within one deadline, and says what came of it.
//!
//! What is guaranteed: an attempt ends by its deadline; of an answer's body so much is read and so much kept as the settings
//! say, as it came, without unpacking anything; no redirect is followed; connections are made to addresses that the policy allows, or
//! to the proxy. What is not: that the receiver did not get a request that failed. A request on a reused connection that
//! turns out to be closed is made again on a fresh one only if none of it was sent.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;

use super::address::AddressPolicy;
use super::connection::Connections;
use super::connector::Connector;
use super::dial::Dialer;
use super::fault::of_request;
use super::proxy::Proxy;
use super::resolve::{LookUps, Resolve, SystemResolver};
use super::trust::{Trust, TrustError};
use super::{Courier, Incoming, Outgoing};
use crate::delivery::{Fault, Reply};

/// The longest headers of an answer.
const MAX_HEADERS: usize = 64 << 10;

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
    connections: Arc<Connections>,
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
            settings.proxy.as_ref(),
            settings.trust.config()?,
            settings.connect_limit,
        );
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle_limit)
            .pool_max_idle_per_host(settings.max_idle_per_host)
            .http1_max_buf_size(MAX_HEADERS)
            .http2_max_header_list_size(16 << 10)
            .http2_initial_stream_window_size(64 << 10)
            .http2_initial_connection_window_size(1 << 20)
            // A connection that many requests share would go on failing all of them.
            .http2_keep_alive_interval(Duration::from_secs(10))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .retry_canceled_requests(true)
            .build(connector);
        let (response_read, response_kept) = (settings.response_read, settings.response_kept);
        Ok(Self { client, connections, response_read, response_kept })
    }

    /// Makes a request, and says what came of it by its deadline.
    pub async fn send(&self, outgoing: Outgoing) -> Incoming {
        let started = Instant::now();
        let limit = outgoing.limit;
        let mut is_answered = false;
        let exchange = tokio::time::timeout(limit, self.exchange(outgoing, &mut is_answered)).await;
        let result = exchange.unwrap_or_else(|_| {
            let what = if is_answered { "the answer was not complete" } else { "nothing was answered" };
            Err((Fault::Timeout, format!("{what} within {} ms", limit.as_millis())))
        });
        let latency = started.elapsed();
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
        is_answered: &mut bool,
    ) -> Result<(Reply, Bytes), (Fault, String)> {
        let mut request = Request::new(Full::new(outgoing.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = outgoing.target.uri().clone();
        *request.headers_mut() = outgoing.headers;
        let response = self.client.request(request).await.map_err(|error| of_request(&error))?;
        *is_answered = true;
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
