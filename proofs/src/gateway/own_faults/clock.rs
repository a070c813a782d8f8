//! The wall clock is wrong, and is corrected, while the gateway runs or across a restart, by minutes and by
//! hours, in both directions. Requests after the correction carry signatures that receivers accept, and waiting
//! deliveries are delivered.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use breakerbox_model::delivery::Signer;
use breakerbox_model::objects::Secret;
use breakerbox_testkit::gateway::{Gateway, Settings};
use breakerbox_testkit::receiver::{Received, Receiver};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::{Size, blame, degraded};
use crate::gateway::clock_file::{ClockFile, VARIABLE};
use crate::gateway::findings::{Findings, Millis};
use crate::gateway::site::WAIT_LIMIT;

/// The steps by which the wall clock is corrected, in seconds.
const CORRECTIONS: [i64; 4] = [900, -900, 21_600, -21_600];

/// The number of events sent before the correction, and the number sent after it.
const EVENTS: u64 = 20;

/// The path of an endpoint that gets events immediately, and the path of an endpoint that is disabled until the
/// clock is corrected.
const PATHS: [&str; 2] = ["/at-once", "/parked"];

/// The observations during one correction of the clock.
struct Corrected {
    arrived: u64,
    opened: f64,
    attempts_used: f64,
    /// The number of signatures after the correction that a receiver would reject.
    not_believed: u64,
    /// The cause of a degraded health that the gateway reported, or `None` if it reported none.
    said: Option<String>,
    /// How long the gateway's health reported this cause.
    said_for: Option<Duration>,
}

pub(super) fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new("the wall clock is corrected, while it runs and across a restart");
    let cases = CORRECTIONS.into_iter().flat_map(|by| [(by, false), (by, true)]);
    // Runs all corrections in parallel: most of the time is spent waiting.
    let corrected: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = cases
            .map(|(by, restarts)| ((by, restarts), scope.spawn(move || correct(program, by, restarts, size))))
            .collect();
        let ended = running.into_iter().map(|(case, thread)| {
            let ended = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
            Ok::<_, anyhow::Error>((case, ended.with_context(|| format!("{case:?}"))?))
        });
        ended.collect::<Result<_>>()
    })?;
    for ((by, restarts), corrected) in corrected {
        let how = if restarts { "across a restart" } else { "while it runs" };
        let what = |what: &str| format!("{by:+} s {how}: {what}");
        findings.exactly(
            &what("deliveries that arrived"),
            corrected.arrived,
            2 * EVENTS * PATHS.len() as u64,
        );
        findings.exactly(&what("circuits opened"), corrected.opened, 0.0);
        findings.exactly(&what("attempts used up"), corrected.attempts_used, 0.0);
        findings.exactly(&what("signatures that are not believed afterwards"), corrected.not_believed, 0);
        // If the clock was behind before a restart, there is nothing to detect: waiting deliveries are due.
        if !restarts || by < 0 {
            let said = corrected.said.is_some();
            findings.hold(&what("health says so"), said, true, said);
        }
        if let Some(said_for) = corrected.said_for {
            findings.note(&what("health says so for"), Millis(said_for));
        }
    }
    Ok(findings)
}

fn correct(program: &Path, by: i64, restarts: bool, size: Size) -> Result<Corrected> {
    let clock = ClockFile::new()?;
    clock.set(-by)?;
    let secret = Secret::random();
    let signer = Arc::new(Signer::new(std::slice::from_ref(&secret)));
    let receiver = Receiver::builder().check(move |received| is_believed(&signer, received)).start()?;
    let mut gateway = Settings::new(program).variable(VARIABLE, clock.path()).start()?;
    gateway.api().create_tenant("shop", &json!({}))?;
    let mut ids = Vec::new();
    for path in PATHS {
        let settings = json!({"secret": secret.reveal(), "enabled": path != PATHS[1]});
        ids.push(gateway.api().create_endpoint("shop", &receiver.url(path), &[], &settings)?);
    }
    send(&gateway)?;
    let arrived = || PATHS.iter().map(|path| receiver.seen(path).delivered).sum::<u64>();
    until(|| Ok(arrived() >= EVENTS))?;
    let mut blamed = (0.0, 0.0);
    if restarts {
        blamed = blame(gateway.api())?;
        gateway.ask_to_stop()?;
        gateway.wait_for_end(WAIT_LIMIT)?;
        clock.set(0)?;
        gateway.start_again()?;
    } else {
        clock.set(0)?;
    }
    let corrected = Instant::now();
    let unsigned = || receiver.seen_in_all().unsigned;
    let unsigned_before = unsigned();
    gateway.api().post(&format!("/v1/endpoints/{}/enable", ids[1]), &json!({}))?;
    send(&gateway)?;
    until(|| Ok(arrived() >= 2 * EVENTS * PATHS.len() as u64))?;

    let of_the_clock = || {
        let reasons = degraded(gateway.api())?;
        Ok::<_, anyhow::Error>(reasons.into_iter().find(|reason| reason.starts_with("clock: ")))
    };
    let mut said = None;
    while said.is_none() && corrected.elapsed() < Duration::from_secs(10) {
        said = of_the_clock()?;
        thread::sleep(Duration::from_millis(100));
    }
    let mut said_for = None;
    while said.is_some() && said_for.is_none() && corrected.elapsed() < size.clock_settles {
        thread::sleep(Duration::from_millis(500));
        said_for = of_the_clock()?.is_none().then(|| corrected.elapsed());
    }
    let (opened, attempts_used) = blame(gateway.api())?;
    Ok(Corrected {
        arrived: arrived(),
        opened: opened + blamed.0,
        attempts_used: attempts_used + blamed.1,
        not_believed: unsigned() - unsigned_before,
        said,
        said_for,
    })
}

fn send(gateway: &Gateway) -> Result<()> {
    for number in 0..EVENTS {
        let event = json!({"tenant": "shop", "type": "order.paid", "payload": {"number": number}});
        gateway.api().post("/v1/events", &event)?;
    }
    Ok(())
}

/// Waits until a condition is met or a timeout expires. Does not fail on a timeout, because later checks find
/// out what is missing.
fn until(mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !holds()? && began.elapsed() < WAIT_LIMIT {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Verifies a signature as a receiver whose own clock is correct would.
fn is_believed(signer: &Signer, received: &Received<'_>) -> bool {
    let mut headers = HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let value = received.header(name).and_then(|value| HeaderValue::from_str(value).ok());
        if let Some(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    signer.verify(&headers, received.body, now).is_ok()
}
