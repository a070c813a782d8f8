//! Local faults: no circuit opens, no attempt is used, health reports the cause, and all accepted events are delivered
//! afterwards without an operator.
//!
//! | case | fault |
//! | --- | --- |
//! | `descriptors` | idle clients use up the file descriptors of the process |
//! | `pause` | the process is stopped for longer than the timeout of its requests |
//! | `ends` | receivers end connections as ordinary servers do |
//! | `clock` | the wall clock is off by minutes or hours, and is corrected |

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

/// The size of the proof.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How long no descriptors are available.
    pub without_descriptors: Duration,
    /// The number of pauses.
    pub pauses: u32,
    /// The duration of each pause.
    pub pause: Duration,
    /// The number of events for receivers that end connections.
    pub events: u64,
    /// The timeout until health no longer reports a corrected clock.
    pub clock_settles: Duration,
}

impl Size {
    /// The full size, at which the promise is made.
    pub const FULL: Self = Self {
        without_descriptors: Duration::from_secs(20),
        pauses: 5,
        pause: Duration::from_secs(5),
        events: 1_200,
        clock_settles: Duration::from_secs(400),
    };
    /// A small part of the full size, for the tests.
    pub const SMALL: Self = Self {
        without_descriptors: Duration::from_secs(2),
        pauses: 1,
        pause: Duration::from_millis(2_500),
        events: 60,
        clock_settles: Duration::ZERO,
    };
}

/// A local fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// No file descriptor is left.
    Descriptors,
    /// The process is paused.
    Pause,
    /// Connections end as they ordinarily do.
    Ends,
    /// The wall clock is corrected.
    Clock,
}

impl Case {
    /// Every value.
    pub const ALL: [Self; 4] = [Self::Descriptors, Self::Pause, Self::Ends, Self::Clock];

    /// Returns the name.
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

/// Causes the fault, and checks that no receiver is blamed.
///
/// # Errors
/// Fails if the proof cannot run. Broken promises are in the findings.
pub fn prove(program: &Path, case: Case, size: Size) -> Result<Findings> {
    match case {
        Case::Descriptors => descriptors::prove(program, size),
        Case::Pause => pause::prove(program, size),
        Case::Ends => ends::prove(program, size),
        Case::Clock => clock::prove(program, size),
    }
}

/// Checks what must hold after every fault, for all deliveries of a gateway.
fn judge_blame(api: &Api, findings: &mut Findings) -> Result<()> {
    let (opened, attempts) = blame(api)?;
    findings.exactly("circuits opened", opened, 0.0);
    findings.exactly("attempts used up", attempts, 0.0);
    Ok(())
}

/// Returns the number of trips since the start of a gateway, and of attempts that were used without a delivery.
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

/// Returns the causes that `/readyz` reports.
fn degraded(api: &Api) -> Result<Vec<String>> {
    let answer = api.get("/readyz")?;
    let reasons = answer.get("degraded").and_then(Value::as_array).into_iter().flatten();
    Ok(reasons.filter_map(|reason| reason.as_str().map(str::to_owned)).collect())
}

/// Waits until health no longer reports this cause.
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
