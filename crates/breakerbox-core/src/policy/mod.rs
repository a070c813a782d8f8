//! The policy: the numbers that govern a circuit.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Policy`] | the checked numbers; no other part of the core accepts unchecked ones |
//! | [`PolicyBuilder`] | the numbers as given in code or in a file; [`build`](PolicyBuilder::build) checks them |
//! | [`Preset`] | the numbers of known breakers |
//! | [`PolicyError`] | one field, and the reason why it was refused |
//!
//! `docs/defaults.md` gives the reason for each default.

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

/// The checked numbers that govern a circuit.
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
    /// Whether the policy was built for sampling: a leader evaluates totals, and calls are not counted one by one.
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
    /// Returns a builder that starts from the defaults.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Returns the same policy without jitter, for reproducible results.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.cool_off.jitter_percent = 0;
        self
    }

    /// Returns the same policy with a fixed fault put back. Only for tests that check whether tests find the fault.
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

    /// Whether this fault was put back: without the feature, never.
    #[cfg(not(feature = "sabotage"))]
    #[expect(clippy::unused_self, reason = "with the feature `sabotage` the policy says so")]
    pub(crate) const fn has_fault(&self, _fault: Fault) -> bool {
        false
    }

    /// Returns the same policy for a process-local circuit, which is never disabled and has no ramp.
    pub(crate) fn for_one_process(&self) -> Self {
        Self { disable_after: None, ramp_cap: None, ..self.clone() }
    }

    /// The rolling time over which outcomes count. The default is 60 s.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// The number of calls in the window from which on the rates and the mean are evaluated. The default is 10.
    #[must_use]
    pub const fn min_calls(&self) -> u64 {
        self.min_calls
    }

    /// Trip at this percentage of failures, 1 to 100. `None` is off; the default is 50.
    #[must_use]
    pub const fn failure_rate(&self) -> Option<u8> {
        self.failure_rate
    }

    /// Trip at this many failures in the window. `None`, the default, is off.
    #[must_use]
    pub const fn failures(&self) -> Option<u64> {
        self.failures
    }

    /// Trip at this many failures in a row. `None` is off; the default is 5.
    #[must_use]
    pub const fn consecutive_failures(&self) -> Option<u64> {
        self.consecutive_failures
    }

    /// Trip at this mean latency. `None`, the default, is off.
    #[must_use]
    pub const fn mean_latency(&self) -> Option<Duration> {
        self.mean_latency
    }

    /// The latency from which on a call is slow. `None`, the default: no call is.
    #[must_use]
    pub const fn slow_call(&self) -> Option<Duration> {
        self.slow_call
    }

    /// Trip at this percentage of slow calls, 1 to 100. `None`, the default, is off.
    #[must_use]
    pub const fn slow_rate(&self) -> Option<u8> {
        self.slow_rate
    }

    /// The cool-off of the first trip. The default is 30 s.
    #[must_use]
    pub const fn cool_off(&self) -> Duration {
        self.cool_off.first
    }

    /// The factor by which the cool-off grows with each further trip, at least 1. The default is 2.
    #[must_use]
    pub const fn cool_off_factor(&self) -> f64 {
        self.cool_off.factor
    }

    /// The longest cool-off. The default is 10 minutes.
    #[must_use]
    pub const fn cool_off_max(&self) -> Duration {
        self.cool_off.max
    }

    /// The percentage by which the cool-off varies at random, in both directions, 0 to 100. The default is 10.
    #[must_use]
    pub const fn jitter(&self) -> u8 {
        self.cool_off.jitter_percent
    }

    /// The number of successful probes that close the circuit; in sampling mode, the number of samples that decide.
    /// The default is 3.
    #[must_use]
    pub const fn probes(&self) -> u32 {
        self.probes
    }

    /// The timeout of one probe. The default is 10 s.
    #[must_use]
    pub const fn probe_timeout(&self) -> Duration {
        self.probe_timeout
    }

    /// The number of calls in flight that ends the ramp. `None`: there is no ramp; the default is 64.
    #[must_use]
    pub const fn ramp_cap(&self) -> Option<u32> {
        self.ramp_cap
    }

    /// The time that a circuit must have been closed for its earlier trips to be forgiven. The default is 10 minutes.
    #[must_use]
    pub const fn forgive_after(&self) -> Duration {
        self.forgive_after
    }

    /// The number of trips at which the circuit is disabled. `None`, the default: never.
    #[must_use]
    pub const fn disable_after(&self) -> Option<u32> {
        self.disable_after
    }

    /// The minimum time that the circuit must have failed to be disabled, from the first failure after the latest
    /// success. The default is zero.
    #[must_use]
    pub const fn disable_min(&self) -> Duration {
        self.disable_min
    }

    /// The time after its start in which a dropped permit is a cancellation, not a failure. The default is 1 s.
    #[must_use]
    pub const fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }

    /// In sampling mode: the percentage of successes that closes a half-open circuit, 1 to 100. The default is 100.
    #[must_use]
    pub const fn recovery_rate(&self) -> u8 {
        self.recovery_rate
    }

    /// In sampling mode: the number of latest ticks that are also evaluated by themselves, beside the whole window.
    /// `None` is off; the default is 3.
    #[must_use]
    pub const fn sample_recent(&self) -> Option<u32> {
        self.sample_recent
    }

    /// Whether the policy was [built for sampling](PolicyBuilder::build_for_sampling).
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Whether any rule or count needs the latency of calls.
    #[must_use]
    pub const fn looks_at_latency(&self) -> bool {
        self.mean_latency.is_some() || self.slow_call.is_some()
    }

    /// Returns the latency below which a success is harmless: it is not slow, and raises no mean to its limit.
    /// `None`: every success is.
    #[must_use]
    pub fn harmless_latency(&self) -> Option<Duration> {
        match (self.mean_latency, self.slow_call) {
            (Some(mean), Some(slow)) => Some(mean.min(slow)),
            (mean, slow) => mean.or(slow),
        }
    }

    /// Returns the cool-off of the `trips`-th trip.
    pub(crate) fn cool_off_after(&self, trips: u32, draw: RandomBits) -> Duration {
        self.cool_off.delay(trips, draw)
    }
}
