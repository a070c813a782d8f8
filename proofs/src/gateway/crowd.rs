//! Thousands of endpoints that were never called before are dead: endpoints that already receive deliveries are
//! not affected.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::load::{Load, NUMBER, Pace, Report, Running};
use breakerbox_testkit::receiver::{Behaviour, RefusingPort};
use serde_json::{Value, json};

use super::findings::Findings;
use super::site::{Measured, Site, create_all};

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

/// The tenant of all endpoints.
pub(super) const TENANT: &str = "shop";

/// The dead endpoints may make latencies longer by this much, or twice as long, whichever is more.
const OR_LONGER_BY: Duration = Duration::from_millis(20);

/// Measures the healthy endpoints' latencies, first without the dead endpoints, then with them.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let crowd = Crowd::start(program, size, &json!({}))?;
    crowd.measure(size.time / 10)?;
    let alone = crowd.measure(size.time)?;
    let to_the_dead = crowd.call_the_dead()?;
    let beside = crowd.measure(size.time)?;
    let report = to_the_dead.stop();

    let mut findings = Findings::new(format!(
        "isolation: {} dead endpoints ({} hang, {} refuse) never called before, and {} healthy ones",
        size.hanging + size.refusing,
        size.hanging,
        size.refusing,
        size.healthy
    ));
    crowd.compare(&alone, &beside, &report, &mut findings);
    Ok(findings)
}

/// A gateway with healthy endpoints and dead ones.
pub(super) struct Crowd {
    pub(super) site: Site,
    size: Size,
    /// The paths of the healthy endpoints.
    healthy: Vec<String>,
    /// The paths of the endpoints that hang.
    hanging: Vec<String>,
    _refusing: RefusingPort,
}

impl Crowd {
    /// Starts a gateway, and creates the endpoints, the dead ones with these settings.
    pub(super) fn start(program: &Path, size: Size, settings: &Value) -> Result<Self> {
        let (site, refusing) = (Site::plain(program, &[TENANT])?, RefusingPort::new()?);
        let healthy = site.add_healthy(TENANT, size.healthy, &["live"])?;
        let hanging: Vec<String> = (0..size.hanging).map(|n| format!("/dead/{n}")).collect();
        hanging.iter().for_each(|path| site.receiver.set(path, Behaviour::Hang));
        let urls = hanging.iter().map(|path| site.receiver.url(path));
        let urls = urls.chain((0..size.refusing).map(|n| refusing.url(&format!("/dead/{n}"))));
        // Alternates the two kinds, so that both are called from the start.
        let dead: Vec<_> = urls.enumerate().map(|(n, url)| (url, vec![format!("dead.{n:010}")])).collect();
        create_all(site.api(), TENANT, &dead, settings)?;
        Ok(Self { site, size, healthy, hanging, _refusing: refusing })
    }

    /// Sends events to the healthy endpoints for a while, and returns their latencies.
    pub(super) fn measure(&self, time: Duration) -> Result<Measured> {
        self.site.measure(&Event::new(TENANT, "live"), self.size.per_second, time, &self.healthy)
    }

    /// Starts to send events to the dead endpoints, one after the other.
    pub(super) fn call_the_dead(&self) -> Result<Running> {
        let load = self.site.api().load(&Event::new(TENANT, &format!("dead.{NUMBER}")));
        let dead = self.size.hanging + self.size.refusing;
        let load = Load {
            template: load.template.clone().cycle(dead as u64),
            pace: Pace::Open { per_second: self.size.to_the_dead },
            connections: 64,
            ..load
        };
        Ok(load.start()?)
    }

    /// Compares the healthy endpoints' latencies without (`alone`) and with (`beside`) calls to the dead endpoints.
    pub(super) fn compare(
        &self,
        alone: &Measured,
        beside: &Measured,
        to_the_dead: &Report,
        findings: &mut Findings,
    ) {
        findings.note("events to the healthy ones", beside.events);
        findings.note("events to the dead ones", to_the_dead.successes());
        findings.exactly("events that were refused", to_the_dead.failures(), 0);
        alone.compare(beside, "the dead ones", OR_LONGER_BY, self.size.judged, findings);
        let calls = self.hanging.iter().map(|path| self.site.receiver.seen(path));
        let most = calls.clone().map(|seen| seen.requests).max().unwrap_or(0);
        findings.note("requests to hanging ones, in all", calls.map(|seen| seen.requests).sum::<u64>());
        findings.at_most("requests to one of them", most, 100);
    }
}
