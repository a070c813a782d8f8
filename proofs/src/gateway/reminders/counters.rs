//! Many callbacks per second for one tenant: its circuit's window counts each of them once. With a limit of one
//! failure more than occurred, the circuit stays closed; one more failure opens it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox_model::delivery::RetrySchedule;
use breakerbox_model::objects::{ReminderRules, TenantId};
use breakerbox_testkit::gateway::Settings;
use breakerbox_testkit::receiver::{Behaviour, Receiver, Recording};
use serde_json::{Value, json};

use super::circuits::{circuit, history, state, word};
use super::database_probe::{latencies, waiting};
use super::folder::{Folder, New, rules};
use super::times;
use crate::gateway::findings::Findings;
use crate::gateway::site::{Site, WAIT_LIMIT};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of callbacks that succeed.
    pub good: u64,
    /// The number of callbacks that fail. It is small, because each failure slows down its lane (the tenant's
    /// queue) a little.
    pub bad: u64,
    /// Whether the callback rate is checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self { good: 100_000, bad: 500, judged: true };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self = Self { good: 2_000, bad: 100, judged: false };
}

/// The minimum allowed number of callbacks per second.
const RATE: f64 = 1_000.0;

/// The number of concurrent callbacks.
const AT_ONCE: u32 = 64;

/// The duration of a callback.
const TAKES: Duration = Duration::from_millis(1);

/// The allowed difference in latency per call, in seconds, because latencies are stored in whole microseconds.
const ROUNDING: f64 = 1e-6;

const TENANT: &str = "shop";
const GOOD: &str = "/good";
const BAD: &str = "/bad";
/// The path of the last failing callback, which hangs until all other callbacks are counted.
const LAST: &str = "/last";

/// Runs all callbacks, and compares the circuit's counts with the receiver's.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!(
        "counters: {} callbacks of one tenant, of which {} fail, and a limit of {} failures",
        size.good + size.bad,
        size.bad,
        size.bad + 1
    ));
    let receiver = Receiver::builder().recording(Recording::Off).start()?;
    receiver.set(GOOD, Behaviour::after(200, TAKES));
    receiver.set(BAD, Behaviour::after(500, TAKES));
    receiver.set(LAST, Behaviour::Hang);
    let mut site = Site { gateway: Settings::new(program).prepare()?, receiver };
    let folder = Folder::open(site.gateway.data())?;
    // No outcome leaves the window during the test, and no other rule can be met.
    let policy = json!({"window": "1h", "failures": size.bad + 1, "consecutive_failures": "off", "mean_latency": "1h",
        "cool_off": "1h", "cool_off_max": "1h", "jitter": 0});
    let (retry, timeout) = (Some(RetrySchedule::new(Vec::new())?), Some(20 * WAIT_LIMIT));
    let tenant = folder.add_tenant(TENANT, ReminderRules { retry, timeout, ..rules(policy, AT_ONCE) })?;
    folder.add([new(&site, &tenant, LAST, 0)])?;
    let all = (0..size.good + size.bad).map(|number| {
        // Alternates good and bad callbacks, as long as there are both.
        let bad_until = |number: u64| number * size.bad / (size.good + size.bad);
        let is_bad = bad_until(number + 1) > bad_until(number);
        new(&site, &tenant, if is_bad { BAD } else { GOOD }, number)
    });
    folder.add(all)?;
    folder.close();
    site.gateway.start_again()?;

    let requests = |site: &Site| site.receiver.seen(GOOD).requests + site.receiver.seen(BAD).requests;
    site.until("the first callback", WAIT_LIMIT, |site| Ok(requests(site) > 0))?;
    let began = Instant::now();
    let wanted = size.good + size.bad;
    let limit = 10 * WAIT_LIMIT;
    site.until("all callbacks", limit, |site| Ok(requests(site) >= wanted))?;
    let took = began.elapsed();
    // All but the one that hangs.
    site.until("all are settled", WAIT_LIMIT, |site| Ok(waiting(site)? <= 1))?;
    findings.exactly("callbacks that hang meanwhile", site.receiver.seen(LAST).in_flight, 1);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let rate = wanted as f64 / took.as_secs_f64().max(1e-3);
    let promised = format!("at least {RATE}");
    findings.judge("callbacks in a second", format!("{rate:.0}"), promised, rate >= RATE, size.judged);
    findings.exactly("good answers, says the receiver", site.receiver.seen(GOOD).delivered, size.good);
    findings.exactly("bad answers, says the receiver", site.receiver.seen(BAD).requests, size.bad);

    let shown = circuit(&site, TENANT)?;
    let count = |name: &str| -> Result<u64> {
        let found = shown.pointer(&format!("/window/{name}")).and_then(Value::as_u64);
        found.with_context(|| format!("the window has no {name}: {shown}"))
    };
    findings.exactly("successes in the window", count("successes")?, size.good);
    findings.exactly("failures in the window", count("failures")?, size.bad);
    let mean = shown.pointer("/window/mean_latency_ms").and_then(Value::as_f64).context("no mean latency")?;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let calls = wanted as f64;
    let (sum, written) = (mean / 1_000.0 * calls, latencies(&site)?);
    let differ = (sum - written).abs();
    let promised = format!("{written:.3}, of all attempts that were written down");
    findings.hold("latencies in the window, s", format!("{sum:.3}"), promised, differ <= calls * ROUNDING);
    findings.exactly("with one failure less than its limit it is", state(&shown), "closed".into());
    findings.exactly("changes of its circuit until then", history(&site, TENANT)?.len(), 0);

    site.receiver.set(LAST, Behaviour::status(500));
    site.until("the last one is settled", WAIT_LIMIT, |site| Ok(waiting(site)? == 0))?;
    findings.exactly("with one failure more it is", state(&circuit(&site, TENANT)?), "open".into());
    // The history is written after deliveries, so the change may not be in it yet.
    let is_written = |site: &Site| Ok(!history(site, TENANT)?.is_empty());
    let cause = match site.until("it is written down", WAIT_LIMIT, is_written) {
        Ok(()) => history(&site, TENANT)?.first().map(|change| word(change, "cause")).unwrap_or_default(),
        Err(_) => "nothing".into(),
    };
    findings.exactly("opened by", cause, "failures".into());
    Ok(findings)
}

/// Returns a reminder that is due as soon as the gateway runs.
fn new(site: &Site, tenant: &TenantId, path: &str, number: u64) -> New {
    New::once(tenant, site.receiver.url(&format!("{path}?reminder={number}")), times::now())
}
