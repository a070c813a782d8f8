//! Throttles: in front of a destination that is alive but drowning, send what it can take and shed the rest at once, the
//! least important first.
//!
//! ```
//! use breakerbox::throttle::{Priority, Throttle};
//! use std::io;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # async fn send() -> io::Result<&'static str> { Ok("202 Accepted") }
//! let throttle = Throttle::default();
//! let answer = throttle.call(Priority::IMPORTANT, send()).await?;
//! assert_eq!(answer, "202 Accepted");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Throttle`] | a handle to one: call, ask, retry |
//! | [`Throttles`] | one for each key |
//! | [`Pass`], [`Shed`] | the two answers to an ask |
//! | [`Classify`], [`Overload`], [`Rejected`] | who says what a result means for the destination's capacity |
//! | [`with_priority`] | a priority for everything that a task does |
//! | [`ThrottleSnapshot`], [`ThrottleChange`] | what a throttle shows of itself, and what its observers hear |
//! | [`ThrottlePolicy`] | the numbers |
//!
//! The core decides what is shed; here it gets a clock, random bits, and somebody to say what became of a call. What is
//! guaranteed: nothing is ever queued, and nobody waits; a future that is dropped and a call that panics count as
//! neither accepted nor rejected. What is not: a shed call is not retried for you.

mod call;
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
mod choice;
mod classify;
mod context;
mod handle;
mod keyed;
mod observe;
mod pass;
mod signs;

pub use breakerbox_core::throttle::{
    Levels, LoadSignal, NoLevels, Priority, PriorityError, Reason, Shed, Strategy, ThrottlePolicy,
    ThrottlePolicyBuilder, ThrottlePolicyError, ThrottleSnapshot, ThrottleState,
};
pub use call::CallError;
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
pub use choice::OneForAll;
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
pub(crate) use choice::{Choice, DEFAULT_PRIORITY, NotLetThrough};
pub use classify::{Classify, Overload, Rejected};
pub use context::{context_priority, with_priority, with_priority_blocking};
pub use handle::{Builder, Throttle};
pub use keyed::{DEFAULT_MAX_THROTTLES, Throttles};
pub use observe::ThrottleChange;
pub use pass::Pass;
#[cfg(feature = "http")]
pub(crate) use signs::{chain, was_never_sent};
