//! The policy: the numbers that govern a circuit.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Policy`] | the numbers, checked; nothing else in the core accepts raw ones |
//! | [`PolicyBuilder`] | the numbers as somebody gave them, in code or in a file; [`build`](PolicyBuilder::build) checks them all |
//! | [`Preset`] | the numbers of breakers that people know |
//! | [`PolicyError`] | one field and the reason why it was refused |
//!
//! Why each default is what it is: `docs/defaults.md`.

mod bounds;
mod builder;
mod duration;
mod error;
mod file;
mod preset;

use core::time::Duration;

pub use bounds::POLICY_BOUNDS;
pub use builder::{Percentage, PolicyBuilder};
pub use duration::{DurationError, MAX_DURATION, format_duration, parse_duration};
pub use error::{PolicyError, PolicyErrorReason};
pub use file::POLICY_KEYS;
pub use preset::{Preset, UnknownPreset};

use crate::backoff::Backoff;
use crate::fault::Fault;
use crate::token::RandomBits;

/// The numbers that govern a circuit, checked.
///
/// ```
/// use breakerbox_core::Policy;
/// use core::time::Duration;
///
/// let policy = Policy::builder().window(Duration::from_secs(120)).failures(20).build()?;
/// assert_eq!(policy.failures(), Some(20));
/// assert_eq!(policy.probes(), 3, "what is not said has its default");
///
/// let refused = Policy::builder().failure_rate(150).build().unwrap_err();
/// assert_eq!(refused.to_string(), "failure_rate: must be 1 to 100, but is 150");
/// # Ok::<(), breakerbox_core::PolicyError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    window: Duration,
    min_calls: u64,
    failure_rate: Option<u8>,
    failures: Option<u64>,
    consecutive_failures: Option<u64>,
    mean_latency: Option<Duration>,
    slow_call: Option<Duration>,
    slow_rate: Option<u8>,
    cool_off: Backoff,
    probes: u32,
    probe_timeout: Duration,
    ramp_cap: Option<u32>,
    forgive_after: Duration,
    disable_after: Option<u32>,
    disable_min: Duration,
    cancel_grace: Duration,
    recovery_rate: u8,
    sample_recent: Option<u32>,
    /// Built for sampling: a leader judges totals, and calls are not counted one by one.
    is_sampled: bool,
    #[cfg(feature = "sabotage")]
    fault: Option<Fault>,
}

impl Default for Policy {
    /// The defaults of `docs/defaults.md`.
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            min_calls: 10,
            failure_rate: Some(50),
            failures: None,
            consecutive_failures: Some(5),
            mean_latency: None,
            slow_call: None,
            slow_rate: None,
            cool_off: Backoff {
                first: Duration::from_secs(30),
                factor: 2.0,
                max: Duration::from_secs(600),
                jitter_percent: 10,
            },
            probes: 3,
            probe_timeout: Duration::from_secs(10),
            ramp_cap: Some(64),
            forgive_after: Duration::from_secs(600),
            disable_after: None,
            disable_min: Duration::ZERO,
            cancel_grace: Duration::from_secs(1),
            recovery_rate: 100,
            sample_recent: Some(3),
            is_sampled: false,
            #[cfg(feature = "sabotage")]
            fault: None,
        }
    }
}

impl Policy {
    /// Starts from the defaults.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// The same policy without jitter, for results that can be reproduced.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.cool_off.jitter_percent = 0;
        self
    }

    /// The same policy with a fault that was mended. Only for tests of tests.
    #[cfg(feature = "sabotage")]
    #[doc(hidden)]
    #[must_use]
    pub const fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Whether this fault was put back.
    #[cfg(feature = "sabotage")]
    pub(crate) fn has_fault(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Whether this fault was put back: none can be.
    #[cfg(not(feature = "sabotage"))]
    #[expect(clippy::unused_self, reason = "with the feature `sabotage` the policy says so")]
    pub(crate) const fn has_fault(&self, _fault: Fault) -> bool {
        false
    }

    /// The same policy for the circuit that a process of a fleet keeps for itself: it disables nothing, and has no ramp.
    pub(crate) fn for_one_process(&self) -> Self {
        Self { disable_after: None, ramp_cap: None, ..self.clone() }
    }

    /// The rolling time over which outcomes count.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// How many calls the rates and the mean need before they say anything.
    #[must_use]
    pub const fn min_calls(&self) -> u64 {
        self.min_calls
    }

    /// Trip at this percentage of failures.
    #[must_use]
    pub const fn failure_rate(&self) -> Option<u8> {
        self.failure_rate
    }

    /// Trip at this many failures.
    #[must_use]
    pub const fn failures(&self) -> Option<u64> {
        self.failures
    }

    /// Trip at this many failures in a row.
    #[must_use]
    pub const fn consecutive_failures(&self) -> Option<u64> {
        self.consecutive_failures
    }

    /// Trip at this mean latency.
    #[must_use]
    pub const fn mean_latency(&self) -> Option<Duration> {
        self.mean_latency
    }

    /// From which latency on a call is slow.
    #[must_use]
    pub const fn slow_call(&self) -> Option<Duration> {
        self.slow_call
    }

    /// Trip at this percentage of slow calls.
    #[must_use]
    pub const fn slow_rate(&self) -> Option<u8> {
        self.slow_rate
    }

    /// How long the first trip keeps the circuit open.
    #[must_use]
    pub const fn cool_off(&self) -> Duration {
        self.cool_off.first
    }

    /// By how much the cool-off grows with each further trip.
    #[must_use]
    pub const fn cool_off_factor(&self) -> f64 {
        self.cool_off.factor
    }

    /// The longest cool-off.
    #[must_use]
    pub const fn cool_off_max(&self) -> Duration {
        self.cool_off.max
    }

    /// By how many percent the cool-off is spread, either way.
    #[must_use]
    pub const fn jitter(&self) -> u8 {
        self.cool_off.jitter_percent
    }

    /// How many successful probes close the circuit; in sampling mode, how many samples decide.
    #[must_use]
    pub const fn probes(&self) -> u32 {
        self.probes
    }

    /// How long one probe may take.
    #[must_use]
    pub const fn probe_timeout(&self) -> Duration {
        self.probe_timeout
    }

    /// How many calls in flight end the ramp.
    #[must_use]
    pub const fn ramp_cap(&self) -> Option<u32> {
        self.ramp_cap
    }

    /// How long a circuit must have been closed for its earlier trips to be forgotten.
    #[must_use]
    pub const fn forgive_after(&self) -> Duration {
        self.forgive_after
    }

    /// At which trip the circuit is disabled.
    #[must_use]
    pub const fn disable_after(&self) -> Option<u32> {
        self.disable_after
    }

    /// How long the circuit must have failed to be disabled, from the first failure after the latest success.
    #[must_use]
    pub const fn disable_min(&self) -> Duration {
        self.disable_min
    }

    /// Until when after its start a dropped permit is a cancellation and not a failure.
    #[must_use]
    pub const fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }

    /// In sampling mode: the percentage of successes that closes a half-open circuit.
    #[must_use]
    pub const fn recovery_rate(&self) -> u8 {
        self.recovery_rate
    }

    /// In sampling mode: how many of the latest ticks are judged by themselves, beside the whole window.
    #[must_use]
    pub const fn sample_recent(&self) -> Option<u32> {
        self.sample_recent
    }

    /// Whether it was [built for sampling](PolicyBuilder::build_for_sampling).
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Whether any rule or count needs to know how long calls take.
    #[must_use]
    pub const fn looks_at_latency(&self) -> bool {
        self.mean_latency.is_some() || self.slow_call.is_some()
    }

    /// The latency below which a success is harmless: it is not slow, and brings no mean up to its limit.
    #[must_use]
    pub fn harmless_latency(&self) -> Option<Duration> {
        match (self.mean_latency, self.slow_call) {
            (Some(mean), Some(slow)) => Some(mean.min(slow)),
            (mean, slow) => mean.or(slow),
        }
    }

    /// How long the `trips`-th trip keeps the circuit open.
    pub(crate) fn cool_off_after(&self, trips: u32, draw: RandomBits) -> Duration {
        self.cool_off.delay(trips, draw)
    }
}
