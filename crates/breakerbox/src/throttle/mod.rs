//! Throttles for destinations that are up but overloaded: they send as many calls as the destination can take and
//! shed the rest at once, the least important first.
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
//! | [`Throttle`] | a handle to one throttle: call, acquire, retry |
//! | [`Throttles`] | one throttle for each key |
//! | [`Pass`], [`Shed`] | the two possible results of acquiring a pass |
//! | [`Classify`], [`Overload`], [`Rejected`] | classify results by the destination's capacity |
//! | [`with_priority`] | sets the priority for all of a task's calls |
//! | [`ThrottleSnapshot`], [`ThrottleChange`] | a throttle's counters, and the changes that its observers receive |
//! | [`ThrottlePolicy`] | the settings that govern a throttle |
//!
//! The core decides which calls are shed; this module provides the clock, the random bits and the results of calls.
//! Guaranteed: calls are never queued, and no caller waits; a future that is dropped and a call that panics count as
//! neither accepted nor rejected. Shed calls are not retried automatically.

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
pub(crate) use choice::{Choice, DEFAULT_PRIORITY, NotAdmitted};
pub use classify::{Classify, Overload, Rejected};
pub use context::{context_priority, with_priority, with_priority_blocking};
pub use handle::{Builder, Throttle};
pub use keyed::{DEFAULT_MAX_THROTTLES, Throttles};
pub use observe::ThrottleChange;
pub use pass::Pass;
#[cfg(feature = "http")]
pub(crate) use signs::{chain, was_never_sent};
