//! A gateway without disk and network, in virtual time: dispatch with its real lanes, gates and circuits, an in-memory
//! queue, and an HTTP sender with scripted responses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::MemoryStore;
use breakerbox::throttle::Throttle;
use breakerbox::{Breakerbox, Clock, Policy};
use breakerbox_core::Timestamp;
use breakerbox_egress::{HttpSender, Incoming, Outgoing};
use breakerbox_gateway::dispatch::{
    DirectDispatch, Dispatch, EventSubmitter, MaintenanceRecords, Parts, Settings, Watch,
};
use breakerbox_gateway::telemetry::Metrics;
use breakerbox_model::delivery::{Connection, Fault, Reply};
use breakerbox_model::objects::{
    Endpoint, EndpointId, EndpointSettings, Filter, Id, LaneId, NewBatch, NewEvent, Priority, Revision,
    Secret, SigningSecrets, Tenant, TenantId, TenantSettings,
};
use breakerbox_storage::records::RecordsError;
use breakerbox_storage::{BatchResult, Defaults, Directory, QueueError};
use breakerbox_testkit::faults::FaultyStore;
use tokio::time::Instant;

use super::memory_queue::MemoryQueue;

/// Tokio's time, as a clock for circuits.
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000) + self.0.elapsed()
    }
}

/// A receiver's responses: delay and reply, by the number of earlier requests.
type Answers = Box<dyn Fn(usize) -> (Duration, Reply) + Send + Sync>;

/// The requests that a receiver got.
#[derive(Default)]
pub(super) struct Receiver {
    /// The time of each request, since the start of the test.
    pub(super) requests: Vec<Duration>,
    pub(super) in_flight: usize,
    pub(super) most_in_flight: usize,
    pub(super) payloads: Vec<bytes::Bytes>,
}

pub(super) struct Couriers {
    started: Instant,
    answers: Mutex<HashMap<String, Arc<Answers>>>,
    seen: Mutex<HashMap<String, Receiver>>,
}

#[async_trait]
impl HttpSender for Couriers {
    async fn send(&self, outgoing: Outgoing) -> Incoming {
        let host = outgoing.target.uri().host().unwrap().to_owned();
        assert!(outgoing.headers.contains_key("webhook-signature"), "each request is signed");
        let (before, answers) = {
            let mut seen = self.seen.lock().unwrap();
            let receiver = seen.entry(host.clone()).or_default();
            receiver.requests.push(self.started.elapsed());
            receiver.payloads.push(outgoing.body.clone());
            receiver.in_flight += 1;
            receiver.most_in_flight = receiver.most_in_flight.max(receiver.in_flight);
            (receiver.requests.len() - 1, Arc::clone(&self.answers.lock().unwrap()[&host]))
        };
        let (after, reply) = answers(before);
        let (latency, reply) = if after >= outgoing.limit {
            (outgoing.limit, Reply::Failed(Fault::Timeout))
        } else {
            (after, reply)
        };
        tokio::time::sleep(latency).await;
        self.seen.lock().unwrap().get_mut(&host).unwrap().in_flight -= 1;
        Incoming { reply, detail: None, body: bytes::Bytes::new(), latency, connection: Connection::Existing }
    }
}

/// The endpoints that dispatch reported as gone.
#[derive(Default)]
pub(super) struct Written(pub(super) Mutex<Vec<EndpointId>>);

#[async_trait]
impl MaintenanceRecords for Written {
    async fn endpoint_is_gone(&self, id: EndpointId) -> Result<(), RecordsError> {
        self.0.lock().unwrap().push(id);
        Ok(())
    }

    async fn cancel_orphans(&self, _: usize) -> Result<BatchResult, QueueError> {
        Ok(BatchResult::default())
    }

    async fn step_resends(&self, _: usize) -> Result<BatchResult, QueueError> {
        Ok(BatchResult::default())
    }

    async fn prune_history(&self, _: Timestamp, _: usize) -> Result<BatchResult, QueueError> {
        Ok(BatchResult::default())
    }

    async fn prune_reminders(&self, _: Timestamp, _: usize) -> Result<BatchResult, QueueError> {
        Ok(BatchResult::default())
    }
}

pub(super) struct Site {
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) directory: Arc<Directory>,
    pub(super) breakers: Breakerbox,
    pub(super) written: Arc<Written>,
    pub(super) metrics: Arc<Metrics>,
    couriers: Arc<Couriers>,
    started: Instant,
}

pub(super) fn ok() -> Reply {
    answered(200)
}

pub(super) const fn answered(status: u16) -> Reply {
    Reply::Answered { status, retry_after: None }
}

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

impl Site {
    pub(super) fn new(policy: Policy, settings: Settings) -> Self {
        Self::with(policy, settings, |builder| builder)
    }

    pub(super) fn with(
        policy: Policy,
        settings: Settings,
        change: impl FnOnce(breakerbox::BreakerboxBuilder) -> breakerbox::BreakerboxBuilder,
    ) -> Self {
        let started = Instant::now();
        let directory = Arc::new(Directory::new(Defaults::default()));
        let queue = Arc::new(MemoryQueue::new(Arc::clone(&directory)));
        let written = Arc::<Written>::default();
        let couriers = Arc::new(Couriers { started, answers: Mutex::default(), seen: Mutex::default() });
        let heard: Arc<std::sync::OnceLock<std::sync::Weak<Dispatch>>> = Arc::default();
        let hears = Arc::clone(&heard);
        // Circuits are stored in a database, which takes time.
        let store = FaultyStore::new(Arc::new(MemoryStore::with_clock(Virtual(started))));
        store.delay(MILLISECOND / 2);
        let breakers = change(Breakerbox::builder().policy(policy).clock(Virtual(started)))
            .store(store)
            .exclusive_store()
            .observer(move |change| {
                if let Some(dispatch) = hears.get().and_then(std::sync::Weak::upgrade) {
                    dispatch.circuit_changed(change);
                }
            })
            .seed(7)
            .build();
        let metrics = Arc::new(Metrics::new());
        let parts = Parts {
            queue: queue.clone(),
            maintenance_records: written.clone(),
            directory: Arc::clone(&directory),
            breakers: breakers.clone(),
            throttles: Some(Throttle::builder().clock(Virtual(started)).build_keyed(10_000)),
            http_sender: couriers.clone(),
            metrics: Arc::clone(&metrics),
            wall: Arc::new(move || Virtual(started).now()),
        };
        let dispatch = Dispatch::new(parts, settings);
        heard.set(Arc::downgrade(&dispatch)).unwrap();
        let direct_dispatch = Arc::new(DirectDispatch::default());
        direct_dispatch.set_dispatch(&dispatch);
        queue.is_taken_by(direct_dispatch);
        assert!(directory.watch(Watch::over(&dispatch)));
        tokio::spawn(Arc::clone(&dispatch).run());
        Self { queue, dispatch, directory, breakers, written, metrics, couriers, started }
    }

    pub(super) fn tenant(&self, name: &str) -> TenantId {
        let id: TenantId = name.parse().unwrap();
        let settings = TenantSettings::new(name);
        let at = Timestamp::ZERO;
        let tenant = Tenant {
            id: id.clone(),
            settings,
            secrets: SigningSecrets::new(Secret::random(), at),
            created_at: at,
            changed_at: at,
            revision: Revision::FIRST,
        };
        let entry = self.directory.resolve_tenant(tenant, 1).unwrap();
        self.directory.put_tenant_endpoints(self.directory.resolve_tenant_endpoints(entry).unwrap());
        id
    }

    /// Creates an endpoint of a tenant at `https://HOST/` with these responses. The endpoint receives events of type
    /// HOST and of type `all`.
    pub(super) fn endpoint(
        &self,
        tenant: &TenantId,
        host: &str,
        answers: impl Fn(usize) -> (Duration, Reply) + Send + Sync + 'static,
    ) -> LaneId {
        let endpoint = self.settings(tenant, host);
        self.answers(host, answers);
        let lane = endpoint.lane();
        self.put(endpoint);
        lane
    }

    pub(super) fn settings(&self, tenant: &TenantId, host: &str) -> Endpoint {
        let number = self.directory.endpoints().len();
        let at = Timestamp::ZERO;
        let settings = EndpointSettings {
            filter: Filter::any_of([host, "all"]).unwrap(),
            ..EndpointSettings::new(format!("https://{host}.example/").parse().unwrap())
        };
        Endpoint {
            id: EndpointId(Id::from_number(i64::try_from(number + 1).unwrap()).unwrap()),
            tenant: tenant.clone(),
            settings,
            disabled: None,
            secrets: SigningSecrets::new(Secret::random(), at),
            created_at: at,
            changed_at: at,
            revision: Revision::FIRST,
        }
    }

    pub(super) fn put(&self, endpoint: Endpoint) {
        self.directory.put_endpoint(self.directory.resolve_endpoint(endpoint).unwrap());
    }

    pub(super) fn answers(
        &self,
        host: &str,
        answers: impl Fn(usize) -> (Duration, Reply) + Send + Sync + 'static,
    ) {
        let answers: Arc<Answers> = Arc::new(Box::new(answers));
        self.couriers.answers.lock().unwrap().insert(format!("{host}.example"), answers);
    }

    /// Submits events of a type, one by one.
    pub(super) async fn submit(&self, tenant: &TenantId, kind: &str, count: usize, priority: Priority) {
        self.submit_all(tenant, kind, count, priority, None).await;
    }

    /// Submits events that expire at this time.
    pub(super) async fn submit_until(
        &self,
        tenant: &TenantId,
        kind: &str,
        count: usize,
        expires_at: Option<Timestamp>,
    ) {
        self.submit_all(tenant, kind, count, Priority::Medium, expires_at).await;
    }

    async fn submit_all(
        &self,
        tenant: &TenantId,
        kind: &str,
        count: usize,
        priority: Priority,
        expires_at: Option<Timestamp>,
    ) {
        for number in 0..count {
            let event = NewEvent {
                kind: kind.parse().unwrap(),
                payload: format!("{priority} {number}").into(),
                content_type: "text/plain".into(),
                priority,
                url: None,
                not_before: None,
                expires_at,
            };
            let batch = NewBatch { tenant: tenant.clone(), events: vec![event], idempotency: None };
            self.dispatch.submit(batch).await.unwrap();
        }
    }

    /// Reads the requests that a receiver got.
    pub(super) fn seen<T>(&self, host: &str, look: impl Fn(&Receiver) -> T) -> T {
        look(self.couriers.seen.lock().unwrap().entry(format!("{host}.example")).or_default())
    }

    pub(super) fn requests(&self, host: &str) -> usize {
        self.seen(host, |receiver| receiver.requests.len())
    }

    /// Lets virtual time pass until a condition is met; fails after the limit.
    pub(super) async fn until(&self, limit: Duration, mut holds: impl FnMut(&Self) -> bool) {
        let give_up_at = Instant::now() + limit;
        while !holds(self) {
            assert!(Instant::now() < give_up_at, "not within {limit:?}");
            tokio::time::sleep(MILLISECOND).await;
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn circuit(&self, host: &str) -> breakerbox::Circuit {
        self.breakers.circuit(&format!("acme https://{host}.example")).unwrap()
    }
}
