//! The errors of policies: the field that was refused, and how to correct it.

use alloc::string::String;
use core::fmt;

use super::duration::DurationError;
use super::file::POLICY_KEYS;
use super::preset::UnknownPreset;
use crate::file_value::FileValue;

/// A policy was refused. The error names one field and the reason.
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

    /// Returns the field, as the policy file spells it (`policy` if no single field is at fault).
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the reason for the refusal.
    #[must_use]
    pub fn reason(&self) -> &PolicyErrorReason {
        &self.reason
    }
}

/// The reason why a field of a policy was refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyErrorReason {
    /// A number is outside its range.
    #[error("must be {min} to {max}, but is {found}")]
    OutOfRange {
        /// The smallest valid number.
        min: u64,
        /// The largest valid number.
        max: u64,
        /// The number that was given.
        found: u64,
    },
    /// The growth of the cool-off is not a finite number of at least 1.
    #[error("must be a number of at least 1, but is {found}")]
    NotAFactor {
        /// The number that was given.
        found: f64,
    },
    /// The duration must not be zero.
    #[error("must be longer than zero, such as \"{example}\"")]
    ZeroDuration {
        /// A valid duration, in the notation of policy files.
        example: &'static str,
    },
    /// A duration is shorter than a millisecond.
    #[error("must be at least 1ms")]
    DurationTooShort,
    /// A duration is longer than a hundred years.
    #[error("is too long; the longest is 36500d")]
    DurationTooLong,
    /// A text is not a duration.
    #[error("{found:?} {error}")]
    BadDuration {
        /// The text that was given, shortened if it is long.
        found: String,
        /// The reason why the text is not a duration.
        error: DurationError,
    },
    /// A number is below zero.
    #[error("must not be negative, but is {found}")]
    Negative {
        /// The number that was given.
        found: i128,
    },
    /// A value has the wrong type.
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
    /// No trip rule is set that works on samples.
    #[error(
        "no trip rule is set that works on samples; set at least one of failure_rate, failures, mean_latency (or consecutive_failures, with a sampler that returns runs)"
    )]
    NoSampledRule,
    /// Samples contain no input for this rule.
    #[error("has no input in sampling mode; omit it, or set it to \"off\"")]
    NotSampled,
    /// The totals of the sampler contain no runs of failures.
    #[error(
        "has no input in sampling mode, unless the sampler returns runs of failures (SqlTable::count_runs); omit it, or set it to \"off\""
    )]
    NoRunsSampled,
    /// No field has this name.
    #[error("is not a policy key{}", DidYouMeanOrList(*nearest))]
    UnknownKey {
        /// The key with the most similar name, if there is one.
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
        /// The error that lists the presets.
        unknown: UnknownPreset,
    },
}

pub(super) struct DidYouMean(pub(super) Option<&'static str>);

impl fmt::Display for DidYouMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, "; did you mean {name}?"))
    }
}

/// Writes the most similar key or, if there is none, all keys.
struct DidYouMeanOrList(Option<&'static str>);

impl fmt::Display for DidYouMeanOrList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) => DidYouMean(self.0).fmt(f),
            None => write!(f, "; the keys are {}", POLICY_KEYS.join(", ")),
        }
    }
}
