//! The hot path as [`Queue`]: each operation is a job for the writer, or for a reader.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryId, LaneId, NewBatch};
use breakerbox_storage::{
    AcceptError, Accepted, Batch, Claim, Claimed, HandOver, Lease, Queue, QueueError, Retention, Settle,
    Settled, WaitingLane,
};

use super::accept::Accept;
use super::claim::ClaimAll;
use super::database::Database;
use super::fan_out::WritePiece;
use super::lanes;
use super::line::Urgency;
use super::prune::Sweep;
use super::routes::Routes;
use super::settle::HandBack;
use super::unheard::{Answers, Unheard};
use super::upkeep::{CancelClosed, Expire, Reclaim};

/// The hot path in a SQLite file.
pub struct SqliteQueue {
    database: Database,
    routes: Arc<dyn Routes>,
    hand_over: Arc<dyn HandOver>,
    unheard: Unheard,
    sweep: tokio::sync::Mutex<Sweep>,
    /// The tenant whose fan-out was written last.
    turn: Arc<AtomicI64>,
}

impl SqliteQueue {
    /// Returns the queue of this file, for these tenants and endpoints.
    #[must_use]
    pub fn new(database: Database, routes: Arc<dyn Routes>, hand_over: Arc<dyn HandOver>) -> Self {
        Self {
            database,
            routes,
            hand_over,
            unheard: Unheard::default(),
            sweep: tokio::sync::Mutex::default(),
            turn: Arc::new(AtomicI64::new(-1)),
        }
    }

    /// Returns the state that jobs share which fire or accept deliveries.
    pub(super) fn shared(&self) -> (Arc<dyn Routes>, Arc<dyn HandOver>, Unheard) {
        (Arc::clone(&self.routes), Arc::clone(&self.hand_over), self.unheard.clone())
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Database {
    /// Cancels waiting deliveries of closed lanes, at most `limit`.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn cancel_closed(&self, limit: usize) -> Result<Batch, QueueError> {
        self.request(CancelClosed { limit }, Urgency::Urgent).await
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    async fn accept(&self, batch: NewBatch) -> Result<Accepted, AcceptError> {
        if let Some(tenant) = self.routes.tenant(&batch.tenant) {
            batch
                .events
                .iter()
                .filter(|event| event.url.is_none())
                .for_each(|event| tenant.match_ahead(&event.kind));
        }
        let accept = Accept {
            batch,
            routes: Arc::clone(&self.routes),
            hand_over: Arc::clone(&self.hand_over),
            reserved: Vec::new(),
            unheard: self.unheard.clone(),
        };
        self.database.try_ask(accept, Urgency::Urgent).await?
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, QueueError> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        self.database.request(ClaimAll { claims, unheard: self.unheard.clone() }, Urgency::Urgent).await
    }

    async fn settle(&self, settle: Settle) -> Result<Settled, QueueError> {
        self.database.request(settle, Urgency::Lazy).await
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

    async fn has_waiting(&self, lane: LaneId) -> Result<bool, QueueError> {
        let now = self.now();
        self.database.read(move |connection| Ok(lanes::has_waiting(connection, lane.number(), now)?)).await
    }

    async fn reclaim(&self, limit: usize) -> Result<Batch, QueueError> {
        let reclaim = Reclaim { limit, unheard: self.unheard.clone(), answers: Answers::default() };
        self.database.request(reclaim, Urgency::Urgent).await
    }

    async fn fan_out(&self, limit: u32) -> Result<Batch, QueueError> {
        let piece = WritePiece {
            limit,
            routes: Arc::clone(&self.routes),
            turn: Arc::clone(&self.turn),
            unheard: self.unheard.clone(),
        };
        self.database.request(piece, Urgency::Urgent).await
    }

    async fn expire(&self, limit: usize) -> Result<Batch, QueueError> {
        self.database.request(Expire { limit }, Urgency::Urgent).await
    }

    async fn prune(&self, keep: &Retention, limit: usize) -> Result<Batch, QueueError> {
        self.sweep.lock().await.run(&self.database, *keep, limit).await
    }

    fn now(&self) -> Timestamp {
        self.database.now()
    }
}
