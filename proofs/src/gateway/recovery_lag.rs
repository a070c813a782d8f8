//! Short and long outages of receivers under traffic: after each, deliveries flow again within a time in proportion to
//! the outage.
//!
//! Every kind of outage is tried at every rate, all at the same time, each with an endpoint of its own. The lag of an
//! endpoint is the time from the end of the outage to the arrival of the last event that was sent after the end and
//! still arrived late. Events from before the end are not measured: their retries follow the retry schedule.

use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox_testkit::gateway::{Event, Gateway, Settings};
use breakerbox_testkit::load::{Pace, Running};
use breakerbox_testkit::receiver::{Behaviour, Hostile, IdHash, Receiver};
use serde_json::json;

use super::findings::{Findings, Millis};
use super::network::{Mode, Network};
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

/// How a receiver fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Status(u16),
    /// Connections are refused.
    Refused,
    /// Connections are reset instead of a response.
    Reset,
    /// Requests get no response until they time out.
    Hang,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Status(500), Self::Status(503), Self::Status(429), Self::Refused, Self::Reset, Self::Hang];

    fn name(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Refused => "refused".into(),
            Self::Reset => "reset".into(),
            Self::Hang => "hang".into(),
        }
    }

    /// Returns the response of the receiver during the outage; `None` if the network fails instead.
    const fn behaviour(self) -> Option<Behaviour> {
        match self {
            Self::Status(status) => Some(Behaviour::status(status)),
            Self::Refused => None,
            Self::Reset => Some(Behaviour::Hostile(Hostile::Reset)),
            Self::Hang => Some(Behaviour::Hang),
        }
    }

    /// Returns how long a call takes to fail, at most.
    const fn longest_failure(self) -> Duration {
        match self {
            Self::Hang => TIMEOUT,
            _ => Duration::ZERO,
        }
    }
}

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long the endpoints have traffic before the outage.
const BEFORE: Duration = Duration::from_secs(3);
/// How long traffic goes on after the latest time at which deliveries must flow.
const AFTER: Duration = Duration::from_secs(2);
/// An event that takes longer than this to arrive is late.
const LATE: Duration = Duration::from_millis(250);

/// One endpoint with its traffic.
struct Lane {
    kind: Kind,
    rate: f64,
    path: String,
    load: Running,
    started: Instant,
}

/// The results of one endpoint.
struct Lag {
    name: String,
    /// The time from the end of the outage to the arrival of the last late event.
    lag: Duration,
    bound: Duration,
    sent: usize,
    missing: usize,
}

/// Lets receivers fail for a while, and measures how long deliveries take to flow again.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, outage: Duration, size: Size) -> Result<Findings> {
    let receiver = Receiver::start()?;
    let network = Network::start(receiver.address())?;
    let gateway = Settings::new(program).start()?;
    gateway.api().create_tenant("shop", &json!({}))?;
    let mut lanes = Vec::new();
    for kind in Kind::ALL {
        for &rate in size.rates {
            lanes.push(start_lane(&gateway, &receiver, &network, lanes.len(), kind, rate)?);
        }
    }
    thread::sleep(BEFORE);

    for lane in &lanes {
        match lane.kind.behaviour() {
            Some(behaviour) => receiver.set(&lane.path, behaviour),
            None => network.set(Mode::Refusing),
        }
    }
    thread::sleep(outage);
    network.set(Mode::Up);
    lanes.iter().for_each(|lane| receiver.set(&lane.path, Behaviour::HEALTHY));
    let ended = Instant::now();

    let longest = lanes.iter().map(|lane| bound(lane.kind, lane.rate, outage)).max().unwrap_or_default();
    thread::sleep(longest + AFTER);
    let mut findings = Findings::new(format!("recovery after an outage of {}", Millis(outage)));
    let lags: Vec<_> = thread::scope(|scope| {
        let receiver = &receiver;
        let measure = |lane| scope.spawn(move || measure(lane, receiver, outage, ended));
        let lanes: Vec<_> = lanes.into_iter().map(measure).collect();
        lanes.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for lag in lags {
        let lag = lag.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        let Lag { name, lag, bound, sent, missing } = lag;
        findings.within(&format!("{name}: flowing after"), lag, bound + size.slack, true);
        findings.exactly(&format!("{name}: missing of {sent} events after the outage"), missing, 0);
    }
    Ok(findings)
}

fn start_lane(
    gateway: &Gateway,
    receiver: &Receiver,
    network: &Network,
    number: usize,
    kind: Kind,
    rate: f64,
) -> Result<Lane> {
    let path = format!("/{number}");
    let url = if kind == Kind::Refused { network.url(number) } else { receiver.url(&path) };
    let event = format!("lane.{number}");
    let settings = json!({"timeout": format!("{}ms", TIMEOUT.as_millis())});
    gateway.api().create_endpoint("shop", &url, &[&event], &settings)?;
    let mut load = gateway.api().load(&Event::new("shop", &event));
    load.pace = Pace::Open { per_second: rate };
    load.keep_ids = true;
    let started = Instant::now();
    Ok(Lane { kind, rate, path, load: load.start()?, started })
}

/// Returns the longest time from the end of an outage until deliveries flow: 1.5 s, and in proportion to the outage,
/// and twice the longest failed call, and the time in which the traffic makes three calls.
///
/// After a blip under steady traffic it is less: the circuit opened shortly before the end.
fn bound(kind: Kind, rate: f64, outage: Duration) -> Duration {
    if rate >= 20.0 && kind != Kind::Hang && outage <= Duration::from_secs(1) {
        let longer = outage > Duration::from_millis(300);
        return Duration::from_millis(if longer { 2_000 } else { 1_500 });
    }
    Duration::from_millis(1_500)
        + outage.mul_f64(0.6)
        + 2 * kind.longest_failure()
        + Duration::from_secs_f64(3.0 / rate)
}

/// Stops the traffic of an endpoint, waits for the events that were sent after the outage, and returns their lag.
fn measure(lane: Lane, receiver: &Receiver, outage: Duration, ended: Instant) -> Result<Lag> {
    let Lane { kind, rate, path, load, started } = lane;
    let report = load.stop();
    ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
    let number = receiver.number(&path);
    let sent_after: Vec<(IdHash, Instant)> = report
        .accepted
        .iter()
        .map(|event| {
            #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 events")]
            let since = Duration::from_secs_f64(event.number as f64 / rate);
            (IdHash::of(event.id.as_bytes()), started + since)
        })
        .filter(|(_, at)| *at >= ended)
        .collect();
    ensure!(!sent_after.is_empty(), "no event was sent after the outage");
    let arrivals = || -> HashMap<IdHash, Instant> {
        receiver.with_visits(|visits| {
            let delivered = visits.iter().filter(|visit| visit.endpoint == number && visit.is_delivered());
            // In reverse, so that the first arrival of an event remains.
            delivered.rev().map(|visit| (visit.id, receiver.start_time() + visit.at())).collect()
        })
    };
    let waits_since = Instant::now();
    let mut arrived = arrivals();
    while sent_after.iter().any(|(id, _)| !arrived.contains_key(id)) && waits_since.elapsed() < WAIT_LIMIT {
        thread::sleep(Duration::from_millis(50));
        arrived = arrivals();
    }
    let late = sent_after.iter().filter_map(|(id, sent)| {
        let arrived = *arrived.get(id)?;
        (arrived.saturating_duration_since(*sent) > LATE).then(|| arrived - ended)
    });
    Ok(Lag {
        name: format!("{}, {rate} events/s", kind.name()),
        lag: late.max().unwrap_or_default(),
        bound: bound(kind, rate, outage),
        sent: sent_after.len(),
        missing: sent_after.iter().filter(|(id, _)| !arrived.contains_key(id)).count(),
    })
}
