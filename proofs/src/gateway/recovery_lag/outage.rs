//! Outages of destinations: how destinations fail, and the receiver and network that fail and recover on demand.

use std::time::Duration;

use anyhow::Result;
use breakerbox::Policy;
use breakerbox_testkit::receiver::{Behaviour, Hostile, Receiver};

use crate::gateway::network::{Mode, Network};

/// The timeout of a request, which is how long a request to a hanging destination takes to fail.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// How a destination fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Requests get this status.
    Status(u16),
    /// Connections are refused.
    Refused,
    /// Connections are reset instead of a response.
    Reset,
    /// Requests get no response until they time out.
    Hang,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Status(500), Self::Status(503), Self::Status(429), Self::Refused, Self::Reset, Self::Hang];

    pub(crate) fn name(self) -> String {
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

/// The guarantee: calls flow again within `fixed`, and `share` of the outage, and twice the longest failed call, and
/// the time in which the traffic makes three calls, but never later than the longest cool-off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarantee {
    fixed: Duration,
    share: f64,
}

impl Guarantee {
    /// For one process, such as an embedded gateway.
    pub(crate) const ONE_PROCESS: Self = Self { fixed: Duration::from_millis(1_500), share: 0.6 };
    /// For a fleet, whose processes learn of changes through the store.
    pub(crate) const FLEET: Self = Self { fixed: Duration::from_millis(2_500), share: 0.7 };

    /// Returns the longest time from the end of an outage until calls flow.
    pub(crate) fn bound(self, kind: Kind, rate: f64, outage: Duration) -> Duration {
        let bound = self.fixed
            + outage.mul_f64(self.share)
            + 2 * kind.longest_failure()
            + Duration::from_secs_f64(3.0 / rate);
        bound.min(Policy::default().cool_off_max())
    }
}

/// Destinations that all fail and recover at the same time, each in its own way.
pub(crate) struct Destinations {
    pub(crate) receiver: Receiver,
    network: Network,
    kinds: Vec<Kind>,
}

impl Destinations {
    pub(crate) fn start() -> Result<Self> {
        let receiver = Receiver::start()?;
        let network = Network::start(receiver.address())?;
        Ok(Self { receiver, network, kinds: Vec::new() })
    }

    /// Adds a destination, and returns its path at the receiver and its URL.
    pub(crate) fn add(&mut self, kind: Kind) -> (String, String) {
        let number = self.kinds.len();
        self.kinds.push(kind);
        let path = path(number);
        let url = if kind == Kind::Refused { self.network.url(number) } else { self.receiver.url(&path) };
        (path, url)
    }

    pub(crate) fn fail(&self) {
        for (number, kind) in self.kinds.iter().enumerate() {
            match kind.behaviour() {
                Some(behaviour) => self.receiver.set(&path(number), behaviour),
                None => self.network.set(Mode::Refusing),
            }
        }
    }

    pub(crate) fn recover(&self) {
        self.network.set(Mode::Up);
        (0..self.kinds.len()).for_each(|number| self.receiver.set(&path(number), Behaviour::HEALTHY));
    }
}

/// Returns the path of a destination at the receiver. [`Network::url`] has the same one.
fn path(number: usize) -> String {
    format!("/{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_grows_with_the_outage_up_to_the_longest_cool_off() {
        let bound = |guarantee: Guarantee, kind, rate, seconds| {
            guarantee.bound(kind, rate, Duration::from_secs(seconds)).as_secs_f64()
        };
        let (one, fleet) = (Guarantee::ONE_PROCESS, Guarantee::FLEET);
        assert!((bound(one, Kind::Refused, 2.0, 10) - 9.0).abs() < 1e-6);
        assert!((bound(one, Kind::Hang, 0.5, 60) - 45.5).abs() < 1e-6);
        assert!((bound(fleet, Kind::Refused, 2.0, 10) - 11.0).abs() < 1e-6);
        assert!((bound(fleet, Kind::Hang, 0.5, 60) - 52.5).abs() < 1e-6);
        let longest = Policy::default().cool_off_max().as_secs_f64();
        assert!((bound(fleet, Kind::Hang, 0.5, 1_000_000) - longest).abs() < 1e-6);
    }
}
