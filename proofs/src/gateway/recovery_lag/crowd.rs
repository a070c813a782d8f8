//! Thousands of endpoints hang, and some of them recover: deliveries to these flow again soon after, and endpoints
//! that are healthy all the time are not affected.
//!
//! All endpoints whose latest outcome was not a success share half of the gateway's slots, so the probe of an endpoint
//! may have to wait for those of others. The guarantee allows for that wait.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::load::{Load, NUMBER};
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use serde_json::json;

use super::outage::{Guarantee, Kind, TIMEOUT};
use super::{Lag, Traffic};
use crate::gateway::crowd::{self, Crowd, TENANT};
use crate::gateway::findings::{Findings, Millis};
use crate::gateway::site::create_all;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The healthy endpoints, and those that hang all the time.
    pub crowd: crowd::Size,
    /// The number of endpoints that hang and recover.
    pub recovering: usize,
    /// How long the recovering endpoints hang.
    pub outage: Duration,
    /// The number of events per second to each recovering endpoint.
    pub rate: f64,
    /// How long events are sent after the outage.
    pub after: Duration,
    /// Time that is added to the bound, for a busy machine.
    pub slack: Duration,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        crowd: crowd::Size { hanging: 3_900, refusing: 0, ..crowd::Size::FULL },
        recovering: 100,
        outage: Duration::from_secs(60),
        rate: 0.5,
        after: Duration::from_secs(65),
        slack: Duration::ZERO,
    };
    /// About a twentieth of the full size, for `cargo test`. The outage is long enough that the circuits open.
    pub const SMALL: Self = Self {
        crowd: crowd::Size { hanging: 195, refusing: 0, time: Duration::from_secs(2), ..crowd::Size::SMALL },
        recovering: 5,
        outage: Duration::from_secs(6),
        rate: 2.0,
        after: Duration::from_secs(4),
        slack: Duration::from_secs(20),
    };
}

/// The time that is added to the guarantee, because a probe may have to wait for those of other endpoints.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(16);

/// The number of the slowest endpoints that are listed.
const LISTED: usize = 5;

/// Lets some of the hanging endpoints recover, and measures how long deliveries take to flow again, and the latencies
/// of the healthy endpoints meanwhile.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let settings = json!({"timeout": format!("{}ms", TIMEOUT.as_millis())});
    let crowd = Crowd::start(program, size.crowd, &settings)?;
    // The crowd's receiver does not record visits.
    let receiver = Receiver::start()?;
    let paths: Vec<String> = (0..size.recovering).map(|n| format!("/recovering/{n}")).collect();
    paths.iter().for_each(|path| receiver.set(path, Behaviour::Hang));
    let types = (0..).map(|n| vec![format!("recovering.{n:010}")]);
    let recovering: Vec<_> = paths.iter().map(|path| receiver.url(path)).zip(types).collect();
    create_all(crowd.site.api(), TENANT, &recovering, &settings)?;

    crowd.measure(size.crowd.time / 10)?;
    let alone = crowd.measure(size.crowd.time)?;
    let to_the_dead = crowd.call_the_dead()?;
    let load = crowd.site.api().load(&Event::new(TENANT, &format!("recovering.{NUMBER}")));
    let load = Load { template: load.template.clone().cycle(paths.len() as u64), ..load };
    let traffic = Traffic::start(load, Kind::Hang, size.rate * paths.len() as f64, paths.clone())?;
    let (beside, ended) = thread::scope(|scope| {
        let recovery = scope.spawn(|| {
            thread::sleep(size.outage);
            paths.iter().for_each(|path| receiver.set(path, Behaviour::HEALTHY));
            Instant::now()
        });
        let beside = crowd.measure(size.outage + size.after);
        (beside, recovery.join())
    });
    let (beside, ended) = (beside?, ended.map_err(|_| anyhow::anyhow!("a thread panicked"))?);
    let mut lags = traffic.measure(&receiver, ended)?;
    let report = to_the_dead.stop();

    let mut findings = Findings::new(format!(
        "recovery of {} endpoints after an outage of {}, among {} that hang, beside {} healthy ones",
        size.recovering,
        Millis(size.outage),
        size.crowd.hanging,
        size.crowd.healthy
    ));
    lags.sort_by_key(|lag| lag.lag);
    let (sent, missing) =
        lags.iter().fold((0, 0), |(sent, missing), lag| (sent + lag.sent, missing + lag.missing));
    findings.exactly(&format!("missing of {sent} events after the outage"), missing, 0);
    findings.note(
        "half of the endpoints flow after",
        Millis(lags.get(lags.len() / 2).map_or(Duration::ZERO, |lag| lag.lag)),
    );
    let bound =
        Guarantee::ONE_PROCESS.bound(Kind::Hang, size.rate, size.outage) + WAIT_FOR_OTHERS + size.slack;
    for (place, Lag { lag, .. }) in lags.iter().rev().take(LISTED).enumerate() {
        findings.within(&format!("slowest endpoint, no. {}: flowing after", place + 1), *lag, bound, true);
    }
    crowd.compare(&alone, &beside, &report, &mut findings);
    Ok(findings)
}
