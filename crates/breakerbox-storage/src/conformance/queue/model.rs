//! Runs random operations, and compares each result with that of a simple model.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Claim, Lease, Leased, Settled, SubmitError};
use breakerbox_core::{Epoch, Timestamp};
use breakerbox_model::delivery::{NextStep, ProbeCandidate, ProbeRank};
use breakerbox_model::objects::{
    Backlog, DeliveryId, DeliveryState, FailReason, Filter, Id, LaneId, NewEvent, Priority,
};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::rig::{LEASE, Rig, Verbs, attempt, event, seconds, with_key};

/// The backlog limit, which is low so that the test reaches it.
const MOST: u64 = 12;

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Accept { lane: usize, priority: usize, delay: u64, lifetime: Option<u64>, take: bool, key: Option<u8> },
    Due { lane: usize, priority: usize, limit: u32 },
    Probe { lane: usize, outage: u64 },
    Settlement { nth: usize, end: End },
    SettleOld { nth: usize },
    HandBack { nth: usize },
    Reclaim,
    Expire { limit: usize },
    Delete { lane: usize },
    Cancel { limit: usize },
    Crash,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Delivered,
    Failed,
    Retry { delay: u64, uses_attempt: bool, failed_probe: Option<u64> },
}

fn step() -> impl Strategy<Value = Step> {
    let lane = 0_usize..3;
    let retry = (0_u64..40, any::<bool>(), prop_oneof![Just(None), (1_u64..3).prop_map(Some)])
        .prop_map(|(delay, uses_attempt, failed_probe)| End::Retry { delay, uses_attempt, failed_probe });
    let end = prop_oneof![2 => Just(End::Delivered), 1 => Just(End::Failed), 4 => retry];
    let delay = prop_oneof![3 => Just(0_u64), 1 => 1_u64..40];
    let lifetime = prop_oneof![4 => Just(None), 1 => (1_u64..60).prop_map(Some)];
    let key = prop_oneof![3 => Just(None), 1 => (0_u8..3).prop_map(Some)];
    prop_oneof![
        3 => (0_u64..50).prop_map(Step::Pass),
        8 => (lane.clone(), 0_usize..2, delay, lifetime, any::<bool>(), key).prop_map(
            |(lane, priority, delay, lifetime, take, key)|
            Step::Accept { lane, priority, delay, lifetime, take, key }),
        4 => (lane.clone(), 0_usize..2, 1_u32..4).prop_map(
            |(lane, priority, limit)| Step::Due { lane, priority, limit }),
        3 => (lane.clone(), 1_u64..3).prop_map(|(lane, outage)| Step::Probe { lane, outage }),
        6 => (any::<usize>(), end).prop_map(|(nth, end)| Step::Settlement { nth, end }),
        1 => any::<usize>().prop_map(|nth| Step::SettleOld { nth }),
        2 => any::<usize>().prop_map(|nth| Step::HandBack { nth }),
        1 => Just(Step::Reclaim),
        1 => (1_usize..4).prop_map(|limit| Step::Expire { limit }),
        1 => (1_usize..3).prop_map(|lane| Step::Delete { lane }),
        1 => (1_usize..4).prop_map(|limit| Step::Cancel { limit }),
        1 => Just(Step::Crash),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Known {
    lane: usize,
    priority: Priority,
    due_at: Timestamp,
    failed_probe: u64,
    is_pulled: bool,
    expires_at: Option<Timestamp>,
    attempts: u32,
    requests: u32,
    state: Is,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    Waiting,
    Held { lease: Lease, until: Timestamp },
    Over(DeliveryState),
}

impl Known {
    fn waits_in(&self, lane: usize) -> bool {
        self.lane == lane && self.state == Is::Waiting
    }

    fn rank(&self, outage: Epoch, now: Timestamp) -> Option<ProbeRank> {
        let Self { priority, due_at, attempts, is_pulled, failed_probe, .. } = *self;
        let failed_probe = (failed_probe != 0).then_some(Epoch(failed_probe));
        ProbeCandidate { priority, due_at, attempts, is_pulled, failed_probe }.rank(outage, now)
    }

    fn state(&self) -> DeliveryState {
        match self.state {
            Is::Waiting if self.attempts == 0 => DeliveryState::Pending,
            Is::Waiting => DeliveryState::Retrying,
            Is::Held { .. } => DeliveryState::InFlight,
            Is::Over(state) => state,
        }
    }
}

struct Model<R> {
    rig: R,
    lanes: [LaneId; 3],
    open: [bool; 3],
    deliveries: BTreeMap<i64, Known>,
    /// The result for each idempotency key: the lane, the event and the number of deliveries.
    keys: BTreeMap<u8, (usize, i64, u32)>,
    old: Vec<(i64, Lease)>,
}

impl<R: Rig> Model<R> {
    async fn new() -> Self {
        let rig = R::new().await;
        rig.add_tenant("acme", Backlog { count: MOST, bytes: 1 << 30 }).await;
        let mut lanes = Vec::new();
        for name in ["lane.0", "lane.1", "lane.2"] {
            lanes.push(rig.add_endpoint("acme", Filter::any_of([name]).unwrap(), None).await);
        }
        let lanes = lanes.try_into().unwrap();
        Self {
            rig,
            lanes,
            open: [true; 3],
            deliveries: BTreeMap::new(),
            keys: BTreeMap::new(),
            old: Vec::new(),
        }
    }

    fn unfinished(&self) -> u64 {
        self.deliveries.values().filter(|known| !matches!(known.state, Is::Over(_))).count() as u64
    }

    /// Returns the n-th of the leased deliveries, modulo their number.
    fn held(&self, nth: usize) -> Option<(i64, Lease)> {
        let held = self.deliveries.iter().filter_map(|(id, known)| match known.state {
            Is::Held { lease, .. } => Some((*id, lease)),
            _ => None,
        });
        let held: Vec<_> = held.collect();
        (!held.is_empty()).then(|| held[nth % held.len()])
    }

    /// Returns the deliveries that wait in a lane and match the predicate, as (due at, id).
    fn waiting(&self, lane: usize, wanted: impl Fn(&Known) -> bool) -> Vec<(Timestamp, i64)> {
        let waiting = self.deliveries.iter().filter(|(_, known)| known.waits_in(lane) && wanted(known));
        let mut waiting: Vec<_> = waiting.map(|(id, known)| (known.due_at, *id)).collect();
        waiting.sort_unstable();
        waiting
    }

    fn leased(&mut self, leased: &Leased, pulled_from: Option<Timestamp>) {
        let now = self.rig.now();
        let known = self.deliveries.get_mut(&leased.id.number()).unwrap();
        assert_eq!((leased.attempts, leased.priority), (known.attempts, known.priority));
        assert_eq!(leased.pulled_from, pulled_from);
        assert_eq!(leased.expires_at, known.expires_at);
        known.is_pulled |= pulled_from.is_some();
        known.state = Is::Held { lease: leased.lease, until: now + LEASE };
    }

    /// Makes the delivery wait again, unless its lane is closed.
    fn waits_again(&mut self, id: i64) {
        let known = self.deliveries.get_mut(&id).unwrap();
        known.state = if self.open[known.lane] { Is::Waiting } else { Is::Over(DeliveryState::Cancelled) };
    }

    async fn expire(&mut self, limit: usize) {
        let now = self.rig.now();
        let expired = self
            .deliveries
            .values()
            .filter(|known| known.state == Is::Waiting && known.expires_at.is_some_and(|at| at <= now));
        let wanted = expired.count().min(limit);
        assert_eq!(self.rig.queue().expire(limit).await.unwrap().done, wanted as u64);
        // The queue may choose which of them it expires.
        for (id, known) in &mut self.deliveries {
            let is_due = known.state == Is::Waiting && known.expires_at.is_some_and(|at| at <= now);
            if is_due {
                let seen = self.rig.stored_delivery(delivery(*id)).await.unwrap();
                if seen.state == DeliveryState::Failed(FailReason::Expired) {
                    known.state = Is::Over(seen.state);
                }
            }
        }
    }

    async fn submit(&mut self, step: &Step) {
        let Step::Accept { lane, priority, delay, lifetime, take, key } = *step else { return };
        self.rig.reservations().takes(self.lanes[lane], u32::from(take));
        let now = self.rig.now();
        let due_at = now + seconds(delay);
        let expires_at = lifetime.map(|lifetime| now + seconds(lifetime));
        let new = NewEvent {
            priority: Priority::ALL[priority],
            not_before: (delay > 0).then_some(due_at),
            expires_at,
            ..event(&format!("lane.{lane}"))
        };
        let mut batch = with_key(vec![new], &format!("{key:?}"), u8::try_from(lane).unwrap());
        batch.idempotency = batch.idempotency.filter(|_| key.is_some());
        let accepted = self.rig.queue().submit(batch).await;
        if let Some((used_for, first, count)) = key.and_then(|key| self.keys.get(&key)).copied() {
            if used_for != lane {
                assert!(matches!(accepted, Err(SubmitError::KeyReused)));
                return;
            }
            let accepted = accepted.unwrap();
            assert!(accepted.repeated);
            assert_eq!((accepted.events[0].id.number(), accepted.events[0].deliveries), (first, count));
            return;
        }
        let count = u32::from(self.open[lane]);
        if count > 0 && self.unfinished() >= MOST {
            assert!(matches!(accepted, Err(SubmitError::BacklogFull { waiting: MOST, .. })));
            return;
        }
        let accepted = accepted.unwrap();
        let first = accepted.events[0];
        assert_eq!((accepted.repeated, first.deliveries), (false, count));
        if let Some(key) = key {
            self.keys.insert(key, (lane, first.id.number(), count));
        }
        let is_taken = take && count > 0 && delay == 0 && expires_at.is_none_or(|at| at > now);
        assert_eq!(accepted.taken.len(), usize::from(is_taken));
        assert_eq!(accepted.woken.len(), usize::from(count > 0 && !is_taken));
        if count > 0 {
            let known = Known {
                lane,
                priority: Priority::ALL[priority],
                due_at,
                failed_probe: 0,
                is_pulled: false,
                expires_at,
                attempts: 0,
                requests: 0,
                state: Is::Waiting,
            };
            self.deliveries.insert(first.id.number() + 1, known);
        }
        if let Some(taken) = accepted.taken.first() {
            self.leased(taken, None);
        }
        if let Some(woken) = accepted.woken.first() {
            assert_eq!(
                (woken.lane, woken.next_due[priority], woken.count),
                (self.lanes[lane], Some(due_at), 1)
            );
        }
    }

    async fn claim(&mut self, lane: usize, claim: Claim) {
        // Expire first: other cases test deliveries that expire during a claim.
        self.expire(1_000).await;
        let now = self.rig.now();
        let mut wanted: Vec<(i64, Option<Timestamp>)> = Vec::new();
        match claim {
            Claim::Due { priority, limit, .. } => {
                let due = self.waiting(lane, |known| known.priority == priority && known.due_at <= now);
                wanted.extend(due.into_iter().take(limit as usize).map(|(_, id)| (id, None)));
            }
            Claim::Probe { outage, .. } => {
                let waiting = self.deliveries.iter().filter(|(_, known)| known.waits_in(lane));
                let ranked = waiting.filter_map(|(id, known)| Some((known.rank(outage, now)?, *id)));
                if let Some((_, id)) = ranked.min() {
                    let due_at = self.deliveries[&id].due_at;
                    wanted.push((id, (due_at > now).then_some(due_at)));
                }
            }
        }
        if !self.open[lane] {
            wanted.clear();
        }
        let claimed = self.rig.claim_one(claim).await;
        let found: Vec<_> = claimed.deliveries.iter().map(|leased| leased.id.number()).collect();
        assert_eq!(found, wanted.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{claim:?}");
        for (leased, (_, pulled_from)) in claimed.deliveries.iter().zip(wanted) {
            self.leased(leased, pulled_from);
        }
        let next_due = Priority::ALL.map(|priority| {
            let waiting = self.waiting(lane, |known| known.priority == priority && self.open[lane]);
            waiting.first().map(|(due_at, _)| *due_at)
        });
        assert_eq!(claimed.next_due, next_due);
    }

    async fn settle(&mut self, nth: usize, end: End) {
        let Some((id, lease)) = self.held(nth) else { return };
        let now = self.rig.now();
        let (next, uses, state) = match end {
            End::Delivered => (NextStep::Delivered, 1, Is::Over(DeliveryState::Delivered)),
            End::Failed => {
                let why = FailReason::Exhausted;
                (NextStep::Failed(why), 1, Is::Over(DeliveryState::Failed(why)))
            }
            End::Retry { delay, uses_attempt, failed_probe } => {
                let (due_at, failed_probe) = (now + seconds(delay), failed_probe.map(Epoch));
                (NextStep::Retry { due_at, uses_attempt, failed_probe }, u32::from(uses_attempt), Is::Waiting)
            }
        };
        let settle =
            crate::Settlement { id: delivery(id), lease, attempt: attempt(now), next, stands_for: None };
        assert_eq!(self.rig.queue().settle(settle).await.unwrap(), Settled::Done);
        self.old.push((id, lease));
        let known = self.deliveries.get_mut(&id).unwrap();
        known.attempts += uses;
        known.requests += 1;
        known.state = state;
        if let NextStep::Retry { due_at, failed_probe, uses_attempt } = next {
            known.due_at = due_at;
            known.is_pulled &= !uses_attempt;
            known.failed_probe = failed_probe.map_or(known.failed_probe, |epoch| epoch.0);
            self.waits_again(id);
        }
    }

    async fn run(mut self, steps: Vec<Step>) {
        for step in &steps {
            // No two times are equal, so that the order is always defined.
            self.rig.pass(Duration::from_micros(1));
            match *step {
                Step::Pass(by) => self.rig.pass(seconds(by)),
                Step::Accept { .. } => self.submit(step).await,
                Step::Due { lane, priority, limit } => {
                    let priority = Priority::ALL[priority];
                    let claim = Claim::Due { lane: self.lanes[lane], priority, limit, lease: LEASE };
                    self.claim(lane, claim).await;
                }
                Step::Probe { lane, outage } => {
                    let claim = Claim::Probe { lane: self.lanes[lane], outage: Epoch(outage), lease: LEASE };
                    self.claim(lane, claim).await;
                }
                Step::Settlement { nth, end } => self.settle(nth, end).await,
                Step::SettleOld { nth } if !self.old.is_empty() => {
                    let (id, lease) = self.old[nth % self.old.len()];
                    let next = NextStep::Failed(FailReason::Gone);
                    let attempt = attempt(self.rig.now());
                    let settle =
                        crate::Settlement { id: delivery(id), lease, attempt, next, stands_for: None };
                    assert_eq!(self.rig.queue().settle(settle).await.unwrap(), Settled::Fenced);
                }
                Step::SettleOld { .. } => {}
                Step::HandBack { nth } => {
                    let Some((id, lease)) = self.held(nth) else { continue };
                    let settled = self.rig.queue().hand_back(delivery(id), lease).await.unwrap();
                    assert_eq!(settled, Settled::Done);
                    self.old.push((id, lease));
                    self.waits_again(id);
                    self.deliveries.get_mut(&id).unwrap().is_pulled = false;
                }
                Step::Reclaim => self.reclaim().await,
                Step::Expire { limit } => self.expire(limit).await,
                Step::Delete { lane } => {
                    if std::mem::take(&mut self.open[lane]) {
                        self.rig.delete_endpoint(self.lanes[lane]).await;
                    }
                }
                Step::Cancel { limit } => self.cancel(limit).await,
                Step::Crash => {
                    self.rig = self.rig.crash().await;
                    let held = self.deliveries.iter_mut();
                    for (id, known) in held {
                        if let Is::Held { lease, .. } = known.state {
                            self.old.push((*id, lease));
                            known.state = Is::Waiting;
                        }
                    }
                }
            }
        }
        self.check().await;
        let Self { rig, deliveries, lanes, open, .. } = self;
        let after =
            Model { rig: rig.crash().await, lanes, open, deliveries, keys: BTreeMap::new(), old: vec![] };
        let mut after = after;
        for known in after.deliveries.values_mut() {
            if matches!(known.state, Is::Held { .. }) {
                known.state = Is::Waiting;
            }
        }
        after.check().await;
    }

    async fn reclaim(&mut self) {
        let now = self.rig.now();
        let ended = self.deliveries.iter().filter_map(|(id, known)| match known.state {
            Is::Held { lease, until } if until <= now => Some((*id, lease)),
            _ => None,
        });
        let ended: Vec<_> = ended.collect();
        let batch = self.rig.queue().reclaim(1_000).await.unwrap();
        assert_eq!(batch.done, ended.len() as u64);
        for (id, lease) in ended {
            self.old.push((id, lease));
            self.waits_again(id);
            let lane = self.deliveries[&id].lane;
            let is_told = batch.woken.iter().any(|woken| woken.lane == self.lanes[lane]);
            assert_eq!(is_told, self.open[lane]);
        }
    }

    async fn cancel(&mut self, limit: usize) {
        let orphans: Vec<i64> = self
            .deliveries
            .iter()
            .filter(|(_, known)| known.state == Is::Waiting && !self.open[known.lane])
            .map(|(id, _)| *id)
            .collect();
        let batch = self.rig.cancel_closed(limit).await;
        assert_eq!(batch.done, orphans.len().min(limit) as u64);
        for id in orphans {
            if self.rig.state(delivery(id)).await == DeliveryState::Cancelled {
                self.deliveries.get_mut(&id).unwrap().state = Is::Over(DeliveryState::Cancelled);
            }
        }
    }

    /// Checks every delivery and the maintained counts against the model.
    async fn check(&self) {
        for (id, known) in &self.deliveries {
            let seen = self.rig.stored_delivery(delivery(*id)).await.unwrap();
            assert_eq!(seen.state, known.state(), "{id}: {known:?}");
            assert_eq!((seen.attempts, seen.requests), (known.attempts, known.requests), "{id}");
        }
        assert_eq!(self.rig.rows().await[2], self.deliveries.len() as u64);
        let (kept, counted) = self.rig.backlog("acme").await;
        assert_eq!((kept, counted.count), (counted, self.unfinished()));
        let found = self.rig.queue().waiting_lanes(None, 9).await.unwrap();
        let wanted = (0..3).filter(|lane| self.open[*lane] && !self.waiting(*lane, |_| true).is_empty());
        let wanted: Vec<LaneId> = wanted.map(|lane| self.lanes[lane]).collect();
        assert_eq!(found.iter().map(|waiting| waiting.lane).collect::<Vec<_>>(), wanted);
    }
}

fn delivery(id: i64) -> DeliveryId {
    DeliveryId(Id::from_number(id).unwrap())
}

/// Runs random operations, and compares each result with the model's.
pub fn a_queue_answers_as_its_model_does<R: Rig>() {
    let config = ProptestConfig { cases: 24, max_shrink_iters: 400, ..ProptestConfig::default() };
    proptest!(config, |(steps in vec(step(), 1..80))| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Model::<R>::new().await.run(steps).await });
    });
}
