//! The test rig: a queue in a schema of its own, with tenants and endpoints in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::{Clock, ManualClock};
use breakerbox_core::{CircuitBy, Timestamp};
use breakerbox_model::objects::{Backlog, DeliveryId, EndpointId, EventType, Filter, LaneId, TenantId};
use breakerbox_storage::conformance::queue::rig::{Rig, StoredDelivery, TestReservations, tenant};
use breakerbox_storage::stored::codes;
use breakerbox_storage::{BatchResult, EndpointRoute, Queue, Routes, TenantRoutes};
use breakerbox_storage_postgres::{Database, Options, PostgresQueue};
use breakerbox_testkit::servers::PostgresServer;

use crate::server::{own_schema, shared};

pub(crate) struct PostgresRig {
    place: Place,
    pub(crate) database: Database,
    queue: Arc<PostgresQueue>,
    clock: ManualClock,
    reservations: Arc<TestReservations>,
    registry: Arc<Registry>,
    free: Arc<AtomicU64>,
}

/// Where the queue is.
#[derive(Clone)]
struct Place {
    url: String,
    schema: String,
    /// The server, if the tests share it.
    server: Option<Arc<PostgresServer>>,
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
        change(Arc::make_mut(known.get_mut(tenant).unwrap()));
    }

    fn row(&self, tenant: &TenantId) -> i64 {
        self.0.read().unwrap()[tenant].row
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

impl PostgresRig {
    /// Opens the queue as a process with this name.
    async fn open(
        place: Place,
        worker: &str,
        clock: ManualClock,
        registry: Arc<Registry>,
        free: Arc<AtomicU64>,
    ) -> Self {
        let asked = Arc::clone(&free);
        let options = Options {
            schema: place.schema.clone(),
            worker: worker.to_owned(),
            connections: 4,
            time_limit: Duration::from_secs(30),
            // A server of the test's own has its own clock, too.
            clock: place.server.as_ref().map(|_| Arc::new(clock.clone()) as Arc<dyn Clock>),
            free_space: Some(Arc::new(move || Some(asked.load(Ordering::SeqCst)))),
            ..Options::default()
        };
        let database = Database::open(&place.url, options).await.unwrap();
        let reservations = Arc::<TestReservations>::default();
        let routes: Arc<dyn Routes> = Arc::<Registry>::clone(&registry);
        let shared = Arc::<TestReservations>::clone(&reservations);
        let queue = Arc::new(PostgresQueue::new(database.clone(), routes, shared));
        Self { place, database, queue, clock, reservations, registry, free }
    }

    /// Opens a queue at a URL, with the clock of its server.
    pub(crate) async fn at(url: String) -> Self {
        let place = Place { url, schema: own_schema(), server: None };
        let free = Arc::new(AtomicU64::new(1 << 40));
        Self::open(place, "one", ManualClock::new(), Arc::default(), free).await
    }

    /// Opens the same queue in another process of the fleet, which has heard of the same tenants and endpoints.
    pub(crate) async fn another(&self, worker: &str) -> Self {
        let (registry, free) = (Arc::clone(&self.registry), Arc::clone(&self.free));
        Self::open(self.place.clone(), worker, self.clock.clone(), registry, free).await
    }

    async fn add(&self, name: &str, routes: Vec<(Filter, EndpointRoute)>) {
        let id = tenant(name);
        let row = self.registry.row(&id);
        let endpoints: Vec<i64> = routes.iter().map(|(_, route)| route.lane.number()).collect();
        let transaction = self.database.begin().await.unwrap();
        let sql = "INSERT INTO endpoints (id, tenant, settings, sealed, revision, created_at, changed_at)
            SELECT n, $2, '{}', '', 1, 0, 0 FROM unnest($1) AS n";
        transaction.execute(sql, &[&endpoints, &row]).await.unwrap();
        transaction.commit().await.unwrap();
        self.registry.change(&id, |known| known.endpoints.extend(routes));
    }
}

#[async_trait]
impl Rig for PostgresRig {
    async fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        let free = Arc::new(AtomicU64::new(1 << 40));
        let server = shared().await;
        let place = Place { url: server.url(), schema: own_schema(), server: Some(server) };
        Self::open(place, "one", clock, Arc::default(), free).await
    }

    fn queue(&self) -> Arc<dyn Queue> {
        Arc::<PostgresQueue>::clone(&self.queue)
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn reservations(&self) -> &TestReservations {
        &self.reservations
    }

    async fn add_tenant(&self, name: &str, backlog: Backlog) {
        let id = tenant(name);
        let transaction = self.database.begin().await.unwrap();
        let sql = "INSERT INTO tenants (id, settings, sealed, revision, created_at, changed_at)
            VALUES ($1, '{}', '', 1, 0, 0) RETURNING row";
        let row = transaction.query_opt(sql, &[&id.as_str()]).await.unwrap().unwrap().get(0);
        transaction.commit().await.unwrap();
        let tenant_endpoints = TenantEndpoints { row, backlog, endpoints: Vec::new() };
        self.registry.0.write().unwrap().insert(id, Arc::new(tenant_endpoints));
    }

    async fn add_endpoint(&self, name: &str, filter: Filter, expires_after: Option<Duration>) -> LaneId {
        let lane = LaneId::from(EndpointId(self.database.next_id()));
        self.add(name, vec![(filter, EndpointRoute { lane, expires_after })]).await;
        lane
    }

    async fn add_endpoints(&self, name: &str, count: usize) -> Vec<LaneId> {
        let lanes: Vec<LaneId> =
            (0..count).map(|_| LaneId::from(EndpointId(self.database.next_id()))).collect();
        let route = |lane: &LaneId| (Filter::ALL, EndpointRoute { lane: *lane, expires_after: None });
        self.add(name, lanes.iter().map(route).collect()).await;
        lanes
    }

    async fn delete_endpoint(&self, lane: LaneId) {
        let transaction = self.database.begin().await.unwrap();
        transaction.execute("DELETE FROM endpoints WHERE id = $1", &[&lane.number()]).await.unwrap();
        let now = codes::micros(self.database.now());
        let sql = "INSERT INTO closed_lanes (lane, closed_at) VALUES ($1, $2)";
        transaction.execute(sql, &[&lane.number(), &now]).await.unwrap();
        transaction.commit().await.unwrap();
        for tenant_endpoints in self.registry.0.write().unwrap().values_mut() {
            Arc::make_mut(tenant_endpoints).endpoints.retain(|(_, route)| route.lane != lane);
        }
    }

    async fn cancel_closed(&self, limit: usize) -> BatchResult {
        self.database.cancel_closed(limit).await.unwrap()
    }

    async fn crash(self) -> Self {
        // What the old process still has under way may go on: nothing that it does reaches its callers.
        self.another("one").await
    }

    fn set_free(&self, bytes: u64) {
        self.free.store(bytes, Ordering::SeqCst);
    }

    async fn stored_delivery(&self, delivery: DeliveryId) -> Option<StoredDelivery> {
        let sql = "SELECT state, reason, attempts, requests, due_at FROM all_deliveries WHERE id = $1";
        let rows = self.database.read(sql, &[&delivery.number()]).await.unwrap();
        let row = rows.first()?;
        let attempts = row.get::<_, i32>(2).unsigned_abs();
        let reason = row.get::<_, Option<i16>>(1).map(i64::from);
        Some(StoredDelivery {
            state: codes::state(row.get::<_, i16>(0).into(), reason, attempts),
            attempts,
            requests: row.get::<_, i32>(3).unsigned_abs(),
            due_at: Timestamp::from_micros(row.get::<_, i64>(4).unsigned_abs()),
        })
    }

    async fn rows(&self) -> [u64; 5] {
        let mut counts = [0; 5];
        let tables = ["events", "payloads", "all_deliveries", "attempts", "idempotency_keys"];
        for (count, table) in counts.iter_mut().zip(tables) {
            let rows = self.database.read(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap();
            *count = rows[0].get::<_, i64>(0).unsigned_abs();
        }
        counts
    }

    async fn backlog(&self, name: &str) -> (Backlog, Backlog) {
        let row = self.registry.row(&tenant(name));
        let ask = async |sql: &str| {
            let rows = self.database.read(sql, &[&row]).await.unwrap();
            let (count, bytes): (i64, i64) = (rows[0].get(0), rows[0].get(1));
            Backlog { count: u64::try_from(count).unwrap(), bytes: u64::try_from(bytes).unwrap() }
        };
        let total =
            ask("SELECT coalesce(sum(count), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM backlogs
             WHERE tenant = $1 AND lane = 0")
            .await;
        let lanes =
            ask("SELECT coalesce(sum(count), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM backlogs
             WHERE tenant = $1 AND lane <> 0")
            .await;
        let deferred = ask(
            "SELECT coalesce(sum(e.fan_out - f.position), 0)::bigint, coalesce(sum((e.fan_out - f.position) * e.size), 0)::bigint
             FROM fan_outs f JOIN events e ON e.id = f.event WHERE f.tenant = $1",
        )
        .await;
        let all = Backlog { count: lanes.count + deferred.count, bytes: lanes.bytes + deferred.bytes };
        assert_eq!(total, all, "a tenant's total is that of its lanes and of what is not written yet");
        let again = ask(
            "SELECT count(*), coalesce(sum(length(payload)), 0)::bigint FROM deliveries d JOIN payloads p USING (event)
             WHERE d.tenant = $1",
        )
        .await;
        (lanes, again)
    }
}
