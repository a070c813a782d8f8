//! Outgoing HTTP: one request, one deadline, one response. Connects only to addresses that the policy allows.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`AddressPolicy`] | which addresses may be called |
//! | [`Resolve`] | resolves host names; look-ups are bounded |
//! | [`Proxy`] | the proxy for all requests, if the operator configures one |
//! | [`Trust`] | the trusted certificate authorities |
//! | [`Sender`] | makes requests with all of these |
//! | [`host`] | the resources that the process needs from its host, and how it detects a lack of them |
//!
//! This crate does not read settings, store data or know the gateway's API. The response rules
//! ([`ResponseRules`](breakerbox_model::delivery::ResponseRules)) decide what a response means.

mod address;
mod connection;
mod connector;
mod dial;
mod fault;
pub mod host;
mod look_up_slots;
mod progress;
mod proxy;
mod resolve;
mod sender;
mod trust;

use std::time::Duration;

use breakerbox_model::delivery::{Connection, Reach, Reply, Target};
use breakerbox_model::objects::TenantId;
use bytes::Bytes;

pub use address::{AddressPolicy, DeniedAddress, DeniedUrl};
pub use proxy::{Proxy, ProxyError};
pub use resolve::{Resolve, SystemResolver};
pub use sender::{SendSettings, Sender};
pub use trust::{Trust, TrustError};

/// An HTTP request to make: a POST to a receiver.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The parsed URL of the receiver.
    pub target: Target,
    /// All request headers, including the signature.
    pub headers: http::HeaderMap,
    /// The request body, sent unchanged.
    pub body: Bytes,
    /// The timeout of the whole request, from DNS look-up to the end of the response body.
    pub limit: Duration,
    /// The tenant that the request is made for. `None` means the operator. Each tenant and the operator have their own
    /// share of the concurrent DNS look-ups.
    pub tenant: Option<TenantId>,
}

/// The result of an HTTP request.
#[derive(Clone, PartialEq, Debug)]
pub struct Incoming {
    /// The response, or the fault that prevented it.
    pub reply: Reply,
    /// A human-readable description of the fault. Never contains a secret.
    pub detail: Option<String>,
    /// The first bytes of the response body, up to [`SendSettings::response_kept`].
    pub body: Bytes,
    /// The duration of the request, without pauses of this process.
    pub latency: Duration,
    /// The connection that the request used, as far as it got.
    pub connection: Connection,
}

impl Incoming {
    /// Returns whether the request reached its receiver; `None` if the result does not tell.
    #[must_use]
    pub const fn reach(&self) -> Option<Reach> {
        self.reply.reach(self.connection)
    }
}

/// Makes HTTP requests. [`Sender`] is the real implementation; tests have their own.
#[async_trait::async_trait]
pub trait HttpSender: Send + Sync + 'static {
    /// Makes one request. A fault, such as a timeout, is part of the result.
    async fn send(&self, outgoing: Outgoing) -> Incoming;
}
