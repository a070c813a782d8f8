//! Endpoints: the destinations that tenants register.

use std::time::Duration;

use breakerbox_core::Timestamp;
use url::Url;

use super::event::Filter;
use super::{EndpointId, LaneId, RateLimit, Revision, SigningSecrets, TenantId};
use crate::delivery::{CustomHeaders, RetrySchedule};

/// A destination that a tenant registered.
#[derive(Clone, PartialEq, Debug)]
pub struct Endpoint {
    /// The endpoint's id in paths and responses, `ep_...`.
    pub id: EndpointId,
    /// The tenant that the endpoint belongs to.
    pub tenant: TenantId,
    /// The settings that the tenant can change.
    pub settings: EndpointSettings,
    /// Why nothing is sent to the endpoint. `None`: the endpoint is enabled. Responses also report a disabled circuit
    /// as a reason, but that state is stored with the circuit.
    pub disabled: Option<DisabledBecause>,
    /// The secrets that sign the endpoint's requests.
    pub secrets: SigningSecrets,
    /// When the endpoint was created.
    pub created_at: Timestamp,
    /// When the endpoint was last changed.
    pub changed_at: Timestamp,
    /// The revision, which each change increments.
    pub revision: Revision,
}

impl Endpoint {
    /// Returns the lane in which the endpoint's deliveries wait.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.id.into()
    }
}

/// The settings of an endpoint that can be changed. An unset field takes the tenant's value, or else the gateway's
/// default.
#[derive(Clone, PartialEq, Debug)]
pub struct EndpointSettings {
    /// The URL that requests are sent to.
    pub url: Url,
    /// A human-readable description.
    pub description: String,
    /// Which of the tenant's events the endpoint receives.
    pub filter: Filter,
    /// Custom headers that are sent with each request.
    pub headers: CustomHeaders,
    /// The timeout for a whole request. `None`: the gateway's default.
    pub timeout: Option<Duration>,
    /// The maximum number of requests in flight to the endpoint. `None`: the gateway's default.
    pub max_in_flight: Option<u32>,
    /// The limit on requests per second. `None`: no limit.
    pub rate: Option<RateLimit>,
    /// The delays before failed attempts are retried. `None`: the tenant's delays.
    pub retry: Option<RetrySchedule>,
    /// The circuit's policy, as JSON with the field names of the policy file. Its values override the tenant's
    /// policy. `None`: only the tenant's policy applies.
    pub policy: Option<serde_json::Value>,
    /// The maximum time that a delivery may wait before it fails as expired. `None`: the tenant's maximum.
    pub expires_after: Option<Duration>,
}

impl EndpointSettings {
    /// Returns settings with this URL that receive all events. All other fields are unset.
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

/// Why nothing is sent to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DisabledBecause {
    /// The endpoint's owner disabled it.
    Owner,
    /// The endpoint responded with status 410.
    Gone,
    /// The endpoint's circuit is disabled.
    Circuit,
}
