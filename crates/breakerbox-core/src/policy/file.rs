//! The policy file: the same keys in TOML and in JSON. `file_serde` reads the file.
//!
//! This module checks the types of the values in a file. [`PolicyBuilder::build`] checks their ranges, as for every
//! policy.

use alloc::string::{String, ToString};
use core::time::Duration;

use super::duration::{DurationError, parse_duration};
use super::error::{PolicyError, PolicyErrorReason as Reason};
use super::{PolicyBuilder, Preset};
use crate::file_value::{FileValue, shortened};
use crate::nearest::nearest;

macro_rules! fields {
    ($($name:ident: $read:path,)*) => {
        /// All keys that a policy file may contain.
        pub const POLICY_KEYS: &[&str] = &[$(stringify!($name)),*];

        impl PolicyBuilder {
            /// Sets the field with this key to a value from a file or another source of settings. A key can be set
            /// once.
            ///
            /// ```
            /// use breakerbox_core::{FileValue, PolicyBuilder};
            ///
            /// let mut builder = PolicyBuilder::default();
            /// builder.set("cool_off", FileValue::Text("30s".into()))?;
            /// assert!(builder.set("cool_of", FileValue::Integer(30)).is_err());
            /// # Ok::<(), breakerbox_core::PolicyError>(())
            /// ```
            ///
            /// # Errors
            /// If the key is unknown or already set, or the value has the wrong type.
            /// [`build`](PolicyBuilder::build) checks the range.
            pub fn set(&mut self, key: &str, value: FileValue) -> Result<(), PolicyError> {
                let value = value.shortened();
                let reason = match key {
                    $(stringify!($name) if self.$name.is_some() => Reason::Duplicate,
                    stringify!($name) => match $read(value) {
                        Ok(value) => {
                            self.$name = Some(value);
                            return Ok(());
                        }
                        Err(reason) => reason,
                    },)*
                    _ => Reason::UnknownKey { nearest: nearest(key, POLICY_KEYS.iter().copied()) },
                };
                Err(PolicyError::new(&shortened(key), reason))
            }
        }
    };
}

fields! {
    preset: preset,
    window: duration,
    min_calls: count,
    failure_rate: count_or_off,
    failures: count_or_off,
    consecutive_failures: count_or_off,
    mean_latency: duration_or_off,
    slow_call: duration_or_off,
    slow_rate: count_or_off,
    cool_off: duration,
    cool_off_factor: factor,
    cool_off_max: duration,
    jitter: count,
    probes: count,
    probe_timeout: duration,
    ramp_cap: count_or_off,
    forgive_after: duration,
    disable_after: count_or_off,
    disable_min: duration,
    cancel_grace: duration,
    recovery_rate: count,
    sample_recent: count_or_off,
}

fn preset(value: FileValue) -> Result<Preset, Reason> {
    match value {
        FileValue::Text(name) => {
            name.parse().map_err(|unknown| Reason::UnknownPreset { found: name, unknown })
        }
        found => Err(Reason::WrongType { expected: "the name of a preset", found }),
    }
}

fn count(value: FileValue) -> Result<u64, Reason> {
    const EXPECTED: &str = "a whole number";
    match value {
        FileValue::Text(text) if text == "off" => Err(Reason::HasNoOff),
        FileValue::Integer(found) if found < 0 => Err(Reason::Negative { found }),
        FileValue::Integer(number) => {
            u64::try_from(number).map_err(|_| Reason::WrongType { expected: EXPECTED, found: value })
        }
        found => Err(Reason::WrongType { expected: EXPECTED, found }),
    }
}

fn duration(value: FileValue) -> Result<Duration, Reason> {
    match value {
        FileValue::Text(text) if text == "off" => Err(Reason::HasNoOff),
        FileValue::Text(text) => {
            parse_duration(&text).map_err(|error| Reason::BadDuration { found: text, error })
        }
        FileValue::Integer(found) if found < 0 => Err(Reason::Negative { found }),
        FileValue::Integer(number) => Err(Reason::BadDuration {
            found: number.to_string(),
            error: u64::try_from(number).map_or(DurationError::NoUnit, DurationError::NumberOnly),
        }),
        found => Err(Reason::WrongType { expected: "a duration such as \"30s\"", found }),
    }
}

fn factor(value: FileValue) -> Result<f64, Reason> {
    match value {
        FileValue::Text(text) if text == "off" => Err(Reason::HasNoOff),
        #[allow(clippy::cast_precision_loss)] // A factor that large is capped by cool_off_max at once.
        FileValue::Integer(number) => Ok(number as f64),
        FileValue::Float(number) => Ok(number),
        found => Err(Reason::WrongType { expected: "a number", found }),
    }
}

fn count_or_off(value: FileValue) -> Result<Option<u64>, Reason> {
    or_off(value, "a whole number or \"off\"", count)
}

fn duration_or_off(value: FileValue) -> Result<Option<Duration>, Reason> {
    or_off(value, "a duration such as \"30s\", or \"off\"", duration)
}

fn or_off<T>(
    value: FileValue,
    expected: &'static str,
    read: fn(FileValue) -> Result<T, Reason>,
) -> Result<Option<T>, Reason> {
    if value == FileValue::Text(String::from("off")) {
        return Ok(None);
    }
    read(value).map(Some).map_err(|reason| match reason {
        Reason::WrongType { found, .. } => Reason::WrongType { expected, found },
        other => other,
    })
}
