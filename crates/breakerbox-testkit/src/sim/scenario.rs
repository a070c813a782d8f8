//! What a seed stands for: who is there, what goes wrong when, and what the numbers are. Everything else follows from it.

use std::time::Duration;

use breakerbox::{Command, Consistency, OnStoreLoss, Policy};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::bounds::Settings;
use super::draws::{Chance, endpoints, policy, rates_only, settings, workers};
use super::sampling::{LeaderFault, SampledPlan};

/// What kind of a run it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// Endpoints misbehave, and operators interfere; the store, the network and the workers do not fail.
    Calm,
    /// As calm, and all endpoints are well: but one worker can't reach any of them.
    OneBroken,
    /// Whatever can fail does.
    Faulty,
    /// The store comes and goes so quickly that what was decided without it is not published in between.
    Flapping,
    /// The store answers reads and refuses writes, while endpoints die and recover.
    NoWrites,
    /// An endpoint dies and recovers for all workers but one, whose own network stays broken, and which asks most often.
    BrokenProber,
    /// Workers live for one or a few calls, exit in an orderly way, and start again without memory.
    ShortLived,
    /// Many workers call one endpoint when its circuit closes.
    Crowd,
    /// One worker is cut off while a circuit is open, for longer than the store keeps the record of its recovery.
    LongAbsence,
    /// Circuits are sampled: a leader judges a table of attempts at every tick, and leaders are paused, killed and cut off.
    Sampled,
}

impl Flavour {
    /// All of them.
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

    /// Whether some callers break the rules: they drop permits, overrun their probe's deadline, report nothing.
    pub(super) fn has_rude_callers(self) -> bool {
        matches!(self, Self::Calm | Self::OneBroken | Self::Faulty | Self::Flapping | Self::LongAbsence)
    }

    /// Whether the store or the way to it fails.
    pub(super) fn has_faults(self) -> bool {
        matches!(self, Self::Faulty | Self::Flapping | Self::NoWrites | Self::LongAbsence | Self::Sampled)
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it was drawn from.
    pub seed: u64,
    /// What kind of a run it is.
    pub flavour: Flavour,
    pub(super) policy: Policy,
    pub(super) settings: Settings,
    pub(super) consistency: Consistency,
    pub(super) workers: Vec<WorkerPlan>,
    pub(super) endpoints: Vec<Vec<Phase>>,
    /// In thousandths, while things fail.
    pub(super) losses: Losses,
    /// In order of time.
    pub(super) events: Vec<(Duration, Event)>,
    /// While nobody calls any endpoint.
    pub(super) quiet: Option<(Duration, Duration)>,
    /// From then on nothing fails any more, and all endpoints are well.
    pub(super) healed_at: Duration,
    /// How circuits are sampled; none: they hear of every outcome.
    pub(super) sampled: Option<SampledPlan>,
}

/// One worker, through all its lives.
#[derive(Clone, Debug)]
pub(super) struct WorkerPlan {
    pub(super) on_loss: OnStoreLoss,
    /// By how much its clock is ahead.
    pub(super) skew: Duration,
    /// For each endpoint: how often it calls it, on average.
    pub(super) every: Vec<Duration>,
    /// From when on it reaches no endpoint.
    pub(super) broken_from: Option<Duration>,
    /// None: it lives until something kills it.
    pub(super) short_lived: Option<ShortLived>,
}

/// How a worker lives that exits by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortLived {
    /// How many calls it makes in a life.
    pub(super) calls: u32,
    /// For how long, on average, it does not run after that.
    pub(super) pause: Duration,
}

/// How often what gets lost, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) requests: u32,
    pub(super) answers: u32,
    pub(super) pushes: u32,
    /// Requests that take longer than anybody waits.
    pub(super) spikes: u32,
}

/// How an endpoint is from some time on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) from: Duration,
    pub(super) behaviour: Behaviour,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behaviour {
    Well,
    Dead,
    /// Fails this often, in percent.
    Flaky(u32),
    /// Well, but takes this many milliseconds.
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
    /// The store is there for nobody.
    CutAll {
        how: Cut,
        lasts: Duration,
    },
    /// The store answers reads, and refuses to write.
    NoWrites {
        lasts: Duration,
    },
    /// The store stands still, and then does what it was asked.
    Stall {
        lasts: Duration,
    },
    Flush,
    /// What was written in this time before is lost.
    Failover {
        lost: Duration,
    },
    Order {
        worker: usize,
        endpoint: usize,
        command: Command,
    },
    /// Something befalls whoever leads then.
    OnLeader(LeaderFault),
}

impl Scenario {
    /// The run that this seed stands for.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance(SmallRng::seed_from_u64(seed));
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
        // Strictly, a run of one worker's failures opens a circuit: nobody waits for the others' successes.
        // Sampled circuits count nothing by calls, so that nothing can be counted strictly.
        if !matches!(flavour, Flavour::OneBroken | Flavour::Sampled) && chance.one_in(4) {
            scenario.consistency = Consistency::Strict;
        }
        scenario.events.sort_by_key(|(at, _)| *at);
        scenario
    }

    /// Endpoints, faults and numbers as they come.
    fn any(seed: u64, flavour: Flavour, chance: &mut Chance) -> Self {
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

    /// How long it takes, at most, until a worker calls an endpoint again.
    pub(super) fn called_every(&self) -> Duration {
        let longest = self.workers.iter().flat_map(|worker| &worker.every).max().copied().unwrap_or_default();
        2 * longest
    }
}
