//! One endpoint hangs, ten are healthy, and every event goes to all of them: the ten notice nothing, and the one is left alone.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::receiver::Manner;
use serde_json::json;

use super::findings::Findings;
use super::site::Site;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// For how long, without the dead one and with it.
    pub time: Duration,
    /// Events in a second.
    pub per_second: f64,
    /// Whether times are judged.
    pub judged: bool,
}

impl Size {
    /// What is promised.
    pub const FULL: Self = Self { time: Duration::from_secs(120), per_second: 50.0, judged: true };
    /// A twentieth.
    pub const SMALL: Self = Self { time: Duration::from_secs(5), per_second: 20.0, judged: false };
}

/// How many endpoints are healthy.
const HEALTHY: usize = 10;

/// The most requests that the dead one may get.
const MOST_TO_THE_DEAD: u64 = 100;

/// Looks at the ten without the dead one, then with it.
///
/// # Errors
/// If the proof itself can't be made.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let site = Site::plain(program, &["shop"])?;
    let healthy = site.add_healthy("shop", HEALTHY, &[])?;
    let event = Event::new("shop", "order.paid");
    // The first connections and pages are made before anything is measured.
    site.measure(&event, size.per_second, size.time / 20, &healthy)?;
    let alone = site.measure(&event, size.per_second, size.time / 2, &healthy)?;
    site.receiver.set("/dead", Manner::Hang);
    site.api().create_endpoint("shop", &site.receiver.url("/dead"), &[], &json!({"timeout": "30s"}))?;
    let beside = site.measure(&event, size.per_second, size.time, &healthy)?;
    let dead = site.receiver.seen("/dead");

    let mut findings = Findings::new(format!(
        "isolation: {HEALTHY} healthy endpoints and one that hangs 30 s, {} events/s for {} s",
        size.per_second,
        size.time.as_secs()
    ));
    findings.note("events", beside.events);
    alone.compare(&beside, "the dead one", Duration::ZERO, size.judged, &mut findings);
    findings.at_least("requests to the dead one", dead.requests, 1);
    findings.at_most("requests to the dead one", dead.requests, MOST_TO_THE_DEAD);
    Ok(findings)
}
