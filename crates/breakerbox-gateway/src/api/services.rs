//! The dependencies of the API: each as a trait or a handle, so that tests can combine the real database with stand-ins
//! for the rest.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::Breakerbox;
use breakerbox::store::Store;
use breakerbox_core::Timestamp;
use breakerbox_egress::{AddressPolicy, Incoming};
use breakerbox_model::notifications::NotificationTarget;
use breakerbox_model::objects::{EventType, TenantId};
use breakerbox_model::shares::DEFAULT_SHARE;
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::records::Records;
use breakerbox_storage::{Directory, EndpointEntry};
use bytes::Bytes;

use super::serve::Connections;
use crate::dispatch::{EventSubmitter, LaneHolds};
use crate::notifications::Delivered;
use crate::permits::Permits;
use crate::telemetry::Metrics;

/// The dependencies of the API.
#[derive(Clone)]
pub struct Services {
    /// The stored records.
    pub records: Arc<dyn Records>,
    /// Tenants, endpoints and API keys, in memory.
    pub directory: Arc<Directory>,
    /// Accepts events.
    pub submitter: Arc<dyn EventSubmitter>,
    /// Reports which due deliveries are held back.
    pub holds: Arc<dyn LaneHolds>,
    /// All circuits.
    pub circuits: Breakerbox,
    /// The store of circuits, for listings.
    pub circuit_store: Arc<dyn Store>,
    /// The permits of workers.
    pub permits: Arc<Permits>,
    /// Sends test requests.
    pub tests: Arc<dyn TestSend>,
    /// Tests the targets of notifications.
    pub notification_tests: Arc<dyn NotificationTest>,
    /// The health of the gateway.
    pub health: Arc<dyn Health>,
    /// The metrics for `/metrics`.
    pub metrics: Arc<Metrics>,
    /// The queue's clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The wall clock.
    pub wall: WallClock,
    /// The addresses that may be called. A URL with another address is refused when it is created.
    pub addresses: Arc<AddressPolicy>,
    /// Limits of requests and connections.
    pub limits: Limits,
}

/// Sends test requests to an endpoint, past its circuit, and returns the response. They are neither counted nor stored.
#[async_trait]
pub trait TestSend: Send + Sync + 'static {
    /// Makes the request, within the endpoint's timeout.
    async fn test(&self, endpoint: Arc<EndpointEntry>, event: TestEvent) -> Incoming;
}

/// Sends a test notification to each of a tenant's targets, and returns their responses. Nothing is stored.
#[async_trait]
pub trait NotificationTest: Send + Sync + 'static {
    /// Sends to all targets at once, each within its time limit.
    ///
    /// # Errors
    /// If there were too many tests lately: the time of the next try. Nothing was sent.
    async fn test(&self, tenant: &TenantId) -> Result<Vec<TestedTarget>, Timestamp>;
}

/// The result of a test at one target.
#[derive(Clone, PartialEq, Debug)]
pub struct TestedTarget {
    /// The tested target.
    pub target: NotificationTarget,
    /// The response of the target.
    pub delivered: Delivered,
}

/// The event of a test request.
#[derive(Clone, PartialEq, Debug)]
pub struct TestEvent {
    /// The event type.
    pub kind: EventType,
    /// The payload, as it is sent.
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
    /// Whether the process can continue. If not, only a restart helps.
    pub alive: bool,
    /// Whether a load balancer should send requests here.
    pub ready: bool,
    /// The reasons why the gateway is degraded, for people, such as `database: accepts no writes`. A gateway can be degraded
    /// and ready.
    pub degraded: Vec<String>,
}

/// Limits of requests and connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The largest payload of an event, in bytes.
    pub payload: usize,
    /// Maximum events in one batch; also acquires and settlements of workers.
    pub batch_events: usize,
    /// The largest body of a batch, in bytes.
    pub batch_bytes: usize,
    /// The time limit of a worker's call, if the worker states none.
    pub permit_timeout: Duration,
    /// Maximum memory for bodies, over all requests, in bytes.
    pub bodies: usize,
    /// The time limit for the arrival of a body.
    pub body_timeout: Duration,
    /// The share of one tenant in each limit that all tenants share, in percent.
    pub tenant_share: u32,
    /// Maximum requests per minute from one client address without a valid key.
    pub auth_failures: u32,
    /// Whether `/metrics` needs no key.
    pub open_metrics: bool,
    /// Whether there is a mail server for notifications.
    pub mail: bool,
    /// Limits of connections.
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
