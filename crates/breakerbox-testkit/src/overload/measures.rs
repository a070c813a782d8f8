//! The measurements of a run, and how they are recorded.

use std::time::Duration;

use breakerbox_core::throttle::{Levels, Priority};

use super::scenario::Scenario;

/// The share of calls that must be admitted within [`BACK_OVER`] for service to count as normal again.
const BACK_SHARE: f64 = 0.99;
/// The period over which [`BACK_SHARE`] is measured.
const BACK_OVER: Duration = Duration::from_secs(5);
/// The resolution with which the time of the return to normal service is determined.
const BACK_STEP: Duration = Duration::from_millis(10);
/// The length of the intervals in which two runs' shed calls are compared. It is long enough that an interval
/// contains ten calls even at one call per second.
const SHEDS_OVER: Duration = Duration::from_secs(10);

/// The measurements of one run, or the means of several runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measures {
    /// The number of successful calls per second.
    pub goodput: f64,
    /// The number of calls sent to the backend per second.
    pub sent: f64,
    /// The share of successful calls for each priority, in percent, most important first.
    pub success: Vec<f64>,
    /// The number of calls shed after the end of the overload. All of these calls were shed needlessly.
    pub needless: f64,
    /// Seconds from the end of the overload to normal service; infinite if service did not return to normal.
    pub back: f64,
    /// Seconds from the start of an outage to the first shed call.
    pub first_shed_seconds: f64,
    /// The number of calls that the slowest client sent from the start of an outage to its first shed call.
    pub first_shed_calls: f64,
    /// The maximum retry delay that a refusal stated, in seconds. For several runs, this is the maximum, not
    /// the mean.
    pub longest_hold: f64,
    /// The number of calls that arrived.
    pub arrived: f64,
    /// The number of shed calls in each interval of ten seconds.
    pub sheds: Vec<f64>,
}

impl Measures {
    /// Returns the means of several runs' measurements.
    #[must_use]
    pub fn mean(runs: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
        let means = |value: fn(&Self) -> &Vec<f64>| {
            let length = runs.first().map_or(0, |run| value(run).len());
            (0..length)
                .map(|at| runs.iter().map(|run| value(run)[at]).sum::<f64>() / runs.len() as f64)
                .collect()
        };
        Self {
            goodput: mean(|run| run.goodput),
            sent: mean(|run| run.sent),
            success: means(|run| &run.success),
            needless: mean(|run| run.needless),
            back: mean(|run| run.back),
            first_shed_seconds: mean(|run| run.first_shed_seconds),
            first_shed_calls: mean(|run| run.first_shed_calls),
            longest_hold: runs.iter().map(|run| run.longest_hold).fold(0.0, f64::max),
            arrived: mean(|run| run.arrived),
            sheds: means(|run| &run.sheds),
        }
    }

    /// Returns how many calls this run shed in excess of the other run, in percent of all calls. Each interval
    /// of ten seconds is compared separately, and intervals in which this run shed fewer calls count as zero.
    #[must_use]
    pub fn sheds_beyond(&self, other: &Self) -> f64 {
        let beyond = self.sheds.iter().zip(&other.sheds).map(|(own, others)| (own - others).max(0.0));
        100.0 * beyond.sum::<f64>() / self.arrived
    }
}

/// Records the measurements of a run.
pub(super) struct Recorder {
    from: u64,
    to: u64,
    over_at: Option<u64>,
    out_at: Option<u64>,
    end: u64,
    came_by_level: Vec<f64>,
    succeeded_by_level: Vec<f64>,
    sent: f64,
    arrived: f64,
    sheds: Vec<f64>,
    needless: f64,
    /// For each call since the end of the overload, its arrival time in microseconds, and whether it was
    /// admitted.
    since_over: Vec<(u64, bool)>,
    first_shed: Option<u64>,
    longest_hold: Duration,
    /// For each client, how many calls it sent in the outage before its first shed call, and whether it has
    /// had a shed call.
    before_shed: Vec<(f64, bool)>,
}

impl Recorder {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let levels = usize::from(Levels::STANDARD.count());
        let (end, measure) = (scenario.end(), scenario.measure);
        Self {
            from: micros(measure.from),
            to: micros(measure.to.unwrap_or(end)),
            over_at: measure.over_at.map(micros),
            out_at: scenario.backend.outage.map(|outage| micros(outage.from)),
            end: micros(end),
            came_by_level: vec![0.0; levels],
            succeeded_by_level: vec![0.0; levels],
            sent: 0.0,
            arrived: 0.0,
            sheds: vec![0.0; place_of_shed(micros(end)) + 1],
            needless: 0.0,
            since_over: Vec::new(),
            first_shed: None,
            longest_hold: Duration::ZERO,
            before_shed: vec![(0.0, false); scenario.clients.get()],
        }
    }

    pub(super) const fn end_micros(&self) -> u64 {
        self.end
    }

    /// Records that a call arrived, and whether it was admitted or shed.
    pub(super) fn arrived(&mut self, client: usize, priority: Priority, admitted: bool, now: u64) {
        self.arrived += 1.0;
        if self.is_measured(now) {
            self.came_by_level[usize::from(priority.level())] += 1.0;
        }
        if !admitted && let Some(sheds) = self.sheds.get_mut(place_of_shed(now)) {
            *sheds += 1.0;
        }
        if self.over_at.is_some_and(|over_at| now >= over_at) {
            self.needless += f64::from(u8::from(!admitted));
            self.since_over.push((now, admitted));
        }
        if self.out_at.is_some_and(|out_at| now >= out_at) {
            let (calls, was_shed) = &mut self.before_shed[client];
            if !admitted {
                *was_shed = true;
                self.first_shed.get_or_insert(now);
            } else if !*was_shed {
                *calls += 1.0;
            }
        }
    }

    /// Records the retry delay that a refusal stated.
    pub(super) fn held(&mut self, hold: Duration) {
        self.longest_hold = self.longest_hold.max(hold);
    }

    pub(super) fn sent(&mut self, now: u64) {
        self.sent += f64::from(u8::from(self.is_measured(now)));
    }

    /// Records the success of a call that arrived at `came_at`.
    pub(super) fn succeeded(&mut self, priority: Priority, came_at: u64) {
        if self.is_measured(came_at) {
            self.succeeded_by_level[usize::from(priority.level())] += 1.0;
        }
    }

    pub(super) fn finish(self) -> Measures {
        let seconds = (self.to - self.from) as f64 / 1e6;
        let share = |(succeeded, arrived): (&f64, &f64)| 100.0 * succeeded / arrived;
        let since_outage = |at: u64| (at - self.out_at.unwrap_or(at)) as f64 / 1e6;
        let calls = |&(calls, was_shed): &(f64, bool)| if was_shed { calls } else { f64::INFINITY };
        Measures {
            goodput: self.succeeded_by_level.iter().sum::<f64>() / seconds,
            sent: self.sent / seconds,
            success: self.succeeded_by_level.iter().zip(&self.came_by_level).map(share).collect(),
            needless: self.needless,
            back: self.over_at.map_or(0.0, |over_at| back(&self.since_over, over_at, self.end)),
            first_shed_seconds: self.first_shed.map_or(f64::INFINITY, since_outage),
            first_shed_calls: self.before_shed.iter().map(calls).fold(0.0, f64::max),
            longest_hold: self.longest_hold.as_secs_f64(),
            arrived: self.arrived,
            sheds: self.sheds,
        }
    }

    fn is_measured(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// Returns the seconds from `over_at` to the first [`BACK_OVER`] period of normal service. Infinite if there
/// is no such period before `end`.
fn back(calls: &[(u64, bool)], over_at: u64, end: u64) -> f64 {
    let mut admitted = vec![0.0];
    admitted.extend(calls.iter().scan(0.0, |sum, (_, admitted)| {
        *sum += f64::from(u8::from(*admitted));
        Some(*sum)
    }));
    let mut begin = over_at;
    while begin + micros(BACK_OVER) <= end {
        let first = calls.partition_point(|(at, _)| *at < begin);
        let last = calls.partition_point(|(at, _)| *at < begin + micros(BACK_OVER));
        if last > first && admitted[last] - admitted[first] >= BACK_SHARE * (last - first) as f64 {
            return (begin - over_at) as f64 / 1e6;
        }
        begin += micros(BACK_STEP);
    }
    f64::INFINITY
}

fn place_of_shed(at: u64) -> usize {
    usize::try_from(at / micros(SHEDS_OVER)).unwrap_or(usize::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_back_when_99_of_100_are_admitted_for_five_seconds() {
        // 100 calls per second starting at 10 s; those before `until` are shed.
        let calls = |until: u64| -> Vec<_> {
            (0..1_000).map(|n| (10_000_000 + n * 10_000, n * 10_000 >= until)).collect()
        };
        for (until, expected) in [(0, 0.0), (50_000, 0.0), (60_000, 0.01), (2_000_000, 1.95)] {
            assert_eq!(back(&calls(until), 10_000_000, 20_000_000), expected, "shed for {until} us");
        }
        assert_eq!(back(&calls(9_000_000), 10_000_000, 20_000_000), f64::INFINITY);
    }

    #[test]
    fn only_sheds_that_the_other_did_not_make_count() {
        let run = |sheds: &[f64]| Measures { arrived: 100.0, sheds: sheds.to_vec(), ..Measures::default() };
        assert_eq!(run(&[5.0, 1.0]).sheds_beyond(&run(&[2.0, 9.0])), 3.0);
    }
}
