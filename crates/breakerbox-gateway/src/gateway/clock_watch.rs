//! Monitors the drift between the wall clock and the store clock, and decides whether to report it.
//!
//! A gateway works with any drift: each clock is used for its own purpose, and times are converted between them. But a
//! large drift indicates that the machine's time is wrong, so the gateway reports itself as degraded until the drift
//! has been constant for a while.

use std::time::Duration;

use breakerbox::Clock;
use breakerbox_core::Timestamp;
use breakerbox_storage::clock::{DEGRADED_FROM, Drift, StoreClock};
use breakerbox_storage_sqlite::ClockStep;

/// How long a drift must stay the same before it is no longer reported. A step found at startup is reported for as
/// long.
const SETTLES_AFTER: Duration = Duration::from_secs(300);

/// The maximum difference between two drifts that count as the same, in seconds.
const SAME: f64 = 2.0;

/// Monitors the drift between the wall clock and the store clock.
pub(super) struct ClockWatch {
    clock: StoreClock,
    drifts: Drifts,
    /// The clock step detected at startup, and the time when it was detected.
    step: Option<(ClockStep, Timestamp)>,
}

/// The result of checking the clocks once.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ClockCheck {
    /// The current drift between the wall clock and the store clock.
    pub(super) drift: Drift,
    /// The reasons why the gateway is degraded. Empty if it is not.
    pub(super) degraded: Vec<String>,
    /// Whether this check found a new step of more than 30 s.
    pub(super) is_new: bool,
}

impl ClockWatch {
    pub(super) fn new(clock: StoreClock, step: Option<ClockStep>) -> Self {
        let now = clock.now();
        let step = step.map(|step| (step, now));
        Self { clock, drifts: Drifts { settled: 0.0, latest: 0.0, since: now }, step }
    }

    pub(super) fn check(&mut self) -> ClockCheck {
        let now = self.clock.now();
        let check = self.drifts.check(self.clock.drift(), now);
        let step = self.step.filter(|(_, since)| now.since(*since) < SETTLES_AFTER);
        let at_start = step.map(|(step, _)| at_start(step));
        ClockCheck { degraded: at_start.into_iter().chain(check.degraded).collect(), ..check }
    }
}

fn at_start(step: ClockStep) -> String {
    format!(
        "clock: at the start the newest stored time was {} s ahead of the clock: it was ahead at an earlier start, or is behind now; \
         waiting deliveries, circuits and retention were bounded by their own durations; check the machine's time",
        step.ahead.as_secs()
    )
}

/// Two drifts, in seconds: the accepted one, against which steps are measured, and the latest one, with the time of its
/// last change.
struct Drifts {
    settled: f64,
    latest: f64,
    since: Timestamp,
}

impl Drifts {
    fn check(&mut self, drift: Drift, now: Timestamp) -> ClockCheck {
        let seconds = drift.seconds();
        let is_step = (seconds - self.latest).abs() > DEGRADED_FROM.as_secs_f64();
        if (seconds - self.latest).abs() > SAME {
            (self.latest, self.since) = (seconds, now);
        }
        if now.since(self.since) >= SETTLES_AFTER {
            self.settled = self.latest;
        }
        let step = seconds - self.settled;
        let is_degraded = step.abs() > DEGRADED_FROM.as_secs_f64();
        let degraded = is_degraded.then(|| {
            let direction = if step > 0.0 { "forward" } else { "back" };
            let size = step.abs();
            format!(
                "clock: the wall clock went {direction} by {size:.0} s against monotonic time: it was set, or the machine \
                 was suspended; signatures, expiry and schedules follow it, leases, circuits and limits do not; check the \
                 machine's time synchronisation"
            )
        });
        ClockCheck { drift, degraded: degraded.into_iter().collect(), is_new: is_step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_step_is_reported_until_the_clocks_went_side_by_side_for_a_while() {
        let start = Timestamp::from_millis(1_000_000);
        let mut drifts = Drifts { settled: 0.0, latest: 0.0, since: start };
        let mut at = |after: u32, drift: Drift| {
            let check = drifts.check(drift, start + after * SECOND);
            (!check.degraded.is_empty(), check.is_new)
        };
        let ahead = |seconds: u32| Drift::Ahead(seconds * SECOND);
        assert_eq!(at(0, ahead(0)), (false, false));
        assert_eq!(at(2, ahead(30)), (false, false), "not more than 30 s");
        assert_eq!(at(4, ahead(900)), (true, true));
        assert_eq!(at(6, ahead(900)), (true, false), "said once");
        assert_eq!(at(303, ahead(901)), (true, false));
        assert_eq!(at(304, ahead(901)), (false, false), "it has not changed for five minutes");
        assert_eq!(at(306, ahead(0)), (true, true), "set back is a step too");
        assert_eq!(at(308, Drift::Behind(3_600 * SECOND)), (true, true));
        assert_eq!(at(310, ahead(900)), (false, true), "and back again: all is as it was");
    }

    #[test]
    fn the_report_says_what_happened() {
        let start = Timestamp::from_millis(1_000_000);
        let mut drifts = Drifts { settled: 0.0, latest: 0.0, since: start };
        let check = drifts.check(Drift::Behind(900 * SECOND), start);
        let text = &check.degraded[0];
        assert!(text.starts_with("clock: the wall clock went back by 900 s"), "{text}");
    }
}
