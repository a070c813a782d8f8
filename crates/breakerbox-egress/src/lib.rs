//! Outgoing HTTP: one request, one deadline, one answer. It connects to addresses that may be called and to no other.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`AddressPolicy`] | which addresses may be called |
//! | [`Resolve`] | finds the addresses of names; look-ups are bounded |
//! | [`Proxy`] | the way out, where an operator wants one |
//! | [`Trust`] | whose certificates are believed |
//! | [`Sender`] | makes requests over all of these |
//! | [`host`] | what the process needs from its host, and how it notices that it lacks it |
//!
//! It reads no settings, stores nothing and knows no API. What an answer means is decided elsewhere ([`Rulings`](breakerbox_model::delivery::Rulings)).

mod address;
mod connection;
mod connector;
mod dial;
mod fault;
pub mod host;
mod look_up_places;
mod progress;
mod proxy;
mod resolve;
mod sender;
mod trust;

use std::time::Duration;

use breakerbox_model::delivery::{Reply, Target};
use breakerbox_model::objects::TenantId;
use bytes::Bytes;

pub use address::{AddressPolicy, DeniedAddress, DeniedUrl};
pub use proxy::{Proxy, ProxyError};
pub use resolve::{Resolve, SystemResolver};
pub use sender::{SendSettings, Sender};
pub use trust::{Trust, TrustError};

/// A request to make.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where.
    pub target: Target,
    /// All headers, the signature among them.
    pub headers: http::HeaderMap,
    /// The payload.
    pub body: Bytes,
    /// How long everything may take: name, connection, trust, headers, body.
    pub limit: Duration,
    /// The tenant that the request is made for; none: the operator. Each has a share of the DNS look-ups.
    pub tenant: Option<TenantId>,
}

/// What came of a request.
#[derive(Clone, PartialEq, Debug)]
pub struct Incoming {
    /// What came back.
    pub reply: Reply,
    /// More about a fault, for people; never a secret.
    pub detail: Option<String>,
    /// The first bytes of the answer's body.
    pub body: Bytes,
    /// How long it took.
    pub latency: Duration,
}

/// Makes requests. The real one is [`Sender`]; tests have their own.
#[async_trait::async_trait]
pub trait Courier: Send + Sync + 'static {
    /// Makes one request, to its end.
    async fn send(&self, outgoing: Outgoing) -> Incoming;
}
