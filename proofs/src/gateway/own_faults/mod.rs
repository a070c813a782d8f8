//! Local faults: no circuit opens, no attempt is used, the gateway's health reports the cause, and all accepted
//! events are delivered afterwards without an operator.
//!
//! | case | fault |
//! | --- | --- |
//! | `descriptors` | idle clients use up the process's file descriptors |
//! | `pause` | the process is paused for longer than its request timeout |
//! | `ends` | receivers end connections like ordinary servers |
//! | `clock` | the wall clock is wrong by minutes or hours, and is corrected |

mod clock;
mod descriptors;
mod ends;
mod pause;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox_testkit::gateway::Api;
use serde_json::Value;

use super::findings::{Findings, Millis};
use super::site::WAIT_LIMIT;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How long no file descriptors are available.
    pub without_descriptors: Duration,
    /// The number of times that the gateway is paused.
    pub pauses: u32,
    /// The duration of each pause, which is longer than a request's timeout.
    pub pause: Duration,
    /// The number of events to receivers that close connections.
    pub events: u64,
    /// The maximum time from a clock correction until the gateway's health no longer reports the correction.
    pub clock_settles: Duration,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        without_descriptors: Duration::from_secs(20),
        pauses: 5,
        pause: Duration::from_secs(5),
        events: 1_200,
        clock_settles: Duration::from_secs(400),
    };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self = Self {
        without_descriptors: Duration::from_secs(2),
        pauses: 1,
        pause: Duration::from_millis(2_500),
        events: 60,
        clock_settles: Duration::ZERO,
    };
}

/// A fault in the gateway's own environment, which must not be blamed on a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// No file descriptor is left.
    Descriptors,
    /// The process is paused.
    Pause,
    /// Receivers close connections as ordinary servers do.
    Ends,
    /// The wall clock is corrected.
    Clock,
}

impl Case {
    /// Every fault, in the order in which they are tested.
    pub const ALL: [Self; 4] = [Self::Descriptors, Self::Pause, Self::Ends, Self::Clock];

    /// Returns the name of the case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::Pause => "pause",
            Self::Ends => "ends",
            Self::Clock => "clock",
        }
    }
}

/// Causes the fault, and checks that the gateway blames no receiver.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, case: Case, size: Size) -> Result<Findings> {
    match case {
        Case::Descriptors => descriptors::prove(program, size),
        Case::Pause => pause::prove(program, size),
        Case::Ends => ends::prove(program, size),
        Case::Clock => clock::prove(program, size),
    }
}

/// Checks that none of a gateway's circuits has opened, and that no delivery attempt was counted as failed.
fn judge_blame(api: &Api, findings: &mut Findings) -> Result<()> {
    let (opened, attempts) = blame(api)?;
    findings.exactly("circuits opened", opened, 0.0);
    findings.exactly("attempts used up", attempts, 0.0);
    Ok(())
}

/// Returns how often circuits have opened since the gateway's start, and how many delivery attempts failed
/// (and were retried, or were the delivery's last).
fn blame(api: &Api) -> Result<(f64, f64)> {
    let metrics = api.metrics()?;
    let count = |name: &str, label: &str| {
        metrics.sum_with(name, label).with_context(|| format!("there is no metric {name}{{{label}}}"))
    };
    let opened = count("breakerbox_circuit_transitions_total", "state=\"open\"")?;
    let retried = count("breakerbox_deliveries_total", "outcome=\"retried\"")?;
    let exhausted = count("breakerbox_deliveries_total", "outcome=\"exhausted\"")?;
    Ok((opened, retried + exhausted))
}

/// Returns the causes that `/readyz` reports for degraded health. Empty if the gateway is healthy.
fn degraded(api: &Api) -> Result<Vec<String>> {
    let answer = api.get("/readyz")?;
    let reasons = answer.get("degraded").and_then(Value::as_array).into_iter().flatten();
    Ok(reasons.filter_map(|reason| reason.as_str().map(str::to_owned)).collect())
}

/// Checks that the gateway's health stops reporting this cause within [`WAIT_LIMIT`].
fn judge_recovery(api: &Api, cause: &str, findings: &mut Findings) -> Result<()> {
    let began = Instant::now();
    let is_over = || Ok::<_, anyhow::Error>(!degraded(api)?.iter().any(|reason| reason.starts_with(cause)));
    while !is_over()? && began.elapsed() < WAIT_LIMIT {
        thread::sleep(Duration::from_millis(100));
    }
    let over = if is_over()? { "yes" } else { "no" };
    findings.hold("health is well again by itself", over, "yes", over == "yes");
    findings.note("health is well again after", Millis(began.elapsed()));
    Ok(())
}
