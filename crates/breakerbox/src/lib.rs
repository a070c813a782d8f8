//! One circuit breaker per endpoint: isolate dead destinations, probe for recovery with one call instead of fifty,
//! and bring traffic back step by step.
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
//!     .observer(|changed| println!("{} is now {}", changed.key, changed.change.to))
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
//! | [`Breakerbox`] | all of a service's circuits, by key |
//! | [`Circuit`] | a handle to one circuit: call, acquire, inspect, override |
//! | [`Permit`], [`OwnedPermit`], [`Refusal`] | the results of acquiring a permit |
//! | [`Ticket`] | a permit as plain data, which another process can settle |
//! | [`Policy`] | the settings that govern a circuit; see [`Preset`] for those of well-known breakers |
//! | [`Clock`], [`ManualClock`], [`TokioClock`] | the sources of time |
//! | [`throttle`] | for destinations that are up but overloaded: priorities, shedding, retry budgets |
//! | `tower`, `reqwest`, `http` | circuits and throttles as middleware, with the features below |
//! | [`sampling`] | for outcomes that are already in a database: a leader that samples them, and checks before calls |
//! | [`store`] | shares circuits in a fleet: the trait that stores implement, and the memory store |
//!
//! Guaranteed: while a circuit is half-open, it admits one call at a time, however many threads and tasks acquire; a
//! result that arrives after its epoch or lease is over changes nothing; no lock is held while your code runs. Not
//! guaranteed: the order in which observers receive two changes, and that a window ends with a precision of more than
//! a few milliseconds.
//!
//! The guides for library users are `docs/guide/library.md`, `docs/guide/fleet.md`, `docs/guide/sampling.md`,
//! `docs/guide/throttle.md` and `docs/guide/tower.md`. `docs/guarantees.md` lists all guarantees and their limits.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tower` | layers for tower, and so for axum, hyper and tonic |
//! | `reqwest-middleware` | middleware for clients built with the crate `reqwest-middleware` |
//! | `sqlite` | a sampler for tables in SQLite, with SQLite included |
//! | `http` | the part that `tower` and `reqwest-middleware` share: keys from URLs, outcomes from statuses and errors, `Retry-After` |
//!
//! No feature is on by default.

mod breakerbox;
mod builder;
mod cell;
mod circuit;
mod clock;
mod extract;
mod fleet;
mod handle;
#[cfg(feature = "http")]
pub mod http;
mod observe;
mod policies;
mod probe_timeout;
mod random;
mod registry;
#[cfg(feature = "reqwest-middleware")]
pub mod reqwest;
pub mod sampling;
pub mod store;
mod sync;
pub mod throttle;
mod tickets;
#[cfg(feature = "tower")]
pub mod tower;
mod waiters;

pub use breakerbox::{Breakerbox, Counts, DEFAULT_MAX_CIRCUITS};
pub use breakerbox_core::fleet::Consistency;
pub use breakerbox_core::{
    Attribution, AttributionTooLong, Cause, Change, CircuitBy, Epoch, FailureRun, Key, KeyError,
    LatestOutcomes, Lease, Mode, Nonce, Outcome, OutcomeKind, OverrideCommand, Percentage, Policy,
    PolicyBuilder, PolicyError, PolicyErrorReason, Preset, RecentSample, Record, Refusal, Sample, Settlement,
    State, Status, Ticket, TicketKind, Timestamp, Totals, TripRule, Version,
};
pub use builder::Builder;
pub use circuit::{CallError, Circuit, Classification, OwnedPermit, Permit, by_result};
pub use clock::{Clock, ManualClock, SystemClock, TokioClock};
pub use extract::{ClassifyResponse, ExtractKey, ExtractPriority};
pub use fleet::{BackgroundTask, DEFAULT_STORE_TIMEOUT, FlushError, OnStoreLoss, OverrideError, StoredKeys};
pub use observe::{CircuitChange, StoreHealth};
pub use probe_timeout::ProbeTimeout;
pub use registry::TenantLimit;

/// Compiles and runs the examples in the guides.
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
