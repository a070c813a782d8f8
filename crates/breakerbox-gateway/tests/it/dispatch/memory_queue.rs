//! An in-memory queue on tokio's clock that counts operations, for dispatch in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::{Epoch, Timestamp};
use breakerbox_gateway::dispatch::DirectDispatch;
use breakerbox_model::delivery::{NextStep, ProbeCandidate};
use breakerbox_model::objects::{
    DeliveryId, EventId, EventType, Id, LaneId, NewBatch, NewEvent, Priority, TenantId,
};
use breakerbox_storage::{
    BatchResult, Claim, Claimed, Directory, Lease, Leased, ProbeSupply, Queue, QueueError, Reservations,
    Retention, Settled, Settlement, SubmitError, Submitted, SubmittedEvent, WaitingLane,
};
use tokio::time::Instant;

/// The start of virtual time.
const START: Timestamp = Timestamp::from_millis(1_763_000_000_000);

pub(super) struct MemoryQueue {
    started: Instant,
    directory: Arc<Directory>,
    direct_dispatch: OnceLock<Arc<DirectDispatch>>,
    held: Mutex<Held>,
}

#[derive(Default)]
pub(super) struct Held {
    pub(super) rows: BTreeMap<DeliveryId, Row>,
    /// The number of claims from lanes.
    pub(super) claims: u64,
    /// The number of rows written.
    pub(super) writes: u64,
    pub(super) settled: Vec<Settlement>,
    last: Option<Id>,
}

#[derive(Clone)]
pub(super) struct Row {
    pub(super) lane: LaneId,
    tenant: TenantId,
    kind: EventType,
    event: EventId,
    pub(super) priority: Priority,
    due: Timestamp,
    lease: Option<Lease>,
    pub(super) attempts: u32,
    failed_probe: Option<Epoch>,
    is_pulled: bool,
    pub(super) done: bool,
    payload: bytes::Bytes,
    expires_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl MemoryQueue {
    pub(super) fn new(directory: Arc<Directory>) -> Self {
        Self { started: Instant::now(), directory, direct_dispatch: OnceLock::new(), held: Mutex::default() }
    }

    pub(super) fn is_taken_by(&self, direct_dispatch: Arc<DirectDispatch>) {
        let _ = self.direct_dispatch.set(direct_dispatch);
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    pub(super) fn waiting(&self) -> usize {
        self.held().rows.values().filter(|row| !row.done).count()
    }

    fn lease(&self, held: &mut Held, id: DeliveryId, pulled: bool) -> Leased {
        held.writes += 1;
        let lease = Lease(i64::try_from(held.writes).unwrap());
        let row = held.rows.get_mut(&id).unwrap();
        row.lease = Some(lease);
        row.is_pulled |= pulled;
        Leased {
            id,
            lease,
            lane: row.lane,
            tenant: row.tenant.clone(),
            event: row.event,
            kind: row.kind.clone(),
            payload: row.payload.clone(),
            content_type: "application/json".into(),
            priority: row.priority,
            attempts: row.attempts,
            url: None,
            run: None,
            pulled_from: pulled.then_some(row.due),
            created_at: row.created_at,
            expires_at: row.expires_at,
        }
    }
}

impl Held {
    fn next_due(&self, lane: LaneId) -> [Option<Timestamp>; 4] {
        let of = |priority| {
            let waits = |row: &&Row| row.waits_in(lane) && row.priority == priority;
            self.rows.values().filter(waits).map(|row| row.due).min()
        };
        Priority::ALL.map(of)
    }

    /// Returns the waiting rows of a lane, by priority and age.
    fn waiting_in(&self, lane: LaneId) -> Vec<(DeliveryId, Row)> {
        let mut rows: Vec<_> = self
            .rows
            .iter()
            .filter(|(_, row)| row.waits_in(lane))
            .map(|(id, row)| (*id, row.clone()))
            .collect();
        rows.sort_by_key(|(id, row)| (row.priority, row.due, *id));
        rows
    }
}

impl Row {
    fn candidate(&self) -> ProbeCandidate {
        let Self { priority, due, attempts, is_pulled, failed_probe, .. } = *self;
        ProbeCandidate { priority, due_at: due, attempts, is_pulled, failed_probe }
    }

    fn waits_in(&self, lane: LaneId) -> bool {
        self.lane == lane && !self.done && self.lease.is_none()
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError> {
        let now = self.now();
        let mut accepted =
            Submitted { events: vec![], repeated: false, taken: vec![], woken: vec![], deferred: 0 };
        for NewEvent { kind, payload, priority, not_before, expires_at, .. } in batch.events {
            let endpoints = self.directory.fan_out(&batch.tenant, &kind).unwrap();
            let mut held = self.held();
            let id = held.last.map_or(Id::first_at(now), |last| last.next(now));
            held.last = Some(id);
            accepted.events.push(SubmittedEvent {
                id: EventId(id),
                deliveries: u32::try_from(endpoints.len()).unwrap(),
            });
            for endpoint in endpoints.iter() {
                let id = held.last.unwrap().next(now);
                held.last = Some(id);
                held.writes += 1;
                let row = Row {
                    lane: endpoint.lane(),
                    tenant: batch.tenant.clone(),
                    kind: kind.clone(),
                    event: EventId(id),
                    priority,
                    due: not_before.unwrap_or(now),
                    lease: None,
                    attempts: 0,
                    failed_probe: None,
                    is_pulled: false,
                    done: false,
                    payload: payload.clone(),
                    expires_at,
                    created_at: now,
                };
                let due = row.due;
                held.rows.insert(DeliveryId(id), row);
                let direct_dispatch = self.direct_dispatch.get().unwrap();
                if due <= now && direct_dispatch.reserve(endpoint.lane(), &batch.tenant, None).is_some() {
                    let leased = self.lease(&mut held, DeliveryId(id), false);
                    accepted.taken.push(leased);
                } else {
                    let mut next_due = [None; 4];
                    next_due[priority.index()] = Some(due);
                    accepted.woken.push(WaitingLane {
                        lane: endpoint.lane(),
                        tenant: batch.tenant.clone(),
                        dynamic: None,
                        next_due,
                        count: 1,
                    });
                }
            }
        }
        Ok(accepted)
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, QueueError> {
        // Simulates the latency of a disk.
        tokio::time::sleep(Duration::from_micros(200)).await;
        let now = self.now();
        let mut held = self.held();
        let mut answers = Vec::new();
        for claim in claims {
            held.claims += 1;
            let (lane, deliveries) = match claim {
                Claim::Due { lane, priority, limit, .. } => {
                    let due: Vec<_> = held
                        .waiting_in(lane)
                        .into_iter()
                        .filter(|(_, row)| row.priority == priority && row.due <= now)
                        .take(usize::try_from(limit).unwrap())
                        .collect();
                    (lane, due.into_iter().map(|(id, _)| self.lease(&mut held, id, false)).collect())
                }
                Claim::Probe { lane, outage, .. } => {
                    let waiting = held.waiting_in(lane).into_iter();
                    let ranked = waiting.filter_map(|(id, row)| {
                        Some((row.candidate().rank(outage, now)?, id, row.due > now))
                    });
                    let found = ranked.min().map(|(_, id, pulled)| self.lease(&mut held, id, pulled));
                    (lane, found.into_iter().collect())
                }
            };
            let next_due = held.next_due(lane);
            answers.push(Claimed { deliveries, next_due, unreadable: 0 });
        }
        Ok(answers)
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled, QueueError> {
        tokio::time::sleep(Duration::from_micros(200)).await;
        let mut held = self.held();
        held.writes += 1;
        let row = held.rows.get_mut(&settlement.id).unwrap();
        if row.lease != Some(settlement.lease) {
            return Ok(Settled::Fenced);
        }
        row.lease = None;
        match settlement.next {
            NextStep::Delivered | NextStep::Failed(_) => row.done = true,
            NextStep::Retry { due_at, uses_attempt, failed_probe } => {
                row.due = due_at;
                row.attempts += u32::from(uses_attempt);
                row.failed_probe = failed_probe.or(row.failed_probe);
                row.is_pulled &= !uses_attempt;
            }
        }
        held.settled.push(settlement);
        Ok(Settled::Done)
    }

    async fn hand_back(&self, id: DeliveryId, lease: Lease) -> Result<Settled, QueueError> {
        let mut held = self.held();
        held.writes += 1;
        let row = held.rows.get_mut(&id).unwrap();
        assert_eq!(row.lease.take(), Some(lease));
        row.is_pulled = false;
        Ok(Settled::Done)
    }

    async fn waiting_lanes(&self, _: Option<LaneId>, _: usize) -> Result<Vec<WaitingLane>, QueueError> {
        Ok(vec![])
    }

    async fn probe_supply(&self, lane: LaneId) -> Result<ProbeSupply, QueueError> {
        let now = self.now();
        let held = self.held();
        let mut waiting = held.waiting_in(lane).into_iter();
        let can_probe = waiting.any(|(_, row)| {
            row.expires_at.is_none_or(|at| at > now) && row.candidate().rank(Epoch(0), now).is_some()
        });
        let next_due = held.next_due(lane).map(|due| due.filter(|due| *due > now));
        Ok(ProbeSupply { can_probe, next_due })
    }

    async fn reclaim(&self, _: usize) -> Result<BatchResult, QueueError> {
        Ok(BatchResult::default())
    }

    async fn fan_out(&self, _: u32) -> Result<BatchResult, QueueError> {
        Ok(BatchResult::default())
    }

    async fn expire(&self, _: usize) -> Result<BatchResult, QueueError> {
        let now = self.now();
        let mut done = 0;
        for row in self.held().rows.values_mut() {
            if !row.done && row.lease.is_none() && row.expires_at.is_some_and(|at| at <= now) {
                row.done = true;
                done += 1;
            }
        }
        Ok(BatchResult { done, ..BatchResult::default() })
    }

    async fn prune(&self, _: &Retention, _: usize) -> Result<BatchResult, QueueError> {
        Ok(BatchResult::default())
    }

    fn now(&self) -> Timestamp {
        START + self.started.elapsed()
    }
}
