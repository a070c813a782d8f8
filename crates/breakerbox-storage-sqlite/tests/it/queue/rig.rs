//! The test rig for SQLite: a database in a temporary directory. A crash is a copy of the file and its log as they
//! are on disk.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::ManualClock;
use breakerbox_core::{CircuitBy, Timestamp};
use breakerbox_model::objects::{
    Backlog, DeliveryId, DeliveryState, EndpointId, EventType, FailReason, Filter, LaneId, TenantId,
};
use breakerbox_storage::conformance::queue::rig::{Rig, StoredDelivery, TestReservations, tenant};
use breakerbox_storage::{BatchResult, EndpointRoute, Queue, QueueError, Routes, TenantRoutes};
use breakerbox_storage_sqlite::{Database, FreeSpace, JobError, Options, SqliteQueue};
use tempfile::TempDir;

pub(crate) struct SqliteRig {
    folder: TempDir,
    pub(crate) database: Database,
    queue: Arc<SqliteQueue>,
    clock: ManualClock,
    reservations: Arc<TestReservations>,
    pub(crate) registry: Arc<Registry>,
    free: Arc<AtomicU64>,
}

/// Tenants and endpoints in memory.
#[derive(Default)]
pub(crate) struct Registry(RwLock<HashMap<TenantId, Arc<TenantEndpoints>>>);

#[derive(Clone)]
struct TenantEndpoints {
    row: i64,
    backlog: Backlog,
    endpoints: Vec<(Filter, EndpointRoute)>,
}

impl Registry {
    fn change(&self, tenant: &TenantId, change: impl FnOnce(&mut TenantEndpoints)) {
        let mut known = self.0.write().unwrap();
        let tenant_endpoints = known.get_mut(tenant).unwrap();
        change(Arc::make_mut(tenant_endpoints));
    }
}

impl Routes for Registry {
    fn tenant(&self, tenant: &TenantId) -> Option<Arc<dyn TenantRoutes>> {
        let tenant_endpoints = self.0.read().unwrap().get(tenant).cloned()?;
        Some(tenant_endpoints)
    }
}

impl TenantRoutes for TenantEndpoints {
    fn row(&self) -> i64 {
        self.row
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn circuit_by(&self) -> CircuitBy {
        CircuitBy::Endpoint
    }

    fn reminders_by(&self) -> CircuitBy {
        CircuitBy::Tenant
    }

    fn expires_after(&self) -> Option<Duration> {
        None
    }

    fn endpoints(&self, kind: &EventType, each: &mut dyn FnMut(EndpointRoute)) {
        self.endpoints.iter().filter(|(filter, _)| filter.admits(kind)).for_each(|(_, route)| each(*route));
    }

    fn has_endpoint(&self, lane: LaneId) -> bool {
        self.endpoints.iter().any(|(_, route)| route.lane == lane)
    }
}

impl SqliteRig {
    fn open(
        folder: TempDir,
        clock: ManualClock,
        registry: Arc<Registry>,
        free: Arc<AtomicU64>,
        reservations: Arc<TestReservations>,
    ) -> Self {
        let asked = Arc::clone(&free);
        // Read on each query: the cached value expires by real time, which tests don't wait for.
        let free_space = Some(FreeSpace::by(move || Ok(asked.load(Ordering::SeqCst))));
        let options = Options { clock: Arc::new(clock.clone()), free_space, ..Options::default() };
        let database = Database::open(folder.path(), options).unwrap();
        let routes: Arc<dyn Routes> = Arc::<Registry>::clone(&registry);
        let shared = Arc::<TestReservations>::clone(&reservations);
        let queue = Arc::new(SqliteQueue::new(database.clone(), routes, shared));
        Self { folder, database, queue, clock, reservations, registry, free }
    }

    pub(crate) fn sqlite(&self) -> &Arc<SqliteQueue> {
        &self.queue
    }
}

#[async_trait]
impl Rig for SqliteRig {
    async fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        let free = Arc::new(AtomicU64::new(1 << 40));
        Self::open(tempfile::tempdir().unwrap(), clock, Arc::default(), free, Arc::default())
    }

    fn queue(&self) -> Arc<dyn Queue> {
        Arc::<SqliteQueue>::clone(&self.queue)
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn reservations(&self) -> &TestReservations {
        &self.reservations
    }

    async fn add_tenant(&self, name: &str, backlog: Backlog) {
        let (id, registry) = (tenant(name), Arc::clone(&self.registry));
        let added = self.database.write(move |transaction| {
            transaction.connection().execute(
                "INSERT INTO tenants (id, settings, sealed, revision, created_at, changed_at)
                 VALUES (?1, '{}', x'', 1, 0, 0)",
                [id.as_str()],
            )?;
            let row = transaction.connection().last_insert_rowid();
            transaction.after_commit(move || {
                let tenant_endpoints = TenantEndpoints { row, backlog, endpoints: Vec::new() };
                registry.0.write().unwrap().insert(id, Arc::new(tenant_endpoints));
            });
            Ok::<_, JobError<QueueError>>(())
        });
        added.await.unwrap();
    }

    async fn add_endpoint(&self, name: &str, filter: Filter, expires_after: Option<Duration>) -> LaneId {
        let (id, registry) = (tenant(name), Arc::clone(&self.registry));
        let row = registry.0.read().unwrap()[&id].row;
        let added = self.database.write(move |transaction| {
            let endpoint = EndpointId(transaction.next_id());
            transaction.connection().execute(
                "INSERT INTO endpoints (id, tenant, settings, sealed, revision, created_at, changed_at)
                 VALUES (?1, ?2, '{}', x'', 1, 0, 0)",
                [endpoint.number(), row],
            )?;
            let route = EndpointRoute { lane: endpoint.into(), expires_after };
            transaction
                .after_commit(move || registry.change(&id, |known| known.endpoints.push((filter, route))));
            Ok::<_, JobError<QueueError>>(route.lane)
        });
        added.await.unwrap()
    }

    async fn delete_endpoint(&self, lane: LaneId) {
        let registry = Arc::clone(&self.registry);
        let deleted = self.database.write(move |transaction| {
            transaction.connection().execute("DELETE FROM endpoints WHERE id = ?1", [lane.number()])?;
            transaction.close_lane(lane)?;
            transaction.after_commit(move || {
                for tenant_endpoints in registry.0.write().unwrap().values_mut() {
                    Arc::make_mut(tenant_endpoints).endpoints.retain(|(_, route)| route.lane != lane);
                }
            });
            Ok::<_, JobError<QueueError>>(())
        });
        deleted.await.unwrap();
    }

    async fn cancel_closed(&self, limit: usize) -> BatchResult {
        self.database.cancel_closed(limit).await.unwrap()
    }

    async fn crash(self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["breakerbox.db", "breakerbox.db-wal"] {
            let from = self.folder.path().join(name);
            if from.exists() {
                fs::copy(from, folder.path().join(name)).unwrap();
            }
        }
        let (clock, registry, free) =
            (self.clock.clone(), Arc::clone(&self.registry), Arc::clone(&self.free));
        Self::open(folder, clock, registry, free, Arc::default())
    }

    fn set_free(&self, bytes: u64) {
        self.free.store(bytes, Ordering::SeqCst);
    }

    async fn stored_delivery(&self, delivery: DeliveryId) -> Option<StoredDelivery> {
        let found = self.database.read(move |connection| {
            let mut statement = connection
                .prepare("SELECT state, reason, attempts, requests, due_at FROM deliveries WHERE id = ?1")?;
            let mut rows = statement.query([delivery.number()])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            let attempts = row.get(2)?;
            let state = match (row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?) {
                (0, None) if attempts == 0 => DeliveryState::Pending,
                (0, None) => DeliveryState::Retrying,
                (1, None) => DeliveryState::InFlight,
                (2, None) => DeliveryState::Delivered,
                (3, Some(0)) => DeliveryState::Failed(FailReason::Rejected),
                (3, Some(1)) => DeliveryState::Failed(FailReason::Exhausted),
                (3, Some(2)) => DeliveryState::Failed(FailReason::Gone),
                (3, Some(3)) => DeliveryState::Failed(FailReason::Expired),
                (4, None) => DeliveryState::Cancelled,
                other => panic!("{other:?}"),
            };
            let due_at = Timestamp::from_micros(row.get::<_, i64>(4)?.unsigned_abs());
            Ok::<_, JobError<QueueError>>(Some(StoredDelivery {
                state,
                attempts,
                requests: row.get(3)?,
                due_at,
            }))
        });
        found.await.unwrap()
    }

    async fn rows(&self) -> [u64; 5] {
        let counted = self.database.read(|connection| {
            let mut counts = [0; 5];
            let tables = ["events", "payloads", "deliveries", "attempts", "idempotency_keys"];
            for (count, table) in counts.iter_mut().zip(tables) {
                let sql = format!("SELECT count(*) FROM {table}");
                *count = connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs();
            }
            Ok::<_, JobError<QueueError>>(counts)
        });
        counted.await.unwrap()
    }

    async fn add_endpoints(&self, name: &str, count: usize) -> Vec<LaneId> {
        let (id, registry) = (tenant(name), Arc::clone(&self.registry));
        let row = registry.0.read().unwrap()[&id].row;
        let added = self.database.write(move |transaction| {
            let mut lanes = Vec::new();
            for _ in 0..count {
                let endpoint = EndpointId(transaction.next_id());
                transaction.connection().execute(
                    "INSERT INTO endpoints (id, tenant, settings, sealed, revision, created_at, changed_at)
                     VALUES (?1, ?2, '{}', x'', 1, 0, 0)",
                    [endpoint.number(), row],
                )?;
                lanes.push(LaneId::from(endpoint));
            }
            let routes: Vec<_> = lanes
                .iter()
                .map(|lane| (Filter::ALL, EndpointRoute { lane: *lane, expires_after: None }))
                .collect();
            transaction.after_commit(move || registry.change(&id, |known| known.endpoints.extend(routes)));
            Ok::<_, JobError<QueueError>>(lanes)
        });
        added.await.unwrap()
    }

    async fn backlog(&self, name: &str) -> (Backlog, Backlog) {
        let row = self.registry.0.read().unwrap()[&tenant(name)].row;
        let counted = self.database.read(move |connection| {
            let ask = |sql: &str| {
                connection.query_row(sql, [row], |row| {
                    let (count, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
                    Ok(Backlog { count: count.unsigned_abs(), bytes: bytes.unsigned_abs() })
                })
            };
            let kept = ask("SELECT coalesce(sum(count), 0), coalesce(sum(bytes), 0) FROM backlogs WHERE tenant = ?1")?;
            let again = ask(
                "SELECT count(*), coalesce(sum(length(payload)), 0) FROM deliveries d JOIN payloads p USING (event)
                 WHERE d.tenant = ?1 AND d.state < 2",
            )?;
            Ok::<_, JobError<QueueError>>((kept, again))
        });
        counted.await.unwrap()
    }
}
