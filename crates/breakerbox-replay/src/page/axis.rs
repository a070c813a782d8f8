//! The time axis of a page: the time range, its ticks, and how times are written.
//!
//! If the traffic has clock times, the axis shows them in UTC; otherwise it shows the time since the first line.

use std::time::Duration;

use crate::clock::{Times, Utc};
use crate::summary::readable;

/// The maximum number of steps between ticks: more labels would overlap.
const MAX_STEPS: u64 = 6;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The distances between ticks that read well, below a day.
const STEPS: [u64; 23] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
];

/// The time range that a page covers, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: u64,
    /// The end, later than the start.
    pub(super) to: u64,
    pub(super) times: Times,
}

/// A labelled point on the axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AxisTick {
    pub(super) at_ms: u64,
    pub(super) label: String,
}

impl Span {
    /// Returns how far into the range a time is, from 0 to 1.
    #[allow(clippy::cast_precision_loss)] // A drawing has a thousand steps.
    pub(super) fn fraction(self, at_ms: u64) -> f64 {
        let at = at_ms.clamp(self.from, self.to) - self.from;
        at as f64 / (self.to - self.from) as f64
    }

    /// Formats the time since the first line.
    pub(super) fn since_start(self, at_ms: u64) -> String {
        readable(Duration::from_millis(at_ms.saturating_sub(self.from)))
    }

    /// Formats a time for a sentence, such as `at 2026-01-31 12:00:05 UTC` or `after 5s`.
    pub(super) fn point(self, at_ms: u64) -> String {
        match self.times {
            Times::Clock => format!("at {}", written(at_ms, "%F %T UTC")),
            Times::Elapsed => format!("after {}", self.since_start(at_ms)),
        }
    }

    /// Formats the whole range for a sentence.
    pub(super) fn range(self) -> String {
        match self.times {
            Times::Clock => {
                format!("from {} to {}", written(self.from, "%F %T UTC"), written(self.to, "%F %T UTC"))
            }
            Times::Elapsed => format!("from at_ms {} to {}", self.from, self.to),
        }
    }

    /// Returns the labelled points, at whole steps of the clock or of the time since the first line.
    pub(super) fn ticks(self) -> Vec<AxisTick> {
        let length = self.to - self.from;
        let step = step_for(length);
        let first = match self.times {
            Times::Clock => self.from.next_multiple_of(step),
            Times::Elapsed => self.from,
        };
        let points = (0..=MAX_STEPS).map(|n| first + n * step).take_while(|at_ms| *at_ms <= self.to);
        points.map(|at_ms| AxisTick { at_ms, label: self.label(at_ms, step) }).collect()
    }

    fn label(self, at_ms: u64, step: u64) -> String {
        if self.times == Times::Elapsed {
            return self.since_start(at_ms);
        }
        let format = match step {
            ..SECOND => "%H:%M:%S%.3f",
            SECOND..MINUTE => "%H:%M:%S",
            // At midnight, the date says more.
            MINUTE..DAY if !at_ms.is_multiple_of(DAY) => "%H:%M",
            _ => "%b %-d",
        };
        let format = if step >= 50 * DAY { "%F" } else { format };
        written(at_ms, format)
    }
}

/// Formats a clock time, in UTC.
pub(super) fn written(at_ms: u64, format: &str) -> String {
    Utc(at_ms).timestamp().strftime(format).to_string()
}

/// Returns the smallest distance of ticks with which at most [`MAX_STEPS`] fit into this length.
fn step_for(length: u64) -> u64 {
    let fits = |step: &u64| length / step <= MAX_STEPS;
    let days = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power) * DAY));
    // The longest range, 2^53 ms, fits with steps of 20 million days.
    STEPS.into_iter().chain(days.take(24)).find(fits).unwrap_or(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::input::MAX_MILLIS;

    fn labels(from: u64, length: u64, times: Times) -> Vec<String> {
        let span = Span { from, to: from + length, times };
        span.ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn elapsed_times_start_at_zero() {
        assert_eq!(labels(1_051, 1_199_000, Times::Elapsed), ["0s", "5m", "10m", "15m"]);
        assert_eq!(labels(7, 3, Times::Elapsed), ["0s", "1ms", "2ms", "3ms"]);
    }

    #[test]
    fn clock_times_are_whole_steps_of_the_clock() {
        let at = |text| clock::parse(text).unwrap();
        let table: [(&str, u64, &[&str]); 5] = [
            ("2026-01-31T12:03:10Z", 20 * MINUTE, &["12:05", "12:10", "12:15", "12:20"]),
            (
                "2026-01-31T12:00:00.1Z",
                900,
                &["12:00:00.200", "12:00:00.400", "12:00:00.600", "12:00:00.800", "12:00:01.000"],
            ),
            (
                "2026-01-31T23:59:50+00:00",
                20 * SECOND,
                &["23:59:50", "23:59:55", "00:00:00", "00:00:05", "00:00:10"],
            ),
            ("2026-01-31T20:00:00Z", 10 * HOUR, &["21:00", "Feb 1", "03:00", "06:00"]),
            ("2026-01-31T20:00:00Z", 900 * DAY, &["2026-05-27", "2026-12-13", "2027-07-01", "2028-01-17"]),
        ];
        for (from, length, expected) in table {
            assert_eq!(labels(at(from), length, Times::Clock), expected, "{from}");
        }
    }

    #[test]
    fn any_range_has_a_few_ticks() {
        for times in [Times::Elapsed, Times::Clock] {
            for length in (0..53).map(|power| 1_u64 << power).chain([MAX_MILLIS]) {
                let ticks = labels(0, length, times);
                assert!((1..=7).contains(&ticks.len()), "{length}: {ticks:?}");
            }
        }
    }
}
