//! One endpoint hangs, ten are healthy, and every event goes to all of them: the ten are not affected, and the
//! dead one gets few requests.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::receiver::Behaviour;
use serde_json::json;

use super::findings::Findings;
use super::site::Site;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The duration of each measurement, without and with the dead endpoint.
    pub time: Duration,
    /// The number of events per second.
    pub per_second: f64,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self { time: Duration::from_secs(120), per_second: 50.0, judged: true };
    /// About a twentieth of the full size, for `cargo test`.
    pub const SMALL: Self = Self { time: Duration::from_secs(5), per_second: 20.0, judged: false };
}

/// The number of healthy endpoints.
const HEALTHY: usize = 10;

/// The maximum allowed number of requests to the dead endpoint during the measurement.
const MOST_TO_THE_DEAD: u64 = 100;

/// Measures the latencies of ten healthy endpoints, first without the dead endpoint, then with it.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let site = Site::plain(program, &["shop"])?;
    let healthy = site.add_healthy("shop", HEALTHY, &[])?;
    let event = Event::new("shop", "order.paid");
    // Opens the first connections and fills caches before the measurement.
    site.measure(&event, size.per_second, size.time / 20, &healthy)?;
    let alone = site.measure(&event, size.per_second, size.time / 2, &healthy)?;
    site.receiver.set("/dead", Behaviour::Hang);
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
