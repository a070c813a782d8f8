//! Rows 1, 10 and 11: how a circuit trips, what it forgives, and when it gives up.

use alloc::format;
use alloc::sync::Arc;
use core::time::Duration;

use crate::change::{Cause, Step};
use crate::policy::{Policy, format_duration};
use crate::record::{Attribution, Mode, Record, State};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::RandomBits;
use crate::window::Totals;

/// Who disables a circuit when no operator does.
const ACTOR: &str = "breakerbox";

impl Record {
    /// Judges a closed circuit by its totals after a counted outcome; `retry_after` is what that outcome carried.
    #[must_use]
    pub fn judge(
        &self,
        totals: &Totals,
        retry_after: Option<Duration>,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Option<Step> {
        if !self.is_automatic() || self.state != State::Closed {
            return None;
        }
        let rule = TripRule::first_broken(policy, totals)?;
        let seen = Self { evidence: Some(Arc::new(*totals)), ..self.clone() };
        Some(seen.tripped(Cause::Rule(rule), retry_after, policy, draw, now))
    }

    /// The circuit opened, or was disabled at once.
    pub(super) fn tripped(
        &self,
        cause: Cause,
        retry_after: Option<Duration>,
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
                let cool_off = policy.cool_off_after(next.trips, draw);
                let wait = cool_off.max(retry_after.unwrap_or_default()).min(policy.cool_off_max());
                next.retry_at = Some(now + wait);
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
