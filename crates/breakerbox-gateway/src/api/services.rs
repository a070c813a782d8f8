//! The dependencies of the API, each a trait or a handle, so that tests can combine the real database with stand-ins
//! for the rest.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::Breakerbox;
use breakerbox::store::Store;
use breakerbox_core::Timestamp;
use breakerbox_core::own_outage::Outage;
use breakerbox_egress::{AddressPolicy, Incoming};
use breakerbox_model::notifications::NotificationTarget;
use breakerbox_model::objects::{EventType, TenantId};
use breakerbox_model::shares::DEFAULT_SHARE;
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::records::Records;
use breakerbox_storage::{Directory, EndpointEntry};
use bytes::Bytes;

use super::serve::Connections;
use crate::dispatch::{EventSubmitter, LaneWaits};
use crate::notifications::Delivered;
use crate::permits::Permits;
use crate::telemetry::Metrics;

/// The dependencies of the API.
#[derive(Clone)]
pub struct Services {
    /// Reads and writes stored records.
    pub records: Arc<dyn Records>,
    /// Tenants, endpoints and API keys, in memory.
    pub directory: Arc<Directory>,
    /// Accepts and stores events.
    pub submitter: Arc<dyn EventSubmitter>,
    /// Reports what lanes wait for.
    pub waits: Arc<dyn LaneWaits>,
    /// The circuits of all tenants.
    pub circuits: Breakerbox,
    /// The store that holds the circuits, for listings.
    pub circuit_store: Arc<dyn Store>,
    /// The permits that workers acquire and settle.
    pub permits: Arc<Permits>,
    /// Sends test requests to endpoints.
    pub tests: Arc<dyn TestSend>,
    /// Sends test notifications.
    pub notification_tests: Arc<dyn NotificationTest>,
    /// Reports the health of the gateway.
    pub health: Arc<dyn Health>,
    /// The metrics that `/metrics` returns.
    pub metrics: Arc<Metrics>,
    /// The store clock, which the queue uses. Unlike the wall clock, it never steps.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The wall clock, for times in requests and responses.
    pub wall: WallClock,
    /// The addresses that may be called. A URL with a denied address is rejected when it is submitted.
    pub addresses: Arc<AddressPolicy>,
    /// Limits for requests and connections.
    pub limits: Limits,
}

/// Sends test requests to an endpoint, regardless of its circuit, and returns the response. Test requests are neither
/// counted nor stored.
#[async_trait]
pub trait TestSend: Send + Sync + 'static {
    /// Makes one test request, with the endpoint's timeout. A fault, such as a timeout, is part of the result.
    async fn test(&self, endpoint: Arc<EndpointEntry>, event: TestEvent) -> Incoming;
}

/// Sends a test notification to each of a tenant's targets, and returns their responses. Nothing is stored.
#[async_trait]
pub trait NotificationTest: Send + Sync + 'static {
    /// Sends to all targets concurrently, each within its timeout.
    ///
    /// # Errors
    /// If there were too many tests recently, returns the earliest time of the next one. Nothing was sent.
    async fn test(&self, tenant: &TenantId) -> Result<Vec<TestedTarget>, Timestamp>;
}

/// The result of testing one notification target.
#[derive(Clone, PartialEq, Debug)]
pub struct TestedTarget {
    /// The target to which the test notification was sent.
    pub target: NotificationTarget,
    /// The target's response, or the error.
    pub delivered: Delivered,
}

/// The event sent by a test request.
#[derive(Clone, PartialEq, Debug)]
pub struct TestEvent {
    /// The event type.
    pub kind: EventType,
    /// The payload, sent byte for byte.
    pub payload: Bytes,
    /// The content type of the payload.
    pub content_type: Arc<str>,
}

/// Reports the health of the gateway.
pub trait Health: Send + Sync + 'static {
    /// Returns the current health.
    fn report(&self) -> HealthReport;
}

/// The health of the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthReport {
    /// Whether the process can continue. If not, it has to be restarted.
    pub alive: bool,
    /// Whether a load balancer should send requests to this gateway.
    pub ready: bool,
    /// Human-readable reasons why the gateway is degraded, such as `database: accepts no writes`. A gateway can be
    /// degraded and still ready.
    pub degraded: Vec<String>,
    /// The current outage on the gateway's own side: most destinations can't be reached.
    pub own_outage: Option<Outage>,
}

/// Limits for requests and connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The maximum size of an event's payload, in bytes.
    pub payload: usize,
    /// The maximum number of items in one batch: events, reminders, or permits to acquire or settle.
    pub batch_events: usize,
    /// The maximum size of a batch body, in bytes.
    pub batch_bytes: usize,
    /// The default timeout for a worker's call.
    pub permit_timeout: Duration,
    /// The maximum memory for the bodies of all requests, in bytes.
    pub bodies: usize,
    /// The timeout for receiving a request body.
    pub body_timeout: Duration,
    /// The percentage of each shared limit, such as the memory for bodies, that one tenant may use.
    pub tenant_share: u32,
    /// The maximum number of requests with an invalid API key per minute and client address. Requests without a key do
    /// not count.
    pub auth_failures: u32,
    /// Whether `/metrics` may be read without a key.
    pub open_metrics: bool,
    /// Whether a mail server for notifications is configured.
    pub mail: bool,
    /// Limits and timeouts for API connections.
    pub connections: Connections,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload: 256 * 1024,
            batch_events: 1_000,
            batch_bytes: 4 * 1024 * 1024,
            permit_timeout: Duration::from_secs(60),
            bodies: 64 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            tenant_share: DEFAULT_SHARE,
            auth_failures: 30,
            open_metrics: false,
            mail: false,
            connections: Connections::default(),
        }
    }
}
