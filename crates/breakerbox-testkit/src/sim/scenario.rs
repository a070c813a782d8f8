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
    /// Endpoints fail, and operators intervene; the store, the network and the workers do not fail.
    Calm,
    /// Like `Calm`, and all endpoints are healthy, but one worker can't reach any of them.
    OneBroken,
    /// Endpoints, workers, the network and the store fail at random.
    Faulty,
    /// The store comes and goes so quickly that decisions made without it are not written in between.
    Flapping,
    /// The store answers reads and refuses writes, while endpoints die and recover.
    NoWrites,
    /// An endpoint dies and recovers for all workers but one, whose own network stays broken and which acquires
    /// most often.
    BrokenProber,
    /// Workers live for one or a few calls, exit gracefully, and start again without memory.
    ShortLived,
    /// Many workers call one endpoint when its circuit closes.
    Crowd,
    /// One worker is disconnected while a circuit is open, for longer than the store keeps the record of its
    /// recovery.
    LongAbsence,
    /// Circuits are sampled: a leader evaluates a table of attempts at every tick, and leaders are paused,
    /// killed and disconnected.
    Sampled,
}

impl Flavour {
    /// All flavours.
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

    /// Returns whether some callers break the rules: they drop permits, overrun their probe's deadline, or
    /// report nothing.
    pub(super) fn has_rude_callers(self) -> bool {
        matches!(self, Self::Calm | Self::OneBroken | Self::Faulty | Self::Flapping | Self::LongAbsence)
    }

    /// Returns whether the store or the connection to it fails.
    pub(super) fn has_faults(self) -> bool {
        matches!(self, Self::Faulty | Self::Flapping | Self::NoWrites | Self::LongAbsence | Self::Sampled)
    }
}

/// The worker whose own network is broken, if there is one.
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
    /// The rates of message losses during faults.
    pub(super) losses: Losses,
    /// The faults and interventions, ordered by time.
    pub(super) events: Vec<(Duration, Event)>,
    /// The period in which no worker calls any endpoint. `None`: workers call all the time.
    pub(super) quiet: Option<(Duration, Duration)>,
    /// The time at which all faults end and all endpoints are healthy.
    pub(super) healed_at: Duration,
    /// How circuits are sampled. `None`: they count every outcome.
    pub(super) sampled: Option<SampledPlan>,
}

/// The plan for one worker, through all its lives.
#[derive(Clone, Debug)]
pub(super) struct WorkerPlan {
    pub(super) on_loss: OnStoreLoss,
    /// The worker's clock at the start of the run.
    pub(super) skew: Duration,
    /// For each endpoint, the mean interval between two calls.
    pub(super) every: Vec<Duration>,
    /// The time from which the worker can't reach any endpoint. `None`: it always can.
    pub(super) broken_from: Option<Duration>,
    /// The life cycle of a worker that exits regularly. `None`: the worker lives until a fault kills it.
    pub(super) short_lived: Option<ShortLived>,
}

/// The life cycle of a worker that exits regularly.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortLived {
    /// The number of calls in one life.
    pub(super) calls: u32,
    /// The mean time between two lives.
    pub(super) pause: Duration,
}

/// The rates of message losses, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) requests: u32,
    pub(super) answers: u32,
    pub(super) pushes: u32,
    /// Requests that take longer than any timeout.
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
    /// All calls succeed, and take this many milliseconds.
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
    /// The store answers reads and refuses writes.
    NoWrites {
        lasts: Duration,
    },
    /// The store stalls, and then executes all requests.
    Stall {
        lasts: Duration,
    },
    Flush,
    /// The writes in this period before the failover are lost.
    Failover {
        lost: Duration,
    },
    Order {
        worker: usize,
        endpoint: usize,
        command: OverrideCommand,
    },
    /// A fault of the worker that leads at that time.
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

    /// Returns a scenario with random endpoints, faults and numbers.
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

    /// Returns the maximum time until a worker calls an endpoint again.
    pub(super) fn called_every(&self) -> Duration {
        let longest = self.workers.iter().flat_map(|worker| &worker.every).max().copied().unwrap_or_default();
        2 * longest
    }
}
