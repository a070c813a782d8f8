//! One lane: its waiting deliveries, as far as this process knows, its in-flight limit, and the priority that is
//! next.

use std::sync::Arc;

use breakerbox_core::Timestamp;

use super::in_flight_limit::InFlightLimit;
use super::{LaneSignal, LaneWait, Sleep};
use crate::delivery::wait::{Wait, WaitsFor};
use crate::values::{Priority, TenantId};

/// The number of turns in a round. In each round, every priority level with waiting deliveries gets at least one
/// turn.
const ROUND: u8 = 16;

/// The state of one lane in this process.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) tenant: TenantId,
    pub(super) asleep: Option<Sleep>,
    /// When the lane is checked next. `Lanes::alarms` contains the same time.
    pub(super) alarm: Option<Timestamp>,
    /// When the lane was first found idle. `None`: the latest check found the lane in use, or there was no
    /// check yet.
    idle_since: Option<Timestamp>,
    /// The key of the throttle that last held a priority level. When that throttle eases, the level is tried again.
    pub(super) held_by: Option<Arc<str>>,
    /// The key of the circuit that the lane checks when it changes.
    pub(super) watches: Option<Arc<str>>,
    /// The queue that contains the lane: `true` for the queue of proven lanes, `false` for the queue of unproven
    /// lanes. `None`: the lane is in neither queue.
    pub(super) queued: Option<bool>,
    /// The number of claims sent to the database and not answered yet.
    claims: u32,
    /// The priority levels at which deliveries arrived after the first unanswered claim. The responses to unanswered
    /// claims may not reflect these deliveries.
    arrived_meanwhile: [bool; 4],
    /// Whether the circuit is to be checked even if nothing is due, so that a recovery is noticed while all
    /// deliveries are backing off.
    pub(super) check_circuit: bool,
    levels: [Level; 4],
    in_flight: u32,
    in_flight_limit: InFlightLimit,
    proven: bool,
    round_position: u8,
}

/// The waiting deliveries of one priority.
#[derive(Clone, Copy, Default, Debug)]
struct Level {
    /// When the earliest delivery is due. `None`: no delivery is waiting.
    due: Option<Timestamp>,
    /// The estimated number of waiting deliveries; at least 1 if any waits.
    waiting: u32,
    /// The number of waiting deliveries that already have a turn.
    turns_taken: u32,
    /// The time until which the throttle sheds this level, if it does.
    shed_until: Option<Timestamp>,
}

impl Level {
    /// Returns when the earliest delivery may have a turn, or `None` if no delivery waits.
    fn ready_at(&self) -> Option<Timestamp> {
        self.due.map(|due| self.shed_until.map_or(due, |until| due.max(until)))
    }

    fn is_shed(&self, now: Timestamp) -> bool {
        self.shed_until.is_some_and(|until| until > now)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.turns_taken < self.waiting && self.ready_at().is_some_and(|at| at <= now)
    }
}

impl Lane {
    pub(super) fn new(tenant: TenantId, max: u32) -> Self {
        Self {
            tenant,
            asleep: None,
            alarm: None,
            idle_since: None,
            held_by: None,
            watches: None,
            queued: None,
            claims: 0,
            arrived_meanwhile: [false; 4],
            check_circuit: false,
            levels: [Level::default(); 4],
            in_flight: 0,
            in_flight_limit: InFlightLimit::new(max),
            proven: false,
            round_position: 0,
        }
    }

    pub(super) fn set_max(&mut self, max: u32) {
        self.in_flight_limit.set_max(max);
    }

    /// Returns whether the lane's latest outcome was a success.
    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    pub(super) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn arrived(&mut self, priority: Priority, count: u32, due_at: Timestamp) {
        self.idle_since = None;
        let level = &mut self.levels[priority.index()];
        level.waiting = level.waiting.saturating_add(count);
        level.due = Some(level.due.map_or(due_at, |due| due.min(due_at)));
        self.arrived_meanwhile[priority.index()] = true;
    }

    /// Returns whether a new delivery may skip the queue: the lane is awake and below its limit, and no delivery is
    /// due that the new one would overtake.
    pub(super) fn is_clear(&self, now: Timestamp) -> bool {
        let is_due = |level: &Level| level.due.is_some_and(|due| due <= now);
        self.asleep.is_none()
            && self.claims == 0
            && self.in_flight < self.in_flight_limit.limit()
            && !self.levels.iter().any(is_due)
    }

    /// Returns the number of waiting deliveries, as far as this process knows.
    pub(super) fn waiting(&self) -> u64 {
        self.levels.iter().map(|level| u64::from(level.waiting)).sum()
    }

    /// Returns whether the lane can use a turn now: it is awake, below its limit and has no unanswered claim, and a
    /// delivery is due or the circuit is to be checked.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.asleep.is_none()
            && self.claims == 0
            && self.in_flight < self.in_flight_limit.limit()
            && (self.levels.iter().any(|level| level.is_due(now))
                || (self.check_circuit && self.has_waiting()))
    }

    fn has_waiting(&self) -> bool {
        self.levels.iter().any(|level| level.turns_taken < level.waiting)
    }

    /// Returns the time of the first of the consecutive calls that found the lane idle, or `None` if the lane
    /// is not idle now.
    pub(super) fn idle_since(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.idle_since = self.is_idle().then(|| self.idle_since.unwrap_or(now));
        self.idle_since
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
            && self.claims == 0
            && self.queued.is_none()
            && self.levels.iter().all(|level| level.due.is_none())
    }

    /// Returns when the next delivery becomes due. Deliveries that are already due are ignored, because they need no
    /// alarm.
    pub(super) fn next_due_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.levels.iter().filter_map(Level::ready_at).filter(|at| *at > now).min()
    }

    pub(super) const fn start(&mut self) {
        self.idle_since = None;
        self.in_flight += 1;
    }

    /// Starts a turn, and returns the priority of the delivery to send. This is the highest priority that is
    /// due, except that each level gets at least one turn per round, so that no level starves. `None`: the
    /// lane can't use a turn. `Some(None)`: nothing is due, but the circuit is to be checked.
    pub(super) fn start_turn(&mut self, now: Timestamp) -> Option<Option<Priority>> {
        if !self.is_ready(now) {
            return None;
        }
        self.check_circuit = false;
        self.in_flight += 1;
        Some(self.next_priority(now))
    }

    fn next_priority(&mut self, now: Timestamp) -> Option<Priority> {
        let due = |priority: &Priority| self.levels[priority.index()].is_due(now);
        let own = match self.round_position {
            3 => Some(Priority::Important),
            7 => Some(Priority::Medium),
            11 => Some(Priority::Low),
            _ => None,
        };
        let priority = own.filter(due).or_else(|| Priority::ALL.into_iter().find(due))?;
        self.round_position = (self.round_position + 1) % ROUND;
        self.levels[priority.index()].turns_taken += 1;
        Some(priority)
    }

    /// Releases up to `count` of the lane's slots, and returns how many were released.
    pub(super) fn stop(&mut self, count: u32) -> u32 {
        let freed = count.min(self.in_flight);
        self.in_flight -= freed;
        freed
    }

    /// Records that the lane's open turns are sent to the database as a claim.
    pub(super) const fn claim(&mut self) {
        if self.claims == 0 {
            self.arrived_meanwhile = [false; 4];
        }
        self.claims += 1;
    }

    /// Holds this priority level and the lower ones until this time.
    pub(super) fn shed(&mut self, priority: Priority, until: Timestamp) {
        for level in &mut self.levels[priority.index()..] {
            level.shed_until = Some(until);
        }
    }

    /// Releases all held priority levels.
    pub(super) fn release(&mut self) {
        self.held_by = None;
        self.levels.iter_mut().for_each(|level| level.shed_until = None);
    }

    /// Returns what deliveries of this priority wait for; without a priority, what the delivery that goes next waits
    /// for.
    pub(super) fn wait(&self, priority: Option<Priority>, now: Timestamp) -> LaneWait {
        let is_over = |wait: &Wait| wait.until.is_some_and(|until| until <= now);
        let asleep = self.asleep.as_ref().map(Sleep::wait).filter(|wait| !is_over(wait));
        let is_full = self.in_flight >= self.in_flight_limit.limit();
        let place = if is_full { WaitsFor::InFlightLimit } else { WaitsFor::Slot };
        LaneWait {
            hold: Wait::longest([asleep, self.shed_wait(priority, now)]),
            place: place.open_ended(),
            in_flight: self.in_flight,
        }
    }

    /// Returns until when the throttle sheds this priority; without a priority, until when it sheds all levels with
    /// due deliveries.
    fn shed_wait(&self, priority: Option<Priority>, now: Timestamp) -> Option<Wait> {
        let is_due = |level: &&Level| level.due.is_some_and(|due| due <= now);
        let first = match priority {
            Some(priority) => &self.levels[priority.index()],
            // A level that is not shed has no time, which is the lowest.
            None => self.levels.iter().filter(is_due).min_by_key(|level| level.shed_until)?,
        };
        first.shed_until.filter(|until| *until > now).map(|until| WaitsFor::Throttle.until(until))
    }

    /// Returns the number of deliveries that wait because the throttle holds their priority level.
    pub(super) fn waiting_for_throttle(&self, now: Timestamp) -> u64 {
        let held = self.levels.iter().filter(|level| level.is_shed(now));
        held.map(|level| u64::from(level.waiting)).sum()
    }

    pub(super) fn claimed(&mut self, found: [u32; 4], next_due: [Option<Timestamp>; 4]) {
        self.claims = self.claims.saturating_sub(1);
        for (index, level) in self.levels.iter_mut().enumerate() {
            level.turns_taken = 0;
            level.waiting = level.waiting.saturating_sub(found[index]);
            if self.arrived_meanwhile[index] || self.claims > 0 {
                // The response may be older than the arrival, or than another response. At worst, one claim finds
                // nothing.
                level.due = level.due.into_iter().chain(next_due[index]).min();
                level.waiting = level.waiting.max(u32::from(level.due.is_some()));
                continue;
            }
            level.due = next_due[index];
            level.waiting = if level.due.is_some() { level.waiting.max(1) } else { 0 };
        }
    }

    pub(super) fn give_up_turn(&mut self, priority: Priority) {
        let level = &mut self.levels[priority.index()];
        level.turns_taken = level.turns_taken.saturating_sub(1);
    }

    /// Ends the turns of a failed claim. Their deliveries still wait.
    pub(super) fn claim_failed(&mut self) {
        self.claims = self.claims.saturating_sub(1);
        self.levels.iter_mut().for_each(|level| level.turns_taken = 0);
    }

    pub(super) fn ended(&mut self, how: LaneSignal) {
        match how {
            LaneSignal::Success => {
                self.proven = true;
                self.in_flight_limit.success();
            }
            LaneSignal::Failure => {
                self.proven = false;
                self.in_flight_limit.failure(self.in_flight);
            }
            LaneSignal::Neither => self.in_flight_limit.neither(),
        }
    }
}
