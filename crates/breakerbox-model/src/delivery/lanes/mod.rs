//! Lanes: whose turn it is. Pure: what happened and when are arguments, and so is what the gates said.
//!
//! Work waits in lanes, one for each endpoint. A process has a number of slots; each request in flight takes one.
//!
//! | part | what it decides |
//! | --- | --- |
//! | [`Lanes`] | everything together: what arrived, who sleeps, who has a turn |
//! | `lane` | one lane: what waits, which priority next |
//! | `pace` | how many of a lane at once |
//! | `ring` | among tenants and their lanes: who is next |
//! | [`Slots`] | how many in all, and for whom the last ones are |
//!
//! **Fairness.** A free slot goes to the tenant that has the fewest in use, in turns among equals; then to its lanes in turns;
//! then by priority, where every level gets at least one of sixteen; then by age. A priority never crosses tenants. The last
//! sixteenth of the slots is for tenants that use no more than a sixteenth.
//!
//! **Isolation.** A lane starts with two requests at once and grows with success. Lanes that have no success to show, or
//! whose latest outcome was none, share at most half of the slots: thousands of endpoints that die at once can't take the
//! slots of the healthy ones.
//!
//! **Sleep.** A lane that a gate refuses sleeps until a time, or until its circuit changes. A sleeping lane costs nothing: it
//! is in no ring, and nobody looks at its rows. What a throttle sheds is held: that level and those below it wait until a time,
//! or until the throttle is eased.

mod lane;
mod pace;
mod ring;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;

use self::lane::Lane;
use self::ring::Ring;
pub use self::slots::Slots;
use crate::objects::{LaneId, Priority, TenantId};

/// All lanes of a process.
#[derive(Debug)]
pub struct Lanes {
    slots: Slots,
    lanes: HashMap<LaneId, Lane>,
    /// Lanes with something due, of tenants in turns: those with success to show, and the others.
    proven: Ring,
    unproven: Ring,
    /// Which ring had the latest turn, so that both have theirs.
    proven_had_turn: bool,
    /// When lanes wake, or have something due.
    alarms: BTreeSet<(Timestamp, LaneId)>,
    /// Who sleeps until a circuit changes.
    by_circuit: HashMap<Arc<str>, BTreeSet<LaneId>>,
    /// Lanes with levels that a throttle holds, by its key.
    by_throttle: HashMap<Arc<str>, BTreeSet<LaneId>>,
}

/// How many lanes there are in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneCounts {
    /// Something waits or happens, and no gate refused.
    pub awake: usize,
    /// A gate refused, and something waits.
    pub asleep: usize,
    /// Nothing waits or happens.
    pub idle: usize,
    /// Deliveries that wait in those that sleep, or for a throttle, as far as is known.
    pub parked: u64,
}

/// Which lanes are remembered although nothing waits or happens in them. What is lost with one is how many requests at once it
/// had grown to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepIdle {
    /// How many lanes there are before idle ones of endpoints go.
    pub lanes: usize,
    /// How many idle ones of dynamic URLs a tenant may have.
    pub dynamic_of_tenant: usize,
    /// For how long those are remembered.
    pub dynamic_for: Duration,
}

/// One slot for one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Whose.
    pub lane: LaneId,
    /// Of which level the next delivery is. None: nothing is due, but something waits and its circuit may want a probe.
    pub priority: Option<Priority>,
}

/// Why a lane sleeps, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// Until a time: the rate limit's next token, the receiver's `Retry-After`.
    Until(Timestamp),
    /// Until its circuit changes, or until a time if there is one.
    Circuit {
        /// Whose change wakes it.
        key: Arc<str>,
        /// The latest time.
        until: Option<Timestamp>,
    },
    /// Until somebody says otherwise: tenant or endpoint are disabled.
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

/// A throttle sheds: a level and those below it wait. Higher levels need not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The throttle's key; several lanes may share it.
    pub throttle: Arc<str>,
    /// When to ask again, at the latest.
    pub until: Timestamp,
}

/// How a request ended, as far as the next turns are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    /// The endpoint took it.
    Success,
    /// It did not.
    Failure,
    /// It says nothing about the endpoint.
    Neither,
}

impl Lanes {
    /// No lanes yet.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        Self {
            slots: Slots::new(slots),
            lanes: HashMap::new(),
            proven: Ring::default(),
            unproven: Ring::default(),
            proven_had_turn: false,
            alarms: BTreeSet::new(),
            by_circuit: HashMap::new(),
            by_throttle: HashMap::new(),
        }
    }

    /// How many slots are taken, and by whom.
    #[must_use]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Makes a lane known, or changes how many requests it may have in flight.
    pub fn know(&mut self, id: LaneId, tenant: &TenantId, max_in_flight: u32) {
        let lane = self.lanes.entry(id).or_insert_with(|| Lane::new(tenant.clone(), max_in_flight));
        lane.set_max(max_in_flight);
    }

    /// Whether a lane is known.
    #[must_use]
    pub fn knows(&self, id: LaneId) -> bool {
        self.lanes.contains_key(&id)
    }

    /// Deliveries wait in a known lane now: this many, at one level, the earliest due then.
    pub fn arrived(&mut self, id: LaneId, priority: Priority, count: u32, due_at: Timestamp, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.arrived(priority, count, due_at);
            self.refresh(id, now);
        }
    }

    /// Whether a fresh delivery, due now, may skip the line: its lane is awake, has nothing due and has room, and so has the
    /// process. If so, it has its slot.
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

    /// The next turn, and its slot. None: nothing is due, or nobody may have one.
    pub fn next(&mut self, now: Timestamp) -> Option<Turn> {
        let first = !self.proven_had_turn;
        // A lane may move from the second ring to the first one while they are gone through.
        [first, !first, first].into_iter().find_map(|of_proven| self.next_of(of_proven, now))
    }

    fn next_of(&mut self, of_proven: bool, now: Timestamp) -> Option<Turn> {
        while let Some((tenant, id)) = self.pop(of_proven) {
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.queued = None;
            // If its luck changed while it stood in line, it stands in the other one from now on.
            let turn = if lane.is_proven() == of_proven { lane.start_turn(now) } else { None };
            if turn.is_some() {
                self.proven_had_turn = of_proven;
                self.occupy(&tenant, of_proven);
            }
            self.refresh(id, now);
            if let Some(priority) = turn {
                return Some(Turn { lane: id, priority });
            }
        }
        None
    }

    /// The front of a ring, if its tenant may have a slot.
    fn pop(&mut self, of_proven: bool) -> Option<(TenantId, LaneId)> {
        let ring = if of_proven { &mut self.proven } else { &mut self.unproven };
        let tenant = ring.next_tenant()?;
        // Whoever is first uses the fewest: if there is no room for that tenant, there is none for the others.
        if !self.slots.has_room(tenant, of_proven) {
            return None;
        }
        let tenant = tenant.clone();
        ring.pop(&tenant).map(|lane| (tenant, lane))
    }

    /// The turns of a lane go to the queue as one claim; until it is answered, the lane has no more.
    pub fn claiming(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.claim();
        }
    }

    /// A claim was answered: of so many turns these found a delivery, by level, and this is what still waits. The others'
    /// slots are free again.
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

    /// A claim failed: all its turns' slots are free again, and what waits still waits.
    pub fn claim_failed(&mut self, id: LaneId, asked: u32, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.claim_failed();
            self.free(id, asked);
            self.refresh(id, now);
        }
    }

    /// A gate refused: the slot is free again, and the lane sleeps. The same for what was taken without a turn.
    pub fn refused(&mut self, id: LaneId, turn: Option<Priority>, sleep: Sleep, now: Timestamp) {
        self.give_up(id, turn);
        self.sleep(id, sleep, now);
    }

    /// The throttle shed a turn: the slot is free again, and its level and those below it wait. Higher ones need not.
    pub fn shed(&mut self, id: LaneId, priority: Priority, hold: Hold, now: Timestamp) {
        self.give_up(id, Some(priority));
        self.hold(id, priority, hold, now);
    }

    /// A level and those below it wait until then, whatever is due, or until their throttle is eased.
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

    /// A throttle took an accept, or sheds nothing any more: what it held is asked again now.
    pub fn throttle_eased(&mut self, throttle: &str, now: Timestamp) {
        for id in self.by_throttle.remove(throttle).into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.release();
            }
            self.refresh(id, now);
        }
    }

    /// Whether deliveries of this priority wait for a time, whatever is due: their lane sleeps, or the throttle holds them.
    #[must_use]
    pub fn is_held(&self, id: LaneId, priority: Priority, now: Timestamp) -> bool {
        self.lanes.get(&id).is_some_and(|lane| lane.is_held(priority, now))
    }

    /// The same for any lane that this throttle holds.
    #[must_use]
    pub fn is_held_by(&self, throttle: &str, priority: Priority, now: Timestamp) -> bool {
        let lanes = self.by_throttle.get(throttle);
        lanes.is_some_and(|lanes| lanes.iter().any(|id| self.is_held(*id, priority, now)))
    }

    /// A slot that was given out is not needed.
    pub fn unused(&mut self, id: LaneId, turn: Option<Priority>, now: Timestamp) {
        self.give_up(id, turn);
        self.refresh(id, now);
    }

    fn give_up(&mut self, id: LaneId, turn: Option<Priority>) {
        if let (Some(priority), Some(lane)) = (turn, self.lanes.get_mut(&id)) {
            lane.give_up_turn(priority);
        }
        self.free(id, 1);
    }

    /// A request ended.
    pub fn ended(&mut self, id: LaneId, how: Ended, now: Timestamp) {
        self.free(id, 1);
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let was_proven = lane.is_proven();
        lane.ended(how);
        if was_proven != lane.is_proven() {
            self.slots.moved(lane.in_flight(), was_proven);
        }
        self.refresh(id, now);
    }

    /// A lane sleeps.
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

    /// A lane is awake, whatever it slept for.
    pub fn wake(&mut self, id: LaneId, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if let Some(Sleep::Circuit { key, .. }) = lane.asleep.take() {
            lane.look = true;
            forget_member(&mut self.by_circuit, &key, id);
        }
        self.refresh(id, now);
    }

    /// A lane's circuit wants another probe: it has a turn, though nothing may be due.
    pub fn look(&mut self, id: LaneId, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.look = true;
            self.refresh(id, now);
        }
    }

    /// A circuit changed: who sleeps for it is awake.
    pub fn circuit_changed(&mut self, key: &str, now: Timestamp) {
        for id in self.by_circuit.remove(key).into_iter().flatten() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.asleep = None;
                lane.look = true;
            }
            self.refresh(id, now);
        }
    }

    /// A call of a circuit settled, and there may be room for one more: one of those who sleep for it is awake.
    pub fn circuit_moved(&mut self, key: &str, now: Timestamp) {
        let first = self.by_circuit.get(key).and_then(|sleepers| sleepers.first().copied());
        if let Some(id) = first {
            self.wake(id, now);
        }
    }

    /// Wakes who slept long enough, and puts into line whose deliveries became due.
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

    /// When [`tick`](Self::tick) has something to do next.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Whose a lane is.
    #[must_use]
    pub fn tenant(&self, id: LaneId) -> Option<&TenantId> {
        Some(&self.lanes.get(&id)?.tenant)
    }

    /// All lanes that are known.
    #[must_use]
    pub fn known(&self) -> HashSet<LaneId> {
        self.lanes.keys().copied().collect()
    }

    /// A tenant changed: its lanes are awake.
    pub fn wake_tenant(&mut self, tenant: &TenantId, now: Timestamp) {
        let ids: Vec<_> =
            self.lanes.iter().filter(|(_, lane)| lane.tenant == *tenant).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.wake(id, now));
    }

    /// Why a lane sleeps; none: it is awake, or not known.
    #[must_use]
    pub fn asleep(&self, id: LaneId) -> Option<&Sleep> {
        self.lanes.get(&id)?.asleep.as_ref()
    }

    /// How many lanes there are in each state, and how many deliveries wait in those that sleep or for a throttle.
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

    /// Forgets a lane whose endpoint is gone. What is in flight ends without it.
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

    /// Forgets lanes in which nothing waits or happens: those of dynamic URLs after a while, or at once beyond so many of a
    /// tenant; others as long as there are too many.
    pub fn tidy(&mut self, keep: &KeepIdle, is_dynamic: impl Fn(LaneId) -> bool, now: Timestamp) {
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

    /// Puts a lane where it belongs now: in line, or on the list of alarms, or nowhere.
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
        // Whoever stands in line and may not any more is passed over when its turn comes.
        if lane.queued.is_none() && lane.is_ready(now) {
            let proven = lane.is_proven();
            lane.queued = Some(proven);
            let used = self.slots.used_by(&lane.tenant);
            let ring = if proven { &mut self.proven } else { &mut self.unproven };
            ring.push(&lane.tenant, id, used);
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
