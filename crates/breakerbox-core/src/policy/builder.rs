//! The policy builder, and the checks of its fields.

use core::time::Duration;

use super::bounds::bounds_of;
use super::duration::{MAX_DURATION, format_duration};
use super::error::{PolicyError, PolicyErrorReason as Reason};
use super::{Policy, Preset};
#[cfg(feature = "sabotage")]
use crate::fault::Fault;

/// A policy's settings, as given in code or in a policy file. A field that is not set has the preset's value or,
/// without a preset, its default.
///
/// Setters that take an `Option` also accept the plain value; `None` is the policy file's `"off"`.
///
/// A policy file in TOML or JSON deserializes into this type:
///
/// ```
/// use breakerbox_core::PolicyBuilder;
///
/// let builder: PolicyBuilder = toml::from_str(r#"
///     preset = "convoy"
///     window = "10m"
///     disable_after = "off"
/// "#).unwrap();
/// let policy = builder.build().unwrap();
/// assert_eq!(policy.failure_rate(), Some(70));
/// assert_eq!(policy.disable_after(), None);
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
#[must_use]
pub struct PolicyBuilder {
    // A field that can be off has two layers of `Option`: whether it was set, and whether it is on.
    pub(super) preset: Option<Preset>,
    pub(super) window: Option<Duration>,
    pub(super) min_calls: Option<u64>,
    pub(super) failure_rate: Option<Option<u64>>,
    pub(super) failures: Option<Option<u64>>,
    pub(super) consecutive_failures: Option<Option<u64>>,
    pub(super) mean_latency: Option<Option<Duration>>,
    pub(super) slow_call: Option<Option<Duration>>,
    pub(super) slow_rate: Option<Option<u64>>,
    pub(super) cool_off: Option<Duration>,
    pub(super) cool_off_factor: Option<f64>,
    pub(super) cool_off_max: Option<Duration>,
    pub(super) jitter: Option<u64>,
    pub(super) probes: Option<u64>,
    pub(super) probe_timeout: Option<Duration>,
    pub(super) ramp_cap: Option<Option<u64>>,
    pub(super) forgive_after: Option<Duration>,
    pub(super) disable_after: Option<Option<u64>>,
    pub(super) disable_min: Option<Duration>,
    pub(super) cancel_grace: Option<Duration>,
    pub(super) recovery_rate: Option<u64>,
    pub(super) sample_recent: Option<Option<u64>>,
    #[cfg(feature = "sabotage")]
    pub(super) fault: Option<Fault>,
}

/// A percentage, as a whole number from 1 to 100, or `None` to turn the rule off. Fractions are not accepted:
///
/// ```compile_fail,E0277
/// breakerbox_core::Policy::builder().failure_rate(0.5);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a percentage: percentages are whole numbers, so write `50` for a half, not `0.5`",
    label = "expected a whole number from 1 to 100, or `None` to turn the rule off"
)]
pub trait Percentage: Into<Option<u64>> + sealed::Sealed {}

impl Percentage for u64 {}

impl Percentage for Option<u64> {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for u64 {}

    impl Sealed for Option<u64> {}
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $argument:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $argument) -> Self {
            self.$name = Some($name.into());
            self
        }
    )*};
}

impl PolicyBuilder {
    setters! {
        /// Starts from the settings of a known circuit breaker, such as [`Preset::Stoplight`].
        preset: Preset;
        /// Sets the length of the rolling window over which outcomes count. At least a millisecond.
        window: Duration;
        /// Sets the number of calls in the window below which rates and the mean latency are not evaluated, 1 to
        /// 1,000,000,000.
        min_calls: u64;
        /// Trips the circuit at this percentage of failures, 1 to 100.
        failure_rate: impl Percentage;
        /// Trips the circuit at this many failures in the window, 1 to 1,000,000,000.
        failures: impl Into<Option<u64>>;
        /// Trips the circuit at this many failures in a row, 1 to 1,000,000,000.
        consecutive_failures: impl Into<Option<u64>>;
        /// Trips the circuit at this mean latency.
        mean_latency: impl Into<Option<Duration>>;
        /// Sets the latency at or above which a call is slow.
        slow_call: impl Into<Option<Duration>>;
        /// Trips the circuit at this percentage of slow calls, 1 to 100. Requires `slow_call`.
        slow_rate: impl Percentage;
        /// Sets how long the circuit stays open after the first trip. It stays open for at least as long as the call
        /// took whose outcome opened it.
        cool_off: Duration;
        /// Sets the factor by which the cool-off grows with each further trip. At least 1, which keeps the cool-off
        /// constant. A trip of a closed circuit waits for at most 30 s, or for `cool_off` if that is longer; only failed
        /// probes make it longer.
        cool_off_factor: f64;
        /// Sets the maximum cool-off.
        cool_off_max: Duration;
        /// Sets the percentage by which the cool-off varies at random, in both directions, 0 to 100.
        jitter: u64;
        /// Sets the number of successful probes that close the circuit, 1 to 1,000,000.
        probes: u64;
        /// Sets the timeout of a probe.
        probe_timeout: Duration;
        /// Sets the number of calls in flight at which the ramp ends, 1 (no ramp) to 1,000,000.
        ramp_cap: impl Into<Option<u64>>;
        /// Sets the time after which a closed circuit's trips are forgiven. They are forgiven earlier once the circuit
        /// has been closed for ten times its last cool-off.
        forgive_after: Duration;
        /// Sets the number of trips at which the circuit is disabled, 1 to 1,000,000.
        disable_after: impl Into<Option<u64>>;
        /// Sets how long the circuit must have failed before it can be disabled, from the first failure after the
        /// latest success. May be zero.
        disable_min: Duration;
        /// Sets the time after a permit's start within which dropping the permit is a cancellation. With zero, every
        /// drop is a failure.
        cancel_grace: Duration;
        /// Sets, for sampling mode, the percentage of successes that closes a half-open circuit, 1 to 100.
        recovery_rate: u64;
        /// Sets, for sampling mode, the number of latest ticks that are also evaluated on their own, in addition to the
        /// whole window, 1 to 1,000.
        sample_recent: impl Into<Option<u64>>;
    }

    /// Returns the same builder with a known fault injected, to test that the tests detect the fault.
    #[cfg(feature = "sabotage")]
    #[doc(hidden)]
    pub const fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Returns the preset that was set; `None` if none was.
    #[must_use]
    pub const fn given_preset(&self) -> Option<Preset> {
        self.preset
    }

    /// Builds the policy for circuits that count every outcome.
    ///
    /// # Errors
    /// The error names the first field that is out of range or inconsistent with the others.
    pub fn build(&self) -> Result<Policy, PolicyError> {
        let policy = self.checked(self.preset.map_or_else(Policy::default, Preset::policy))?;
        let rules = [
            policy.failure_rate.is_some(),
            policy.failures.is_some(),
            policy.consecutive_failures.is_some(),
            policy.mean_latency.is_some(),
            policy.slow_rate.is_some(),
        ];
        if !rules.contains(&true) {
            return Err(PolicyError::new("policy", Reason::NoRule));
        }
        Ok(policy)
    }

    /// Builds the policy for sampled circuits whose sampler returns totals only. Totals contain neither the order of
    /// outcomes nor the number of slow calls. Therefore `consecutive_failures` and `slow_rate` are off, and setting
    /// either is an error. There is no ramp and `ramp_cap` has no effect, because a ramp counts settled calls, and
    /// sampled calls need not settle.
    ///
    /// # Errors
    /// As [`build`](Self::build), and if a rule is set that samples contain no data for.
    pub fn build_for_sampling(&self) -> Result<Policy, PolicyError> {
        self.sampled(false)
    }

    /// Builds the policy for sampled circuits whose sampler also returns the [number of consecutive
    /// failures](crate::Sample::failure_run). This is the same as [`build_for_sampling`](Self::build_for_sampling),
    /// except that `consecutive_failures` can be set.
    ///
    /// # Errors
    /// As [`build_for_sampling`](Self::build_for_sampling).
    pub fn build_for_sampling_with_runs(&self) -> Result<Policy, PolicyError> {
        self.sampled(true)
    }

    fn sampled(&self, has_runs: bool) -> Result<Policy, PolicyError> {
        if !has_runs && self.consecutive_failures.flatten().is_some() {
            return Err(PolicyError::new("consecutive_failures", Reason::NoRunsSampled));
        }
        if self.slow_rate.flatten().is_some() {
            return Err(PolicyError::new("slow_rate", Reason::NotSampled));
        }
        let preset = self.preset.map_or_else(Policy::default, Preset::policy);
        let consecutive_failures = preset.consecutive_failures.filter(|_| has_runs);
        let checked = self.checked(Policy { consecutive_failures, slow_rate: None, ..preset })?;
        let policy = Policy { ramp_cap: None, is_sampled: true, ..checked };
        let rules = [
            policy.failure_rate.is_some(),
            policy.failures.is_some(),
            policy.consecutive_failures.is_some(),
            policy.mean_latency.is_some(),
        ];
        if !rules.contains(&true) {
            return Err(PolicyError::new("policy", Reason::NoSampledRule));
        }
        Ok(policy)
    }

    /// Applies the fields that were set to `base`, and checks the result.
    fn checked(&self, base: Policy) -> Result<Policy, PolicyError> {
        let mut policy = base;
        if let Some(window) = self.window {
            policy.window = non_zero("window", "60s", window)?;
        }
        if let Some(calls) = self.min_calls {
            policy.min_calls = within("min_calls", calls)?;
        }
        if let Some(rate) = self.failure_rate {
            policy.failure_rate = rate.map(|rate| within("failure_rate", rate)).transpose()?;
        }
        if let Some(failures) = self.failures {
            policy.failures = failures.map(|count| within("failures", count)).transpose()?;
        }
        if let Some(failures) = self.consecutive_failures {
            policy.consecutive_failures =
                failures.map(|count| within("consecutive_failures", count)).transpose()?;
        }
        if let Some(mean) = self.mean_latency {
            policy.mean_latency = mean.map(|mean| non_zero("mean_latency", "5s", mean)).transpose()?;
        }
        if let Some(slow) = self.slow_call {
            policy.slow_call = slow.map(|slow| non_zero("slow_call", "2s", slow)).transpose()?;
        }
        if let Some(rate) = self.slow_rate {
            policy.slow_rate = rate.map(|rate| within("slow_rate", rate)).transpose()?;
        }
        if policy.slow_rate.is_some() && policy.slow_call.is_none() {
            return Err(PolicyError::new("slow_rate", Reason::NeedsSlowCall));
        }
        if let Some(first) = self.cool_off {
            policy.cool_off.first = non_zero("cool_off", "30s", first)?;
        }
        if let Some(factor) = self.cool_off_factor {
            if !factor.is_finite() || factor < 1.0 {
                return Err(PolicyError::new("cool_off_factor", Reason::NotAFactor { found: factor }));
            }
            policy.cool_off.factor = factor;
        }
        if let Some(max) = self.cool_off_max {
            policy.cool_off.max = non_zero("cool_off_max", "5m", max)?;
        }
        if policy.cool_off.first > policy.cool_off.max {
            return Err(self.cool_off_above_max(&policy));
        }
        if let Some(jitter) = self.jitter {
            policy.cool_off.jitter_percent = within("jitter", jitter)?;
        }
        if let Some(probes) = self.probes {
            policy.probes = within("probes", probes)?;
        }
        if let Some(timeout) = self.probe_timeout {
            policy.probe_timeout = non_zero("probe_timeout", "10s", timeout)?;
        }
        if let Some(cap) = self.ramp_cap {
            policy.ramp_cap = cap.map(|cap| within("ramp_cap", cap)).transpose()?;
        }
        if let Some(forgive) = self.forgive_after {
            policy.forgive_after = non_zero("forgive_after", "10s", forgive)?;
        }
        if let Some(trips) = self.disable_after {
            policy.disable_after = trips.map(|trips| within("disable_after", trips)).transpose()?;
        }
        if let Some(min) = self.disable_min {
            policy.disable_min = bounded("disable_min", min)?;
        }
        if let Some(grace) = self.cancel_grace {
            policy.cancel_grace = bounded("cancel_grace", grace)?;
        }
        if let Some(rate) = self.recovery_rate {
            policy.recovery_rate = within("recovery_rate", rate)?;
        }
        if let Some(ticks) = self.sample_recent {
            policy.sample_recent = ticks.map(|ticks| within("sample_recent", ticks)).transpose()?;
        }
        #[cfg(feature = "sabotage")]
        {
            policy.fault = self.fault;
        }
        Ok(policy)
    }

    /// Creates the error for a first cool-off above the maximum. The error names the field that was set.
    fn cool_off_above_max(&self, policy: &Policy) -> PolicyError {
        let (first, max) = (format_duration(policy.cool_off.first), format_duration(policy.cool_off.max));
        if self.cool_off.is_none() {
            PolicyError::new("cool_off_max", Reason::BelowCoolOff { cool_off: first, found: max })
        } else {
            PolicyError::new("cool_off", Reason::AboveCoolOffMax { max, found: first })
        }
    }
}

/// Returns the number if it is in the field's valid range, otherwise an error.
fn within<T: TryFrom<u64>>(field: &str, found: u64) -> Result<T, PolicyError> {
    let bounds = bounds_of(field);
    let (min, max) = (*bounds.start(), *bounds.end());
    let number = T::try_from(found).ok().filter(|_| bounds.contains(&found));
    number.ok_or_else(|| PolicyError::new(field, Reason::OutOfRange { min, max, found }))
}

fn non_zero(field: &str, example: &'static str, found: Duration) -> Result<Duration, PolicyError> {
    if found.is_zero() {
        return Err(PolicyError::new(field, Reason::ZeroDuration { example }));
    }
    // Time is counted in microseconds, so a much shorter duration would round to zero.
    if found < Duration::from_millis(1) {
        return Err(PolicyError::new(field, Reason::DurationTooShort));
    }
    bounded(field, found)
}

fn bounded(field: &str, found: Duration) -> Result<Duration, PolicyError> {
    if found > MAX_DURATION {
        return Err(PolicyError::new(field, Reason::DurationTooLong));
    }
    Ok(found)
}
