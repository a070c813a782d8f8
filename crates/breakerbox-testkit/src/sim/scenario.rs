//! The scenario for a seed: workers, endpoints, faults and their times, numbers. It determines the rest of the
//! run.

use std::time::Duration;

use breakerbox::{Consistency, OnStoreLoss, OverrideCommand, Policy};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::bounds::Settings;
use super::random::{ScenarioRng, endpoints, policy, rates_only, settings, workers};
use super::sampling::{LeaderFault, SampledPlan};

/// The kind of faults in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// Endpoints fail, and operators intervene. The store, the network and the workers do not fail.
    Calm,
    /// All endpoints are healthy, but one worker can't reach any of them. Otherwise like `Calm`.
    OneBroken,
    /// Endpoints, workers, the network and the store fail at random.
    Faulty,
    /// The store becomes unreachable and reachable in such quick succession that workers can't write their
    /// decisions in between.
    Flapping,
    /// The store answers reads and rejects writes, while endpoints die and recover.
    NoWrites,
    /// An endpoint dies, and recovers for all workers but one. That worker's own network stays broken, and the
    /// worker acquires most often.
    BrokenProber,
    /// Workers live for one or a few calls, exit gracefully, and start again without their state.
    ShortLived,
    /// Many workers call one endpoint when its circuit closes.
    Crowd,
    /// One worker is disconnected while a circuit is open, for longer than the store keeps the record of the
    /// circuit's recovery.
    LongAbsence,
    /// Circuits are sampled. A leader evaluates a table of attempts at every tick, and leaders are paused,
    /// killed and disconnected.
    Sampled,
}

impl Flavour {
    /// Every flavour that a scenario can have.
    pub const ALL: [Self; 10] = [
        Self::Calm,
        Self::OneBroken,
        Self::Faulty,
        Self::Flapping,
        Self::NoWrites,
        Self::BrokenProber,
        Self::ShortLived,
        Self::Crowd,
        Self::LongAbsence,
        Self::Sampled,
    ];

    /// Returns whether some callers misbehave: they drop permits, exceed their probe's deadline, or report no
    /// outcome.
    pub(super) fn has_rude_callers(self) -> bool {
        matches!(self, Self::Calm | Self::OneBroken | Self::Faulty | Self::Flapping | Self::LongAbsence)
    }

    /// Returns whether the store or the connection to it fails.
    pub(super) fn has_faults(self) -> bool {
        matches!(self, Self::Faulty | Self::Flapping | Self::NoWrites | Self::LongAbsence | Self::Sampled)
    }
}

/// The index of the worker whose own network is broken, in scenarios that have one.
pub(super) const BROKEN_WORKER: usize = 0;

/// The scenario for one run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed that the scenario is generated from.
    pub seed: u64,
    /// The kind of faults in the run.
    pub flavour: Flavour,
    pub(super) policy: Policy,
    pub(super) settings: Settings,
    pub(super) consistency: Consistency,
    pub(super) workers: Vec<WorkerPlan>,
    pub(super) endpoints: Vec<Vec<Phase>>,
    /// How often messages are lost during faults.
    pub(super) losses: Losses,
    /// The faults and operator interventions, ordered by time.
    pub(super) events: Vec<(Duration, Event)>,
    /// The period in which no worker calls any endpoint, or `None` if workers call all the time.
    pub(super) quiet: Option<(Duration, Duration)>,
    /// The time at which all faults end and all endpoints are healthy.
    pub(super) healed_at: Duration,
    /// How circuits are sampled, or `None` if circuits count every outcome themselves.
    pub(super) sampled: Option<SampledPlan>,
}

/// The plan for one worker, across its restarts.
#[derive(Clone, Debug)]
pub(super) struct WorkerPlan {
    pub(super) on_loss: OnStoreLoss,
    /// The time that the worker's clock shows at the start of the run, relative to `Timestamp::ZERO`.
    pub(super) skew: Duration,
    /// For each endpoint, the mean interval between two calls.
    pub(super) every: Vec<Duration>,
    /// The time at which the worker's own network breaks, so that it can't reach any endpoint. `None` if it
    /// never does.
    pub(super) broken_from: Option<Duration>,
    /// The life cycle of a worker that exits regularly. `None` if the worker lives until a fault kills it.
    pub(super) short_lived: Option<ShortLived>,
}

/// The life cycle of a worker that exits regularly.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortLived {
    /// The number of calls before the worker exits.
    pub(super) calls: u32,
    /// The mean time between the worker's exit and its next start.
    pub(super) pause: Duration,
}

/// The rates of message losses, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) requests: u32,
    pub(super) answers: u32,
    pub(super) pushes: u32,
    /// The rate of requests that take longer than any timeout.
    pub(super) spikes: u32,
}

/// The behaviour of an endpoint, starting at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) from: Duration,
    pub(super) behaviour: Behaviour,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behaviour {
    Well,
    Dead,
    /// This share of calls fails, in percent.
    Flaky(u32),
    /// All calls succeed, but take this many milliseconds.
    Slow(u64),
    Hangs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    Refuses,
    BlackHole,
    LosesAnswers,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Event {
    Pause {
        worker: usize,
        lasts: Duration,
    },
    Crash {
        worker: usize,
        back_after: Duration,
    },
    Cut {
        worker: usize,
        how: Cut,
        lasts: Duration,
    },
    /// No worker can reach the store.
    CutAll {
        how: Cut,
        lasts: Duration,
    },
    /// The store answers reads and rejects writes.
    NoWrites {
        lasts: Duration,
    },
    /// The store stalls, and executes all waiting requests when the stall ends.
    Stall {
        lasts: Duration,
    },
    Flush,
    /// The store fails over to a replica, and loses the writes that were made less than `lost` before the
    /// failover.
    Failover {
        lost: Duration,
    },
    Order {
        worker: usize,
        endpoint: usize,
        command: OverrideCommand,
    },
    /// A fault that strikes the worker that is the leader at the time.
    OnLeader(LeaderFault),
}

impl Scenario {
    /// Returns the scenario for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut chance = ScenarioRng(SmallRng::seed_from_u64(seed));
        let flavour = match chance.0.random_range(0..20) {
            0..=2 => Flavour::Calm,
            3 | 4 => Flavour::OneBroken,
            5..=9 => Flavour::Faulty,
            10 | 11 => Flavour::Flapping,
            12 | 13 => Flavour::NoWrites,
            14 => Flavour::BrokenProber,
            15 => Flavour::ShortLived,
            16 => Flavour::Crowd,
            17 => Flavour::LongAbsence,
            _ => Flavour::Sampled,
        };
        let mut scenario = match flavour {
            Flavour::Calm | Flavour::OneBroken | Flavour::Faulty | Flavour::Flapping => {
                Self::any(seed, flavour, &mut chance)
            }
            Flavour::NoWrites => Self::no_writes(seed, &mut chance),
            Flavour::BrokenProber => Self::broken_prober(seed, &mut chance),
            Flavour::ShortLived => Self::short_lived(seed, &mut chance),
            Flavour::Crowd => Self::crowd(seed, &mut chance),
            Flavour::LongAbsence => Self::long_absence(seed, &mut chance),
            Flavour::Sampled => Self::sampled(seed, &mut chance),
        };
        // In strict mode, consecutive failures in one worker open a circuit without waiting for the others'
        // successes. Sampled circuits do not count calls, so there is nothing to count strictly.
        if !matches!(flavour, Flavour::OneBroken | Flavour::Sampled) && chance.one_in(4) {
            scenario.consistency = Consistency::Strict;
        }
        scenario.events.sort_by_key(|(at, _)| *at);
        scenario
    }

    /// Returns a scenario in which the endpoints, the faults and all numbers are random.
    fn any(seed: u64, flavour: Flavour, chance: &mut ScenarioRng) -> Self {
        let settings = settings(chance);
        let policy = if flavour == Flavour::OneBroken { rates_only(chance) } else { policy(chance) };
        let healed_at = chance.ms(8_000, 30_000);
        let workers = workers(flavour, chance);
        let endpoints = endpoints(flavour, workers[0].every.len(), healed_at, chance);
        let mut scenario = Self {
            seed,
            flavour,
            policy,
            settings,
            consistency: Consistency::LocalFirst,
            losses: Losses::default(),
            events: Vec::new(),
            quiet: None,
            sampled: None,
            healed_at,
            workers,
            endpoints,
        };
        match flavour {
            Flavour::Faulty => {
                scenario.add_orders(chance);
                scenario.add_faults(chance);
            }
            Flavour::Flapping => scenario.add_flapping(chance),
            Flavour::Calm => scenario.add_orders(chance),
            _ => {}
        }
        scenario
    }

    pub(super) fn is_strict(&self) -> bool {
        self.consistency == Consistency::Strict
    }

    /// Returns the maximum time between two calls to the same endpoint by any worker.
    pub(super) fn called_every(&self) -> Duration {
        let longest = self.workers.iter().flat_map(|worker| &worker.every).max().copied().unwrap_or_default();
        2 * longest
    }
}
