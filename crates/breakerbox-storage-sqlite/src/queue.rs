//! Implements [`Queue`]: each operation is a job for the writer or for a reader.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryId, LaneId, NewBatch};
use breakerbox_storage::{
    BatchResult, Claim, Claimed, Lease, ProbeSupply, Queue, QueueError, Reservations, Retention, Settled,
    Settlement, SubmitError, Submitted, WaitingLane,
};

use super::abandoned::{Abandoned, AbandonedResults};
use super::claim::ClaimAll;
use super::database::Database;
use super::fan_out::WriteFanOut;
use super::fresh::FreshDeliveries;
use super::lanes;
use super::maintenance::{CancelClosed, Expire, Reclaim};
use super::prune::Sweep;
use super::settle::HandBack;
use super::submit::Submit;
use super::write_queue::Urgency;
use breakerbox_storage::Routes;

/// The durable queue in an SQLite database.
pub struct SqliteQueue {
    database: Database,
    routes: Arc<dyn Routes>,
    reservations: Arc<dyn Reservations>,
    abandoned: AbandonedResults,
    sweep: tokio::sync::Mutex<Sweep>,
    /// The tenant whose fan-out was written last.
    last_tenant: Arc<AtomicI64>,
}

impl SqliteQueue {
    /// Creates the queue of this database, for these tenants and endpoints.
    #[must_use]
    pub fn new(database: Database, routes: Arc<dyn Routes>, reservations: Arc<dyn Reservations>) -> Self {
        Self {
            database,
            routes,
            reservations,
            abandoned: AbandonedResults::default(),
            sweep: tokio::sync::Mutex::default(),
            last_tenant: Arc::new(AtomicI64::new(-1)),
        }
    }

    /// Returns the writer's view of tenants and endpoints.
    pub(super) fn routes(&self) -> Arc<dyn Routes> {
        Arc::clone(&self.routes)
    }

    /// Creates an inserter of new deliveries, for one job.
    pub(super) fn fresh_deliveries(&self) -> FreshDeliveries {
        FreshDeliveries::new(Arc::clone(&self.reservations), self.abandoned.clone())
    }

    /// Returns the underlying database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Database {
    /// Cancels up to `limit` waiting deliveries in closed lanes.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn cancel_closed(&self, limit: usize) -> Result<BatchResult, QueueError> {
        self.request(CancelClosed { limit }, Urgency::Urgent).await
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError> {
        if let Some(tenant) = self.routes.tenant(&batch.tenant) {
            batch
                .events
                .iter()
                .filter(|event| event.url.is_none())
                .for_each(|event| tenant.match_ahead(&event.kind));
        }
        let submit = Submit { batch, routes: self.routes(), deliveries: self.fresh_deliveries() };
        self.database.try_request(submit, Urgency::Urgent).await?
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, QueueError> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        self.database.request(ClaimAll { claims, abandoned: self.abandoned.clone() }, Urgency::Urgent).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled, QueueError> {
        self.database.request(settlement, Urgency::Lazy).await
    }

    async fn hand_back(&self, delivery: DeliveryId, lease: Lease) -> Result<Settled, QueueError> {
        self.database.request(HandBack { delivery, lease }, Urgency::Lazy).await
    }

    async fn waiting_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<WaitingLane>, QueueError> {
        let after = after.map_or(-1, LaneId::number);
        self.database.read(move |connection| Ok(lanes::waiting_after(connection, after, limit)?)).await
    }

    async fn probe_supply(&self, lane: LaneId) -> Result<ProbeSupply, QueueError> {
        let now = self.now();
        self.database.read(move |connection| Ok(lanes::probe_supply(connection, lane.number(), now)?)).await
    }

    async fn reclaim(&self, limit: usize) -> Result<BatchResult, QueueError> {
        let reclaim = Reclaim { limit, abandoned: self.abandoned.clone(), answers: Abandoned::default() };
        self.database.request(reclaim, Urgency::Urgent).await
    }

    async fn fan_out(&self, limit: u32) -> Result<BatchResult, QueueError> {
        let piece = WriteFanOut {
            limit,
            routes: Arc::clone(&self.routes),
            last_tenant: Arc::clone(&self.last_tenant),
            abandoned: self.abandoned.clone(),
        };
        self.database.request(piece, Urgency::Urgent).await
    }

    async fn expire(&self, limit: usize) -> Result<BatchResult, QueueError> {
        self.database.request(Expire { limit }, Urgency::Urgent).await
    }

    async fn prune(&self, keep: &Retention, limit: usize) -> Result<BatchResult, QueueError> {
        self.sweep.lock().await.run(&self.database, *keep, limit).await
    }

    fn now(&self) -> Timestamp {
        self.database.now()
    }
}
