//! Why a policy was refused: the field, and what to do about it.

use alloc::string::String;
use core::fmt;

use super::duration::DurationError;
use super::file::POLICY_KEYS;
use super::preset::UnknownPreset;
use crate::found::Found;

/// A policy that was refused. It names one field and says why.
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

    /// The field, as the policy file spells it (`policy` where no single field is at fault).
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Why it was refused.
    #[must_use]
    pub fn reason(&self) -> &PolicyErrorReason {
        &self.reason
    }
}

/// What is wrong with a field of a policy.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyErrorReason {
    /// A number is outside its range.
    #[error("must be {min} to {max}, but is {found}")]
    OutOfRange {
        /// The smallest that would do.
        min: u64,
        /// The largest that would do.
        max: u64,
        /// What was given.
        found: u64,
    },
    /// The growth of the cool-off is not a finite number of at least 1.
    #[error("must be a number of at least 1, but is {found}")]
    NotAFactor {
        /// What was given.
        found: f64,
    },
    /// A duration of zero makes no sense here.
    #[error("must be longer than zero, such as \"{example}\"")]
    ZeroDuration {
        /// A duration that would do.
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
        /// What was given, shortened if it is long.
        found: String,
        /// What is wrong with it.
        error: DurationError,
    },
    /// A number is below zero.
    #[error("must not be negative, but is {found}")]
    Negative {
        /// What was given.
        found: i128,
    },
    /// A value has the wrong type.
    #[error("must be {expected}, but is {found}")]
    WrongType {
        /// What would do.
        expected: &'static str,
        /// What was given.
        found: Found,
    },
    /// The field has no `"off"`.
    #[error("can't be \"off\"; give it a value or leave it out for the default")]
    HasNoOff,
    /// The first cool-off is longer than the longest.
    #[error("must be at most cool_off_max ({max}), but is {found}")]
    AboveCoolOffMax {
        /// The policy's `cool_off_max`.
        max: String,
        /// What was given.
        found: String,
    },
    /// The longest cool-off is shorter than the first.
    #[error("must be at least cool_off ({cool_off}), but is {found}")]
    BelowCoolOff {
        /// The policy's `cool_off`.
        cool_off: String,
        /// What was given.
        found: String,
    },
    /// A slow rate needs to know which calls are slow.
    #[error("needs slow_call: from which latency on is a call slow?")]
    NeedsSlowCall,
    /// There is nothing that could trip the circuit.
    #[error(
        "no trip rule is set; set at least one of failure_rate, failures, consecutive_failures, mean_latency, slow_rate"
    )]
    NoRule,
    /// There is nothing that could trip a sampled circuit.
    #[error(
        "no trip rule is set that works on samples; set at least one of failure_rate, failures, mean_latency (or consecutive_failures, with a sampler that returns runs)"
    )]
    NoSampledRule,
    /// A rule that samples cannot feed.
    #[error("has no input in sampling mode; leave it out or turn it \"off\"")]
    NotSampled,
    /// Runs of failures are not part of plain totals.
    #[error(
        "has no input in sampling mode, unless the sampler returns runs of failures (SqlTable::count_runs); leave it out or turn it \"off\""
    )]
    NoRunsSampled,
    /// No field has this name.
    #[error("is not a policy key{}", DidYouMeanOrList(*nearest))]
    UnknownKey {
        /// The nearest key.
        nearest: Option<&'static str>,
    },
    /// The field is there twice.
    #[error("is there twice; keep one")]
    Duplicate,
    /// No preset has this name.
    #[error("{found:?} {unknown}")]
    UnknownPreset {
        /// What was given, shortened if it is long.
        found: String,
        /// Which presets there are.
        unknown: UnknownPreset,
    },
}

pub(super) struct DidYouMean(pub(super) Option<&'static str>);

impl fmt::Display for DidYouMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, "; did you mean {name}?"))
    }
}

/// The nearest key, or all of them.
struct DidYouMeanOrList(Option<&'static str>);

impl fmt::Display for DidYouMeanOrList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) => DidYouMean(self.0).fmt(f),
            None => write!(f, "; the keys are {}", POLICY_KEYS.join(", ")),
        }
    }
}
