//! One lane: what waits in it as far as this process knows, how many requests at once, and which priority is next.

use std::sync::Arc;

use breakerbox_core::Timestamp;

use super::pace::Pace;
use super::{Ended, Sleep};
use crate::objects::{Priority, TenantId};

/// Of so many turns, each level that waits gets one.
const ROUND: u8 = 16;

/// What a process knows of one lane.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) tenant: TenantId,
    pub(super) asleep: Option<Sleep>,
    /// When it is looked at next, as the list of alarms has it.
    pub(super) alarm: Option<Timestamp>,
    /// Since when a look found it idle each time.
    idle_since: Option<Timestamp>,
    /// Whose throttle held a level of it last; what is eased there is asked again.
    pub(super) held_by: Option<Arc<str>>,
    /// In which line it stands: that of the proven, or the other.
    pub(super) queued: Option<bool>,
    /// How many claims are on their way to the queue.
    claims: u32,
    /// At which levels something arrived since the first of them went out, which their answers may not know of.
    arrived_meanwhile: [bool; 4],
    /// Its circuit is to be asked, though nothing may be due: that is how a recovery is noticed while all are backing off.
    pub(super) look: bool,
    levels: [Level; 4],
    in_flight: u32,
    pace: Pace,
    proven: bool,
    turn: u8,
}

/// What waits at one priority.
#[derive(Clone, Copy, Default, Debug)]
struct Level {
    /// When the earliest is due; none if nothing waits.
    due: Option<Timestamp>,
    /// How many wait, at a guess; at least one if anything does.
    waiting: u32,
    /// How many of them have a turn already.
    turns: u32,
    /// The throttle sheds this level until then.
    shed_until: Option<Timestamp>,
}

impl Level {
    /// When the earliest may have a turn.
    fn ready_at(&self) -> Option<Timestamp> {
        self.due.map(|due| self.shed_until.map_or(due, |until| due.max(until)))
    }

    fn is_shed(&self, now: Timestamp) -> bool {
        self.shed_until.is_some_and(|until| until > now)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.turns < self.waiting && self.ready_at().is_some_and(|at| at <= now)
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
            queued: None,
            claims: 0,
            arrived_meanwhile: [false; 4],
            look: false,
            levels: [Level::default(); 4],
            in_flight: 0,
            pace: Pace::new(max),
            proven: false,
            turn: 0,
        }
    }

    pub(super) fn set_max(&mut self, max: u32) {
        self.pace.set_max(max);
    }

    /// Whether its latest outcome was a success.
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

    /// Whether a fresh delivery would overtake nobody that is due.
    pub(super) fn is_clear(&self, now: Timestamp) -> bool {
        let is_due = |level: &Level| level.due.is_some_and(|due| due <= now);
        self.asleep.is_none()
            && self.claims == 0
            && self.in_flight < self.pace.limit()
            && !self.levels.iter().any(is_due)
    }

    /// How many wait, as far as is known.
    pub(super) fn waiting(&self) -> u64 {
        self.levels.iter().map(|level| u64::from(level.waiting)).sum()
    }

    /// Whether a turn would be of use.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.asleep.is_none()
            && self.claims == 0
            && self.in_flight < self.pace.limit()
            && (self.levels.iter().any(|level| level.is_due(now)) || (self.look && self.has_waiting()))
    }

    fn has_waiting(&self) -> bool {
        self.levels.iter().any(|level| level.turns < level.waiting)
    }

    /// Since when nothing waits or happens, as far as earlier looks know; none: something does.
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

    /// When the next delivery becomes due that is not due yet. Those that are due need no alarm.
    pub(super) fn next_due_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.levels.iter().filter_map(Level::ready_at).filter(|at| *at > now).min()
    }

    pub(super) const fn start(&mut self) {
        self.idle_since = None;
        self.in_flight += 1;
    }

    /// Starts one of what is due, and says of which priority. The highest that waits, but each level has its own turn in
    /// each round, so that none waits for ever.
    /// None of any priority: nothing is due, but its circuit is to be asked.
    pub(super) fn start_turn(&mut self, now: Timestamp) -> Option<Option<Priority>> {
        if !self.is_ready(now) {
            return None;
        }
        self.look = false;
        self.in_flight += 1;
        Some(self.next_priority(now))
    }

    fn next_priority(&mut self, now: Timestamp) -> Option<Priority> {
        let due = |priority: &Priority| self.levels[priority.index()].is_due(now);
        let own = match self.turn {
            3 => Some(Priority::Important),
            7 => Some(Priority::Medium),
            11 => Some(Priority::Low),
            _ => None,
        };
        let priority = own.filter(due).or_else(|| Priority::ALL.into_iter().find(due))?;
        self.turn = (self.turn + 1) % ROUND;
        self.levels[priority.index()].turns += 1;
        Some(priority)
    }

    /// Gives up to so many places back; returns how many it had.
    pub(super) fn stop(&mut self, count: u32) -> u32 {
        let freed = count.min(self.in_flight);
        self.in_flight -= freed;
        freed
    }

    /// A claim goes out.
    pub(super) const fn claim(&mut self) {
        if self.claims == 0 {
            self.arrived_meanwhile = [false; 4];
        }
        self.claims += 1;
    }

    /// This level and those below it are shed until then.
    pub(super) fn shed(&mut self, priority: Priority, until: Timestamp) {
        for level in &mut self.levels[priority.index()..] {
            level.shed_until = Some(until);
        }
    }

    /// No level is held any more.
    pub(super) fn release(&mut self) {
        self.held_by = None;
        self.levels.iter_mut().for_each(|level| level.shed_until = None);
    }

    /// Whether deliveries of this level wait for a time, whatever is due: the lane sleeps, or the throttle holds them.
    pub(super) fn is_held(&self, priority: Priority, now: Timestamp) -> bool {
        let shed = self.levels[priority.index()].is_shed(now);
        shed || self.asleep.as_ref().is_some_and(|sleep| sleep.until().is_none_or(|until| until > now))
    }

    /// How many wait at levels that the throttle holds.
    pub(super) fn waiting_for_throttle(&self, now: Timestamp) -> u64 {
        let held = self.levels.iter().filter(|level| level.is_shed(now));
        held.map(|level| u64::from(level.waiting)).sum()
    }

    pub(super) fn claimed(&mut self, found: [u32; 4], next_due: [Option<Timestamp>; 4]) {
        self.claims = self.claims.saturating_sub(1);
        for (index, level) in self.levels.iter_mut().enumerate() {
            level.turns = 0;
            level.waiting = level.waiting.saturating_sub(found[index]);
            if self.arrived_meanwhile[index] || self.claims > 0 {
                // The answer may be older than the arrival, or than another answer. At worst one claim finds nothing.
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
        level.turns = level.turns.saturating_sub(1);
    }

    /// A claim failed: the turns that it had are given up.
    pub(super) fn claim_failed(&mut self) {
        self.claims = self.claims.saturating_sub(1);
        self.levels.iter_mut().for_each(|level| level.turns = 0);
    }

    pub(super) fn ended(&mut self, how: Ended) {
        match how {
            Ended::Success => {
                self.proven = true;
                self.pace.success();
            }
            Ended::Failure => {
                self.proven = false;
                self.pace.failure(self.in_flight);
            }
            Ended::Neither => self.pace.neither(),
        }
    }
}
