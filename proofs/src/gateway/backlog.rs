//! A million deliveries are parked: accepting and delivering an event costs as much as on an empty queue, the
//! gateway does not poll, and a trip, a failed probe and a closing circuit each write as little as if no
//! delivery were parked.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::{Load, NUMBER};
use breakerbox_testkit::receiver::Behaviour;
use serde_json::{Value, json};

use super::findings::Findings;
use super::site::{Site, WAIT_LIMIT, create_all};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of parked deliveries.
    pub parked: u64,
    /// The number of open circuits for whose recovery the deliveries wait.
    pub circuits: usize,
    /// The number of measurements, alternating between the empty and the full queue.
    pub rounds: usize,
    /// The duration of each measurement.
    pub time: Duration,
    /// Whether costs are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self =
        Self { parked: 1_000_000, circuits: 1_000, rounds: 7, time: Duration::from_secs(4), judged: true };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self =
        Self { parked: 20_000, circuits: 50, rounds: 1, time: Duration::from_secs(1), judged: false };
}

/// The number of events in one request.
const BATCH: usize = 500;

/// The maximum allowed ratio of the costs with a full queue to the costs with an empty queue.
const COSTS_MORE: f64 = 1.2;

/// The maximum allowed memory of the gateway, in bytes, for any number of parked deliveries.
const MOST_MEMORY: u64 = 256 << 20;

/// How long the idle gateway is observed, to check that it does not poll.
const QUIET: Duration = Duration::from_secs(5);

/// The maximum number of bytes that the gateway may write for a trip, a failed probe or a recovery: a few
/// pages, not a row for each parked delivery.
const FEW_BYTES: u64 = 1 << 20;

/// Returns a policy that opens the circuit at the first failure.
fn brittle(cool_off: &str) -> Value {
    json!({"policy": {"failure_rate": "off", "consecutive_failures": 1, "cool_off": cool_off, "cool_off_factor": 1,
        "cool_off_max": cool_off, "jitter": 0, "probes": 1}})
}

/// Compares a gateway without a backlog with one that has many parked deliveries.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!(
        "backlog: {} deliveries parked behind {} open circuits",
        size.parked, size.circuits
    ));
    many_circuits(program, size, &mut findings)?;
    one_circuit(program, size, &mut findings)?;
    Ok(findings)
}

fn many_circuits(program: &Path, size: Size, findings: &mut Findings) -> Result<()> {
    let (empty, full) = (Site::plain(program, &["shop"])?, Site::plain(program, &["shop", "parked"])?);
    let dead: Vec<_> = (0..size.circuits).map(|n| format!("/dead/{n}")).collect();
    dead.iter().for_each(|path| full.receiver.set(path, Behaviour::FAILING));
    let endpoints = dead.iter().enumerate();
    let endpoints = endpoints.map(|(n, path)| (full.receiver.url(path), vec![format!("dead.{n:010}")]));
    create_all(full.api(), "parked", &endpoints.collect::<Vec<_>>(), &brittle("1h"))?;
    // One event for each endpoint opens its circuit; the others are parked.
    let kind = Event { size: 128, ..Event::new("parked", &format!("dead.{NUMBER}")) };
    let ones = full.api().load(&kind);
    let template = ones.template.clone().cycle(size.circuits as u64);
    fill(&full, Load { template, requests: size.circuits as u64, ..ones })?;
    full.until("all circuits open", WAIT_LIMIT, |site| Ok(site.requests(&dead) >= size.circuits as u64))?;
    let batches = full.api().load_of_batches(&kind, BATCH);
    let template = batches.template.clone().cycle(size.circuits as u64);
    fill(&full, Load { template, requests: size.parked / BATCH as u64, connections: 2, ..batches })?;

    let idle = full.gateway.usage()?;
    let (claims, requests) = (full.metric("breakerbox_claims_total")?, full.requests(&dead));
    thread::sleep(QUIET);
    let polled = full.metric("breakerbox_claims_total")? - claims;
    let cpu = full.gateway.usage()?.cpu - idle.cpu;
    findings.note("parked, says the gateway", full.metric("breakerbox_backlog_deliveries")?);
    findings.at_most("claims in 5 s in which nothing is to be done", polled, 10.0);
    findings.note("CPU time of those 5 s, ms", cpu.as_millis());
    findings.exactly("requests to parked endpoints meanwhile", full.requests(&dead) - requests, 0);

    let mut costs: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    for site in [&empty, &full] {
        site.add_healthy("shop", 1, &[])?;
        cost(site, size.time)?;
    }
    for _ in 0..size.rounds.max(1) {
        for (site, costs) in [&empty, &full].into_iter().zip(&mut costs) {
            costs.push(cost(site, size.time)?);
        }
    }
    let [empty_cost, full_cost] =
        costs.map(|costs| (median(costs.iter().map(|cost| cost.0)), median(costs.iter().map(|cost| cost.1))));
    for (what, on_empty, on_full) in
        [("CPU for each event, us", empty_cost.0, full_cost.0), ("accept p50, us", empty_cost.1, full_cost.1)]
    {
        let (seen, ratio) = (format!("{on_full:.0} : {on_empty:.0}"), on_full / on_empty.max(1.0));
        let holds = ratio <= COSTS_MORE || !size.judged;
        findings.hold(&format!("{what}, full : empty"), seen, format_args!("at most {COSTS_MORE}x"), holds);
    }
    let memory = full.gateway.usage()?.peak;
    findings.at_most("peak memory, MB", memory >> 20, MOST_MEMORY >> 20);
    Ok(())
}

fn one_circuit(program: &Path, size: Size, findings: &mut Findings) -> Result<()> {
    let settings = Settings::new(program);
    let site = Site::start(settings, &["shop"])?;
    site.receiver.set("/dead", Behaviour::FAILING);
    let dead = vec!["/dead".to_owned()];
    let mut endpoint = brittle("3s");
    endpoint["enabled"] = json!(false);
    let id = site.api().create_endpoint("shop", &site.receiver.url("/dead"), &[], &endpoint)?;
    let batches = site.api().load_of_batches(&Event { size: 128, ..Event::new("shop", "bulk") }, BATCH);
    fill(&site, Load { requests: size.parked / BATCH as u64, connections: 2, ..batches })?;

    let written = |site: &Site| -> Result<u64> { Ok(site.gateway.usage()?.written) };
    let mut before = (written(&site)?, site.requests(&dead));
    let mut step = |what: &str, wanted: u64, findings: &mut Findings| -> Result<()> {
        site.until(what, WAIT_LIMIT, |site| Ok(site.requests(&dead) >= before.1 + wanted))?;
        // The gateway writes everything related to that change within this time.
        thread::sleep(Duration::from_secs(1));
        let after = (written(&site)?, site.requests(&dead));
        let (bytes, requests) = (after.0 - before.0, after.1 - before.1);
        let each = bytes / requests.max(1);
        findings.hold(
            &format!("{what}: KB written"),
            format!("{} for {requests} requests", bytes >> 10),
            format!("at most {} for each", FEW_BYTES >> 10),
            each <= FEW_BYTES,
        );
        before = after;
        Ok(())
    };
    site.api().post(&format!("/v1/endpoints/{id}/enable"), &json!({}))?;
    step("a trip with all of it behind one circuit", 1, findings)?;
    step("a failed probe", 1, findings)?;
    site.receiver.set("/dead", Behaviour::after(200, Duration::from_millis(200)));
    step("a probe that closes", 1, findings)?;
    Ok(())
}

/// Sends all events. Returns an error if an event is rejected.
fn fill(site: &Site, load: Load) -> Result<()> {
    let report = load.run()?;
    ensure!(
        report.failures() == 0,
        "events were refused: {:?}\n{}",
        report.first_refusal,
        site.gateway.log()
    );
    Ok(())
}

/// Returns the gateway's CPU time per event, and the median latency of accepting an event, both in
/// microseconds. The load keeps the gateway busy, but not at its limit.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn cost(site: &Site, time: Duration) -> Result<(f64, f64)> {
    let before = site.gateway.usage()?.cpu;
    let load = Load { time, connections: 8, ..site.api().load(&Event::new("shop", "order.paid")) };
    let report = load.run()?;
    ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
    let cpu = site.gateway.usage()?.cpu - before;
    let each = cpu.as_micros() as f64 / report.successes().max(1) as f64;
    Ok((each, report.percentile(50.0).as_micros() as f64))
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
