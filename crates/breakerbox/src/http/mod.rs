//! Keys, outcomes and load signals for HTTP requests, responses and errors. Requires the feature `http`, which
//! `tower` and `reqwest` enable.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`KeyFromUrl`], [`Tenant`] | extract a request's key |
//! | [`PriorityFromExtension`] | extracts a request's priority |
//! | [`HttpOutcomes`], [`by_status`] | classify a response or an error for a circuit |
//! | [`HttpOverload`] | classifies a response or an error for a throttle |
//! | [`retry_after`] | returns when the destination accepts requests again |
//! | [`NotSent`] | the error for a call that was never sent, and the response to return for it |
//!
//! This module sends no requests, and reads no bodies.

#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
mod guard;
mod key;
mod not_sent;
mod outcomes;
mod overload;
mod priority;
mod retry_after;
mod signs;
mod statuses;

#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
pub(crate) use guard::{classify_for_circuit, classify_for_throttle};
pub use key::{KeyFromUrl, Tenant};
pub use not_sent::NotSent;
pub use outcomes::{HttpOutcomes, by_status};
pub use overload::HttpOverload;
pub use priority::PriorityFromExtension;
pub use retry_after::retry_after;

/// A boxed error of any type, as in tower's own layers.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
