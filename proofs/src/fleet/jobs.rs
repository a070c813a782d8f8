//! Processes that make one call and exit, such as cron jobs: their outcomes count, and the circuit opens with
//! the fifth failure.
//!
//! Each job makes one call to a failing destination, closes its registry, and exits. Jobs run one after the
//! other, or a few at once. The receiver counts the calls.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::future::try_join_all;

use super::backing::Kind;
use super::mode::Mode;
use super::receiver::Behaviour;
use super::row::{Row, Scale};
use super::site::{Member, Site};

/// The number of consecutive failures that open the circuit.
const FAILURES: u32 = 5;

/// A policy whose cool-off is longer than any round.
const POLICY: &str = r#"{"failure_rate":"off","consecutive_failures":5,"cool_off":"5m","jitter":0}"#;

/// The number and concurrency of the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jobs {
    /// The number of jobs in a round.
    pub count: u32,
    /// The number of jobs that run at the same time.
    pub at_once: u32,
}

impl Jobs {
    /// Runs one job after the other.
    pub const IN_TURN: Self = Self { count: 40, at_once: 1 };
    /// Runs four jobs at a time.
    pub const FOUR_AT_ONCE: Self = Self { count: 40, at_once: 4 };

    const fn promise(self) -> &'static str {
        if self.at_once == 1 { "one-call jobs count" } else { "jobs at once count" }
    }

    /// Returns the maximum allowed number of calls. Jobs run in groups of `at_once`, and every job in the group
    /// in which the circuit opens may send its call.
    const fn sent_at_most(self) -> u32 {
        FAILURES.div_ceil(self.at_once) * self.at_once
    }
}

/// Tests that failures in processes that make one call and exit open the circuit.
///
/// # Errors
/// Returns an error if a server or a worker fails. Violated guarantees are reported in the row.
pub async fn run_jobs(program: &Path, kind: Kind, mode: Mode, jobs: Jobs, scale: Scale) -> Result<Row> {
    let site = Site::start(program, kind).await?;
    let began = Instant::now();
    // Limits the number of processes at a time, whatever the concurrency of a round, because each of them
    // connects to the store.
    let side_by_side = (scale.side_by_side / jobs.at_once).max(1);
    let lanes = (0..side_by_side.min(scale.rounds)).map(|lane| {
        let site = &site;
        async move {
            let mut rounds = Vec::new();
            for round in (lane..scale.rounds).step_by(side_by_side as usize) {
                let path = format!("/jobs-{round}");
                let done = run_round(site, mode, jobs, scale.store_timeout, &path).await;
                rounds.push(done.with_context(|| format!("round {round}"))?);
            }
            anyhow::Ok(rounds)
        }
    });
    let mut row = Row::new(kind, mode, jobs.promise());
    let (mut fewest, mut most) = (u32::MAX, 0);
    for sent in try_join_all(lanes).await?.into_iter().flatten() {
        (fewest, most) = (fewest.min(sent), most.max(sent));
        let (least, limit) = (FAILURES.min(jobs.count), jobs.sent_at_most());
        let is_right = (least..=limit).contains(&sent);
        row.count(if is_right {
            Vec::new()
        } else {
            vec![format!("{sent} of {} jobs sent their call, not {least} to {limit}", jobs.count)]
        });
    }
    row.figures = format!("{} jobs, {} at a time: {fewest} to {most} calls sent", jobs.count, jobs.at_once);
    row.took = began.elapsed();
    Ok(row)
}

/// Runs all jobs in a round, and returns the number of calls that the receiver saw.
async fn run_round(site: &Site, mode: Mode, jobs: Jobs, store_timeout: Duration, path: &str) -> Result<u32> {
    site.receiver.set(path, Behaviour::Failing);
    let key = format!("proof {path}");
    for first in (0..jobs.count).step_by(jobs.at_once as usize) {
        let numbers = first..jobs.count.min(first + jobs.at_once);
        let started = numbers.map(|number| site.job(Member { number, policy: POLICY, mode, store_timeout }));
        let started = try_join_all(started).await?;
        try_join_all(started.into_iter().map(|job| job.call_and_exit(&key, path))).await?;
    }
    Ok(u32::try_from(site.receiver.count(path))?)
}
