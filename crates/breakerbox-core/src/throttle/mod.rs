//! The throttle: a limit in front of a destination that is up but overloaded. It sends as many calls as the
//! destination can take and sheds (refuses) the rest at once, the least important first. It never queues.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Throttle`] | one destination's throttle: acquire, settle, retry |
//! | [`Pass`], [`Shed`], [`LoadSignal`] | the right to call, the refusal, and the result with respect to capacity |
//! | [`Strategy::Adaptive`] | sheds by a rate learnt from accepted calls, in strict order of priority |
//! | [`Strategy::Sre`] | sheds by the published client-side throttling formula |
//! | [`Levels`], [`Priority`] | the importance of a call |
//!
//! Time and random bits are arguments. All methods take `&self` and never block: threads share counters, and if more
//! work is due, the first thread to arrive does it while the others continue.
//!
//! Guarantees: if no call was ever rejected and calls are answered in time, no call is shed. The adaptive strategy
//! sheds no call for an overload before it has seen ten outcomes with at least one accept, and in every state it
//! admits at least one call every 2 s, if a caller acquires one. Not guaranteed: exact counts if threads update them
//! in the same nanosecond; and that rejects unrelated to load are always distinguished from an overload. The adaptive
//! strategy learns them if they are at most 40 % of all calls, but sheds some calls until it has.

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

/// The method by which a throttle decides which calls to shed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// By a rate learnt from accepted calls. Calls with a higher priority use this rate first.
    #[default]
    Adaptive,
    /// By the client-side throttling formula from Google's SRE book, with a probability computed from the numbers of
    /// requests and accepts.
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
    /// The number of calls that were shed, by priority level.
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
    /// Creates a throttle without history.
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

    /// Returns the strategy that decides which calls to shed.
    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        match self.brain {
            Brain::Adaptive(_) => Strategy::Adaptive,
            Brain::Sre(_) => Strategy::Sre,
        }
    }

    /// Returns the number of priority levels.
    #[must_use]
    pub const fn levels(&self) -> Levels {
        self.levels
    }

    /// Acquires a pass for a call with this priority. A priority beyond the throttle's levels counts as the lowest.
    /// Only [`Strategy::Sre`] uses the random bits; [`Strategy::Adaptive`] ignores them.
    ///
    /// # Errors
    /// If the call is shed: do not make it, and do not retry it.
    #[inline]
    pub fn try_acquire(&self, priority: Priority, draw: RandomBits, now: Timestamp) -> Result<Pass, Shed> {
        self.try_acquire_with(priority, || draw, now)
    }

    /// As [`try_acquire`](Self::try_acquire), for callers whose random bits are expensive. `draw` is called only if the
    /// decision needs random bits.
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

    /// Settles a pass with its call's load signal.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a pass is settled once, so it is taken")]
    pub fn settle(&self, pass: Pass, verdict: LoadSignal, now: Timestamp) {
        match (&self.brain, verdict) {
            (Brain::Adaptive(adaptive), verdict) => adaptive.settle(pass.era, pass.asked_at, verdict, now),
            (Brain::Sre(sre), LoadSignal::Accept) => sre.accept(pass.level, now),
            (Brain::Sre(_), LoadSignal::Reject | LoadSignal::Neither) => {}
        }
    }

    /// Whether a failed call may be retried within the retry budget. If so, the retry counts as made. The retry must
    /// acquire a pass like any other call. Never retry a call that was shed.
    #[must_use]
    pub fn retry(&self, now: Timestamp) -> bool {
        let accepts = match &self.brain {
            Brain::Adaptive(adaptive) => adaptive.accepted(),
            Brain::Sre(sre) => sre.accepted(),
        };
        self.retries.take(accepts, now)
    }

    /// Returns the current state; `None` with [`Strategy::Sre`], which decides each call separately.
    #[must_use]
    pub fn state(&self) -> Option<ThrottleState> {
        match &self.brain {
            Brain::Adaptive(adaptive) => Some(adaptive.state()),
            Brain::Sre(_) => None,
        }
    }

    /// Returns the state and the counts. This costs a few atomic loads. Calls that other threads acquire at the same
    /// time may be missing.
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

    /// Whether the throttle admits every call at present. Always false with [`Strategy::Sre`], which decides about each
    /// call separately.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        match &self.brain {
            Brain::Adaptive(adaptive) => adaptive.is_calm(),
            Brain::Sre(_) => false,
        }
    }

    /// Whether there was no call for so long that everything this throttle learnt has expired, so that it can be
    /// dropped without loss.
    #[must_use]
    pub fn is_forgettable(&self, now: Timestamp) -> bool {
        match &self.brain {
            Brain::Adaptive(adaptive) => adaptive.is_idle(now),
            Brain::Sre(sre) => sre.is_idle(now),
        }
    }
}

/// The right to make one call. A pass is settled once; settling consumes it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a pass must be settled"]
pub struct Pass {
    level: u16,
    /// The adaptive strategy's era in which the call was sent. A new era begins when the throttle turns calm or starts
    /// probing; rejects of calls from an earlier era do not count.
    era: u32,
    asked_at: Timestamp,
}

impl Pass {
    /// Returns the time at which the pass was acquired.
    #[must_use]
    pub const fn asked_at(&self) -> Timestamp {
        self.asked_at
    }
}

/// The result of a call with respect to the destination's capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadSignal {
    /// The destination accepted the call, whether or not the call then failed.
    Accept,
    /// The destination was out of capacity, or did not respond in time.
    Reject,
    /// The result says nothing about capacity, because the call was cancelled or shed on the way, or failed with an
    /// error that fewer calls would not prevent, such as a refused, reset or broken connection.
    Neither,
}

/// The refusal of a call that was shed. It states the reason, and when to acquire again.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("shed: {reason}; it may be worth asking again in {} ms", .retry_in.as_millis())]
pub struct Shed {
    reason: Reason,
    retry_in: Duration,
}

impl Shed {
    /// Returns the reason why the call was shed.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns how long to wait before acquiring again. This is only a hint, because other callers acquire meanwhile.
    /// With [`Strategy::Adaptive`] it is at most 2 s.
    #[must_use]
    pub const fn retry_in(&self) -> Duration {
        self.retry_in
    }
}

/// The reason why a call was shed.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Calls with this priority were being shed with this probability, 0 to 1.
    Probability(f64),
    /// About this many calls per second are admitted, and calls with higher priority use them up.
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
