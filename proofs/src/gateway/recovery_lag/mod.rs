//! Short and long outages of receivers under traffic: after each, deliveries flow again within a time in proportion to
//! the outage.
//!
//! Every kind of outage is tried at every rate, all at the same time, each with an endpoint of its own. The lag of an
//! endpoint is the time from the end of the outage to the arrival of the last event that was sent after the end and
//! still arrived late. Events from before the end are not measured: their retries follow the retry schedule.
//!
//! | module | content |
//! | --- | --- |
//! | [`crowd`] | the same for endpoints among thousands that hang |
//! | `outage` | how destinations fail, and the guarantee; also for the library in a fleet (`crate::fleet`) |

pub mod crowd;
pub(crate) mod outage;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox_testkit::gateway::{Event, Gateway, Settings};
use breakerbox_testkit::load::{Load, Pace, Running};
use breakerbox_testkit::receiver::{IdHash, Receiver};
use serde_json::json;

use self::outage::{Destinations, Guarantee, Kind, TIMEOUT};
use super::findings::{Findings, Millis};
use super::site::WAIT_LIMIT;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The lengths of the outages.
    pub outages: &'static [Duration],
    /// The rates of events to each endpoint, per second.
    pub rates: &'static [f64],
    /// Time that is added to each bound, for a busy machine.
    pub slack: Duration,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        outages: &[
            Duration::from_millis(300),
            Duration::from_secs(1),
            Duration::from_secs(10),
            Duration::from_secs(60),
        ],
        rates: &[0.5, 2.0, 20.0, 200.0],
        slack: Duration::ZERO,
    };
    /// A small part of the full size, for `cargo test`. With the slack, it still fails if a blip costs half a minute.
    pub const SMALL: Self =
        Self { outages: &[Duration::from_millis(300)], rates: &[20.0], slack: Duration::from_secs(10) };
}

/// How long the endpoints have traffic before the outage.
const BEFORE: Duration = Duration::from_secs(3);
/// How long traffic goes on after the latest time at which deliveries must flow.
const AFTER: Duration = Duration::from_secs(2);
/// An event that takes longer than this to arrive is late.
const LATE: Duration = Duration::from_millis(250);

/// Events at a fixed rate, and the endpoints that they go to, one after the other.
struct Traffic {
    kind: Kind,
    /// The number of events per second, over all endpoints.
    rate: f64,
    /// The endpoints' paths at the receiver.
    paths: Vec<String>,
    load: Running,
    started: Instant,
}

/// The results of one endpoint.
struct Lag {
    kind: Kind,
    /// The number of events per second to this endpoint.
    rate: f64,
    /// The time from the end of the outage to the arrival of the last late event.
    lag: Duration,
    sent: usize,
    missing: usize,
}

/// Lets receivers fail for a while, and measures how long deliveries take to flow again.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, outage: Duration, size: Size) -> Result<Findings> {
    let mut destinations = Destinations::start()?;
    let gateway = Settings::new(program).start()?;
    gateway.api().create_tenant("shop", &json!({}))?;
    let mut lanes = Vec::new();
    for kind in Kind::ALL {
        for &rate in size.rates {
            lanes.push(start_lane(&gateway, &mut destinations, lanes.len(), kind, rate)?);
        }
    }
    thread::sleep(BEFORE);

    destinations.fail();
    thread::sleep(outage);
    destinations.recover();
    let ended = Instant::now();

    let longest = lanes.iter().map(|lane| bound(lane.kind, lane.rate, outage)).max().unwrap_or_default();
    thread::sleep(longest + AFTER);
    let mut findings = Findings::new(format!("recovery after an outage of {}", Millis(outage)));
    let lags: Vec<_> = thread::scope(|scope| {
        let receiver = &destinations.receiver;
        let measure = |lane: Traffic| scope.spawn(move || lane.measure(receiver, ended));
        let lanes: Vec<_> = lanes.into_iter().map(measure).collect();
        lanes.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for lags in lags {
        for Lag { kind, rate, lag, sent, missing } in
            lags.map_err(|_| anyhow::anyhow!("a thread panicked"))??
        {
            let (name, bound) = (kind.name(), bound(kind, rate, outage) + size.slack);
            findings.within(&format!("{name}, {rate} events/s: flowing after"), lag, bound, true);
            let what = format!("{name}, {rate} events/s: missing of {sent} events after the outage");
            findings.exactly(&what, missing, 0);
        }
    }
    Ok(findings)
}

fn start_lane(
    gateway: &Gateway,
    destinations: &mut Destinations,
    number: usize,
    kind: Kind,
    rate: f64,
) -> Result<Traffic> {
    let (path, url) = destinations.add(kind);
    let event = format!("lane.{number}");
    let settings = json!({"timeout": format!("{}ms", TIMEOUT.as_millis())});
    gateway.api().create_endpoint("shop", &url, &[&event], &settings)?;
    Traffic::start(gateway.api().load(&Event::new("shop", &event)), kind, rate, vec![path])
}

/// Returns the longest time from the end of an outage until deliveries flow.
///
/// After a blip under steady traffic it is less than the guarantee for other outages: the circuit opened shortly
/// before the end.
fn bound(kind: Kind, rate: f64, outage: Duration) -> Duration {
    if rate >= 20.0 && kind != Kind::Hang && outage <= Duration::from_secs(1) {
        let longer = outage > Duration::from_millis(300);
        return Duration::from_millis(if longer { 2_000 } else { 1_500 });
    }
    Guarantee::ONE_PROCESS.bound(kind, rate, outage)
}

impl Traffic {
    fn start(load: Load, kind: Kind, rate: f64, paths: Vec<String>) -> Result<Self> {
        // Few connections at a low rate, because the gateway closes idle ones.
        let connections = if rate < 20.0 { 2 } else { load.connections };
        let load = Load { pace: Pace::Open { per_second: rate }, connections, keep_ids: true, ..load };
        let started = Instant::now();
        Ok(Self { kind, rate, paths, load: load.start()?, started })
    }

    /// Stops the traffic, waits for the events that were sent after the outage, and returns the lag of each
    /// endpoint.
    fn measure(self, receiver: &Receiver, ended: Instant) -> Result<Vec<Lag>> {
        let Self { kind, rate, paths, load, started } = self;
        let report = load.stop();
        ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
        let mut sent_after: Vec<Vec<(IdHash, Instant)>> = vec![Vec::new(); paths.len()];
        for event in &report.accepted {
            #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 events")]
            let sent_at = started + Duration::from_secs_f64(event.number as f64 / rate);
            if sent_at >= ended {
                let endpoint = usize::try_from(event.number)? % paths.len();
                sent_after[endpoint].push((IdHash::of(event.id.as_bytes()), sent_at));
            }
        }
        ensure!(sent_after.iter().all(|sent| !sent.is_empty()), "no event was sent after the outage");
        let endpoints: HashSet<u32> = paths.iter().map(|path| receiver.number(path)).collect();
        let arrivals = || -> HashMap<IdHash, Instant> {
            receiver.with_visits(|visits| {
                let delivered =
                    visits.iter().filter(|visit| visit.is_delivered() && endpoints.contains(&visit.endpoint));
                // In reverse, so that the first arrival of an event remains.
                delivered.rev().map(|visit| (visit.id, receiver.start_time() + visit.at())).collect()
            })
        };
        let waits_since = Instant::now();
        let mut arrived = arrivals();
        while sent_after.iter().flatten().any(|(id, _)| !arrived.contains_key(id))
            && waits_since.elapsed() < WAIT_LIMIT
        {
            thread::sleep(Duration::from_millis(50));
            arrived = arrivals();
        }
        let rate = rate / paths.len() as f64;
        let lag = |sent: &Vec<(IdHash, Instant)>| {
            let late = sent.iter().filter_map(|(id, sent)| {
                let arrived = *arrived.get(id)?;
                (arrived.saturating_duration_since(*sent) > LATE).then(|| arrived - ended)
            });
            Lag {
                kind,
                rate,
                lag: late.max().unwrap_or_default(),
                sent: sent.len(),
                missing: sent.iter().filter(|(id, _)| !arrived.contains_key(id)).count(),
            }
        };
        Ok(sent_after.iter().map(lag).collect())
    }
}
