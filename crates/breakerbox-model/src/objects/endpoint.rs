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
    /// The id of the endpoint, in paths and responses.
    pub id: EndpointId,
    /// The tenant that the endpoint belongs to.
    pub tenant: TenantId,
    /// The settings that can be changed.
    pub settings: EndpointSettings,
    /// Why nothing is sent. `None`: the endpoint is enabled. A disabled circuit is shown as a reason too, but that
    /// state is stored with the circuit.
    pub disabled: Option<DisabledBecause>,
    /// The secrets with which its requests are signed.
    pub secrets: SigningSecrets,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// The number of the latest change.
    pub revision: Revision,
}

impl Endpoint {
    /// Returns the lane in which its deliveries wait.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.id.into()
    }
}

/// The settings of an endpoint that can be changed. Unset fields take the tenant's value, or the gateway's default.
#[derive(Clone, PartialEq, Debug)]
pub struct EndpointSettings {
    /// The destination of its requests.
    pub url: Url,
    /// A description for people.
    pub description: String,
    /// The events that the endpoint receives.
    pub filter: Filter,
    /// Headers that are sent with each request.
    pub headers: CustomHeaders,
    /// The timeout of a whole request.
    pub timeout: Option<Duration>,
    /// The maximum number of requests in flight.
    pub max_in_flight: Option<u32>,
    /// The limit on requests per second.
    pub rate: Option<RateLimit>,
    /// The waits before failed attempts are retried.
    pub retry: Option<RetrySchedule>,
    /// The policy of its circuit, as JSON with the field names of the policy file. It is applied over the tenant's
    /// policy.
    pub policy: Option<serde_json::Value>,
    /// How long a delivery may wait before it fails as expired.
    pub expires_after: Option<Duration>,
}

impl EndpointSettings {
    /// Returns the settings of an endpoint with this URL that receives all events. Everything else is unset.
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
    /// The owner disabled it.
    Owner,
    /// It responded with status 410.
    Gone,
    /// Its circuit is disabled.
    Circuit,
}
