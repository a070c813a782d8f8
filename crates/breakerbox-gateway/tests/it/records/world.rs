//! A gateway's database with a clock that stands still, what is behind it hidden.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::{Clock, ManualClock};
use breakerbox_core::Timestamp;
use breakerbox_model::delivery::Next;
use breakerbox_model::objects::{
    Attempt, Backlog, Delivery, DeliveryFilter, DeliveryId, Endpoint, EndpointSettings, EventId, FailReason,
    LaneId, NewBatch, NewEvent, Priority, Tenant, TenantId, TenantSettings,
};
use breakerbox_storage::records::{NewEndpoint, NewTenant, PageOf};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage::{
    AcceptError, Calendar, Claim, Defaults, Directory, HandOver, Leased, Queue, Records, Settle, Settled,
};
use breakerbox_storage_sqlite::{Database, Options, SqliteQueue, SqliteRecords};
use bytes::Bytes;
use tempfile::TempDir;

/// A database, and all that is opened on it.
pub(crate) struct World {
    pub(crate) records: Arc<dyn Records>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) calendar: Arc<dyn Calendar>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) clock: ManualClock,
    pub(crate) sqlite: Sqlite,
}

/// What is behind it.
pub(crate) struct Sqlite {
    pub(crate) folder: TempDir,
    pub(crate) key: MasterKey,
    pub(crate) database: Option<Database>,
}

/// Nothing is taken at once.
struct NoHands;

impl HandOver for NoHands {
    fn take(&self, _: LaneId, _: &TenantId, _: Option<&Arc<str>>) -> Option<Duration> {
        None
    }

    fn lost(&self, _: LaneId) {}
}

impl World {
    pub(crate) async fn on_sqlite() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::random();
        let (records, queue, directory, database) = open(&folder, &key, &clock, Defaults::default()).await;
        let calendar = Arc::clone(&queue) as Arc<dyn Calendar>;
        Self {
            records,
            queue,
            calendar,
            directory,
            clock,
            sqlite: Sqlite { folder, key, database: Some(database) },
        }
    }

    /// Closes everything and opens it again.
    pub(crate) async fn restart(&mut self) {
        self.restart_with(Defaults::default()).await;
    }

    pub(crate) async fn restart_with(&mut self, defaults: Defaults) {
        self.sqlite.database.take().unwrap().close().await;
        let (records, queue, directory, database) =
            open(&self.sqlite.folder, &self.sqlite.key, &self.clock, defaults).await;
        self.calendar = Arc::clone(&queue) as Arc<dyn Calendar>;
        (self.records, self.queue, self.directory) = (records, queue, directory);
        self.sqlite.database = Some(database);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn tenant(&self, name: &str) -> Tenant {
        self.tenant_with(name, |_| {}).await
    }

    pub(crate) async fn tenant_with(&self, name: &str, change: impl FnOnce(&mut TenantSettings)) -> Tenant {
        let mut settings = tenant_settings(name);
        change(&mut settings);
        let new = NewTenant { id: name.parse().unwrap(), settings, secret: None };
        self.records.create_tenant(new).await.unwrap()
    }

    pub(crate) async fn endpoint(&self, tenant: &str, url: &str) -> Endpoint {
        self.endpoint_with(tenant, url, |_| {}).await
    }

    pub(crate) async fn endpoint_with(
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

    /// Submits an event of this type.
    pub(crate) async fn event(&self, tenant: &str, kind: &str) -> EventId {
        self.submit(tenant, event(kind)).await.unwrap()
    }

    pub(crate) async fn submit(&self, tenant: &str, event: NewEvent) -> Result<EventId, AcceptError> {
        let batch = NewBatch { tenant: tenant.parse().unwrap(), events: vec![event], idempotency: None };
        Ok(self.queue.accept(batch).await?.events[0].id)
    }

    /// What is due in a lane, leased.
    pub(crate) async fn claim(&self, lane: LaneId, limit: u32) -> Vec<Leased> {
        let claim = |priority| Claim::Due { lane, priority, limit, lease: Duration::from_secs(30) };
        let claims = Priority::ALL.map(claim).to_vec();
        let claimed = self.queue.claim(claims).await.unwrap();
        claimed.into_iter().flat_map(|claimed| claimed.deliveries).take(limit as usize).collect()
    }

    pub(crate) async fn settle(&self, leased: &Leased, next: Next) {
        let attempt = attempt(self.now());
        let stands_for = leased.run.as_ref().and_then(|run| run.stands_for(self.now()));
        let settle = Settle { id: leased.id, lease: leased.lease, attempt, next, stands_for };
        assert_eq!(self.queue.settle(settle).await.unwrap(), Settled::Done);
    }

    /// Everything that waits in a lane fails for good.
    pub(crate) async fn fail_all(&self, lane: LaneId) {
        for leased in self.claim(lane, 1_000).await {
            self.settle(&leased, Next::Failed(FailReason::Rejected)).await;
        }
    }

    /// All deliveries that a filter finds, the newest first, by pages of this size.
    pub(crate) async fn found(&self, filter: &DeliveryFilter, size: usize) -> Vec<DeliveryId> {
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

    /// The deliveries of an event, the oldest first.
    pub(crate) async fn of_event(&self, event: EventId) -> Vec<Delivery> {
        let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
        let mut found = self.records.deliveries(&filter, &PageOf::first(500)).await.unwrap().items;
        found.reverse();
        found
    }

    /// What is counted of a tenant, which must be what there is.
    pub(crate) async fn backlog(&self, tenant: &str) -> u64 {
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

async fn open(
    folder: &TempDir,
    key: &MasterKey,
    clock: &ManualClock,
    defaults: Defaults,
) -> (Arc<dyn Records>, Arc<SqliteQueue>, Arc<Directory>, Database) {
    let mut options = Options::default();
    options.clock = Arc::new(clock.clone());
    options.reserve = 0;
    let database = Database::open(folder.path(), options).unwrap();
    let records = SqliteRecords::open(database.clone(), Keyring::new(key), defaults).await.unwrap();
    let directory = Arc::clone(records.directory());
    let queue = SqliteQueue::new(database.clone(), directory.clone(), Arc::new(NoHands));
    (Arc::new(records), Arc::new(queue), directory, database)
}

pub(crate) fn tenant_settings(name: &str) -> TenantSettings {
    TenantSettings::new(name)
}

pub(crate) fn endpoint_settings(url: &str) -> EndpointSettings {
    EndpointSettings::new(url.parse().unwrap())
}

pub(crate) fn event(kind: &str) -> NewEvent {
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

pub(crate) fn attempt(started_at: Timestamp) -> Attempt {
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
