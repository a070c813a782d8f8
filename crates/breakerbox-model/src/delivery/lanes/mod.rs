//! Lanes: decides which lane may send next. Pure: events, their times and the decisions of the gates are arguments.
//!
//! Deliveries wait in lanes, one for each endpoint. A process has a number of slots; each request in flight takes one.
//!
//! | part | decision |
//! | --- | --- |
//! | [`Lanes`] | everything together: arrivals, sleeping lanes, turns |
//! | `lane` | one lane: its waiting deliveries, the next priority |
//! | `in_flight_limit` | the limit of requests in flight of a lane |
//! | `fair_queue` | the order of tenants and of their lanes |
//! | [`Slots`] | the number of slots, and for which tenants the last ones are reserved |
//!
//! **Fairness.** A free slot goes to the tenant that uses the fewest, in turns among equals; then to its lanes in
//! turns; then by priority, where every level gets at least one of sixteen; then by age. A priority never crosses
//! tenants. The last sixteenth of the slots is for tenants that use no more than a sixteenth.
//!
//! **Isolation.** A lane starts with two requests in flight and grows with success. Unproven lanes, which have had no
//! success or whose latest outcome was none, share at most half of the slots: thousands of endpoints that fail at once
//! can't take the slots of the healthy ones.
//!
//! **Sleep.** A lane that a gate refuses sleeps until a time, or until its circuit changes. A sleeping lane costs
//! nothing: it is in no ring, and its rows are not read. A level that a throttle sheds is held: that level and those
//! below it wait until a time, or until the throttle eases.

mod fair_queue;
mod in_flight_limit;
mod lane;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;

use self::fair_queue::FairQueue;
use self::lane::Lane;
pub use self::slots::Slots;
use crate::values::{LaneId, Priority, TenantId};

/// All lanes of a process.
#[derive(Debug)]
pub struct Lanes {
    slots: Slots,
    lanes: HashMap<LaneId, Lane>,
    /// Lanes with something due, of tenants in turns: the proven ones, and the others.
    proven: FairQueue,
    unproven: FairQueue,
    /// Which ring had the latest turn, so that the two alternate.
    proven_was_last: bool,
    /// When lanes wake, or have something due.
    alarms: BTreeSet<(Timestamp, LaneId)>,
    /// Lanes that sleep until a circuit changes, by its key.
    by_circuit: HashMap<Arc<str>, BTreeSet<LaneId>>,
    /// Lanes with levels that a throttle holds, by its key.
    by_throttle: HashMap<Arc<str>, BTreeSet<LaneId>>,
}

/// The number of lanes in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneCounts {
    /// Lanes with waiting deliveries or requests in flight that no gate refused.
    pub awake: usize,
    /// Lanes with waiting deliveries that a gate refused.
    pub asleep: usize,
    /// Lanes with neither waiting deliveries nor requests in flight.
    pub idle: usize,
    /// Deliveries that wait in sleeping lanes or for a throttle, as far as this process knows.
    pub parked: u64,
}

/// Limits on the idle lanes that are kept in memory. A forgotten lane loses only the limit of requests in flight that
/// it had grown to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleLaneLimits {
    /// The number of lanes above which idle lanes of endpoints are forgotten.
    pub lanes: usize,
    /// The maximum number of idle lanes of dynamic URLs for each tenant.
    pub dynamic_of_tenant: usize,
    /// How long idle lanes of dynamic URLs are kept.
    pub dynamic_for: Duration,
}

/// One slot for one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneTurn {
    /// The lane.
    pub lane: LaneId,
    /// The level of the next delivery. `None`: nothing is due, but something waits and the circuit may want a probe.
    pub priority: Option<Priority>,
}

/// Why a lane sleeps, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// Until a time, such as the rate limit's next token or the receiver's `Retry-After`.
    Until(Timestamp),
    /// Until the circuit changes, or until a time if there is one.
    Circuit {
        /// The key of the circuit.
        key: Arc<str>,
        /// The time at which the lane wakes at the latest.
        until: Option<Timestamp>,
    },
    /// Until the tenant or the endpoint is enabled again.
    Disabled,
}

impl Sleep {
    fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Until(at) => Some(*at),
            Self::Circuit { until, .. } => *until,
            Self::Disabled => None,
        }
    }
}

/// The effect of a throttle that sheds: a level and those below it wait, higher levels need not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The key of the throttle. Several lanes may share it.
    pub throttle: Arc<str>,
    /// When the level is tried again, at the latest.
    pub until: Timestamp,
}

/// The end of a request, as far as it affects the next turns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneSignal {
    /// The endpoint accepted it.
    Success,
    /// The endpoint did not accept it.
    Failure,
    /// The result is no evidence about the endpoint.
    Neither,
}

impl Lanes {
    /// Returns a set without lanes.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        Self {
            slots: Slots::new(slots),
            lanes: HashMap::new(),
            proven: FairQueue::default(),
            unproven: FairQueue::default(),
            proven_was_last: false,
            alarms: BTreeSet::new(),
            by_circuit: HashMap::new(),
            by_throttle: HashMap::new(),
        }
    }

    /// Returns the slots and their use.
    #[must_use]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Adds a lane, or changes its maximum number of requests in flight.
    pub fn register(&mut self, id: LaneId, tenant: &TenantId, max_in_flight: u32) {
        let lane = self.lanes.entry(id).or_insert_with(|| Lane::new(tenant.clone(), max_in_flight));
        lane.set_max(max_in_flight);
    }

    /// Returns whether a lane is known.
    #[must_use]
    pub fn contains(&self, id: LaneId) -> bool {
        self.lanes.contains_key(&id)
    }

    /// Records that deliveries wait in a known lane: this many, at one level, the earliest due at `due_at`.
    pub fn arrived(&mut self, id: LaneId, priority: Priority, count: u32, due_at: Timestamp, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.arrived(priority, count, due_at);
            self.refresh(id, now);
        }
    }

    /// Takes a slot for a fresh delivery that is due now, if it may skip the queue: its lane is awake, has nothing due
    /// and has room, and so has the process. Returns whether it did.
    pub fn take(&mut self, id: LaneId, now: Timestamp) -> bool {
        let Some(lane) = self.lanes.get_mut(&id) else { return false };
        if !lane.is_clear(now) || !self.slots.has_room(&lane.tenant, lane.is_proven()) {
            return false;
        }
        lane.start();
        let (tenant, proven) = (lane.tenant.clone(), lane.is_proven());
        self.occupy(&tenant, proven);
        true
    }

    /// Returns the next turn, with its slot. `None`: nothing is due, or no lane may have a slot.
    pub fn next(&mut self, now: Timestamp) -> Option<LaneTurn> {
        let first = !self.proven_was_last;
        // A lane may move from the second ring to the first one while the loop goes through them.
        [first, !first, first].into_iter().find_map(|of_proven| self.next_of(of_proven, now))
    }

    fn next_of(&mut self, of_proven: bool, now: Timestamp) -> Option<LaneTurn> {
        while let Some((tenant, id)) = self.pop(of_proven) {
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.queued = None;
            // A lane whose latest outcome changed while it was queued moves to the other ring.
            let turn = if lane.is_proven() == of_proven { lane.start_turn(now) } else { None };
            if turn.is_some() {
                self.proven_was_last = of_proven;
                self.occupy(&tenant, of_proven);
            }
            self.refresh(id, now);
            if let Some(priority) = turn {
                return Some(LaneTurn { lane: id, priority });
            }
        }
        None
    }

    /// Removes the front of a ring, if its tenant may have a slot.
    fn pop(&mut self, of_proven: bool) -> Option<(TenantId, LaneId)> {
        let fair_queue = if of_proven { &mut self.proven } else { &mut self.unproven };
        let tenant = fair_queue.next_tenant()?;
        // The first tenant uses the fewest slots: if there is no room for it, there is none for the others.
        if !self.slots.has_room(tenant, of_proven) {
            return None;
        }
        let tenant = tenant.clone();
        fair_queue.pop(&tenant).map(|lane| (tenant, lane))
    }

    /// Records that the turns of a lane go to the queue as one claim. Until the response, the lane gets no more.
    pub fn claiming(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.claim();
        }
    }

    /// Records the response to a claim: the deliveries found by level, and the deliveries that still wait. The slots of
    /// the other turns are free again.
    pub fn claimed(
        &mut self,
        id: LaneId,
        asked: u32,
        found: [u32; 4],
        next_due: [Option<Timestamp>; 4],
        now: Timestamp,
    ) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.claimed(found, next_due);
        self.free(id, asked.saturating_sub(found.iter().sum()));
        self.refresh(id, now);
    }

    /// Records that a claim failed: the slots of all its turns are free again, and the deliveries still wait.
    pub fn claim_failed(&mut self, id: LaneId, asked: u32, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.claim_failed();
            self.free(id, asked);
            self.refresh(id, now);
        }
    }

    /// Records that a gate refused: the slot is free again, and the lane sleeps. Also for slots that were taken without
    /// a turn.
    pub fn refused(&mut self, id: LaneId, turn: Option<Priority>, sleep: Sleep, now: Timestamp) {
        self.give_up(id, turn);
        self.sleep(id, sleep, now);
    }

    /// Records that the throttle shed a turn: the slot is free again, and its level and those below it wait. Higher
    /// levels need not.
    pub fn shed(&mut self, id: LaneId, priority: Priority, hold: Hold, now: Timestamp) {
        self.give_up(id, Some(priority));
        self.hold(id, priority, hold, now);
    }

    /// Holds a level and those below it until a time, even if something is due, or until their throttle eases.
    pub fn hold(&mut self, id: LaneId, priority: Priority, hold: Hold, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.shed(priority, hold.until);
        if lane.held_by.as_ref() != Some(&hold.throttle) {
            if let Some(before) = lane.held_by.replace(Arc::clone(&hold.throttle)) {
                forget_member(&mut self.by_throttle, &before, id);
            }
            self.by_throttle.entry(hold.throttle).or_default().insert(id);
        }
        self.refresh(id, now);
    }

    /// Records that a throttle received an accept, or sheds nothing any more: the levels that it held are tried again
    /// now.
    pub fn throttle_eased(&mut self, throttle: &str, now: Timestamp) {
        for id in self.by_throttle.remove(throttle).into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.release();
            }
            self.refresh(id, now);
        }
    }

    /// Returns whether deliveries of this priority wait although they may be due: their lane sleeps, or the throttle
    /// holds them.
    #[must_use]
    pub fn is_held(&self, id: LaneId, priority: Priority, now: Timestamp) -> bool {
        self.lanes.get(&id).is_some_and(|lane| lane.is_held(priority, now))
    }

    /// Returns the same for any lane that this throttle holds.
    #[must_use]
    pub fn is_held_by(&self, throttle: &str, priority: Priority, now: Timestamp) -> bool {
        let lanes = self.by_throttle.get(throttle);
        lanes.is_some_and(|lanes| lanes.iter().any(|id| self.is_held(*id, priority, now)))
    }

    /// Returns a slot that is not needed.
    pub fn release_slot(&mut self, id: LaneId, turn: Option<Priority>, now: Timestamp) {
        self.give_up(id, turn);
        self.refresh(id, now);
    }

    fn give_up(&mut self, id: LaneId, turn: Option<Priority>) {
        if let (Some(priority), Some(lane)) = (turn, self.lanes.get_mut(&id)) {
            lane.give_up_turn(priority);
        }
        self.free(id, 1);
    }

    /// Records that a request ended.
    pub fn ended(&mut self, id: LaneId, how: LaneSignal, now: Timestamp) {
        self.free(id, 1);
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let was_proven = lane.is_proven();
        lane.ended(how);
        if was_proven != lane.is_proven() {
            self.slots.moved(lane.in_flight(), was_proven);
        }
        self.refresh(id, now);
    }

    /// Puts a lane to sleep.
    pub fn sleep(&mut self, id: LaneId, sleep: Sleep, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if let Some(Sleep::Circuit { key, .. }) = &lane.asleep {
            forget_member(&mut self.by_circuit, key, id);
        }
        if let Sleep::Circuit { key, .. } = &sleep {
            self.by_circuit.entry(Arc::clone(key)).or_default().insert(id);
        }
        lane.asleep = Some(sleep);
        self.refresh(id, now);
    }

    /// Wakes a lane, whatever the reason for its sleep.
    pub fn wake(&mut self, id: LaneId, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if let Some(Sleep::Circuit { key, .. }) = lane.asleep.take() {
            lane.check_circuit = true;
            forget_member(&mut self.by_circuit, &key, id);
        }
        self.refresh(id, now);
    }

    /// Gives a lane a turn although nothing may be due, because its circuit wants another probe.
    pub fn check_circuit(&mut self, id: LaneId, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.check_circuit = true;
            self.refresh(id, now);
        }
    }

    /// Wakes all lanes that sleep for this circuit, because it changed.
    pub fn circuit_changed(&mut self, key: &str, now: Timestamp) {
        for id in self.by_circuit.remove(key).into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.asleep = None;
                lane.check_circuit = true;
            }
            self.refresh(id, now);
        }
    }

    /// Wakes one of the lanes that sleep for this circuit: a call settled, and there may be room for one more.
    pub fn circuit_settled(&mut self, key: &str, now: Timestamp) {
        let first = self.by_circuit.get(key).and_then(|sleepers| sleepers.first().copied());
        if let Some(id) = first {
            self.wake(id, now);
        }
    }

    /// Wakes lanes whose sleep has ended, and queues lanes whose deliveries became due.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.alarms.first().copied() {
            if at > now {
                break;
            }
            self.alarms.pop_first();
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.alarm = None;
            if lane.asleep.as_ref().and_then(Sleep::until).is_some_and(|until| until <= now) {
                self.wake(id, now);
            } else {
                self.refresh(id, now);
            }
        }
    }

    /// Returns when [`tick`](Self::tick) has something to do next.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Returns the tenant that a lane belongs to.
    #[must_use]
    pub fn tenant(&self, id: LaneId) -> Option<&TenantId> {
        Some(&self.lanes.get(&id)?.tenant)
    }

    /// Returns all known lanes.
    #[must_use]
    pub fn known(&self) -> HashSet<LaneId> {
        self.lanes.keys().copied().collect()
    }

    /// Wakes all lanes of a tenant, because its settings changed.
    pub fn wake_tenant(&mut self, tenant: &TenantId, now: Timestamp) {
        let ids: Vec<_> =
            self.lanes.iter().filter(|(_, lane)| lane.tenant == *tenant).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.wake(id, now));
    }

    /// Returns why a lane sleeps. `None`: it is awake, or not known.
    #[must_use]
    pub fn asleep(&self, id: LaneId) -> Option<&Sleep> {
        self.lanes.get(&id)?.asleep.as_ref()
    }

    /// Returns the number of lanes in each state, and of deliveries that wait in sleeping lanes or for a throttle.
    #[must_use]
    pub fn count(&self, now: Timestamp) -> LaneCounts {
        let mut counts = LaneCounts::default();
        for lane in self.lanes.values() {
            let parked = if lane.is_idle() {
                counts.idle += 1;
                0
            } else if lane.asleep.is_some() {
                counts.asleep += 1;
                lane.waiting()
            } else {
                counts.awake += 1;
                lane.waiting_for_throttle(now)
            };
            counts.parked = counts.parked.saturating_add(parked);
        }
        counts
    }

    /// Forgets a lane whose endpoint was deleted. Requests in flight end without it.
    pub fn forget(&mut self, id: LaneId) {
        let Some(mut lane) = self.lanes.remove(&id) else { return };
        if let Some(Sleep::Circuit { key, .. }) = &lane.asleep {
            forget_member(&mut self.by_circuit, key, id);
        }
        if let Some(throttle) = &lane.held_by {
            forget_member(&mut self.by_throttle, throttle, id);
        }
        if let Some(at) = lane.alarm.take() {
            self.alarms.remove(&(at, id));
        }
        for _ in 0..lane.in_flight() {
            self.vacate(&lane.tenant, lane.is_proven());
        }
    }

    /// Forgets idle lanes: those of dynamic URLs after a while, or at once beyond a number for each tenant; others
    /// while there are too many.
    pub fn tidy(&mut self, keep: &IdleLaneLimits, is_dynamic: impl Fn(LaneId) -> bool, now: Timestamp) {
        let mut excess = self.lanes.len().saturating_sub(keep.lanes);
        let mut idle_of: HashMap<TenantId, Vec<(Timestamp, LaneId)>> = HashMap::new();
        let mut gone = Vec::new();
        for (id, lane) in &mut self.lanes {
            let Some(since) = lane.idle_since(now) else { continue };
            if is_dynamic(*id) {
                idle_of.entry(lane.tenant.clone()).or_default().push((since, *id));
            } else if excess > 0 {
                excess -= 1;
                gone.push(*id);
            }
        }
        for mut idle in idle_of.into_values() {
            idle.sort_unstable();
            let over = idle.len().saturating_sub(keep.dynamic_of_tenant);
            let is_over = |(place, (since, _)): &(usize, (Timestamp, LaneId))| {
                *place < over || now.since(*since) >= keep.dynamic_for
            };
            gone.extend(idle.into_iter().enumerate().take_while(is_over).map(|(_, (_, id))| id));
        }
        gone.into_iter().for_each(|id| self.forget(id));
    }

    fn occupy(&mut self, tenant: &TenantId, proven: bool) {
        let used = self.slots.occupy(tenant, proven);
        self.proven.tenant_uses(tenant, used);
        self.unproven.tenant_uses(tenant, used);
    }

    fn vacate(&mut self, tenant: &TenantId, proven: bool) {
        let used = self.slots.vacate(tenant, proven);
        self.proven.tenant_uses(tenant, used);
        self.unproven.tenant_uses(tenant, used);
    }

    fn free(&mut self, id: LaneId, count: u32) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let freed = lane.stop(count);
        let (tenant, proven) = (lane.tenant.clone(), lane.is_proven());
        for _ in 0..freed {
            self.vacate(&tenant, proven);
        }
    }

    /// Puts a lane where it belongs now: into a ring, onto the list of alarms, or into neither.
    fn refresh(&mut self, id: LaneId, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let alarm = match &lane.asleep {
            Some(sleep) => sleep.until(),
            None => lane.next_due_after(now),
        };
        if alarm != lane.alarm {
            if let Some(at) = lane.alarm {
                self.alarms.remove(&(at, id));
            }
            if let Some(at) = alarm {
                self.alarms.insert((at, id));
            }
            lane.alarm = alarm;
        }
        // A queued lane that may not send any more is skipped when its turn comes.
        if lane.queued.is_none() && lane.is_ready(now) {
            let proven = lane.is_proven();
            lane.queued = Some(proven);
            let used = self.slots.used_by(&lane.tenant);
            let fair_queue = if proven { &mut self.proven } else { &mut self.unproven };
            fair_queue.push(&lane.tenant, id, used);
        }
    }
}

fn forget_member(by_key: &mut HashMap<Arc<str>, BTreeSet<LaneId>>, key: &Arc<str>, id: LaneId) {
    if let Some(members) = by_key.get_mut(key) {
        members.remove(&id);
        if members.is_empty() {
            by_key.remove(key);
        }
    }
}
