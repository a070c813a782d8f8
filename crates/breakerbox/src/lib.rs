//! One circuit breaker per endpoint: isolate dead destinations, probe a recovery with one call and not fifty, and bring
//! traffic back step by step.
//!
//! ```
//! use breakerbox::{Breakerbox, CallError, ManualClock, Policy};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let clock = ManualClock::new(); // For this example; leave it out to use the real one.
//! let policy = Policy::builder().consecutive_failures(3).cool_off(Duration::from_secs(30)).probes(1).build()?;
//! let breakers = Breakerbox::builder()
//!     .policy(policy)
//!     .clock(clock.clone())
//!     .observer(|heard| println!("{} is now {}", heard.key, heard.change.to))
//!     .build();
//! let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
//!
//! for _ in 0..3 {
//!     let down = circuit.call(async { Err::<(), _>("connection refused") }).await;
//!     assert_eq!(down, Err(CallError::Failed("connection refused")));
//! }
//! let refused = circuit.call(async { Ok::<_, ()>("never polled") }).await;
//! assert!(refused.unwrap_err().refusal().is_some());
//!
//! clock.advance(Duration::from_secs(33)); // The cool-off, and its jitter.
//! assert_eq!(circuit.call(async { Ok::<_, ()>("back") }).await, Ok("back")); // The probe closed the circuit.
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Breakerbox`] | all circuits of a service, by key |
//! | [`Circuit`] | a handle to one: call, ask, look, try_override |
//! | [`Permit`], [`OwnedPermit`], [`Refusal`] | the answers to an ask |
//! | [`Ticket`] | a permit as plain data, which another process can settle |
//! | [`Policy`] | the numbers; see [`Preset`] for those of breakers that you know |
//! | [`Clock`], [`ManualClock`], [`TokioClock`] | where the time comes from |
//! | [`throttle`] | for destinations that are alive but drowning: priorities, shedding, retries |
//! | `tower`, `reqwest`, `http` | the same as middleware, with the features below |
//! | [`sampling`] | for outcomes that are in a database already: a leader that samples them, and checks |
//! | [`store`] | where circuits are shared by a fleet: the verbs of a store, and one in memory |
//!
//! What is guaranteed: while a circuit is half-open, one call at a time gets through, however many threads and tasks ask;
//! a result that comes after its epoch or its lease changes nothing; no lock is held while your code runs. What is not: the
//! order in which observers hear of two changes, and that a window's edge is sharper than a few milliseconds.
//!
//! The guides for library users are `docs/guide/library.md`, `docs/guide/fleet.md`, `docs/guide/sampling.md`,
//! `docs/guide/throttle.md` and `docs/guide/tower.md`. What is promised, and what is not: `docs/guarantees.md`.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tower` | layers for tower, and so for axum, hyper and tonic |
//! | `reqwest-middleware` | middleware for clients made with the crate of that name |
//! | `sqlite` | a sampler for tables in SQLite, with SQLite itself |
//! | `http` | what both have in common: keys from URLs, what statuses and errors mean, `Retry-After` |
//!
//! None is on by default.

mod breakerbox;
mod builder;
mod call;
mod cell;
mod circuit;
mod clock;
mod draws;
mod fleet;
mod handle;
#[cfg(feature = "http")]
pub mod http;
mod observe;
mod permit;
mod policies;
mod probe_timeout;
mod questions;
mod registry;
#[cfg(feature = "reqwest-middleware")]
pub mod reqwest;
pub mod sampling;
pub mod store;
mod sync;
pub mod throttle;
mod tickets;
mod tokio_clock;
#[cfg(feature = "tower")]
pub mod tower;
mod waiters;

pub use breakerbox::{Breakerbox, Counts, DEFAULT_MAX_CIRCUITS};
pub use breakerbox_core::fleet::Consistency;
pub use breakerbox_core::{
    Attribution, AttributionTooLong, Cause, Change, CircuitBy, Command, Epoch, Key, KeyError, LatestOutcomes,
    Lease, Mode, Nonce, Outcome, OutcomeKind, Percentage, Policy, PolicyBuilder, PolicyError,
    PolicyErrorReason, Preset, RecentSample, Record, Refusal, Sample, Settlement, State, Status, Ticket,
    TicketKind, Timestamp, Totals, TripRule, Version,
};
pub use builder::Builder;
pub use call::{CallError, Classification, by_result};
pub use circuit::{Circuit, OverrideError};
pub use clock::{Clock, ManualClock, SystemClock, WallClock};
pub use fleet::{BackgroundTask, DEFAULT_STORE_TIMEOUT, FlushError, OnStoreLoss, StoreHealth, StoredKeys};
pub use observe::CircuitChange;
pub use permit::{OwnedPermit, Permit};
pub use probe_timeout::ProbeTimeout;
pub use questions::{ClassifyResponse, ExtractKey, ExtractPriority};
pub use registry::TenantLimit;
pub use tokio_clock::TokioClock;

/// The guides' examples, compiled and run.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/guide/library.md")]
    struct Library;

    #[doc = include_str!("../../../docs/guide/throttle.md")]
    struct Throttle;

    #[cfg(feature = "sqlite")]
    #[doc = include_str!("../../../docs/guide/sampling.md")]
    struct Sampling;

    #[cfg(all(feature = "tower", feature = "reqwest-middleware"))]
    #[doc = include_str!("../../../docs/guide/tower.md")]
    struct Tower;
}
