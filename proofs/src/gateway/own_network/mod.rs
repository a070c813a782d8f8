//! The gateway's own network goes away under traffic, and returns. No tenant is notified, no circuit is disabled, the
//! operator is notified once, and soon after the return all lanes flow.
//!
//! | case | fault |
//! | --- | --- |
//! | `refused` | all connections are closed, and new ones are refused |
//! | `dropped` | all packets are dropped: connections are silent, and new ones are not established |

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox_testkit::gateway::{Api, Settings};
use breakerbox_testkit::receiver::Receiver;
use serde_json::{Value, json};

use super::findings::{Findings, Millis};
use super::network::{Mode, Network};
use super::site::{WAIT_LIMIT, create_all};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of tenants.
    pub tenants: usize,
    /// The number of endpoints of each tenant, each on its own host.
    pub endpoints: usize,
    /// How long the network is away.
    pub away: Duration,
    /// Whether the time until the lanes flow is checked.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self { tenants: 50, endpoints: 20, away: Duration::from_secs(60), judged: true };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self = Self { tenants: 5, endpoints: 10, away: Duration::from_secs(10), judged: false };
}

/// How the network goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// Connections are refused.
    Refused,
    /// Packets are dropped.
    Dropped,
}

impl Case {
    /// Every case, in the order in which they are tested.
    pub const ALL: [Self; 2] = [Self::Refused, Self::Dropped];

    /// Returns the name of the case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Dropped => "dropped",
        }
    }

    const fn mode(self) -> Mode {
        match self {
            Self::Refused => Mode::Refusing,
            Self::Dropped => Mode::Dropping,
        }
    }
}

/// The time from one event of a tenant to the next.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long the endpoints have traffic before the network goes away.
const BEFORE: Duration = Duration::from_secs(3);
/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum time from the return until the lanes flow. If packets were dropped, the timeout is added.
const FLOWS_WITHIN: Duration = Duration::from_secs(5);
/// The share of lanes for which this holds.
const FLOWING: f64 = 0.99;

/// Takes the network away from a gateway under traffic, and checks what it does.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, case: Case, size: Size) -> Result<Findings> {
    let count = size.tenants * size.endpoints;
    let mut findings = Findings::new(format!(
        "own network away for {} ({}), {count} endpoints of {} tenants under traffic",
        Millis(size.away),
        case.name(),
        size.tenants
    ));
    let receiver = Receiver::start()?;
    let address = receiver.url("").trim_start_matches("http://").parse().context("an address")?;
    let network = Network::start(address)?;
    let gateway = Settings::new(program).start()?;
    let api = gateway.api();
    let tenants: Vec<String> = (0..size.tenants).map(|tenant| format!("tenant-{tenant}")).collect();
    for (number, tenant) in tenants.iter().enumerate() {
        api.create_tenant(tenant, &json!({}))?;
        let numbers = (number * size.endpoints)..((number + 1) * size.endpoints);
        let endpoints: Vec<_> = numbers.map(|number| (network.url(number), Vec::new())).collect();
        let policy =
            json!({"cool_off": "1s", "cool_off_factor": 1.5, "disable_min": "0s", "disable_after": 3});
        create_all(
            api,
            tenant,
            &endpoints,
            &json!({"policy": policy, "timeout": format!("{}ms", TIMEOUT.as_millis())}),
        )?;
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| send_events(api, &tenants, &stop));
        let result = take_away(&receiver, &network, api, case, size, &mut findings);
        stop.store(true, Ordering::Relaxed);
        traffic.join().map_err(|_| anyhow::anyhow!("the traffic's thread panicked"))??;
        result
    })?;
    let slots = api.metrics()?.sum("breakerbox_slots").context("there is no metric of slots")?;
    findings.hold(
        "most requests in flight",
        network.most_in_flight(),
        format_args!("at most {slots}"),
        network.most_in_flight() as f64 <= slots,
    );
    Ok(findings)
}

/// Sends an event of each tenant in turn, until told to stop.
fn send_events(api: &Api, tenants: &[String], stop: &AtomicBool) -> Result<()> {
    let gap = INTERVAL / u32::try_from(tenants.len()).context("not so many")?;
    let began = Instant::now();
    for (number, tenant) in (0_u32..).zip(tenants.iter().cycle()) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        api.post("/v1/events", &json!({"tenant": tenant, "type": "order.paid", "payload": {"n": number}}))?;
        thread::sleep((gap * number).saturating_sub(began.elapsed()));
    }
    Ok(())
}

fn take_away(
    receiver: &Receiver,
    network: &Network,
    api: &Api,
    case: Case,
    size: Size,
    findings: &mut Findings,
) -> Result<()> {
    let count = size.tenants * size.endpoints;
    let flowing = |since: Duration| flowing_since(receiver, count, since);
    until(WAIT_LIMIT, || Ok(flowing(Duration::ZERO).iter().all(Option::is_some)))?;
    thread::sleep(BEFORE);

    network.set(case.mode());
    let gone_at = Instant::now();
    let is_away = || own_outage(api).map(|outage| outage.is_some());
    let detected = until(size.away, is_away)?;
    findings.hold("/readyz reports the outage", detected, true, detected);
    findings.note("reported after", Millis(gone_at.elapsed()));
    thread::sleep(size.away.saturating_sub(gone_at.elapsed()));

    let returned_at = receiver.start_time().elapsed();
    network.set(Mode::Up);
    let limit = FLOWS_WITHIN + if case == Case::Dropped { TIMEOUT } else { Duration::ZERO };
    let all_flow = until(WAIT_LIMIT, || Ok(flowing(returned_at).iter().all(Option::is_some)))?;
    findings.hold("all lanes flow again", all_flow, true, all_flow);
    let mut after: Vec<Duration> = flowing(returned_at).into_iter().flatten().collect();
    after.sort_unstable();
    let in_time = after.iter().filter(|after| **after <= limit).count() as f64 / count as f64;
    findings.judge(
        &format!("lanes that flow within {}", Millis(limit)),
        format_args!("{:.1} %", in_time * 100.0),
        format_args!("at least {:.0} %", FLOWING * 100.0),
        in_time >= FLOWING,
        size.judged,
    );
    findings.note(
        "half of the lanes flow after",
        Millis(after.get(after.len() / 2).copied().unwrap_or_default()),
    );
    findings.note("the last lane flows after", Millis(after.last().copied().unwrap_or_default()));

    let over = until(WAIT_LIMIT, || Ok(own_outage(api)?.is_none() && notified(api)?.2 >= 1))?;
    findings.hold("/readyz reports that it is over", over, true, over);
    let (tenants, lost, back) = notified(api)?;
    findings.exactly("notifications to tenants", tenants, 0);
    findings.exactly("notifications of the operator: network_lost", lost, 1);
    findings.exactly("notifications of the operator: network_back", back, 1);
    let metrics = api.metrics()?;
    let metric = |name: &str, label: &str| metrics.sum_with(name, label).context("the metric is missing");
    findings.exactly("disabled circuits", metric("breakerbox_circuits", "state=\"disabled\"")?, 0.0);
    findings.note("circuits opened", metric("breakerbox_circuit_transitions_total", "state=\"open\"")?);
    findings.exactly("outages counted", metrics.sum("breakerbox_own_outages_total").unwrap_or_default(), 1.0);
    Ok(())
}

/// Returns the time from `since` to the first delivery after it, for each endpoint.
fn flowing_since(receiver: &Receiver, count: usize, since: Duration) -> Vec<Option<Duration>> {
    let numbers: Vec<u32> = (0..count).map(|number| receiver.number(&format!("/{number}"))).collect();
    receiver.with_visits(|visits| {
        let mut first = std::collections::HashMap::new();
        for visit in visits.iter().filter(|visit| visit.is_delivered() && visit.at() >= since) {
            first.entry(visit.endpoint).or_insert(visit.at().saturating_sub(since));
        }
        numbers.iter().map(|number| first.get(number).copied()).collect()
    })
}

fn own_outage(api: &Api) -> Result<Option<Value>> {
    Ok(api.get("/readyz")?.get("own_outage").cloned())
}

/// Returns the number of notifications about tenants, and of those to the operator about the network: lost and back.
fn notified(api: &Api) -> Result<(usize, usize, usize)> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/v1/notifications?limit=100&cursor={cursor}"))?;
        all.extend(page.get("items").and_then(Value::as_array).into_iter().flatten().cloned());
        match page.get("next").and_then(Value::as_str) {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    let of =
        |kind: &str| all.iter().filter(|item| item.get("kind").and_then(Value::as_str) == Some(kind)).count();
    let tenants = all.iter().filter(|item| item.get("tenant").is_some_and(Value::is_string)).count();
    Ok((tenants, of("network_lost"), of("network_back")))
}

/// Waits until the condition holds, and returns whether it does within the limit.
fn until(limit: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<bool> {
    let began = Instant::now();
    while began.elapsed() < limit {
        if holds()? {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(50));
    }
    holds()
}
