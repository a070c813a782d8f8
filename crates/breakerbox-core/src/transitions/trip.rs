//! Rows 1, 10 and 11 of the table: how a circuit trips, when its trips are forgiven, and when it is disabled.

use alloc::format;
use alloc::sync::Arc;
use core::time::Duration;

use crate::change::{Cause, Step};
use crate::outcome::OpenedBy;
use crate::policy::{Policy, format_duration};
use crate::record::{Attribution, Mode, Record, State};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::RandomBits;
use crate::window::Totals;

/// The actor that a record names if the circuit was disabled after too many trips, not by an operator.
const ACTOR: &str = "breakerbox";

impl Record {
    /// Evaluates the trip rules for a closed circuit after a counted outcome, that of the call `opened_by`. Returns the step to open or disabled; `None` if no rule is met.
    #[must_use]
    pub fn evaluate(
        &self,
        totals: &Totals,
        opened_by: OpenedBy,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Option<Step> {
        if !self.is_automatic() || self.state != State::Closed {
            return None;
        }
        let rule = TripRule::first_broken(policy, totals)?;
        let seen = Self { evidence: Some(Arc::new(*totals)), ..self.clone() };
        Some(seen.tripped(Cause::Rule(rule), opened_by, policy, draw, now))
    }

    /// Returns the step to open; after too many trips, the step to disabled.
    pub(super) fn tripped(
        &self,
        cause: Cause,
        opened_by: OpenedBy,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Step {
        let remembered = if self.is_forgiven(policy, now) { 0 } else { self.trips };
        let mut next = Self {
            state: State::Open,
            opened_at: Some(now),
            retry_at: None,
            trips: remembered.saturating_add(1),
            lease: None,
            ..self.clone()
        };
        match next.reason_to_disable(policy, now) {
            Some(attribution) => next.mode = Mode::Disabled(attribution),
            None => {
                let cool_off = match self.state {
                    State::Closed => policy.cool_off_from_closed(next.trips, draw),
                    State::Open | State::HalfOpen => policy.cool_off_after(next.trips, draw),
                };
                let OpenedBy { latency, retry_after } = opened_by;
                let wait = cool_off.max(latency).max(retry_after.unwrap_or_default());
                next.retry_at = Some(now + wait.min(policy.cool_off_max()));
            }
        }
        Step::transition(self, next, cause, draw, now)
    }

    fn reason_to_disable(&self, policy: &Policy, now: Timestamp) -> Option<Attribution> {
        let limit = policy.disable_after()?;
        let failing = self.failing_since.map_or(Duration::ZERO, |since| now.since(since));
        if self.trips < limit || failing < policy.disable_min() {
            return None;
        }
        let reason = format!("{} trips, and no success for {}", self.trips, format_duration(failing));
        Some(Attribution::new(ACTOR, &reason).expect("shorter than the limit"))
    }
}
