//! What the API stands on: each part as a trait or a handle, so that it can be tried with the real database and stand-ins for
//! the rest.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::Breakerbox;
use breakerbox::store::Store;
use breakerbox_core::Timestamp;
use breakerbox_egress::{AddressPolicy, Incoming};
use breakerbox_model::notifications::NoticeTarget;
use breakerbox_model::objects::{EventType, TenantId};
use breakerbox_model::shares::DEFAULT_SHARE;
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::records::Records;
use breakerbox_storage::{Directory, EndpointEntry};
use bytes::Bytes;

use super::serve::Connections;
use crate::dispatch::{Intake, LaneHolds};
use crate::notifications::Delivered;
use crate::permits::Permits;
use crate::telemetry::Metrics;

/// What the API stands on.
#[derive(Clone)]
pub struct Services {
    /// What is kept.
    pub records: Arc<dyn Records>,
    /// Tenants, endpoints and API keys in memory.
    pub directory: Arc<Directory>,
    /// Takes events in.
    pub intake: Arc<dyn Intake>,
    /// Which deliveries are held though they are due.
    pub holds: Arc<dyn LaneHolds>,
    /// All circuits.
    pub circuits: Breakerbox,
    /// Where they are kept, to list them.
    pub circuit_store: Arc<dyn Store>,
    /// Permits of workers.
    pub permits: Arc<Permits>,
    /// Sends one request now.
    pub tests: Arc<dyn TestSend>,
    /// Tries the targets of notices.
    pub notice_tests: Arc<dyn NoticeTest>,
    /// How the gateway is doing.
    pub health: Arc<dyn Health>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// The queue's time.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The wall clock.
    pub wall: WallClock,
    /// Which addresses may be called: a URL that names another one is refused when it is created.
    pub addresses: Arc<AddressPolicy>,
    /// How much is too much.
    pub limits: Limits,
}

/// Sends one request to an endpoint now, whatever its circuit says, and reports. It counts nowhere and is kept nowhere.
#[async_trait]
pub trait TestSend: Send + Sync + 'static {
    /// Makes the request, within the endpoint's own time limit.
    async fn test(&self, endpoint: Arc<EndpointEntry>, event: TestEvent) -> Incoming;
}

/// Sends a test notice to each of a tenant's targets now, and reports. It is kept nowhere.
#[async_trait]
pub trait NoticeTest: Send + Sync + 'static {
    /// Sends them, all at once, each within its time limit.
    ///
    /// # Errors
    /// If there were too many of late: when to try again. Nothing was sent.
    async fn test(&self, tenant: &TenantId) -> Result<Vec<TestedTarget>, Timestamp>;
}

/// A target that was tried.
#[derive(Clone, PartialEq, Debug)]
pub struct TestedTarget {
    /// Which.
    pub target: NoticeTarget,
    /// What came of it.
    pub delivered: Delivered,
}

/// What is sent to try an endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct TestEvent {
    /// What kind.
    pub kind: EventType,
    /// What.
    pub payload: Bytes,
    /// What the payload is.
    pub content_type: Arc<str>,
}

/// How the gateway is doing.
pub trait Health: Send + Sync + 'static {
    /// Now.
    fn report(&self) -> HealthReport;
}

/// How the gateway is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthReport {
    /// Whether the process can go on. If not, only a restart helps.
    pub alive: bool,
    /// Whether requests should be sent here.
    pub ready: bool,
    /// What is not as it should be, for people, such as `store: does not answer`. A gateway can be degraded and ready.
    pub degraded: Vec<String>,
}

/// How much is too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one event's payload.
    pub payload: usize,
    /// Events of one batch; also asks and reports of workers.
    pub batch_events: usize,
    /// Bytes of a batch's body.
    pub batch_bytes: usize,
    /// How long a worker's call may take if it says nothing.
    pub permit_timeout: Duration,
    /// Bytes of all bodies in memory.
    pub bodies: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// What one tenant may take of what all tenants share, in percent.
    pub tenant_share: u32,
    /// How many requests without a valid key an address may make in a minute.
    pub auth_failures: u32,
    /// Whether `/metrics` needs no key.
    pub open_metrics: bool,
    /// Whether there is a mail server for notices.
    pub mail: bool,
    /// Connections and their times.
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
