//! Policy errors: the invalid field, and how to correct it.

use alloc::string::String;
use core::fmt;

use super::duration::DurationError;
use super::file::POLICY_KEYS;
use super::preset::UnknownPreset;
use crate::file_value::FileValue;

/// The error for an invalid policy. It names one field and states why the field is invalid.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct PolicyError {
    field: String,
    reason: PolicyErrorReason,
}

impl PolicyError {
    pub(super) fn new(field: &str, reason: PolicyErrorReason) -> Self {
        Self { field: String::from(field), reason }
    }

    /// Returns the name of the field as the policy file spells it, or `policy` if no single field is at fault.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the reason why the field is invalid.
    #[must_use]
    pub fn reason(&self) -> &PolicyErrorReason {
        &self.reason
    }
}

/// The reason why a policy field is invalid.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyErrorReason {
    /// The number is outside its range.
    #[error("must be {min} to {max}, but is {found}")]
    OutOfRange {
        /// The smallest valid number.
        min: u64,
        /// The largest valid number.
        max: u64,
        /// The number that was given.
        found: u64,
    },
    /// The cool-off factor is not a finite number of at least 1.
    #[error("must be a number of at least 1, but is {found}")]
    NotAFactor {
        /// The number that was given.
        found: f64,
    },
    /// The duration is zero, which this field does not allow.
    #[error("must be longer than zero, such as \"{example}\"")]
    ZeroDuration {
        /// A valid duration for this field, as policy files spell it.
        example: &'static str,
    },
    /// The duration is shorter than a millisecond.
    #[error("must be at least 1ms")]
    DurationTooShort,
    /// The duration is longer than a hundred years.
    #[error("is too long; the longest is 36500d")]
    DurationTooLong,
    /// The string is not a duration.
    #[error("{found:?} {error}")]
    BadDuration {
        /// The string that was given, shortened if it is long.
        found: String,
        /// The reason why the string is not a duration.
        error: DurationError,
    },
    /// The number is negative.
    #[error("must not be negative, but is {found}")]
    Negative {
        /// The number that was given.
        found: i128,
    },
    /// The value has the wrong type.
    #[error("must be {expected}, but is {found}")]
    WrongType {
        /// A description of the valid values.
        expected: &'static str,
        /// The value that was given.
        found: FileValue,
    },
    /// The field cannot be turned off.
    #[error("can't be \"off\"; set a value, or omit it for the default")]
    HasNoOff,
    /// `cool_off` is longer than `cool_off_max`.
    #[error("must be at most cool_off_max ({max}), but is {found}")]
    AboveCoolOffMax {
        /// The policy's `cool_off_max`.
        max: String,
        /// The policy's `cool_off`.
        found: String,
    },
    /// `cool_off_max` is shorter than `cool_off`.
    #[error("must be at least cool_off ({cool_off}), but is {found}")]
    BelowCoolOff {
        /// The policy's `cool_off`.
        cool_off: String,
        /// The policy's `cool_off_max`.
        found: String,
    },
    /// `slow_rate` is set without `slow_call`, which defines the slow calls.
    #[error("needs slow_call, the latency from which on a call is slow")]
    NeedsSlowCall,
    /// No trip rule is set.
    #[error(
        "no trip rule is set; set at least one of failure_rate, failures, consecutive_failures, mean_latency, slow_rate"
    )]
    NoRule,
    /// No trip rule is set that can be evaluated on samples.
    #[error(
        "no trip rule is set that works on samples; set at least one of failure_rate, failures, mean_latency (or consecutive_failures, with a sampler that returns runs)"
    )]
    NoSampledRule,
    /// Samples contain no data for this rule.
    #[error("has no input in sampling mode; omit it, or set it to \"off\"")]
    NotSampled,
    /// The sampler's totals do not contain the number of consecutive failures.
    #[error(
        "has no input in sampling mode, unless the sampler returns runs of failures (SqlTable::count_runs); omit it, or set it to \"off\""
    )]
    NoRunsSampled,
    /// No field has this name.
    #[error("is not a policy key{}", DidYouMeanOrList(*nearest))]
    UnknownKey {
        /// The valid key most similar to the unknown one; `None` if no key is similar enough.
        nearest: Option<&'static str>,
    },
    /// The field is set twice.
    #[error("is given twice; keep one")]
    Duplicate,
    /// No preset has this name.
    #[error("{found:?} {unknown}")]
    UnknownPreset {
        /// The name that was given, shortened if it is long.
        found: String,
        /// The error for the unknown name, which lists the valid presets.
        unknown: UnknownPreset,
    },
}

pub(super) struct DidYouMean(pub(super) Option<&'static str>);

impl fmt::Display for DidYouMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, "; did you mean {name}?"))
    }
}

/// Displays the most similar key or, if there is none, all keys.
struct DidYouMeanOrList(Option<&'static str>);

impl fmt::Display for DidYouMeanOrList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) => DidYouMean(self.0).fmt(f),
            None => write!(f, "; the keys are {}", POLICY_KEYS.join(", ")),
        }
    }
}
