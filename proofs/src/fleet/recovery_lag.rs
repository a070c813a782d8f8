//! Short and long outages of destinations that a fleet calls: after each, calls flow again within a time in proportion
//! to the outage.
//!
//! Every kind of outage is tried at every rate, all at the same time, each with a destination and a circuit of its
//! own. All processes share the traffic to a destination: they call it one after the other. The lag of a destination
//! is the time from the end of the outage to the first call since which no call of any process was refused and none
//! failed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::backing::{self, Backing};
use super::process::Process;
use super::protocol::{CallRecord, Run, Target};
use super::traffic::unix_micros;
use super::worker::Settings;
use crate::gateway::findings::{Findings, Millis};
use crate::gateway::recovery_lag::outage::{Destinations, Guarantee, Kind, TIMEOUT};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of processes.
    pub processes: u32,
    /// The lengths of the outages.
    pub outages: &'static [Duration],
    /// The rates of calls to each destination, per second, over all processes.
    pub rates: &'static [f64],
    /// Time that is added to each bound, for a busy machine.
    pub slack: Duration,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        processes: 8,
        outages: &[
            Duration::from_millis(300),
            Duration::from_secs(1),
            Duration::from_secs(10),
            Duration::from_secs(60),
        ],
        rates: &[0.5, 2.0, 20.0, 200.0],
        slack: Duration::ZERO,
    };
    /// A small part of the full size, for `cargo test`. The outage is long enough that the circuits open. With the
    /// slack, it still fails if the outage costs half a minute.
    pub const SMALL: Self = Self {
        outages: &[Duration::from_secs(3)],
        rates: &[20.0],
        slack: Duration::from_secs(20),
        ..Self::FULL
    };
}

/// How long the destinations have traffic before the outage.
const BEFORE: Duration = Duration::from_secs(3);
/// How long traffic goes on after the latest time at which calls must flow.
const AFTER: Duration = Duration::from_secs(2);
/// An outage of this length opens circuits at most rates.
const OPENS_CIRCUITS: Duration = Duration::from_secs(10);
/// The interval at which the lags are measured again, if a destination's calls do not flow in time.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// One destination with its traffic.
struct Lane {
    kind: Kind,
    rate: f64,
    /// The number of the run in each process.
    runs: Vec<u64>,
}

impl Lane {
    fn bound(&self, outage: Duration) -> Duration {
        Guarantee::FLEET.bound(self.kind, self.rate, outage)
    }
}

/// The calls of one lane that started after the outage.
struct Lag {
    /// The time from the end of the outage to the first call since which all calls succeeded. `None` if the last call
    /// did not succeed.
    flows_after: Option<Duration>,
    calls: usize,
    /// The number of calls that did not succeed, by reason.
    faults: BTreeMap<String, usize>,
}

/// Lets destinations fail for a while, and measures how long the fleet's calls take to flow again.
///
/// # Errors
/// Returns an error if a server or a worker fails. Violated guarantees are reported in the findings.
pub async fn prove_recovery_lag(program: &Path, outage: Duration, size: Size) -> Result<Findings> {
    let mut destinations = tokio::task::spawn_blocking(Destinations::start).await??;
    let backing = Backing::start(backing::Kind::Redis).await?;
    let processes = try_join_all((0..size.processes).map(|number| {
        // Each target is a whole URL, so there is no common address.
        let settings = Settings::new(&backing.url(), "", number);
        async move {
            let settings = Settings { call_timeout_ms: u64::try_from(TIMEOUT.as_millis())?, ..settings };
            Process::start(program, &settings).await
        }
    }))
    .await?;
    let mut lanes = Vec::new();
    for kind in Kind::ALL {
        for &rate in size.rates {
            let (path, url) = destinations.add(kind);
            let target = Target { key: format!("proof {path}"), path: url };
            lanes.push(start_lane(&processes, kind, rate, &target).await?);
        }
    }
    sleep(BEFORE).await;

    destinations.fail();
    sleep(outage).await;
    destinations.recover();
    let (ended, ended_us) = (Instant::now(), unix_micros());

    let longest = lanes.iter().map(|lane| lane.bound(outage)).max().unwrap_or_default();
    sleep(longest + AFTER).await;
    let lags = loop {
        let lags = lanes.iter().map(|lane| measure(&processes, lane, ended_us));
        let lags = try_join_all(lags).await?;
        let all_flow = lags.iter().all(|lag| lag.flows_after.is_some());
        if all_flow || ended.elapsed() > longest + AFTER + size.slack {
            break lags;
        }
        sleep(LOOK_EVERY).await;
    };

    let mut findings = Findings::new(format!(
        "recovery after an outage of {}, {} processes over Redis",
        Millis(outage),
        size.processes
    ));
    let opened = lags.iter().filter(|lag| lag.faults.contains_key("open")).count();
    findings.judge(
        "destinations whose circuit was open at the end",
        opened,
        "at least 1",
        opened > 0,
        outage >= OPENS_CIRCUITS,
    );
    for (lane, lag) in lanes.iter().zip(lags) {
        let (name, bound) = (lane.kind.name(), lane.bound(outage) + size.slack);
        let Lag { flows_after, calls, faults } = lag;
        let faults = faults.iter().map(|(why, count)| format!(", {count} {why}")).collect::<String>();
        let what = format!("{name}, {} calls/s: flowing after", lane.rate);
        let seen = flows_after.map_or_else(|| "never".to_owned(), |after| Millis(after).to_string());
        let seen = format!("{seen} ({calls} calls{faults})");
        let holds = flows_after.is_some_and(|after| after <= bound);
        findings.hold(&what, seen, format_args!("at most {}", Millis(bound)), holds);
    }
    let health = try_join_all(processes.iter().map(Process::health)).await?;
    let losses = health.iter().map(|health| health.losses).sum::<u64>();
    // Without the store, each process decides on its own, which is not what is measured here. On a busy machine, a
    // store request may time out; calls must flow all the same.
    findings.judge("losses of the store", losses, 0, losses == 0, size.slack.is_zero());
    Ok(findings)
}

/// Starts the traffic to a destination. The processes call it one after the other, at equal intervals.
async fn start_lane(processes: &[Process], kind: Kind, rate: f64, target: &Target) -> Result<Lane> {
    let gap = Duration::from_secs_f64(1.0 / rate);
    let count = u32::try_from(processes.len())?;
    let run = |number| Run {
        targets: vec![target.clone()],
        interval: gap * count,
        delay: gap * number,
        keep_calls: true,
    };
    let runs = try_join_all(processes.iter().map(|process| process.run(run(process.number())))).await?;
    Ok(Lane { kind, rate, runs })
}

/// Returns the lag of a lane so far.
async fn measure(processes: &[Process], lane: &Lane, ended_us: u64) -> Result<Lag> {
    let calls = processes.iter().zip(&lane.runs).map(|(process, run)| process.calls(*run, ended_us));
    Ok(lag(try_join_all(calls).await?.concat(), ended_us))
}

fn lag(mut calls: Vec<CallRecord>, ended_us: u64) -> Lag {
    calls.sort_by_key(|call| call.at_us);
    let mut faults = BTreeMap::new();
    for fault in calls.iter().filter_map(|call| call.fault.clone()) {
        *faults.entry(fault).or_default() += 1;
    }
    let last_fault = calls.iter().rposition(|call| call.fault.is_some());
    let first_success = calls.get(last_fault.map_or(0, |last| last + 1));
    let flows_after = first_success.map(|call| match last_fault {
        // No call failed, so calls flow from the end of the outage, not from the first call.
        None => Duration::ZERO,
        Some(_) => Duration::from_micros(call.at_us - ended_us),
    });
    Lag { flows_after, calls: calls.len(), faults }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_flow_from_the_first_call_after_the_last_fault() {
        let call = |at_us, fault: Option<&str>| CallRecord { at_us, fault: fault.map(str::to_owned) };
        let us = |us| Some(Duration::from_micros(us));
        let table = [
            (vec![], None),
            (vec![call(120, None)], us(0)),
            (vec![call(120, Some("open"))], None),
            (vec![call(150, None), call(120, Some("open"))], us(50)),
            (vec![call(110, None), call(120, Some("failed")), call(130, None), call(140, None)], us(30)),
            (vec![call(110, None), call(140, Some("failed"))], None),
        ];
        for (calls, expected) in table {
            assert_eq!(lag(calls.clone(), 100).flows_after, expected, "{calls:?}");
        }
    }
}
