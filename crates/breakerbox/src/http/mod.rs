//! What HTTP requests, responses and errors say to circuits and throttles. With the feature `http`, which `tower` and
//! `reqwest-middleware` bring along.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`KeyFromUrl`], [`Tenant`] | whose circuit a request is for |
//! | [`PriorityFromExtension`] | how important a request is |
//! | [`HttpOutcomes`] | what a response, or an error, means for a circuit |
//! | [`HttpOverload`] | what it means for a throttle |
//! | [`retry_after`] | when the destination wants to be asked again |
//! | [`NotSent`] | an error of a call that was never sent, and the response to give for it |
//!
//! Nothing here sends anything, and nothing looks at a body.

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
pub(crate) use guard::{judge, verdict};
pub use key::{KeyFromUrl, Tenant};
pub use not_sent::NotSent;
pub use outcomes::HttpOutcomes;
pub use overload::HttpOverload;
pub use priority::PriorityFromExtension;
pub use retry_after::retry_after;

/// An error of any type, as tower's own layers have it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
