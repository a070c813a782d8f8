//! The scenario files: the load, the backend, the measured interval, and the targets.

use std::num::NonZeroUsize;
use std::time::Duration;

use breakerbox_core::parse_duration;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::target::Targets;

macro_rules! files {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*] };
}

/// The name and contents of every scenario file in `scenarios/`: first those in the overload tables, in order,
/// then further requirements, then scenarios that are only reported. ARCHITECTURE.md lists them with the other
/// tables below its section "Transition table".
const FILES: [(&str, &str); 56] = files! {
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
    "noise-5"
    "noise-10"
    "noise-20"
    "noise-5-fleet-of-4"
    "noise-10-fleet-of-4"
    "noise-20-fleet-of-4"
    "noise-10-fleet-of-100"
    "noise-20-fleet-of-100"
    "noise-5-then-overload"
    "noise-10-then-overload"
    "noise-20-then-overload"
    "noise-10-then-overload-fleet-of-4"
    "noise-10-a-fifth-over"
    "noise-that-begins"
    "noise-that-ends"
    "noise-that-ends-fleet-of-4"
    "noise-begins-in-overload"
    "noise-at-one-a-second"
    "noise-at-five-a-second"
    "noise-at-ten-thousand-a-second"
    "noise-and-outage"
    "one-503-then-one-in-5s"
    "one-503-then-one-a-second"
    "one-503-then-five-a-second"
    "one-refused-then-one-in-5s"
    "one-refused-then-one-a-second"
    "one-refused-then-five-a-second"
    "a-fifth-over-fleet-of-4"
    "a-fifth-over-fleet-of-10"
    "half-over-fleet-of-10"
    "a-fifth-over-at-random"
    "reference-at-random"
    "fleet-at-random"
    "fleet-of-1000"
};

/// A scenario file, parsed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of the scenario file.
    #[serde(skip)]
    pub name: String,
    /// The number of clients that share the load, each with its own throttle.
    #[serde(default = "one")]
    pub clients: NonZeroUsize,
    /// How calls are distributed over the clients.
    #[serde(default)]
    pub dealt: Distribution,
    /// How the calls are spaced over time.
    #[serde(default)]
    pub spaced: Spacing,
    /// The number of calls that arrive at once.
    #[serde(default = "one")]
    pub at_once: NonZeroUsize,
    /// The maximum number of retries of a failed call. A shed call is never retried.
    #[serde(default)]
    pub retries: u32,
    /// The calls per second from all clients together, in phases. The scenario ends with the last phase.
    pub offered: Vec<Phase>,
    /// The simulated backend that the calls go to.
    pub backend: BackendModel,
    /// The times that the measurements refer to.
    #[serde(default)]
    pub measure: Measured,
    /// The values that the measurements must reach.
    #[serde(default)]
    pub targets: Targets,
}

/// How calls are distributed over clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// In rounds: each client makes one call per round, in a new random order.
    #[default]
    InRounds,
    /// A random client for each call.
    AtRandom,
}

/// The spacing of calls over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Equal intervals.
    #[default]
    Evenly,
    /// Random times, independent of each other: a Poisson process.
    AtRandom,
}

/// A rate of calls that applies for some time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The duration of the phase. The last phase of [`Scenario::offered`] ends the scenario; the last phase of
    /// any other list continues until then.
    #[serde(rename = "for", deserialize_with = "duration")]
    pub lasts: Duration,
    /// The number of calls per second.
    pub rate: f64,
}

/// The simulated backend: a token bucket without a queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendModel {
    /// The calls per second that the backend accepts, in phases. The last phase continues.
    pub capacity: Vec<Phase>,
    /// The size of the token bucket, which is the number of calls that the backend accepts at once.
    pub burst: f64,
    /// The duration of an accepted call, in phases. The last phase continues.
    pub accept_takes: Vec<Latency>,
    /// The duration of a rejected call.
    #[serde(deserialize_with = "duration")]
    pub reject_takes: Duration,
    /// Whether the backend rejects the least important calls first.
    #[serde(default)]
    pub by_priority: bool,
    /// The capacity that a rejection uses, as a fraction of a call.
    #[serde(default)]
    pub rejection_cost: f64,
    /// The share of calls that the backend rejects at random, whatever the load.
    #[serde(default)]
    pub stray_rejections: f64,
    /// The period in which `stray_rejections` applies. `None`: always.
    pub stray_period: Option<Period>,
    /// The number of calls at the start of the scenario that are rejected, whatever the load.
    #[serde(default)]
    pub first_rejected: u32,
    /// The number of calls at the start of the scenario whose connection is refused, so that they are neither
    /// accepted nor rejected.
    #[serde(default)]
    pub first_refused: u32,
    /// The period in which every call fails, or `None` if there is no outage.
    pub outage: Option<Outage>,
}

/// A call duration that applies for some time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The duration of the phase.
    #[serde(rename = "for", deserialize_with = "duration")]
    pub lasts: Duration,
    /// The duration of a call in this phase.
    #[serde(deserialize_with = "duration")]
    pub takes: Duration,
}

/// A period of the scenario.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// The start of the period, relative to the start of the scenario.
    #[serde(deserialize_with = "duration")]
    pub from: Duration,
    /// The end of the period, relative to the start of the scenario.
    #[serde(deserialize_with = "duration")]
    pub to: Duration,
}

/// A period in which every call fails.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// The start of the outage, relative to the start of the scenario.
    #[serde(deserialize_with = "duration")]
    pub from: Duration,
    /// The end of the outage, relative to the start of the scenario.
    #[serde(deserialize_with = "duration")]
    pub to: Duration,
    /// The time that a call takes to fail.
    #[serde(deserialize_with = "duration")]
    pub fails_after: Duration,
}

/// The times that the measurements refer to, relative to the start of the scenario.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measured {
    /// The start of the interval in which goodput, calls sent and success are measured.
    #[serde(deserialize_with = "duration")]
    pub from: Duration,
    /// The end of the interval in which goodput, calls sent and success are measured. `None`: the end of the
    /// scenario.
    #[serde(deserialize_with = "some_duration")]
    pub to: Option<Duration>,
    /// The end of the overload or the outage. Every later shed call counts as shed needlessly. `None`: not
    /// measured.
    #[serde(deserialize_with = "some_duration")]
    pub over_at: Option<Duration>,
}

/// The error for an invalid scenario file.
#[derive(Debug, thiserror::Error)]
#[error("scenario {name}: {error}")]
pub struct ScenarioError {
    name: &'static str,
    error: toml::de::Error,
}

impl Scenario {
    /// Parses all scenario files.
    ///
    /// # Errors
    /// Returns an error that names the first invalid file and its problem.
    pub fn all() -> Result<Vec<Self>, ScenarioError> {
        let read = |(name, text): &(&'static str, &str)| {
            let scenario: Self = toml::from_str(text).map_err(|error| ScenarioError { name, error })?;
            Ok(Self { name: (*name).to_owned(), ..scenario })
        };
        FILES.iter().map(read).collect()
    }

    /// Returns the time at which the scenario ends.
    #[must_use]
    pub fn end(&self) -> Duration {
        self.offered.iter().map(|phase| phase.lasts).sum()
    }
}

/// Returns the phase that applies at the time `passed` after the start of the first phase. The last phase
/// never ends. `None` if there are no phases.
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
