//! The throttle: in front of a destination that is alive but drowning, it sends what the destination can take and sheds
//! the rest at once, the least important first. It never queues.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Throttle`] | one throttle, whole: ask, settle, retry |
//! | [`Pass`], [`Shed`], [`LoadSignal`] | what callers hold, hear and say |
//! | [`Strategy::Adaptive`] | sheds by a rate learnt from accepts, in strict order of priority |
//! | [`Strategy::Sre`] | sheds by the published formula |
//! | [`Levels`], [`Priority`] | how important a call is |
//!
//! Time and random samples are arguments. All methods take `&self` and none ever waits: threads share counters, and
//! where something heavier is to be done, whoever comes first does it and the others go on.
//!
//! What is guaranteed: where nothing was ever rejected and calls are answered in time, nothing is shed. The adaptive strategy
//! sheds nothing for an overload before ten outcomes with an accept among them, and whatever happened, it lets a call through
//! at least every 2 s, if one asks. What is not: exact counts among threads that meet in the same nanosecond; and that rejects
//! which have nothing to do with load are told from an overload. Two in a hundred of them do no harm to the adaptive strategy,
//! ten in a hundred make it shed most calls.

mod adaptive;
mod policy;
mod priority;
mod retry;
mod shared;
mod snapshot;
mod sre;

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use adaptive::Adaptive;
pub use policy::{ThrottlePolicy, ThrottlePolicyBuilder, ThrottlePolicyError};
pub use priority::{Levels, NoLevels, Priority, PriorityError};
use retry::RetryBudget;
use shared::AtomicU64;
use shared::Ordering::Relaxed;
pub use snapshot::{ThrottleSnapshot, ThrottleState};
use sre::Sre;

use crate::time::Timestamp;
use crate::token::RandomBits;

/// How a throttle decides what is shed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// By a rate learnt from accepts, handed out in strict order of priority.
    #[default]
    Adaptive,
    /// By the published formula: with a probability learnt from requests and accepts.
    Sre,
}

/// A throttle in front of one destination.
///
/// ```
/// use breakerbox_core::throttle::{Priority, Throttle, ThrottlePolicy, LoadSignal};
/// use breakerbox_core::{RandomBits, Timestamp};
///
/// let throttle = Throttle::new(&ThrottlePolicy::default());
/// match throttle.try_acquire(Priority::HIGH, RandomBits(7), Timestamp::from_millis(1_000)) {
///     Ok(pass) => {
///         // Make the call, then say whether the destination had room for it.
///         throttle.settle(pass, LoadSignal::Accept, Timestamp::from_millis(1_010));
///     }
///     Err(shed) => println!("shed; ask again in {:?}", shed.retry_in()),
/// }
/// ```
#[derive(Debug)]
pub struct Throttle {
    levels: Levels,
    brain: Brain,
    retries: RetryBudget,
    /// How many calls were shed, by level.
    shed: Box<[AtomicU64]>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the default; a box would cost each call a hop"
)]
enum Brain {
    Adaptive(Adaptive),
    Sre(Sre),
}

impl Throttle {
    /// A throttle that has seen nothing yet.
    #[must_use]
    pub fn new(policy: &ThrottlePolicy) -> Self {
        let brain = match policy.strategy() {
            Strategy::Adaptive => Brain::Adaptive(Adaptive::new(policy.levels())),
            Strategy::Sre => Brain::Sre(Sre::new(policy)),
        };
        let retries = RetryBudget::new(policy.retry_percent());
        let shed = (0..policy.levels().count()).map(|_| AtomicU64::new(0)).collect();
        Self { levels: policy.levels(), brain, retries, shed }
    }

    /// How it decides what is shed.
    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        match self.brain {
            Brain::Adaptive(_) => Strategy::Adaptive,
            Brain::Sre(_) => Strategy::Sre,
        }
    }

    /// How many priorities there are.
    #[must_use]
    pub const fn levels(&self) -> Levels {
        self.levels
    }

    /// Whether to make a call of this priority. A priority beyond the throttle's levels counts as the lowest. Only
    /// [`Strategy::Sre`] looks at the draw; for [`Strategy::Adaptive`] any will do.
    ///
    /// # Errors
    /// The call is shed: do not make it, and do not retry it.
    #[inline]
    pub fn try_acquire(&self, priority: Priority, draw: RandomBits, now: Timestamp) -> Result<Pass, Shed> {
        self.try_acquire_with(priority, || draw, now)
    }

    /// The same, for a caller to whom drawing costs something: it is asked for only where chance decides.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_with(
        &self,
        priority: Priority,
        draw: impl FnOnce() -> RandomBits,
        now: Timestamp,
    ) -> Result<Pass, Shed> {
        let level = self.levels.level_of(priority);
        let asked = match &self.brain {
            Brain::Adaptive(adaptive) => {
                adaptive.try_acquire(level, now).map(|era| Pass { level, era, asked_at: now })
            }
            Brain::Sre(sre) => {
                let probability = sre.try_acquire(level, now);
                if probability > 0.0 && draw().unit() < probability {
                    Err(Shed { reason: Reason::Probability(probability), retry_in: sre.slot() })
                } else {
                    Ok(Pass { level, era: 0, asked_at: now })
                }
            }
        };
        if asked.is_err()
            && let Some(shed) = self.shed.get(usize::from(level))
        {
            shed.fetch_add(1, Relaxed);
        }
        asked
    }

    /// Takes what became of a call.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a pass is settled once, so it is taken")]
    pub fn settle(&self, pass: Pass, verdict: LoadSignal, now: Timestamp) {
        match (&self.brain, verdict) {
            (Brain::Adaptive(adaptive), verdict) => adaptive.settle(pass.era, pass.asked_at, verdict, now),
            (Brain::Sre(sre), LoadSignal::Accept) => sre.accept(pass.level, now),
            (Brain::Sre(_), LoadSignal::Reject | LoadSignal::Neither) => {}
        }
    }

    /// Whether a failed call may be retried; if so, the retry counts as made. It asks again like any call. A shed is
    /// never retried.
    #[must_use]
    pub fn retry(&self, now: Timestamp) -> bool {
        let accepts = match &self.brain {
            Brain::Adaptive(adaptive) => adaptive.accepted(),
            Brain::Sre(sre) => sre.accepted(),
        };
        self.retries.take(accepts, now)
    }

    /// What it does now. None with [`Strategy::Sre`], which decides anew for each call.
    #[must_use]
    pub fn state(&self) -> Option<ThrottleState> {
        match &self.brain {
            Brain::Adaptive(adaptive) => Some(adaptive.state()),
            Brain::Sre(_) => None,
        }
    }

    /// What it does and has done. It costs a few loads; counts of threads that ask meanwhile may be missing.
    #[must_use]
    pub fn snapshot(&self) -> ThrottleSnapshot {
        let shed: Box<[u64]> = self.shed.iter().map(|shed| shed.load(Relaxed)).collect();
        let (rate, asked, accepted, rejected) = match &self.brain {
            Brain::Adaptive(adaptive) => {
                let [asked, accepted, rejected] = adaptive.totals();
                (adaptive.rate(), asked, accepted, Some(rejected))
            }
            Brain::Sre(sre) => (None, sre.asked(), sre.accepted(), None),
        };
        let admitted = asked.saturating_sub(shed.iter().sum());
        ThrottleSnapshot { state: self.state(), rate, admitted, accepted, rejected, shed }
    }

    /// Whether it sheds nothing now. [`Strategy::Sre`] has no such state: it decides anew for each call.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        match &self.brain {
            Brain::Adaptive(adaptive) => adaptive.is_calm(),
            Brain::Sre(_) => false,
        }
    }

    /// Whether nothing would be lost with this throttle: nobody has asked for so long that it has forgotten everything.
    #[must_use]
    pub fn is_forgettable(&self, now: Timestamp) -> bool {
        match &self.brain {
            Brain::Adaptive(adaptive) => adaptive.is_idle(now),
            Brain::Sre(sre) => sre.is_idle(now),
        }
    }
}

/// The right to make one call. It is settled once: settling takes it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a pass must be settled"]
pub struct Pass {
    level: u16,
    /// In which era of the adaptive strategy the call was sent.
    era: u32,
    asked_at: Timestamp,
}

impl Pass {
    /// When the pass was asked for.
    #[must_use]
    pub const fn asked_at(&self) -> Timestamp {
        self.asked_at
    }
}

/// What became of a call, as far as the destination's capacity goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadSignal {
    /// The destination took it, whatever it answered.
    Accept,
    /// It was out of capacity, or did not answer in time.
    Reject,
    /// Nothing can be said: cancelled, shed on the way, or an error that sending less would not change, such as a refused, reset
    /// or broken connection.
    Neither,
}

/// A call that was shed. It says why, and when to ask again.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("shed: {reason}; it may be worth asking again in {} ms", .retry_in.as_millis())]
pub struct Shed {
    reason: Reason,
    retry_in: Duration,
}

impl Shed {
    /// What caused it.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// When it may be worth asking again. A hint: others ask meanwhile. With [`Strategy::Adaptive`] at most 2 s.
    #[must_use]
    pub const fn retry_in(&self) -> Duration {
        self.retry_in
    }
}

/// What caused a shed.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Calls of this level were shed with this probability.
    Probability(f64),
    /// About this many calls a second are let through, and more important ones want them.
    Rate(f64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probability(probability) => {
                write!(f, "of calls with this priority {:.0} % are", probability * 100.0)
            }
            Self::Rate(rate) => write!(f, "about {rate:.1} calls a second are let through"),
        }
    }
}
