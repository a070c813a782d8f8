//! Thousands of endpoints that were never called before are dead: endpoints that already receive deliveries are
//! not affected.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::load::{Load, NUMBER, Pace};
use breakerbox_testkit::receiver::{Behaviour, RefusingPort};
use serde_json::json;

use super::findings::Findings;
use super::site::{Site, create_all};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of endpoints that hang.
    pub hanging: usize,
    /// The number of endpoints that refuse connections.
    pub refusing: usize,
    /// The number of healthy endpoints.
    pub healthy: usize,
    /// The duration of each measurement, without and with the dead endpoints.
    pub time: Duration,
    /// The number of events per second to the healthy endpoints. Each event goes to all of them.
    pub per_second: f64,
    /// The number of events per second to the dead endpoints. Each event goes to one of them.
    pub to_the_dead: f64,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        hanging: 4_000,
        refusing: 1_000,
        healthy: 100,
        time: Duration::from_secs(60),
        per_second: 5.0,
        to_the_dead: 500.0,
        judged: true,
    };
    /// About a twentieth of the full size, for `cargo test`.
    pub const SMALL: Self = Self {
        hanging: 200,
        refusing: 50,
        healthy: 5,
        time: Duration::from_secs(4),
        per_second: 10.0,
        to_the_dead: 125.0,
        judged: false,
    };
}

/// The dead endpoints may make latencies longer by this much, or twice as long, whichever is more.
const OR_LONGER_BY: Duration = Duration::from_millis(20);

/// Measures the healthy endpoints' latencies, first without the dead endpoints, then with them.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let (site, refusing) = (Site::plain(program, &["shop"])?, RefusingPort::new()?);
    let healthy = site.add_healthy("shop", size.healthy, &["live"])?;
    let hanging: Vec<String> = (0..size.hanging).map(|n| format!("/dead/{n}")).collect();
    hanging.iter().for_each(|path| site.receiver.set(path, Behaviour::Hang));
    let urls = hanging.iter().map(|path| site.receiver.url(path));
    let urls = urls.chain((0..size.refusing).map(|n| refusing.url(&format!("/dead/{n}"))));
    // Alternates the two kinds, so that both are called from the start.
    let dead: Vec<_> = urls.enumerate().map(|(n, url)| (url, vec![format!("dead.{n:010}")])).collect();
    create_all(site.api(), "shop", &dead, &json!({}))?;

    let live = Event::new("shop", "live");
    site.measure(&live, size.per_second, size.time / 10, &healthy)?;
    let alone = site.measure(&live, size.per_second, size.time, &healthy)?;
    let to_the_dead = site.api().load(&Event::new("shop", &format!("dead.{NUMBER}")));
    let to_the_dead = Load {
        template: to_the_dead.template.clone().cycle(dead.len() as u64),
        pace: Pace::Open { per_second: size.to_the_dead },
        connections: 64,
        ..to_the_dead
    };
    let to_the_dead = to_the_dead.start()?;
    let beside = site.measure(&live, size.per_second, size.time, &healthy)?;
    let report = to_the_dead.stop();

    let mut findings = Findings::new(format!(
        "isolation: {} dead endpoints ({} hang, {} refuse) never called before, and {} healthy ones",
        dead.len(),
        size.hanging,
        size.refusing,
        size.healthy
    ));
    findings.note("events to the healthy ones", beside.events);
    findings.note("events to the dead ones", report.successes());
    findings.exactly("events that were refused", report.failures(), 0);
    alone.compare(&beside, "the dead ones", OR_LONGER_BY, size.judged, &mut findings);
    let calls = hanging.iter().map(|path| site.receiver.seen(path));
    let most = calls.clone().map(|seen| seen.requests).max().unwrap_or(0);
    findings.note("requests to hanging ones, in all", calls.map(|seen| seen.requests).sum::<u64>());
    findings.at_most("requests to one of them", most, 100);
    Ok(findings)
}
