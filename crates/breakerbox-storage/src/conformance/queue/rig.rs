//! The test rig for a queue: a new queue with a clock that the cases set, tenants and endpoints, a crash, and access
//! to the stored rows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{BatchResult, Claim, Claimed, Leased, Queue, Reservations, Settled, Settlement, Submitted};
use async_trait::async_trait;
use breakerbox::{Clock, ManualClock};
use breakerbox_core::Timestamp;
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{
    Attempt, Backlog, DeliveryId, DeliveryState, EventType, Filter, IdempotencyKey, LaneId, NewBatch,
    NewEvent, Priority, TenantId,
};
use bytes::Bytes;

/// The duration of leases in the test cases.
pub const LEASE: Duration = Duration::from_secs(45);

/// A queue under test, with the additional operations that the test cases need.
#[async_trait]
pub trait Rig: Sized + Send + Sync + 'static {
    /// Creates a rig with an empty queue.
    async fn new() -> Self;

    fn queue(&self) -> Arc<dyn Queue>;

    fn clock(&self) -> &ManualClock;

    fn reservations(&self) -> &TestReservations;

    async fn add_tenant(&self, name: &str, backlog: Backlog);

    async fn add_endpoint(&self, tenant: &str, filter: Filter, expires_after: Option<Duration>) -> LaneId;

    /// Adds endpoints that receive all events, in one transaction.
    async fn add_endpoints(&self, tenant: &str, count: usize) -> Vec<LaneId>;

    /// Deletes an endpoint. Its waiting deliveries are cancelled in batches.
    async fn delete_endpoint(&self, lane: LaneId);

    async fn cancel_closed(&self, limit: usize) -> BatchResult;

    /// Crashes the process, and returns the queue as a new process opens it.
    async fn crash(self) -> Self;

    /// Sets the number of free bytes that the disk reports.
    fn set_free(&self, bytes: u64);

    async fn stored_delivery(&self, delivery: DeliveryId) -> Option<StoredDelivery>;

    /// Returns the numbers of stored rows: events, payloads, deliveries, attempts, idempotency keys.
    async fn rows(&self) -> [u64; 5];

    /// Returns a tenant's unfinished work, first as the queue maintains it, then as counted from the rows.
    async fn backlog(&self, tenant: &str) -> (Backlog, Backlog);
}

/// A delivery's row in the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredDelivery {
    pub state: DeliveryState,
    pub attempts: u32,
    pub requests: u32,
    pub due_at: Timestamp,
}

/// [`Reservations`] for tests, which take a set number of new deliveries per lane.
#[derive(Default)]
pub struct TestReservations {
    room: Mutex<HashMap<LaneId, u32>>,
    pub taken: AtomicU64,
    pub lost: AtomicU64,
}

impl TestReservations {
    pub fn takes(&self, lane: LaneId, count: u32) {
        self.room.lock().unwrap().insert(lane, count);
    }
}

impl Reservations for TestReservations {
    fn reserve(&self, lane: LaneId, _tenant: &TenantId, _key: Option<&Arc<str>>) -> Option<Duration> {
        let mut room = self.room.lock().unwrap();
        let left = room.get_mut(&lane).filter(|left| **left > 0)?;
        *left -= 1;
        self.taken.fetch_add(1, Ordering::SeqCst);
        Some(LEASE)
    }

    fn release(&self, lane: LaneId) {
        *self.room.lock().unwrap().entry(lane).or_default() += 1;
        self.lost.fetch_add(1, Ordering::SeqCst);
    }
}

/// Creates a rig with the tenant `acme` and an endpoint that receives all events. Most test cases start with it.
pub async fn acme<R: Rig>() -> (R, LaneId) {
    let rig = R::new().await;
    rig.add_tenant("acme", Backlog::default()).await;
    let lane = rig.add_endpoint("acme", Filter::ALL, None).await;
    (rig, lane)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

pub fn kind(text: &str) -> EventType {
    text.parse().unwrap()
}

pub fn event(text: &str) -> NewEvent {
    NewEvent {
        kind: kind(text),
        payload: Bytes::from_static(b"{\"n\":1}"),
        content_type: "application/json".into(),
        priority: Priority::Medium,
        url: None,
        not_before: None,
        expires_at: None,
    }
}

pub fn at(priority: Priority) -> NewEvent {
    NewEvent { priority, ..event("a") }
}

pub fn to_url(url: &str) -> NewEvent {
    NewEvent { url: Some(url.parse().unwrap()), ..event("a") }
}

pub fn batch(events: Vec<NewEvent>) -> NewBatch {
    NewBatch { tenant: tenant("acme"), events, idempotency: None }
}

pub fn with_key(events: Vec<NewEvent>, key: &str, fingerprint: u8) -> NewBatch {
    let idempotency = IdempotencyKey { key: key.to_owned(), fingerprint: [fingerprint; 32] };
    NewBatch { idempotency: Some(idempotency), ..batch(events) }
}

pub fn attempt(now: Timestamp) -> Attempt {
    Attempt {
        started_at: now,
        latency: Duration::from_millis(12),
        status: Some(200),
        fault: None,
        detail: None,
        response: Bytes::from_static(b"ok"),
        probe: false,
    }
}

/// Shorthands for queue operations.
#[async_trait]
pub trait Verbs: Rig {
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    async fn submit(&self, events: Vec<NewEvent>) -> Submitted {
        self.queue().submit(batch(events)).await.unwrap()
    }

    async fn claim_one(&self, claim: Claim) -> Claimed {
        let mut claimed = self.queue().claim(vec![claim]).await.unwrap();
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    async fn due(&self, lane: LaneId, priority: Priority, limit: u32) -> Vec<Leased> {
        self.claim_one(Claim::Due { lane, priority, limit, lease: LEASE }).await.deliveries
    }

    async fn settle(&self, leased: &Leased, next: NextStep) -> Settled {
        let settle = Settlement {
            id: leased.id,
            lease: leased.lease,
            attempt: attempt(self.now()),
            next,
            stands_for: None,
        };
        self.queue().settle(settle).await.unwrap()
    }

    async fn state(&self, delivery: DeliveryId) -> DeliveryState {
        self.stored_delivery(delivery).await.unwrap().state
    }

    fn pass(&self, by: Duration) {
        self.clock().advance(by);
    }

    /// Submits an event, leases its delivery, and returns the leased delivery.
    async fn leased(&self, lane: LaneId) -> Leased {
        self.submit(vec![event("a")]).await;
        self.due(lane, Priority::Medium, 1).await.remove(0)
    }

    /// Submits an event, and returns its delivery, which waits with no attempt used and is due at once.
    async fn waiting(&self, lane: LaneId, event: NewEvent) -> DeliveryId {
        let priority = event.priority;
        let accepted = self.submit(vec![event]).await;
        assert!(
            accepted
                .woken
                .iter()
                .any(|woken| woken.lane == lane && woken.next_due[priority.index()].is_some())
        );
        // The ids of an event's deliveries follow the event's id.
        let id = breakerbox_model::objects::Id::from_number(accepted.events[0].id.number() + 1).unwrap();
        DeliveryId(id)
    }
}

impl<R: Rig> Verbs for R {}

/// Returns a retry at this time that uses an attempt.
pub const fn retry(due_at: Timestamp) -> NextStep {
    NextStep::Retry { due_at, uses_attempt: true, failed_probe: None }
}
