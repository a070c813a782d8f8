//! A gateway's database with a clock that the tests set, independent of the backend.

use std::sync::Arc;
use std::time::Duration;

use crate::records::{NewEndpoint, NewTenant, PageOf};
use crate::{
    Claim, Defaults, Directory, Leased, Queue, Records, ReminderStore, Reservations, Settled, Settlement,
    SubmitError,
};
use async_trait::async_trait;
use breakerbox::{Clock, ManualClock};
use breakerbox_core::Timestamp;
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{
    Attempt, Backlog, Delivery, DeliveryFilter, DeliveryId, Endpoint, EndpointSettings, EventId, FailReason,
    LaneId, NewBatch, NewEvent, Priority, Tenant, TenantId, TenantSettings,
};
use bytes::Bytes;

/// A backend under test. Its stored data is kept when it is closed.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Opens the stored data, for the first time or again. No deliveries are taken while events are accepted
    /// ([`NoReservations`]), and no disk space is reserved.
    async fn open(&mut self, clock: &ManualClock, defaults: Defaults) -> Opened;

    /// Closes the backend, so that it can be opened again.
    async fn close(&mut self);
}

/// The handles of an opened database.
pub struct Opened {
    pub records: Arc<dyn Records>,
    pub queue: Arc<dyn Queue>,
    pub reminder_store: Arc<dyn ReminderStore>,
    pub directory: Arc<Directory>,
}

/// An opened database with a clock that the tests set.
pub struct World {
    pub records: Arc<dyn Records>,
    pub queue: Arc<dyn Queue>,
    pub reminder_store: Arc<dyn ReminderStore>,
    pub directory: Arc<Directory>,
    pub clock: ManualClock,
    backend: Box<dyn Backend>,
}

/// [`Reservations`] that never take a delivery.
pub struct NoReservations;

impl Reservations for NoReservations {
    fn reserve(&self, _: LaneId, _: &TenantId, _: Option<&Arc<str>>) -> Option<Duration> {
        None
    }

    fn release(&self, _: LaneId) {}
}

impl World {
    /// Creates a world with an empty database.
    pub async fn new(mut backend: impl Backend) -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        let Opened { records, queue, reminder_store, directory } =
            backend.open(&clock, Defaults::default()).await;
        Self { records, queue, reminder_store, directory, clock, backend: Box::new(backend) }
    }

    /// Closes the database and opens it again.
    pub async fn restart(&mut self) {
        self.restart_with(Defaults::default()).await;
    }

    pub async fn restart_with(&mut self, defaults: Defaults) {
        self.backend.close().await;
        let Opened { records, queue, reminder_store, directory } =
            self.backend.open(&self.clock, defaults).await;
        (self.records, self.queue, self.reminder_store, self.directory) =
            (records, queue, reminder_store, directory);
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub async fn tenant(&self, name: &str) -> Tenant {
        self.tenant_with(name, |_| {}).await
    }

    pub async fn tenant_with(&self, name: &str, change: impl FnOnce(&mut TenantSettings)) -> Tenant {
        let mut settings = tenant_settings(name);
        change(&mut settings);
        let new = NewTenant { id: name.parse().unwrap(), settings, secret: None };
        self.records.create_tenant(new).await.unwrap()
    }

    pub async fn endpoint(&self, tenant: &str, url: &str) -> Endpoint {
        self.endpoint_with(tenant, url, |_| {}).await
    }

    pub async fn endpoint_with(
        &self,
        tenant: &str,
        url: &str,
        change: impl FnOnce(&mut EndpointSettings),
    ) -> Endpoint {
        let mut settings = endpoint_settings(url);
        change(&mut settings);
        let tenant = tenant.parse().unwrap();
        let new = NewEndpoint { tenant, settings, secret: None, disabled: false };
        self.records.create_endpoint(new).await.unwrap()
    }

    /// Submits an event of this type for the tenant.
    pub async fn event(&self, tenant: &str, kind: &str) -> EventId {
        self.submit(tenant, event(kind)).await.unwrap()
    }

    pub async fn submit(&self, tenant: &str, event: NewEvent) -> Result<EventId, SubmitError> {
        let batch = NewBatch { tenant: tenant.parse().unwrap(), events: vec![event], idempotency: None };
        Ok(self.queue.submit(batch).await?.events[0].id)
    }

    /// Leases up to `limit` due deliveries of a lane.
    pub async fn claim(&self, lane: LaneId, limit: u32) -> Vec<Leased> {
        let claim = |priority| Claim::Due { lane, priority, limit, lease: Duration::from_secs(30) };
        let claims = Priority::ALL.map(claim).to_vec();
        let claimed = self.queue.claim(claims).await.unwrap();
        claimed.into_iter().flat_map(|claimed| claimed.deliveries).take(limit as usize).collect()
    }

    pub async fn settle(&self, leased: &Leased, next: NextStep) {
        let attempt = attempt(self.now());
        let stands_for = leased.run.as_ref().and_then(|run| run.stands_for(self.now()));
        let settle = Settlement { id: leased.id, lease: leased.lease, attempt, next, stands_for };
        assert_eq!(self.queue.settle(settle).await.unwrap(), Settled::Done);
    }

    /// Fails all waiting deliveries of a lane for good.
    pub async fn fail_all(&self, lane: LaneId) {
        for leased in self.claim(lane, 1_000).await {
            self.settle(&leased, NextStep::Failed(FailReason::Rejected)).await;
        }
    }

    /// Returns all deliveries that match a filter, newest first, read in pages of this size.
    pub async fn found(&self, filter: &DeliveryFilter, size: usize) -> Vec<DeliveryId> {
        let mut page = PageOf::first(size);
        let mut found = Vec::new();
        loop {
            let answer = self.records.deliveries(filter, &page).await.unwrap();
            assert!(answer.items.len() <= size);
            found.extend(answer.items.iter().map(|delivery| delivery.id));
            let Some(next) = answer.next else { return found };
            page = PageOf::after(next, size);
        }
    }

    /// Returns the deliveries of an event, oldest first.
    pub async fn of_event(&self, event: EventId) -> Vec<Delivery> {
        let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
        let mut found = self.records.deliveries(&filter, &PageOf::first(500)).await.unwrap().items;
        found.reverse();
        found
    }

    /// Returns a tenant's maintained count of unfinished deliveries, after comparing it with the rows.
    pub async fn backlog(&self, tenant: &str) -> u64 {
        let tenant: TenantId = tenant.parse().unwrap();
        let counted = self.records.backlog(&tenant).await.unwrap();
        let filter = DeliveryFilter { tenant: Some(tenant), ..DeliveryFilter::default() };
        let all = self.records.deliveries(&filter, &PageOf::first(500)).await.unwrap();
        assert_eq!(all.next, None, "few enough to be counted by hand");
        let mut unfinished = Backlog { count: 0, bytes: 0 };
        for delivery in all.items.iter().filter(|delivery| !delivery.state.is_finished()) {
            let event = self.records.event(delivery.event).await.unwrap();
            unfinished.count += 1;
            unfinished.bytes += event.submitted.payload.len() as u64;
        }
        assert_eq!(counted, unfinished);
        counted.count
    }
}

pub fn tenant_settings(name: &str) -> TenantSettings {
    TenantSettings::new(name)
}

pub fn endpoint_settings(url: &str) -> EndpointSettings {
    EndpointSettings::new(url.parse().unwrap())
}

pub fn event(kind: &str) -> NewEvent {
    NewEvent {
        kind: kind.parse().unwrap(),
        payload: Bytes::from_static(b"{\"n\":1}"),
        content_type: "application/json".into(),
        priority: Priority::Medium,
        url: None,
        not_before: None,
        expires_at: None,
    }
}

pub fn attempt(started_at: Timestamp) -> Attempt {
    Attempt {
        started_at,
        latency: Duration::from_millis(12),
        status: Some(500),
        fault: None,
        detail: None,
        response: Bytes::from_static(b"no"),
        probe: false,
    }
}
