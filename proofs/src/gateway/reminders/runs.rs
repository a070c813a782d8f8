//! Tracks runs: which were expected, which arrived, how often, and in which order. Runs are identified by
//! `webhook-id`, which is the reminder's ID and the number of the run.

use std::collections::HashMap;
use std::time::Duration;

use breakerbox_model::objects::{ReminderId, RunId};
use breakerbox_testkit::receiver::{IdHash, Receiver};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Expected {
    /// The index of the run's reminder in the list of expected reminders.
    pub(super) reminder: usize,
    /// The number of the run, starting at 1.
    pub(super) run: u32,
}

pub(super) struct Runs {
    expected: HashMap<IdHash, Expected>,
    reminders: usize,
    each: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ArrivedRuns {
    /// For each run, when it first arrived, and when it first succeeded.
    first: HashMap<Expected, (Duration, Option<Duration>)>,
    /// The number of requests received, including duplicates.
    pub(super) requests: usize,
    /// The number of requests that do not belong to an expected run.
    pub(super) unexpected: usize,
}

impl Runs {
    /// Returns the expectation that each of these reminders has `each` runs.
    pub(super) fn of(reminders: &[ReminderId], each: u32) -> Self {
        let mut expected = HashMap::with_capacity(reminders.len() * each as usize);
        for (place, reminder) in reminders.iter().enumerate() {
            for number in 1..=each {
                let id = RunId { reminder: *reminder, number }.to_string();
                expected.insert(IdHash::of(id.as_bytes()), Expected { reminder: place, run: number });
            }
        }
        Self { expected, reminders: reminders.len(), each }
    }

    /// Returns the number of expected runs.
    pub(super) fn count(&self) -> usize {
        self.expected.len()
    }

    /// Returns the runs that arrived at these paths.
    pub(super) fn came(&self, receiver: &Receiver, paths: &[&str]) -> ArrivedRuns {
        let paths: Vec<u32> = paths.iter().map(|path| receiver.number(path)).collect();
        let mut came = ArrivedRuns::default();
        receiver.with_visits(|visits| {
            for visit in visits.iter().filter(|visit| paths.contains(&visit.endpoint)) {
                came.requests += 1;
                let Some(expected) = self.expected.get(&visit.id) else {
                    came.unexpected += 1;
                    continue;
                };
                let (_, delivered) = came.first.entry(*expected).or_insert((visit.at(), None));
                if visit.is_delivered() {
                    delivered.get_or_insert(visit.at());
                }
            }
        });
        came
    }

    /// Returns the number of expected runs that never succeeded.
    pub(super) fn missing(&self, came: &ArrivedRuns) -> usize {
        self.count() - came.first.values().filter(|(_, delivered)| delivered.is_some()).count()
    }

    /// Returns the number of runs that arrived before the same reminder's previous run had succeeded.
    pub(super) fn out_of_order(&self, came: &ArrivedRuns) -> usize {
        let place = |reminder, run| came.first.get(&Expected { reminder, run });
        let is_early = |reminder, run| match (place(reminder, run), place(reminder, run + 1)) {
            (Some((_, Some(before))), Some((after, _))) => after < before,
            (_, Some(_)) => true,
            (_, None) => false,
        };
        let all = (0..self.reminders).flat_map(|reminder| (1..self.each).map(move |run| (reminder, run)));
        all.filter(|(reminder, run)| is_early(*reminder, *run)).count()
    }
}

impl ArrivedRuns {
    /// Returns when each run first arrived.
    pub(super) fn first(&self) -> impl Iterator<Item = (Expected, Duration)> {
        self.first.iter().map(|(expected, (at, _))| (*expected, *at))
    }

    /// Returns the number of a reminder's runs that succeeded at or after this time.
    pub(super) fn delivered_since(&self, reminder: usize, since: Duration) -> usize {
        let is_one = |(expected, (_, delivered)): &(&Expected, &(Duration, Option<Duration>))| {
            expected.reminder == reminder && delivered.is_some_and(|at| at >= since)
        };
        self.first.iter().filter(is_one).count()
    }
    /// Returns whether one of a reminder's runs arrived before this time but did not succeed until later.
    pub(super) fn was_tried_before(&self, reminder: usize, until: Duration) -> bool {
        self.first.iter().any(|(expected, (at, delivered))| {
            expected.reminder == reminder
                && *at < until
                && delivered.is_none_or(|delivered| delivered >= until)
        })
    }
}
