//! Implements [`Queue`]. Accepts, claims and settlements have a writer each, so that none waits for another.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryId, LaneId, NewBatch};
use breakerbox_storage::Routes;
use breakerbox_storage::{
    BatchResult, Claim, Claimed, Lease, ProbeSupply, Queue, QueueError, Reservations, Retention, Settled,
    Settlement, SubmitError, Submitted, WaitingLane,
};
use tokio::sync::oneshot;

use super::abandoned::AbandonedResults;
use super::batcher::{Batcher, received};
use super::claim::{self, LeaseJob};
use super::database::Database;
use super::fan_out::FanOuts;
use super::prune::Sweep;
use super::reminders::apply::Applier;
use super::settle::{self, EndJob, Ending};
use super::submit::{SubmitJob, Submitter};
use super::wakeups::Wakeups;
use super::{lanes, maintenance};

/// The durable queue in a Postgres database.
pub struct PostgresQueue {
    database: Database,
    routes: Arc<dyn Routes>,
    reservations: Arc<dyn Reservations>,
    abandoned: AbandonedResults,
    submits: Batcher<SubmitJob>,
    leases: Batcher<LeaseJob>,
    ends: Batcher<EndJob>,
    fan_outs: FanOuts,
    sweep: tokio::sync::Mutex<Sweep>,
    wakeups: Wakeups,
}

impl PostgresQueue {
    /// Creates the queue of this database, for these tenants and endpoints. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(database: Database, routes: Arc<dyn Routes>, reservations: Arc<dyn Reservations>) -> Self {
        let abandoned = AbandonedResults::default();
        let room = database.waiting_jobs();
        let submitter = Submitter {
            database: database.clone(),
            routes: Arc::clone(&routes),
            reservations: Arc::clone(&reservations),
            abandoned: abandoned.clone(),
        };
        let submits = Batcher::start(room, move |group| {
            let submitter = submitter.clone();
            async move { submitter.run(group).await }
        });
        let claims_of = (database.clone(), abandoned.clone());
        let leases = Batcher::start(room, move |group| {
            let (database, abandoned) = claims_of.clone();
            async move { claim::run(&database, &abandoned, group).await }
        });
        let ends_of = database.clone();
        let ends = Batcher::start(room, move |group| {
            let database = ends_of.clone();
            async move { settle::run(&database, group).await }
        });
        let fan_outs = FanOuts::new(database.clone(), Arc::clone(&routes));
        let sweep = tokio::sync::Mutex::default();
        let wakeups = Wakeups::start(&database);
        Self { database, routes, reservations, abandoned, submits, leases, ends, fan_outs, sweep, wakeups }
    }

    /// Returns the underlying database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the writers' view of tenants and endpoints.
    pub(crate) fn routes(&self) -> &Arc<dyn Routes> {
        &self.routes
    }

    pub(crate) fn abandoned(&self) -> &AbandonedResults {
        &self.abandoned
    }

    /// Returns what is needed to apply decisions about reminders.
    pub(crate) fn applier(&self) -> Applier {
        Applier {
            database: self.database.clone(),
            routes: Arc::clone(&self.routes),
            reservations: Arc::clone(&self.reservations),
        }
    }

    /// Tells other processes that deliveries wait in these lanes.
    fn tell(&self, woken: &[WaitingLane]) {
        let lane = |waiting: &WaitingLane| {
            self.routes.tenant(&waiting.tenant).map(|tenant| (waiting.lane.number(), tenant.row()))
        };
        self.wakeups.tell(woken.iter().filter_map(lane).collect());
    }

    async fn end(&self, ending: Ending) -> Result<Settled, QueueError> {
        let (caller, answer) = oneshot::channel();
        self.ends.add(EndJob { ending, caller }).await?;
        received(answer).await
    }
}

#[async_trait]
impl Queue for PostgresQueue {
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError> {
        if let Some(tenant) = self.routes.tenant(&batch.tenant) {
            batch
                .events
                .iter()
                .filter(|event| event.url.is_none())
                .for_each(|event| tenant.match_ahead(&event.kind));
        }
        let (caller, answer) = oneshot::channel();
        self.submits.try_add(SubmitJob { batch, caller })?;
        let submitted = received(answer).await?;
        self.tell(&submitted.woken);
        Ok(submitted)
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, QueueError> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let (caller, answer) = oneshot::channel();
        self.leases.add(LeaseJob::Claim { claims, caller }).await?;
        received(answer).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled, QueueError> {
        self.end(Ending::Settled(Box::new(settlement))).await
    }

    async fn hand_back(&self, delivery: DeliveryId, lease: Lease) -> Result<Settled, QueueError> {
        self.end(Ending::WaitsAgain { delivery, lease, may_be_sent: false }).await
    }

    async fn waiting_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<WaitingLane>, QueueError> {
        lanes::waiting_after(&self.database, after.map_or(-1, LaneId::number), limit).await
    }

    async fn probe_supply(&self, lane: LaneId) -> Result<ProbeSupply, QueueError> {
        lanes::probe_supply(&self.database, lane.number()).await
    }

    async fn reclaim(&self, limit: usize) -> Result<BatchResult, QueueError> {
        let (caller, answer) = oneshot::channel();
        self.leases.add(LeaseJob::Reclaim { limit, caller }).await?;
        let batch = received(answer).await?;
        self.tell(&batch.woken);
        Ok(batch)
    }

    async fn fan_out(&self, limit: u32) -> Result<BatchResult, QueueError> {
        let batch = self.fan_outs.piece(limit).await?;
        self.tell(&batch.woken);
        Ok(batch)
    }

    async fn expire(&self, limit: usize) -> Result<BatchResult, QueueError> {
        maintenance::expire(&self.database, limit).await
    }

    async fn prune(&self, keep: &Retention, limit: usize) -> Result<BatchResult, QueueError> {
        self.sweep.lock().await.run(&self.database, *keep, limit).await
    }

    async fn woken_by_others(&self) -> Vec<WaitingLane> {
        self.wakeups.woken().await
    }

    fn now(&self) -> Timestamp {
        self.database.now()
    }
}
