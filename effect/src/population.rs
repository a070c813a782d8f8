//! The endpoints of the simulated sender: how many of each kind, how much traffic each gets, and how each fails.
//!
//! The numbers are for 2,000 endpoints; a smaller population keeps the proportions. Traffic follows Zipf's law, as it
//! does among real customers: a few endpoints get several events a second, and half get fewer than one in two minutes.

use std::time::Duration;

use breakerbox_core::Timestamp;
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::draws::{exponential, generator, log_uniform, uniform};
use crate::faults::{Failure, Faults, Outage};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);
/// The sender's timeout for a call.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);
/// The share of all events that goes to endpoints that are dead for ever, as in Convoy's report.
pub(crate) const DEAD_SHARE: f64 = 0.1;
/// The events of a day for an endpoint that is quiet and dead.
pub(crate) const QUIET_EVENTS: f64 = 12.0;
/// When the sender's own network is down.
pub(crate) const OWN_OUTAGE: (Duration, Duration) =
    (Duration::from_secs(11 * 3_600), Duration::from_secs(120));

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// What is wrong with an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Kind {
    Healthy,
    /// A percentage of calls fails, all day.
    Flaky(u8),
    /// A percentage of calls fails, for an hour.
    Degraded(u8),
    /// Six times a day, every call fails for 0.3 to 5 s.
    Blipping,
    DownForAMinute,
    DownForAnHour,
    DownForTheNight,
    /// Down for 20 to 60 s, then up for 30 to 120 s, for two hours.
    Flapping,
    /// Every call succeeds after 3 to 9 s.
    Slow,
    Dead,
    QuietAndDead,
}

/// The number of endpoints of each kind among 2,000. Those that are not dead are up 99.9 % of the time.
pub(crate) const KINDS: [(Kind, usize, &str); 14] = [
    (Kind::Healthy, 1_508, "healthy, 2 errors in 10,000 calls"),
    (Kind::Flaky(1), 100, "flaky, 1 % errors"),
    (Kind::Flaky(5), 60, "flaky, 5 % errors"),
    (Kind::Flaky(20), 40, "flaky, 20 % errors"),
    (Kind::Degraded(30), 10, "degraded for an hour, 30 % errors"),
    (Kind::Degraded(70), 6, "degraded for an hour, 70 % errors"),
    (Kind::Blipping, 100, "blipping: six times a day down for 0.3 to 5 s"),
    (Kind::DownForAMinute, 60, "down for a minute"),
    (Kind::DownForAnHour, 8, "down for an hour"),
    (Kind::DownForTheNight, 2, "down for the night, 8 hours"),
    (Kind::Flapping, 6, "flapping for two hours: down for 20 to 60 s, up for 30 to 120 s"),
    (Kind::Slow, 20, "slow: every call takes 3 to 9 s"),
    (Kind::Dead, 40, "dead for ever"),
    (Kind::QuietAndDead, 40, "dead for ever and quiet: one event in two hours"),
];
/// The number of endpoints that [`KINDS`] adds up to.
const WHOLE: usize = 2_000;

impl Kind {
    /// Whether the endpoint never answers, so that disabling it is right.
    pub(crate) const fn is_dead(self) -> bool {
        matches!(self, Self::Dead | Self::QuietAndDead)
    }

    /// Returns the share of calls that fail outside of outages.
    fn error_rate(self) -> f64 {
        match self {
            Self::Flaky(percent) => f64::from(percent) / 100.0,
            Self::Healthy => 0.0002,
            _ => 0.0,
        }
    }
}

/// One endpoint of the sender.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) kind: Kind,
    /// Events a second.
    pub(crate) rate: f64,
    /// The mean latency of a call that is not slow.
    pub(crate) latency: Duration,
    pub(crate) faults: Faults,
}

/// The result of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    /// How the call failed; `None` if it succeeded.
    pub(crate) failure: Option<Failure>,
    pub(crate) latency: Duration,
}

impl Endpoint {
    /// Returns the result of a call that starts now.
    pub(crate) fn call(&self, rng: &mut SmallRng, now: Timestamp) -> Reply {
        let outage = self.faults.at(now);
        let error_rate = outage.map_or(self.kind.error_rate(), |outage| outage.error_rate);
        let fails = rng.random::<f64>() < error_rate;
        let failure = fails.then(|| outage.map_or(Failure::Status, |outage| outage.failure));
        let latency = match failure {
            Some(Failure::Refused | Failure::Unreachable) => uniform(rng, ms(5), ms(50)),
            Some(Failure::Hang) => TIMEOUT,
            _ if self.kind == Kind::Slow => uniform(rng, Duration::from_secs(3), Duration::from_secs(9)),
            _ => self.latency.mul_f64(0.4 + 0.6 * exponential(rng)).min(TIMEOUT),
        };
        Reply { failure, latency }
    }
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns the endpoints of a sender with this many endpoints and this many events a day.
pub(crate) fn endpoints(count: usize, events: u64, seed: u64) -> Vec<Endpoint> {
    let mut kinds: Vec<Kind> = Vec::with_capacity(count);
    for (kind, of_all, _) in KINDS.into_iter().filter(|(kind, ..)| *kind != Kind::Healthy) {
        let rounded = (of_all * count + WHOLE / 2) / WHOLE;
        kinds.extend(std::iter::repeat_n(kind, rounded.max(1)));
    }
    kinds.resize(count, Kind::Healthy);
    let mut rng = generator(&[seed, 1]);
    kinds.shuffle(&mut rng);
    #[allow(clippy::cast_precision_loss)] // Far below 2^53.
    let (events, dead) = (events as f64, kinds.iter().filter(|kind| **kind == Kind::Dead).count() as f64);
    let quiet = kinds.iter().filter(|kind| **kind == Kind::QuietAndDead).map(|_| QUIET_EVENTS).sum::<f64>();
    let living = events * (1.0 - DEAD_SHARE) - quiet;
    let ranks = 1..=kinds.iter().filter(|kind| !kind.is_dead()).count();
    #[allow(clippy::cast_precision_loss)] // Far below 2^53.
    let mut weights = ranks.map(|rank| 1.0 / rank as f64).collect::<Vec<_>>();
    let whole: f64 = weights.iter().sum();
    weights.reverse();
    let one = |(number, kind): (usize, Kind)| {
        let rng = &mut generator(&[seed, 2, number as u64]);
        let a_day = match kind {
            Kind::Dead => events * DEAD_SHARE / dead,
            Kind::QuietAndDead => QUIET_EVENTS,
            // The kinds are shuffled, so any kind can have any rank.
            _ => weights.pop().expect("one for each living endpoint") / whole * living,
        };
        Endpoint {
            kind,
            rate: a_day / DAY.as_secs_f64(),
            latency: log_uniform(rng, ms(40), ms(400)),
            faults: Faults::new(outages(kind, rng), Some(own_outage())),
        }
    };
    kinds.into_iter().enumerate().map(one).collect()
}

/// Returns the outage of the sender's own network.
pub(crate) fn own_outage() -> Outage {
    let from = Timestamp::ZERO + OWN_OUTAGE.0;
    Outage { from, until: from + OWN_OUTAGE.1, error_rate: 1.0, failure: Failure::Unreachable }
}

fn outages(kind: Kind, rng: &mut SmallRng) -> Vec<Outage> {
    match kind {
        Kind::Healthy | Kind::Flaky(_) | Kind::Slow => Vec::new(),
        Kind::Degraded(percent) => {
            vec![Outage {
                error_rate: f64::from(percent) / 100.0,
                failure: Failure::Status,
                ..once(HOUR, rng)
            }]
        }
        Kind::Blipping => {
            let blip = |rng: &mut SmallRng| log_uniform(rng, ms(300), Duration::from_secs(5));
            // One in each sixth of the day, so that they do not overlap.
            let sixth = DAY / 6;
            let one = |part: u32| {
                let length = blip(rng);
                let from = sixth * part + uniform(rng, Duration::ZERO, sixth - MINUTE);
                outage(from, length, rng)
            };
            (0..6).map(one).collect()
        }
        Kind::DownForAMinute => vec![once(MINUTE, rng)],
        Kind::DownForAnHour => vec![once(HOUR, rng)],
        Kind::DownForTheNight => {
            let from = uniform(rng, Duration::ZERO, 2 * HOUR);
            vec![outage(from, 8 * HOUR, rng)]
        }
        Kind::Flapping => {
            let mut outages = Vec::new();
            let mut from = uniform(rng, Duration::ZERO, DAY - 3 * HOUR);
            let until = from + 2 * HOUR;
            while from < until {
                let length = uniform(rng, Duration::from_secs(20), MINUTE);
                outages.push(Outage { failure: Failure::Status, ..outage(from, length, rng) });
                from += length + uniform(rng, Duration::from_secs(30), 2 * MINUTE);
            }
            outages
        }
        Kind::Dead | Kind::QuietAndDead => vec![outage(Duration::ZERO, 2 * DAY, rng)],
    }
}

/// Returns an outage at a random time of the day, which leaves at least an hour for the recovery.
fn once(length: Duration, rng: &mut SmallRng) -> Outage {
    let from = uniform(rng, Duration::ZERO, DAY - HOUR - length);
    outage(from, length, rng)
}

fn outage(from: Duration, length: Duration, rng: &mut SmallRng) -> Outage {
    let failure = match rng.random_range(0..10) {
        0..4 => Failure::Refused,
        4..8 => Failure::Status,
        _ => Failure::Hang,
    };
    let from = Timestamp::ZERO + from;
    Outage { from, until: from + length, error_rate: 1.0, failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn kinds_and_traffic_are_as_documented() {
        assert_eq!(KINDS.iter().map(|(_, count, _)| count).sum::<usize>(), WHOLE);
        for (count, events) in [(2_000, 5_000_000), (100, 250_000)] {
            let all = endpoints(count, events, 1);
            assert_eq!(all.len(), count);
            for (kind, of_all, _) in KINDS {
                let found = all.iter().filter(|endpoint| endpoint.kind == kind).count();
                assert!(
                    found >= 1 && found.abs_diff(of_all * count / WHOLE) <= count / 20,
                    "{kind:?}: {found}"
                );
            }
            let down = |endpoint: &Endpoint| {
                let outages = endpoint.faults.outages().iter().filter(|outage| outage.error_rate >= 0.5);
                outages.map(Outage::length).sum::<Duration>()
            };
            let living: Vec<_> = all.iter().filter(|endpoint| !endpoint.kind.is_dead()).collect();
            let up = 1.0
                - living.iter().map(|endpoint| down(endpoint).as_secs_f64() / 86_400.0).sum::<f64>()
                    / living.len() as f64;
            assert!(count < 2_000 || (0.999..0.9995).contains(&up), "{up}");
            let a_day = |is: fn(Kind) -> bool| {
                all.iter().filter(|endpoint| is(endpoint.kind)).map(|endpoint| endpoint.rate).sum::<f64>()
                    * DAY.as_secs_f64()
            };
            let events = events as f64;
            assert!((a_day(|_| true) - events).abs() < 1.0);
            assert!((a_day(|kind| kind == Kind::Dead) - events / 10.0).abs() < 1.0);
        }
    }

    #[test]
    fn schedules_have_the_length_of_their_kind() {
        for endpoint in endpoints(2_000, 5_000_000, 3) {
            let lengths: Vec<_> = endpoint.faults.outages().iter().map(Outage::length).collect();
            match endpoint.kind {
                Kind::Healthy | Kind::Flaky(_) | Kind::Slow => assert!(lengths.is_empty()),
                Kind::DownForAMinute => assert_eq!(lengths, [MINUTE]),
                Kind::DownForAnHour | Kind::Degraded(_) => assert_eq!(lengths, [HOUR]),
                Kind::DownForTheNight => assert_eq!(lengths, [8 * HOUR]),
                Kind::Blipping => {
                    assert_eq!(lengths.len(), 6);
                    assert!(lengths.iter().all(|length| (ms(299)..ms(5_001)).contains(length)));
                }
                Kind::Flapping => {
                    assert!(lengths.len() > 40 && lengths.iter().all(|length| *length <= MINUTE));
                }
                Kind::Dead | Kind::QuietAndDead => assert!(endpoint.faults.is_down(Timestamp::ZERO + DAY)),
            }
            let outages = endpoint.faults.outages();
            assert!(
                outages.windows(2).all(|pair| pair[0].until < pair[1].from),
                "in order, without overlaps"
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_day() {
        let texts = |seed| format!("{:?}", endpoints(200, 100_000, seed));
        assert_eq!(texts(5), texts(5));
        assert_ne!(texts(5), texts(6));
    }
}
