//! Turns: a lane that has a turn checks its gates, and deliveries are claimed only for turns that passed. One loop
//! plans; each claim and each attempt is a task, and the slots limit their number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox::{CircuitStatus, Epoch};
use breakerbox_core::Timestamp;
use breakerbox_model::delivery::lanes::{LaneTurn, Sleep};
use breakerbox_model::objects::{FailReason, LaneId, Priority};
use breakerbox_storage::{Claim, Claimed, Leased, QueueError};
use tracing::{error, warn};

use super::destination::Destination;
use super::dispatcher::Dispatch;
use super::gates::{self, GateDecision, Pass, Refused};

/// The maximum number of turns in one claim, so that its commit stays short.
const TURNS_AT_ONCE: usize = 256;

/// How long a lane sleeps after its claim failed.
const AFTER_A_FAULT: Duration = Duration::from_millis(500);

/// The passes of one lane for turns that passed all gates, by priority. The deliveries still have to be claimed.
struct Planned {
    destination: Arc<Destination>,
    passes: [Vec<Pass>; 4],
}

impl Dispatch {
    /// Gives turns to lanes until none is ready, checks the gates for each turn, and spawns tasks that claim the
    /// deliveries.
    pub(super) async fn plan(self: &Arc<Self>) {
        loop {
            // While results can't be written, no new request is made.
            if let Ok(permit) = self.unsettled.acquire().await {
                drop(permit);
            }
            if self.is_stopping() {
                return;
            }
            let now = self.now();
            self.lanes().tick(now);
            let mut planned = HashMap::<LaneId, Planned>::new();
            let mut turns = 0;
            while turns < TURNS_AT_ONCE {
                let Some(turn) = self.lanes().next(now) else { break };
                turns += 1;
                self.take_turn(turn, &mut planned, now);
            }
            if !planned.is_empty() {
                planned.keys().for_each(|lane| self.lanes().claiming(*lane));
                let dispatch = Arc::clone(self);
                self.spawn(async move { dispatch.claim(planned).await });
            }
            if turns < TURNS_AT_ONCE {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    fn take_turn(self: &Arc<Self>, turn: LaneTurn, planned: &mut HashMap<LaneId, Planned>, now: Timestamp) {
        let Some(destination) = self.destination_of(turn.lane) else {
            // The endpoint was deleted; its deliveries are cancelled, now or soon.
            self.lanes().refused(turn.lane, turn.priority, Sleep::Disabled, now);
            return;
        };
        let priority = turn.priority.unwrap_or(Priority::High);
        match gates::try_acquire(&destination, priority, now) {
            GateDecision::Pass(pass) => match turn.priority {
                Some(priority) => {
                    let planned = planned.entry(turn.lane).or_insert_with(|| Planned::new(destination));
                    planned.passes[priority.index()].push(pass);
                }
                // The circuit closed in the meantime, and no delivery is due.
                None => {
                    gates::give_token_back(&destination);
                    self.lanes().release_slot(turn.lane, None, now);
                }
            },
            GateDecision::Refused(refused) => self.refused(turn.lane, turn.priority, priority, refused),
            GateDecision::Wait => {
                // One turn acquires for the whole lane; further turns would only be refused.
                self.lanes().claiming(turn.lane);
                let dispatch = Arc::clone(self);
                self.spawn(async move { dispatch.acquire_and_claim(destination, turn).await });
            }
        }
    }

    /// Counts a gate's refusal, frees the slot, and puts the lane to sleep or on hold. `turn` is the priority of the
    /// lane's turn; `None` for a delivery that was dispatched directly, and for a turn without a delivery.
    pub(super) fn refused(&self, lane: LaneId, turn: Option<Priority>, priority: Priority, refused: Refused) {
        let now = self.now();
        self.metrics.refusals.of(refused.gate()).inc();
        match (refused, turn) {
            (Refused::Sleep(sleep), _) => self.lanes().refused(lane, turn, sleep, now),
            (Refused::Shed(hold), Some(turn)) => self.lanes().shed(lane, turn, hold, now),
            (Refused::Shed(hold), None) => {
                let mut lanes = self.lanes();
                lanes.release_slot(lane, None, now);
                lanes.hold(lane, priority, hold, now);
            }
        }
        self.wake();
    }

    /// Acquires a permit for a turn that has to wait for the circuit store, then claims a delivery.
    async fn acquire_and_claim(self: Arc<Self>, destination: Arc<Destination>, turn: LaneTurn) {
        let priority = turn.priority.unwrap_or(Priority::High);
        if destination.circuit.status() != CircuitStatus::Closed
            && let Some(next_due) = self.without_probe(turn.lane).await
        {
            // Without a delivery to probe with, the circuit stays as it is. Another of its lanes may have one.
            let now = self.now();
            let mut lanes = self.lanes();
            lanes.claimed(turn.lane, 1, [0; 4], next_due, now);
            lanes.circuit_settled(destination.key(), now);
            drop(lanes);
            self.wake();
            return;
        }
        let asked = gates::acquire_waiting(&destination, priority, self.now()).await;
        let now = self.now();
        let pass = match asked {
            Ok(pass) => pass,
            Err(refused) => {
                self.lanes().claim_failed(turn.lane, 0, now);
                self.refused(turn.lane, turn.priority, priority, refused);
                return;
            }
        };
        let lease = self.lease(&destination);
        let (claim, outage) = if pass.permit.is_probe() {
            let outage = self.outage(&destination);
            (Claim::Probe { lane: turn.lane, outage, lease }, Some(outage))
        } else if let Some(priority) = turn.priority {
            (Claim::Due { lane: turn.lane, priority, limit: 1, lease }, None)
        } else {
            gates::give_token_back(&destination);
            self.lanes().claim_failed(turn.lane, 1, now);
            return;
        };
        self.metrics.claims.inc();
        match self.queue.claim(vec![claim]).await {
            Ok(claimed) => {
                let mut pass = Some(pass);
                self.start(&destination, 1, claimed, |_| pass.take(), outage);
                if pass.is_some() {
                    gates::give_token_back(&destination);
                }
            }
            Err(error) => self.claim_failed(&destination, 1, &error),
        }
    }

    /// Returns when the next deliveries of a lane become due, by priority, if none of the lane's deliveries may probe
    /// its circuit now. Returns `None` if one may, or if that can't be determined.
    async fn without_probe(&self, lane: LaneId) -> Option<[Option<Timestamp>; 4]> {
        let supply = self.queue.probe_supply(lane).await.ok()?;
        (!supply.can_probe).then_some(supply.next_due)
    }

    async fn claim(self: Arc<Self>, planned: HashMap<LaneId, Planned>) {
        let mut claims = Vec::with_capacity(planned.len());
        let mut lanes = Vec::with_capacity(planned.len());
        for (lane, planned) in planned {
            let lease = self.lease(&planned.destination);
            let before = claims.len();
            for priority in Priority::ALL {
                let limit = count(planned.passes[priority.index()].len());
                if limit > 0 {
                    claims.push(Claim::Due { lane, priority, limit, lease });
                }
            }
            lanes.push((planned, claims.len() - before));
        }
        self.metrics.claims.inc_by(count(claims.len()).into());
        match self.queue.claim(claims).await {
            Ok(claimed) => {
                let mut claimed = claimed.into_iter();
                for (mut planned, claims) in lanes {
                    let asked = count(planned.passes.iter().map(Vec::len).sum());
                    let claimed: Vec<_> = claimed.by_ref().take(claims).collect();
                    let passes = &mut planned.passes;
                    let pass = |priority: Priority| passes[priority.index()].pop();
                    self.start(&planned.destination, asked, claimed, pass, None);
                    for _ in planned.passes.iter().flatten() {
                        gates::give_token_back(&planned.destination);
                    }
                }
            }
            Err(error) => {
                for (planned, _) in lanes {
                    let asked = planned.passes.iter().map(Vec::len).sum();
                    self.claim_failed(&planned.destination, asked, &error);
                }
            }
        }
    }

    /// Starts the attempts of the deliveries claimed for a lane.
    fn start(
        self: &Arc<Self>,
        destination: &Arc<Destination>,
        asked: u32,
        claimed: Vec<Claimed>,
        mut pass: impl FnMut(Priority) -> Option<Pass>,
        outage: Option<Epoch>,
    ) {
        let now = self.now();
        let next_due = claimed.last().map_or([None; 4], |claimed| claimed.next_due);
        let unreadable = claimed.iter().map(|claimed| claimed.unreadable).sum();
        self.metrics.deliveries.of(FailReason::Unreadable).inc_by(unreadable);
        let deliveries: Vec<Leased> = claimed.into_iter().flat_map(|claimed| claimed.deliveries).collect();
        let mut found = [0; 4];
        deliveries.iter().for_each(|leased| found[leased.priority.index()] += 1);
        self.lanes().claimed(destination.lane, asked, found, next_due, now);
        self.metrics.claimed.inc_by(count(deliveries.len()).into());
        for leased in deliveries {
            match pass(leased.priority) {
                Some(pass) => {
                    let (dispatch, destination) = (Arc::clone(self), Arc::clone(destination));
                    self.spawn(dispatch.attempt(destination, leased, pass, outage));
                }
                None => {
                    error!(delivery = %leased.id, "a delivery was claimed without a pass of the throttle");
                    self.lanes().release_slot(leased.lane, None, now);
                    let dispatch = Arc::clone(self);
                    self.spawn(async move { dispatch.hand_back(leased).await });
                }
            }
        }
        self.wake();
    }

    fn claim_failed(&self, destination: &Destination, asked: usize, error: &QueueError) {
        warn!(%error, "can't claim deliveries; retrying");
        (0..asked).for_each(|_| gates::give_token_back(destination));
        let now = self.now();
        let mut lanes = self.lanes();
        lanes.claim_failed(destination.lane, count(asked), now);
        lanes.sleep(destination.lane, Sleep::LocalFault(now + AFTER_A_FAULT), now);
        drop(lanes);
        self.wake();
    }
}

impl Planned {
    fn new(destination: Arc<Destination>) -> Self {
        Self { destination, passes: Default::default() }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
