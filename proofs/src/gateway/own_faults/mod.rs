//! Faults on the gateway's own side: whatever it lacks, no circuit opens, no attempt is used, health says why, and all that
//! was accepted is delivered by itself afterwards.
//!
//! | case | what happens |
//! | --- | --- |
//! | `descriptors` | idle clients use up the file descriptors of the process |
//! | `pause` | the process is stopped for longer than its requests may take |
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
use super::site::PATIENCE;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How long there are no descriptors.
    pub without_descriptors: Duration,
    /// How often the process is paused.
    pub pauses: u32,
    /// How long each time.
    pub pause: Duration,
    /// Events for receivers that end connections.
    pub events: u64,
    /// How long is waited until health says nothing of a corrected clock any more.
    pub clock_settles: Duration,
}

impl Size {
    /// What is promised.
    pub const FULL: Self = Self {
        without_descriptors: Duration::from_secs(20),
        pauses: 5,
        pause: Duration::from_secs(5),
        events: 1_200,
        clock_settles: Duration::from_secs(400),
    };
    /// A small part of it.
    pub const SMALL: Self = Self {
        without_descriptors: Duration::from_secs(2),
        pauses: 1,
        pause: Duration::from_millis(2_500),
        events: 60,
        clock_settles: Duration::ZERO,
    };
}

/// Which fault.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Descriptors, Self::Pause, Self::Ends, Self::Clock];

    /// Its name.
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

/// Makes it happen, and looks who is blamed.
///
/// # Errors
/// If the proof itself can't be made.
pub fn prove(program: &Path, case: Case, size: Size) -> Result<Findings> {
    match case {
        Case::Descriptors => descriptors::prove(program, size),
        Case::Pause => pause::prove(program, size),
        Case::Ends => ends::prove(program, size),
        Case::Clock => clock::prove(program, size),
    }
}

/// What must hold after every fault, of all deliveries of a gateway.
fn judge_blame(api: &Api, findings: &mut Findings) -> Result<()> {
    let (opened, attempts) = blame(api)?;
    findings.exactly("circuits opened", opened, 0.0);
    findings.exactly("attempts used up", attempts, 0.0);
    Ok(())
}

/// How many circuits opened since the start of a gateway, and how many attempts were used up without being delivered.
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

/// What `/readyz` says is wrong.
fn degraded(api: &Api) -> Result<Vec<String>> {
    let answer = api.get("/readyz")?;
    let reasons = answer.get("degraded").and_then(Value::as_array).into_iter().flatten();
    Ok(reasons.filter_map(|reason| reason.as_str().map(str::to_owned)).collect())
}

/// Waits until health says nothing of this cause any more.
fn judge_recovery(api: &Api, cause: &str, findings: &mut Findings) -> Result<()> {
    let began = Instant::now();
    let is_over = || Ok::<_, anyhow::Error>(!degraded(api)?.iter().any(|reason| reason.starts_with(cause)));
    while !is_over()? && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(100));
    }
    let over = if is_over()? { "yes" } else { "no" };
    findings.hold("health is well again by itself", over, "yes", over == "yes");
    findings.note("health is well again after", Millis(began.elapsed()));
    Ok(())
}
