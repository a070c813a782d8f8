//! The scenario files: who calls, what the backend takes, what is measured and what is to be reached.

use std::num::NonZeroUsize;
use std::time::Duration;

use breakerbox_core::parse_duration;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::target::Targets;

macro_rules! files {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*] };
}

/// The name and the text of every scenario file: those of the design's tables in their order, then what else must hold,
/// then what is only reported.
const FILES: [(&str, &str); 34] = files! {
    "reference"
    "fleet-of-100"
    "fleet-of-10"
    "outage"
    "outage-fleet-of-10"
    "outage-fleet-of-100"
    "outage-with-answers"
    "outage-at-first"
    "a-fifth-over"
    "backend-by-priority"
    "costly-rejections"
    "retries"
    "capacity-changes"
    "capacity-changes-under-load"
    "bursts-that-fit"
    "bursts-that-do-not"
    "one-a-second"
    "one-a-second-overloaded"
    "fifty-thousand-a-second"
    "slow-answers"
    "stray-rejections"
    "stray-rejections-at-random"
    "some-stray-rejections"
    "many-stray-rejections"
    "one-503-then-one-in-5s"
    "one-503-then-one-a-second"
    "one-503-then-five-a-second"
    "one-refused-then-one-in-5s"
    "one-refused-then-one-a-second"
    "one-refused-then-five-a-second"
    "a-fifth-over-at-random"
    "reference-at-random"
    "fleet-at-random"
    "fleet-of-1000"
};

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name.
    #[serde(skip)]
    pub name: String,
    /// How many clients share the load, each with a throttle of its own.
    #[serde(default = "one")]
    pub clients: NonZeroUsize,
    /// How the calls are dealt to the clients.
    #[serde(default)]
    pub dealt: Dealt,
    /// How the calls are spaced.
    #[serde(default)]
    pub spaced: Spaced,
    /// How many calls come at once.
    #[serde(default = "one")]
    pub at_once: NonZeroUsize,
    /// How often a failed call is retried. A shed never is.
    #[serde(default)]
    pub retries: u32,
    /// How many calls a second all clients make together, one phase after the other. The end of the last is the end
    /// of the scenario.
    pub offered: Vec<Phase>,
    /// What answers.
    pub backend: BackendModel,
    /// What is measured when.
    #[serde(default)]
    pub measure: Measured,
    /// What is to be reached.
    #[serde(default)]
    pub targets: Targets,
}

/// How calls are dealt to clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dealt {
    /// A fresh random order of the clients for every round of calls.
    #[default]
    InRounds,
    /// Anyone may have the next call.
    AtRandom,
}

/// How calls are spaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spaced {
    /// All gaps are equal.
    #[default]
    Evenly,
    /// Calls know nothing of each other: a Poisson process.
    AtRandom,
}

/// A rate that holds for a while.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long. Where nothing ends the scenario, the last phase goes on.
    #[serde(rename = "for", deserialize_with = "duration")]
    pub lasts: Duration,
    /// How many a second.
    pub rate: f64,
}

/// The simulated backend: a bucket of capacity, no queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendModel {
    /// How many calls a second it takes, one phase after the other; the last goes on.
    pub capacity: Vec<Phase>,
    /// How many calls it takes at once.
    pub burst: f64,
    /// How long an accepted call takes, in phases; the last goes on.
    pub accept_takes: Vec<Latency>,
    /// How long a rejected call takes.
    #[serde(deserialize_with = "duration")]
    pub reject_takes: Duration,
    /// Whether it rejects the least important first.
    #[serde(default)]
    pub by_priority: bool,
    /// What a rejection costs, in parts of a call.
    #[serde(default)]
    pub rejection_cost: f64,
    /// The share of calls that it rejects for no reason.
    #[serde(default)]
    pub stray_rejections: f64,
    /// So many calls are rejected first, whatever the load.
    #[serde(default)]
    pub first_rejected: u32,
    /// So many connections are refused first: the calls were neither accepted nor rejected.
    #[serde(default)]
    pub first_refused: u32,
    /// When nothing is answered at all.
    pub outage: Option<Outage>,
}

/// A latency that holds for a while.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// How long it holds.
    #[serde(rename = "for", deserialize_with = "duration")]
    pub lasts: Duration,
    /// How long a call takes.
    #[serde(deserialize_with = "duration")]
    pub takes: Duration,
}

/// A time in which every call fails.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// When it begins.
    #[serde(deserialize_with = "duration")]
    pub from: Duration,
    /// When it ends.
    #[serde(deserialize_with = "duration")]
    pub to: Duration,
    /// After how long a call fails.
    #[serde(deserialize_with = "duration")]
    pub fails_after: Duration,
}

/// What is measured when.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measured {
    /// Goodput, calls sent and success count from here...
    #[serde(deserialize_with = "duration")]
    pub from: Duration,
    /// ...to here; without it, to the end.
    #[serde(deserialize_with = "some_duration")]
    pub to: Option<Duration>,
    /// When the overload or the outage is over: every shed from then on is needless.
    #[serde(deserialize_with = "some_duration")]
    pub over_at: Option<Duration>,
}

/// A scenario file that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("scenario {name}: {error}")]
pub struct ScenarioError {
    name: &'static str,
    error: toml::de::Error,
}

impl Scenario {
    /// Every scenario there is.
    ///
    /// # Errors
    /// Names the first file that can't be read, and what is wrong with it.
    pub fn all() -> Result<Vec<Self>, ScenarioError> {
        let read = |(name, text): &(&'static str, &str)| {
            let scenario: Self = toml::from_str(text).map_err(|error| ScenarioError { name, error })?;
            Ok(Self { name: (*name).to_owned(), ..scenario })
        };
        FILES.iter().map(read).collect()
    }

    /// When the last call comes.
    #[must_use]
    pub fn end(&self) -> Duration {
        self.offered.iter().map(|phase| phase.lasts).sum()
    }
}

/// The phase that holds at a time: the last one goes on.
pub(super) fn holds_at<T>(phases: &[T], lasts: impl Fn(&T) -> Duration, mut passed: Duration) -> Option<&T> {
    for phase in phases {
        if passed < lasts(phase) {
            return Some(phase);
        }
        passed -= lasts(phase);
    }
    phases.last()
}

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(|error| D::Error::custom(format!("{text:?} {error}")))
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_a_scenario() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        let mut names: Vec<_> = Scenario::all().unwrap().into_iter().map(|scenario| scenario.name).collect();
        names.sort();
        assert_eq!(names, files);
    }

    #[test]
    fn the_last_phase_goes_on() {
        let phase = |seconds, rate| Phase { lasts: Duration::from_secs(seconds), rate };
        let phases = [phase(10, 1.0), phase(5, 2.0), phase(5, 3.0)];
        for (at, rate) in [(0, 1.0), (9, 1.0), (10, 2.0), (15, 3.0), (1_000, 3.0)] {
            let found = holds_at(&phases, |phase| phase.lasts, Duration::from_secs(at));
            assert_eq!(found.unwrap().rate, rate, "at {at} s");
        }
    }
}
