//! An endpoint flaps: it trips fifty times within a minute, and the gateway is killed and restarted meanwhile.
//! The endpoint's owner gets a few messages, which report every trip once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox_testkit::gateway::Settings;
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use serde_json::{Value, json};

use super::findings::{Findings, Millis};
use super::site::{Site, WAIT_LIMIT};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of trips of the flapping endpoint's circuit.
    pub trips: usize,
    /// The number of trips after which the gateway is killed and restarted. `None` if the gateway is not
    /// killed.
    pub kill_after: Option<usize>,
    /// The maximum number of notification messages that may be sent at once.
    pub burst: u32,
    /// The interval after which another notification message may be sent.
    pub interval: Duration,
    /// The maximum allowed time for all trips. `None`: not checked.
    pub within: Option<Duration>,
}

impl Size {
    /// The full-size runs, with the gateway's defaults: one without a restart, one with.
    pub const FULL: [Self; 2] = [
        Self {
            trips: 50,
            kill_after: None,
            burst: 5,
            interval: Duration::from_secs(60),
            within: Some(Duration::from_secs(60)),
        },
        Self {
            trips: 50,
            kill_after: Some(25),
            burst: 5,
            interval: Duration::from_secs(60),
            within: Some(Duration::from_secs(60)),
        },
    ];
    /// A part of the full size, with a shorter interval between messages.
    pub const SMALL: [Self; 1] =
        [Self { trips: 8, kill_after: Some(4), burst: 2, interval: Duration::from_secs(3), within: None }];
}

const TENANT: &str = "shop";
const FLAPS: &str = "/flaps";
const TARGET: &str = "/notifications";

/// The received notification messages, by ID.
type Messages = Arc<Mutex<BTreeMap<String, Value>>>;

/// Makes an endpoint flap, and counts the notification messages to the endpoint's owner.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let restarts = u64::from(size.kill_after.is_some());
    let mut findings = Findings::new(format!(
        "notifications: {} trips of one endpoint, {restarts} times killed among them; {} messages at once and one in {}",
        size.trips,
        size.burst,
        Millis(size.interval)
    ));
    let messages = Messages::default();
    let keeps = Arc::clone(&messages);
    let receiver = Receiver::builder().check(move |received| {
        if received.path == TARGET {
            let body: Value = serde_json::from_slice(received.body).unwrap_or(Value::Null);
            let id = received.header("webhook-id").unwrap_or_default().to_owned();
            keeps.lock().unwrap_or_else(PoisonError::into_inner).insert(id, body);
        }
        true
    });
    let settings = Settings::new(program)
        // Every trip is notified, however soon the circuit closes.
        .flag("--notify-after", "0s")
        .flag("--notify-burst", size.burst.to_string())
        .flag("--notify-interval", format!("{}s", size.interval.as_secs()));
    let mut site = Site { gateway: settings.start()?, receiver: receiver.start()? };
    let target = json!([{"kind": "webhook", "url": site.receiver.url(TARGET)}]);
    site.api().create_tenant(TENANT, &json!({"notification_targets": target}))?;
    let policy = json!({"failure_rate": "off", "consecutive_failures": 1, "cool_off": "100ms", "cool_off_factor": 1,
        "cool_off_max": "100ms", "jitter": 0, "probes": 1, "disable_after": "off"});
    let flapping = json!({"policy": policy, "retry": vec!["100ms"; 50]});
    site.api().create_endpoint(TENANT, &site.receiver.url(FLAPS), &[], &flapping)?;

    let began = Instant::now();
    for trip in 0..size.trips {
        if size.kill_after == Some(trip) {
            // A transition that is not committed yet is lost at a kill, and then does not count as a trip.
            site.until("all so far is written down", WAIT_LIMIT, |site| Ok(trips(site)?.len() >= trip))?;
            site.gateway.kill()?;
            site.gateway.start_again()?;
        }
        site.receiver.set(FLAPS, Behaviour::FAILING);
        site.api().post("/v1/events", &json!({"tenant": TENANT, "type": "order.paid", "payload": {}}))?;
        site.until("it opens", WAIT_LIMIT, |site| Ok(state(site)? == "open"))?;
        site.receiver.set(FLAPS, Behaviour::HEALTHY);
        site.until("it closes", WAIT_LIMIT, |site| Ok(state(site)? == "closed"))?;
    }
    let took = began.elapsed();
    if let Some(within) = size.within {
        findings.within("all trips within", took, within, true);
    } else {
        findings.note("all trips within", Millis(took));
    }
    site.until("all is written down", WAIT_LIMIT, |site| Ok(trips(site)?.len() >= size.trips))?;
    let wanted = trips(&site)?.len();
    let limit = 2 * size.interval + WAIT_LIMIT;
    let all_sent =
        site.until("all is told", limit, |_| Ok(notification_count(&messages, "trip") >= wanted)).is_ok();
    let lasted = began.elapsed();
    findings.note("all told within", Millis(lasted));

    findings.note("trips in the history", wanted);
    findings.exactly("trips that were told", notification_count(&messages, "trip"), wanted);
    findings.note("recoveries that were told", notification_count(&messages, "recovery"));
    let count = messages.lock().unwrap_or_else(PoisonError::into_inner).len();
    // Each start allows a burst, and then one message per interval.
    let intervals = lasted.as_secs() / size.interval.as_secs().max(1);
    let most = (1 + restarts) * u64::from(size.burst) + intervals + 1;
    findings.at_most("messages", count as u64, most);
    findings.exactly("all was told in time", all_sent, true);
    Ok(findings)
}

/// Returns the state of the endpoint's circuit. A circuit without a history is closed.
fn state(site: &Site) -> Result<String> {
    let listed = site.api().get(&format!("/v1/circuits?tenant={TENANT}"))?;
    let state = listed.pointer("/items/0/state").and_then(Value::as_str);
    Ok(state.unwrap_or("closed").to_owned())
}

/// Returns the epochs that started with a trip of the circuit. A failed probe, which reopens the circuit, is
/// not a trip.
fn trips(site: &Site) -> Result<BTreeSet<u64>> {
    let listed = site.api().get(&format!("/v1/circuits?tenant={TENANT}"))?;
    let id = listed.pointer("/items/0/id").and_then(Value::as_str).context("it has a circuit")?.to_owned();
    let (mut epochs, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = site.api().get(&format!("/v1/circuits/{id}/history?limit=100&cursor={cursor}"))?;
        for change in page.get("items").and_then(Value::as_array).into_iter().flatten() {
            let word = |name: &str| change.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_trip = word("to") == "open" && word("from") == "closed";
            epochs.extend(change.get("epoch").and_then(Value::as_u64).filter(|_| is_trip));
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => next.clone_into(&mut cursor),
            None => return Ok(epochs),
        }
    }
}

/// Counts the notifications of one type in all messages, including notifications in digests.
fn notification_count(messages: &Messages, kind: &str) -> usize {
    let messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |message: &Value| match message.get("groups").and_then(Value::as_array) {
        None => u64::from(message.get("kind").and_then(Value::as_str) == Some(kind)),
        Some(groups) => {
            let count = |group: &Value| group.pointer(&format!("/kinds/{kind}")).and_then(Value::as_u64);
            groups.iter().filter_map(count).sum()
        }
    };
    messages.values().map(|message| usize::try_from(of(message)).unwrap_or(usize::MAX)).sum()
}
