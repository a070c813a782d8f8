//! Endpoints: registered destinations.

use std::time::Duration;

use breakerbox_core::Timestamp;
use url::Url;

use super::event::Filter;
use super::{EndpointId, LaneId, RateLimit, Revision, SigningSecrets, TenantId};
use crate::delivery::{CustomHeaders, RetrySchedule};

/// A registered destination of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct Endpoint {
    /// Its name in paths and answers.
    pub id: EndpointId,
    /// Whose.
    pub tenant: TenantId,
    /// What can be changed.
    pub settings: EndpointSettings,
    /// Why nothing is sent; none: it is enabled. A circuit that is disabled shows as a reason too, but is kept by the circuit.
    pub disabled: Option<DisabledBecause>,
    /// With which its requests are signed.
    pub secrets: SigningSecrets,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// Which change that was.
    pub revision: Revision,
}

impl Endpoint {
    /// Where its deliveries wait.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.id.into()
    }
}

/// What can be changed of an endpoint. What is not set has the tenant's value, or the gateway's default.
#[derive(Clone, PartialEq, Debug)]
pub struct EndpointSettings {
    /// Where.
    pub url: Url,
    /// For people.
    pub description: String,
    /// Which events it gets.
    pub filter: Filter,
    /// Sent with each request.
    pub headers: CustomHeaders,
    /// How long a request may take, all in all.
    pub timeout: Option<Duration>,
    /// How many requests at once.
    pub max_in_flight: Option<u32>,
    /// How many requests in a second.
    pub rate: Option<RateLimit>,
    /// When failed attempts are tried again.
    pub retry: Option<RetrySchedule>,
    /// The policy of its circuit, as JSON with the names of the policy file, over the tenant's.
    pub policy: Option<serde_json::Value>,
    /// After how long waiting work is given up.
    pub expires_after: Option<Duration>,
}

impl EndpointSettings {
    /// Those of an endpoint of which nothing is known but where it is: it gets all events.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            description: String::new(),
            filter: Filter::ALL,
            headers: CustomHeaders::default(),
            timeout: None,
            max_in_flight: None,
            rate: None,
            retry: None,
            policy: None,
            expires_after: None,
        }
    }
}

/// Why an endpoint is not sent to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DisabledBecause {
    /// Its owner said so.
    Owner,
    /// It answered 410.
    Gone,
    /// Its circuit is disabled.
    Circuit,
}
