//! The policy: the settings that govern a circuit.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Policy`] | the checked settings; no other part of the core accepts unchecked ones |
//! | [`PolicyBuilder`] | the settings as given in code or in a file; [`build`](PolicyBuilder::build) checks them |
//! | [`Preset`] | the settings of known breakers |
//! | [`PolicyError`] | one field, and the reason why it is invalid |
//!
//! `docs/defaults.md` gives the reason for each default.

mod bounds;
mod builder;
mod duration;
mod error;
mod file;
#[cfg(feature = "serde")]
mod file_serde;
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

/// The longest cool-off of a circuit that trips while it is closed, however often it tripped before.
const LONGEST_FROM_CLOSED: Duration = Duration::from_secs(30);

/// The number of its last cool-offs for which a circuit must be closed for its trips to be forgiven.
const FORGIVEN_AFTER_COOL_OFFS: u32 = 10;

/// A circuit's validated settings.
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
    /// Whether the policy was built for sampling, where a leader evaluates totals and calls are not counted
    /// individually.
    is_sampled: bool,
    #[cfg(feature = "sabotage")]
    fault: Option<Fault>,
}

impl Default for Policy {
    /// Returns the defaults that `docs/defaults.md` lists.
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
                first: Duration::from_secs(1),
                factor: 1.5,
                max: Duration::from_secs(300),
                jitter_percent: 10,
            },
            probes: 3,
            probe_timeout: Duration::from_secs(10),
            ramp_cap: Some(64),
            forgive_after: Duration::from_secs(10),
            disable_after: None,
            disable_min: Duration::from_secs(72 * 3_600),
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

    /// Returns the same policy, except that it never disables a circuit.
    #[must_use]
    pub fn without_disabling(&self) -> Self {
        Self { disable_after: None, ..self.clone() }
    }

    /// Returns the same policy without jitter, for reproducible results.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.cool_off.jitter_percent = 0;
        self
    }

    /// Returns the same policy with a known fault injected, to test that the tests detect the fault.
    #[cfg(feature = "sabotage")]
    #[doc(hidden)]
    #[must_use]
    pub const fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Whether this fault is injected.
    #[cfg(feature = "sabotage")]
    pub(crate) fn has_fault(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Always false, because faults can be injected only with the feature `sabotage`.
    #[cfg(not(feature = "sabotage"))]
    #[expect(clippy::unused_self, reason = "with the feature `sabotage` the policy says so")]
    pub(crate) const fn has_fault(&self, _fault: Fault) -> bool {
        false
    }

    /// Returns the same policy for a process-local circuit, which is never disabled and has no ramp.
    pub(crate) fn for_one_process(&self) -> Self {
        Self { disable_after: None, ramp_cap: None, ..self.clone() }
    }

    /// The length of the rolling window over which outcomes count. The default is 60 s.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// The number of calls in the window below which rates and the mean latency are not evaluated. The default is 10.
    #[must_use]
    pub const fn min_calls(&self) -> u64 {
        self.min_calls
    }

    /// The percentage of failures at which the circuit trips, 1 to 100. `None` is off; the default is 50.
    #[must_use]
    pub const fn failure_rate(&self) -> Option<u8> {
        self.failure_rate
    }

    /// The number of failures in the window at which the circuit trips. `None`, the default, is off.
    #[must_use]
    pub const fn failures(&self) -> Option<u64> {
        self.failures
    }

    /// The number of failures in a row, however far apart, at which the circuit trips. `None` is off; the default is 5.
    #[must_use]
    pub const fn consecutive_failures(&self) -> Option<u64> {
        self.consecutive_failures
    }

    /// The mean latency at which the circuit trips. `None`, the default, is off.
    #[must_use]
    pub const fn mean_latency(&self) -> Option<Duration> {
        self.mean_latency
    }

    /// The latency at or above which a call is slow. With `None`, the default, no call is slow.
    #[must_use]
    pub const fn slow_call(&self) -> Option<Duration> {
        self.slow_call
    }

    /// The percentage of slow calls at which the circuit trips, 1 to 100. `None`, the default, is off.
    #[must_use]
    pub const fn slow_rate(&self) -> Option<u8> {
        self.slow_rate
    }

    /// How long the circuit stays open after the first trip. The default is 1 s.
    #[must_use]
    pub const fn cool_off(&self) -> Duration {
        self.cool_off.first
    }

    /// The factor by which the cool-off grows with each further trip, at least 1. The default is 1.5.
    #[must_use]
    pub const fn cool_off_factor(&self) -> f64 {
        self.cool_off.factor
    }

    /// The maximum cool-off. The default is 5 minutes.
    #[must_use]
    pub const fn cool_off_max(&self) -> Duration {
        self.cool_off.max
    }

    /// The percentage by which the cool-off varies at random, in both directions, 0 to 100. The default is 10.
    #[must_use]
    pub const fn jitter(&self) -> u8 {
        self.cool_off.jitter_percent
    }

    /// The number of successful probes that close the circuit; in sampling mode, the minimum number of outcomes for a
    /// decision. The default is 3.
    #[must_use]
    pub const fn probes(&self) -> u32 {
        self.probes
    }

    /// The timeout of a probe. The default is 10 s.
    #[must_use]
    pub const fn probe_timeout(&self) -> Duration {
        self.probe_timeout
    }

    /// The number of calls in flight at which the ramp ends. `None` means no ramp; the default is 64.
    #[must_use]
    pub const fn ramp_cap(&self) -> Option<u32> {
        self.ramp_cap
    }

    /// The time after which a closed circuit's trips are forgiven. They are forgiven earlier once the circuit has been
    /// closed for ten times its last cool-off. The default is 10 s.
    #[must_use]
    pub const fn forgive_after(&self) -> Duration {
        self.forgive_after
    }

    /// The number of trips at which the circuit is disabled. `None`, the default, means never.
    #[must_use]
    pub const fn disable_after(&self) -> Option<u32> {
        self.disable_after
    }

    /// The minimum time that the circuit must have failed before it can be disabled, from the first failure after the
    /// latest success. The default is 72 hours.
    #[must_use]
    pub const fn disable_min(&self) -> Duration {
        self.disable_min
    }

    /// The time after a permit's start within which dropping the permit is a cancellation, not a failure. The default
    /// is 1 s.
    #[must_use]
    pub const fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }

    /// The percentage of successes that closes a half-open circuit in sampling mode, 1 to 100. The default is 100.
    #[must_use]
    pub const fn recovery_rate(&self) -> u8 {
        self.recovery_rate
    }

    /// The number of latest ticks that are also evaluated on their own in sampling mode, in addition to the whole
    /// window. `None` is off; the default is 3.
    #[must_use]
    pub const fn sample_recent(&self) -> Option<u32> {
        self.sample_recent
    }

    /// Whether the policy was [built for sampling](PolicyBuilder::build_for_sampling).
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Whether latencies must be counted, because the policy sets `mean_latency` or `slow_call`.
    #[must_use]
    pub const fn looks_at_latency(&self) -> bool {
        self.mean_latency.is_some() || self.slow_call.is_some()
    }

    /// Returns the latency below which a success is harmless, because the success is not slow and cannot raise the mean
    /// latency to its limit. `None` means that every success is harmless.
    #[must_use]
    pub fn harmless_latency(&self) -> Option<Duration> {
        match (self.mean_latency, self.slow_call) {
            (Some(mean), Some(slow)) => Some(mean.min(slow)),
            (mean, slow) => mean.or(slow),
        }
    }

    /// Returns the cool-off after the `trips`-th trip, by a failed probe.
    pub(crate) fn cool_off_after(&self, trips: u32, draw: RandomBits) -> Duration {
        self.cool_off.delay(trips, draw)
    }

    /// Returns the cool-off after the `trips`-th trip, from closed. The calls just before the trip show that the
    /// destination was up until then, so the cool-off grows to at most [`LONGEST_FROM_CLOSED`]; or is the first
    /// cool-off, if the policy makes that longer.
    pub(crate) fn cool_off_from_closed(&self, trips: u32, draw: RandomBits) -> Duration {
        let first = self.cool_off_after(1, draw);
        self.cool_off_after(trips, draw).min(first.max(LONGEST_FROM_CLOSED))
    }

    /// Returns how long a circuit must be closed for this many trips to be forgiven.
    pub(crate) fn forgiven_after(&self, trips: u32) -> Duration {
        let last = self.cool_off.delay_without_jitter(trips);
        last.saturating_mul(FORGIVEN_AFTER_COOL_OFFS).min(self.forgive_after)
    }
}
