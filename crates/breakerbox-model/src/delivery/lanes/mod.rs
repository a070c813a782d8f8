//! Decides which lane may send next. Pure: events, their times and the decisions of the gates are arguments.
//!
//! Deliveries wait in lanes, one for each endpoint. A process has a number of slots; each request in flight takes
//! one.
//!
//! | part | decision |
//! | --- | --- |
//! | [`Lanes`] | all lanes of a process: arrivals, turns, sleep |
//! | `lane` | one lane: its waiting deliveries, the next priority |
//! | `in_flight_limit` | a lane's limit on requests in flight |
//! | `fair_queue` | the order of tenants and of their lanes |
//! | [`Slots`] | the number of slots, and which tenants the last ones are reserved for |
//!
//! **Fairness.** A free slot goes to the tenant that uses the fewest, round-robin among equals; then to the tenant's
//! lanes, round-robin; then to the highest priority, where every level gets at least one of sixteen turns; then to
//! the oldest delivery. Priorities have no effect across tenants. The last sixteenth of the slots is reserved for
//! tenants that use no more than a sixteenth.
//!
//! **Isolation.** A lane starts with two requests in flight, and its limit grows with success. Unproven lanes, which
//! are new or whose latest outcome was not a success, share at most half of the slots, so that thousands of endpoints
//! that fail at once can't take the slots of healthy ones.
//!
//! **Sleep.** A lane that a gate refuses sleeps until a time, or until its circuit changes. A sleeping lane uses no
//! resources: it is in no queue, and its rows are not read. When a throttle sheds a priority level, that level and
//! the lower ones wait until a time, or until the throttle eases.

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
use crate::delivery::wait::{Wait, WaitsFor};
use crate::values::{LaneId, Priority, TenantId};

/// All lanes of a process, and the slots that they share.
#[derive(Debug)]
pub struct Lanes {
    slots: Slots,
    lanes: HashMap<LaneId, Lane>,
    /// Proven lanes with due deliveries. Unproven lanes have their own queue.
    proven: FairQueue,
    unproven: FairQueue,
    /// Whether the latest turn went to a proven lane. The two queues alternate.
    proven_was_last: bool,
    /// When to check each lane: when its sleep ends, or when a delivery becomes due.
    alarms: BTreeSet<(Timestamp, LaneId)>,
    /// Lanes that sleep until a circuit changes, by the circuit's key.
    by_circuit: HashMap<Arc<str>, BTreeSet<LaneId>>,
    /// Lanes that check a circuit when it changes, although they do not sleep, by the circuit's key.
    watching: HashMap<Arc<str>, BTreeSet<LaneId>>,
    /// Lanes with priority levels that a throttle holds, by the throttle's key.
    by_throttle: HashMap<Arc<str>, BTreeSet<LaneId>>,
}

/// The number of lanes in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneCounts {
    /// Lanes with waiting deliveries or requests in flight that are not asleep.
    pub awake: usize,
    /// Sleeping lanes with waiting deliveries or requests in flight.
    pub asleep: usize,
    /// Lanes with neither waiting deliveries nor requests in flight.
    pub idle: usize,
    /// Deliveries that wait in sleeping lanes or for a throttle, as far as this process knows.
    pub parked: u64,
}

/// Limits on the idle lanes kept in memory. A lane that is forgotten loses only its grown in-flight limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleLaneLimits {
    /// The number of lanes above which idle endpoint lanes are forgotten.
    pub lanes: usize,
    /// The maximum number of idle dynamic-URL lanes per tenant.
    pub dynamic_of_tenant: usize,
    /// The time after which an idle dynamic-URL lane is forgotten.
    pub dynamic_for: Duration,
}

/// A slot given to a lane for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneTurn {
    /// The lane that may send.
    pub lane: LaneId,
    /// The priority of the delivery to send. `None`: nothing is due, but deliveries wait and the circuit may need a
    /// probe.
    pub priority: Option<Priority>,
}

/// How long a lane sleeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// Until the rate limit has a token again.
    RateLimit(Timestamp),
    /// Until the pause that the receiver asked for has passed.
    RetryAfter(Timestamp),
    /// Until the gateway tries again after a local fault.
    LocalFault(Timestamp),
    /// Until the circuit changes or the time in `until` is reached.
    Circuit {
        /// The circuit's key.
        key: Arc<str>,
        /// The latest time at which the lane wakes. `None`: the lane sleeps until the circuit changes.
        until: Option<Timestamp>,
    },
    /// Until the tenant or the endpoint is enabled again.
    Disabled,
}

impl Sleep {
    fn until(&self) -> Option<Timestamp> {
        match self {
            Self::RateLimit(at) | Self::RetryAfter(at) | Self::LocalFault(at) => Some(*at),
            Self::Circuit { until, .. } => *until,
            Self::Disabled => None,
        }
    }

    fn wait(&self) -> Wait {
        let waits_for = match self {
            Self::RateLimit(_) => WaitsFor::RateLimit,
            Self::RetryAfter(_) => WaitsFor::RetryAfter,
            Self::LocalFault(_) => WaitsFor::Slot,
            Self::Circuit { .. } => WaitsFor::Circuit,
            Self::Disabled => WaitsFor::Disabled,
        };
        Wait { waits_for, until: self.until() }
    }
}

/// What the deliveries of a lane wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneWait {
    /// What holds due deliveries back: the lane sleeps, or the throttle sheds. `None`: nothing does.
    pub hold: Option<Wait>,
    /// What due deliveries wait for if nothing holds them back: the in-flight limit, or a slot.
    pub place: Wait,
    /// The number of requests in flight.
    pub in_flight: u32,
}

impl LaneWait {
    /// The wait of a lane that the process does not know: nothing holds it back.
    pub const UNKNOWN: Self = Self { hold: None, place: WaitsFor::Slot.open_ended(), in_flight: 0 };
}

/// The hold that a throttle puts on a lane when it sheds a delivery: deliveries at that priority level and below
/// wait, while higher levels continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The throttle's key. Several lanes may share a throttle.
    pub throttle: Arc<str>,
    /// When the held levels are tried again, unless the throttle eases earlier.
    pub until: Timestamp,
}

/// What the result of a request says about its endpoint. Successes raise the lane's limit on requests in
/// flight, and failures lower it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneSignal {
    /// The endpoint accepted the request.
    Success,
    /// The endpoint did not accept the request.
    Failure,
    /// The result says nothing about the endpoint.
    Neither,
}

impl Lanes {
    /// Creates an empty set of lanes for a process with this number of slots.
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
            watching: HashMap::new(),
            by_throttle: HashMap::new(),
        }
    }

    /// Returns the process's slots, total and in use.
    #[must_use]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Adds a lane, or changes its maximum number of requests in flight.
    pub fn register(&mut self, id: LaneId, tenant: &TenantId, max_in_flight: u32) {
        let lane = self.lanes.entry(id).or_insert_with(|| Lane::new(tenant.clone(), max_in_flight));
        lane.set_max(max_in_flight);
    }

    /// Returns whether this lane is registered.
    #[must_use]
    pub fn contains(&self, id: LaneId) -> bool {
        self.lanes.contains_key(&id)
    }

    /// Records that `count` deliveries of one priority wait in a registered lane, the earliest due at `due_at`.
    pub fn arrived(&mut self, id: LaneId, priority: Priority, count: u32, due_at: Timestamp, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.arrived(priority, count, due_at);
            self.refresh(id, now);
        }
    }

    /// Takes a slot for a new delivery that is due now, if the delivery may skip the queue. For this, its lane must
    /// be awake, have nothing due and be below its limit, and a slot must be free. Returns whether a slot was taken.
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

    /// Gives a slot to the next lane, and returns the lane's turn, or `None` if nothing is due or no lane may have a
    /// slot.
    pub fn next(&mut self, now: Timestamp) -> Option<LaneTurn> {
        let first = !self.proven_was_last;
        // A lane may move from the second queue to the first while this searches them.
        [first, !first, first].into_iter().find_map(|of_proven| self.next_of(of_proven, now))
    }

    fn next_of(&mut self, of_proven: bool, now: Timestamp) -> Option<LaneTurn> {
        while let Some((tenant, id)) = self.pop(of_proven) {
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.queued = None;
            // A lane whose latest outcome changed while it was queued moves to the other queue.
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

    /// Removes the first lane from the queue of proven or unproven lanes, if the lane's tenant may have a slot.
    fn pop(&mut self, of_proven: bool) -> Option<(TenantId, LaneId)> {
        let fair_queue = if of_proven { &mut self.proven } else { &mut self.unproven };
        let tenant = fair_queue.next_tenant()?;
        // The first tenant uses the fewest slots: if it may not have another one, no tenant may.
        if !self.slots.has_room(tenant, of_proven) {
            return None;
        }
        let tenant = tenant.clone();
        fair_queue.pop(&tenant).map(|lane| (tenant, lane))
    }

    /// Records that a lane's turns are sent to the database as one claim. Until the response, the lane gets no
    /// further turns.
    pub fn claiming(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.claim();
        }
    }

    /// Records the response to a claim for `asked` turns: for each priority, the number of deliveries found and when
    /// the earliest remaining one is due. The slots of turns that got no delivery are freed.
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

    /// Records that a claim failed. The slots of all its turns are freed, and the deliveries still wait.
    pub fn claim_failed(&mut self, id: LaneId, asked: u32, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.claim_failed();
            self.free(id, asked);
            self.refresh(id, now);
        }
    }

    /// Records that a call was refused before it was sent, for example by the circuit or the rate limit. The
    /// call's slot is freed, and the lane sleeps. `turn` is the priority of the turn that took the slot, if
    /// any.
    pub fn refused(&mut self, id: LaneId, turn: Option<Priority>, sleep: Sleep, now: Timestamp) {
        self.give_up(id, turn);
        self.sleep(id, sleep, now);
    }

    /// Records that the throttle shed a turn. The turn's slot is freed, and deliveries at this priority level
    /// and below wait. Deliveries at higher levels may continue.
    pub fn shed(&mut self, id: LaneId, priority: Priority, hold: Hold, now: Timestamp) {
        self.give_up(id, Some(priority));
        self.hold(id, priority, hold, now);
    }

    /// Holds deliveries at this priority level and below, even if they are due, until `hold.until` or until the
    /// throttle eases.
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

    /// Records that a throttle received an accept signal or no longer sheds. The priority levels that this
    /// throttle held are tried again now.
    pub fn throttle_eased(&mut self, throttle: &str, now: Timestamp) {
        for id in self.by_throttle.remove(throttle).into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.release();
            }
            self.refresh(id, now);
        }
    }

    /// Returns what a lane's deliveries of this priority wait for. Without a priority, returns what the delivery that
    /// goes next waits for.
    #[must_use]
    pub fn wait(&self, id: LaneId, priority: Option<Priority>, now: Timestamp) -> LaneWait {
        self.lanes.get(&id).map_or(LaneWait::UNKNOWN, |lane| lane.wait(priority, now))
    }

    /// Frees a slot that was taken but not used.
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

    /// Records that a request ended, and what its result says about the endpoint.
    pub fn ended(&mut self, id: LaneId, how: LaneSignal, now: Timestamp) {
        self.free(id, 1);
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let was_proven = lane.is_proven();
        lane.ended(how);
        if was_proven != lane.is_proven() {
            self.slots.moved(lane.in_flight(), was_proven);
        }
        if how == LaneSignal::Success
            && let Some(key) = lane.watches.take()
        {
            forget_member(&mut self.watching, &key, id);
        }
        self.refresh(id, now);
    }

    /// Puts a lane to sleep until the given condition is met.
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

    /// Wakes a lane, regardless of why it sleeps.
    pub fn wake(&mut self, id: LaneId, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if let Some(Sleep::Circuit { key, .. }) = lane.asleep.take() {
            lane.check_circuit = true;
            forget_member(&mut self.by_circuit, &key, id);
        }
        self.refresh(id, now);
    }

    /// Gives a lane a turn even if nothing is due, because its circuit needs another probe.
    pub fn check_circuit(&mut self, id: LaneId, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.check_circuit = true;
            self.refresh(id, now);
        }
    }

    /// Lets a lane check its circuit when the circuit next changes, although the lane does not sleep: all of its
    /// deliveries may be backing off when a failure opens the circuit. The lane's next success ends this.
    pub fn watch_circuit(&mut self, id: LaneId, key: &str) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if lane.watches.as_deref() == Some(key) {
            return;
        }
        let key: Arc<str> = Arc::from(key);
        if let Some(before) = lane.watches.replace(Arc::clone(&key)) {
            forget_member(&mut self.watching, &before, id);
        }
        self.watching.entry(key).or_default().insert(id);
    }

    /// Wakes all lanes that wait for this circuit, because the circuit changed. Lanes that watch it check it.
    pub fn circuit_changed(&mut self, key: &str, now: Timestamp) {
        for id in self.watching.remove(key).into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.watches = None;
                lane.check_circuit = true;
            }
            self.refresh(id, now);
        }
        for id in self.by_circuit.remove(key).into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.asleep = None;
                lane.check_circuit = true;
            }
            self.refresh(id, now);
        }
    }

    /// Wakes one of the lanes that wait for this circuit, because a call was settled and the circuit may admit
    /// another one.
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

    /// Returns when to call [`tick`](Self::tick) next, or `None` if no lane has an alarm.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Returns the tenant that a lane belongs to, or `None` if the lane is not registered.
    #[must_use]
    pub fn tenant(&self, id: LaneId) -> Option<&TenantId> {
        Some(&self.lanes.get(&id)?.tenant)
    }

    /// Returns the ids of all registered lanes.
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

    /// Returns the reason for a lane's sleep, or `None` if the lane is awake or not registered.
    #[must_use]
    pub fn asleep(&self, id: LaneId) -> Option<&Sleep> {
        self.lanes.get(&id)?.asleep.as_ref()
    }

    /// Returns the number of lanes in each state, and the number of parked deliveries.
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

    /// Forgets a lane whose endpoint was deleted. Its requests in flight are not affected.
    pub fn forget(&mut self, id: LaneId) {
        let Some(mut lane) = self.lanes.remove(&id) else { return };
        if let Some(Sleep::Circuit { key, .. }) = &lane.asleep {
            forget_member(&mut self.by_circuit, key, id);
        }
        if let Some(key) = &lane.watches {
            forget_member(&mut self.watching, key, id);
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

    /// Forgets idle lanes. A dynamic-URL lane is forgotten after [`IdleLaneLimits::dynamic_for`], or at once if its
    /// tenant has too many. Other lanes are forgotten only if there are too many lanes in total.
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

    /// Updates a lane's entry in the set of alarms, and adds the lane to a queue if it is ready.
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
        // A queued lane that may no longer send is skipped when its turn comes.
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
