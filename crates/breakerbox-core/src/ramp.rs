//! The ramp: the paced return of traffic after a circuit closes.
//!
//! It starts with one call in flight. Each full round of successes doubles the limit, and a failure halves it. The
//! ramp is over when the limit reaches the policy's `ramp_cap`, or when a whole window has passed without a ramp
//! refusal. This is the ramp of one process, for circuits that are not shared, or while the store is unavailable.
//! Otherwise [the fleet](crate::fleet) has one ramp.

use core::time::Duration;

use crate::outcome::OutcomeKind;
use crate::policy::Policy;
use crate::record::LEASE_MARGIN;
use crate::time::Timestamp;

/// The limit on calls in flight with which a ramp begins. The limit never falls below this value.
pub(crate) const FIRST_LIMIT: u32 = 1;

/// The ramp of one process, which limits its calls in flight after a circuit has closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ramp {
    limit: u32,
    in_flight: u32,
    /// The number of successes since the limit last changed.
    round: u32,
    /// The time of the latest refusal; before the first, the time at which the ramp began.
    refused_at: Timestamp,
    /// The time at which a call last started or settled.
    moved_at: Timestamp,
    /// The number of times that all calls in flight were written off, because none of them settled. A call from an
    /// earlier generation has no effect when it settles.
    generation: u32,
}

/// The ramp's response to a caller that acquires a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RampAnswer {
    /// The call may start. It counts as in flight in this generation.
    Start { generation: u32 },
    /// The limit on calls in flight is reached.
    Refuse { in_flight: u32, limit: u32 },
    /// The ramp is over, so calls in flight are no longer limited.
    Over,
}

impl Ramp {
    /// Begins a ramp; `None` if the policy has no ramp.
    pub(crate) fn begin(policy: &Policy, now: Timestamp) -> Option<Self> {
        let ramp = Self {
            limit: FIRST_LIMIT,
            in_flight: 0,
            round: 0,
            refused_at: now,
            moved_at: now,
            generation: 0,
        };
        (!ramp.is_complete(policy)).then_some(ramp)
    }

    /// Returns the number of calls in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the maximum number of calls in flight.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Records that the fleet's ramp refused a call, in case this process's own ramp takes over.
    pub(crate) fn note_refusal(&mut self, now: Timestamp) {
        self.refused_at = self.refused_at.max(now);
    }

    pub(crate) fn try_acquire(&mut self, policy: &Policy, now: Timestamp) -> RampAnswer {
        if self.is_complete(policy) || now.since(self.refused_at) >= policy.window() {
            return RampAnswer::Over;
        }
        if self.in_flight >= self.limit {
            self.refused_at = now;
            if now.since(self.moved_at) < patience(policy) {
                return RampAnswer::Refuse { in_flight: self.in_flight, limit: self.limit };
            }
            // Calls that never end must not block the circuit forever: they are written off, and one more call may
            // start.
            self.in_flight = 0;
            self.generation = self.generation.wrapping_add(1);
        }
        self.in_flight += 1;
        self.moved_at = now;
        RampAnswer::Start { generation: self.generation }
    }

    /// Settles a call that this ramp admitted. Returns whether the ramp continues.
    pub(crate) fn settle(
        &mut self,
        generation: u32,
        kind: OutcomeKind,
        policy: &Policy,
        now: Timestamp,
    ) -> bool {
        if generation != self.generation {
            return true;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.moved_at = now;
        match kind {
            OutcomeKind::Success => {
                self.round += 1;
                if self.round >= self.limit {
                    self.limit = self.limit.saturating_mul(2);
                    self.round = 0;
                }
            }
            OutcomeKind::Failure => {
                self.limit = (self.limit / 2).max(FIRST_LIMIT);
                self.round = 0;
            }
            OutcomeKind::Ignored => {}
        }
        !self.is_complete(policy)
    }

    fn is_complete(&self, policy: &Policy) -> bool {
        policy.ramp_cap().is_none_or(|cap| self.limit >= cap)
    }
}

/// Returns how long a ramp at its limit refuses calls while none of its calls settles. After that, all calls in flight
/// are written off. The result is the window, or the maximum duration of a probe's lease if that is longer.
fn patience(policy: &Policy) -> Duration {
    policy.window().max(policy.probe_timeout() + LEASE_MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: RampAnswer = RampAnswer::Start { generation: 0 };

    fn policy(cap: u32) -> Policy {
        Policy::builder().window(Duration::from_secs(60)).ramp_cap(u64::from(cap)).build().unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Starts as many calls as the ramp allows.
    fn fill(ramp: &mut Ramp, policy: &Policy, now: Timestamp) -> u32 {
        (0..1_000).take_while(|_| ramp.try_acquire(policy, now) == STARTED).count().try_into().unwrap()
    }

    #[test]
    fn doubles_with_each_full_round_until_the_cap() {
        let policy = policy(8);
        let mut ramp = Ramp::begin(&policy, at(0)).unwrap();
        for limit in [1, 2, 4] {
            assert_eq!(fill(&mut ramp, &policy, at(1)), limit);
            assert_eq!(ramp.try_acquire(&policy, at(1)), RampAnswer::Refuse { in_flight: limit, limit });
            for settled in 1..=limit {
                let goes_on = ramp.settle(0, OutcomeKind::Success, &policy, at(1));
                assert_eq!(goes_on, (limit, settled) != (4, 4), "over when it reaches 8");
            }
        }
        assert_eq!(ramp.try_acquire(&policy, at(1)), RampAnswer::Over);
    }

    #[test]
    fn a_failure_halves_and_starts_the_round_again() {
        let policy = policy(64);
        let mut ramp = Ramp::begin(&policy, at(0)).unwrap();
        for _ in 0..1 + 2 + 3 {
            assert_eq!(ramp.try_acquire(&policy, at(0)), STARTED);
            ramp.settle(0, OutcomeKind::Success, &policy, at(0));
        }
        assert_eq!((ramp.in_flight(), ramp.limit()), (0, 4));
        ramp.settle(0, OutcomeKind::Failure, &policy, at(0));
        assert_eq!((ramp.in_flight(), ramp.limit()), (0, 2));
        ramp.settle(0, OutcomeKind::Success, &policy, at(0));
        assert_eq!((ramp.in_flight(), ramp.limit()), (0, 2), "the three successes of before do not count");
        for _ in 0..5 {
            ramp.settle(0, OutcomeKind::Failure, &policy, at(0));
        }
        assert_eq!((ramp.in_flight(), ramp.limit()), (0, 1), "never below one");
    }

    #[test]
    fn an_ignored_outcome_only_frees_its_place() {
        let policy = policy(64);
        let mut ramp = Ramp::begin(&policy, at(0)).unwrap();
        ramp.try_acquire(&policy, at(0));
        ramp.settle(0, OutcomeKind::Ignored, &policy, at(0));
        assert_eq!((ramp.in_flight(), ramp.limit()), (0, 1));
    }

    #[test]
    fn ends_after_a_window_without_a_refusal() {
        let policy = policy(64);
        let mut ramp = Ramp::begin(&policy, at(0)).unwrap();
        assert_eq!(ramp.try_acquire(&policy, at(59)), STARTED);
        assert!(matches!(ramp.try_acquire(&policy, at(59)), RampAnswer::Refuse { .. }));
        ramp.settle(0, OutcomeKind::Ignored, &policy, at(59));
        assert_eq!(ramp.try_acquire(&policy, at(118)), STARTED, "59 s after the refusal");
        ramp.settle(0, OutcomeKind::Ignored, &policy, at(118));
        assert_eq!(ramp.try_acquire(&policy, at(119)), RampAnswer::Over);
    }

    #[test]
    fn calls_that_never_settle_do_not_hold_it_for_ever() {
        let policy = policy(64);
        let mut ramp = Ramp::begin(&policy, at(0)).unwrap();
        assert_eq!(ramp.try_acquire(&policy, at(0)), STARTED);
        for second in 1..60 {
            assert!(
                matches!(ramp.try_acquire(&policy, at(second)), RampAnswer::Refuse { .. }),
                "at {second} s"
            );
        }
        assert_eq!(ramp.try_acquire(&policy, at(60)), RampAnswer::Start { generation: 1 });
        assert!(
            matches!(ramp.try_acquire(&policy, at(60)), RampAnswer::Refuse { .. }),
            "one more, and no flood"
        );
        ramp.settle(0, OutcomeKind::Success, &policy, at(61));
        assert_eq!((ramp.in_flight(), ramp.limit()), (1, 1), "a call that was written off frees no place");
        ramp.settle(1, OutcomeKind::Success, &policy, at(61));
        assert_eq!((ramp.in_flight(), ramp.limit()), (0, 2));
    }

    #[test]
    fn a_call_longer_than_a_short_window_is_waited_for() {
        let policy = Policy::builder().window(Duration::from_secs(1)).build().unwrap();
        let mut ramp = Ramp::begin(&policy, at(0)).unwrap();
        assert_eq!(ramp.try_acquire(&policy, at(0)), STARTED);
        for ms in (500..12_000).step_by(500) {
            let now = Timestamp::from_millis(ms);
            assert!(matches!(ramp.try_acquire(&policy, now), RampAnswer::Refuse { .. }), "at {ms} ms");
        }
        assert_eq!(ramp.try_acquire(&policy, at(12)), RampAnswer::Start { generation: 1 });
    }

    #[test]
    fn without_a_cap_or_with_a_cap_of_one_there_is_no_ramp() {
        let off = Policy::builder().ramp_cap(None).build().unwrap();
        assert_eq!(Ramp::begin(&off, at(0)), None);
        assert_eq!(Ramp::begin(&policy(1), at(0)), None);
    }
}
