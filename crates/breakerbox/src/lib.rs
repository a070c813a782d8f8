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
//! | `tower`, `reqwest`, `http` | circuits and throttles for HTTP clients and servers, with the features below |
//! | [`sampling`] | for outcomes that are already in a database: a leader that samples them, and checks before calls |
//! | [`store`] | shares circuits in a fleet: the trait that stores implement, and the memory store |
//!
//! Guaranteed: while a circuit is half-open, it admits one call at a time, however many threads and tasks acquire; a
//! result that arrives after its epoch or lease is over changes nothing; no lock is held while your code runs. Not
//! guaranteed: the order in which observers receive two changes, and that a window ends with a precision of more than
//! a few milliseconds.
//!
//! # Cost
//!
//! A call through a closed circuit costs a few atomic loads and one compare-and-swap; it allocates nothing and takes no
//! lock. A [thread](SystemClock#the-clock-thread) keeps the time while calls are made. Shared circuits have background
//! tasks on your tokio runtime.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `url` | yes | keys from URLs: [`Key::of`] and [`Key::of_url`] |
//! | `serde` | yes | [`Record`] and [`Ticket`] as JSON, and policy files |
//! | `quanta` | yes | a clock that is cheaper to read than the standard library's, for trip rules about latency |
//! | `tower` | | layers for tower, and so for axum, hyper and tonic |
//! | `reqwest` | | classifiers for the results of a plain reqwest client, such as `http::by_status` |
//! | `reqwest-middleware` | | middleware for clients built with the crate `reqwest-middleware` |
//! | `http` | | the part that these three share: keys from requests, outcomes from statuses and errors, `Retry-After` |
//! | `tracing` | | transitions as events of the crate `tracing` |
//! | `metrics` | | calls, refusals, transitions and states as metrics of the crate `metrics` |
//! | `sqlite` | | a sampler for tables in SQLite, with SQLite included |
//!
//! tokio is always a dependency, with its features `rt`, `sync` and `time`: waiting for a permit, the time limit of a
//! probe and shared circuits need it. Circuits that are not shared work without a tokio runtime.
//!
//! ## tracing
//!
//! With the feature `tracing`, each transition is an event with the target `breakerbox` and the fields `registry`, `key`,
//! `from`, `to`, `cause` and `trips`. It is a warning, with `cool_off_ms`, if the circuit opened or was disabled,
//! otherwise information. When the store is lost, there is a warning with its `error`; when it recovers, information.
//! Calls cause no events.
//!
//! ## metrics
//!
//! With the feature `metrics`, each registry counts in the recorder that the program installs. Install it before the
//! first call.
//!
//! | metric | type | labels besides `registry` | meaning |
//! | --- | --- | --- | --- |
//! | `breakerbox_calls_total` | counter | `outcome`: `success`, `failure`, `ignored` | calls that were settled |
//! | `breakerbox_refusals_total` | counter | `reason`: as [`Refusal::name`] | calls that were refused, or would have been in dry-run mode; a waiting caller may be refused several times |
//! | `breakerbox_transitions_total` | counter | `from`, `to`, `cause`: as [`CircuitStatus::name`] and [`Cause::name`] | transitions |
//! | `breakerbox_circuits` | gauge | `state`: `open`, `half_open`, `disabled` | circuits of this process that are not closed |
//! | `breakerbox_store_available` | gauge | | 1 if the store can be used, otherwise 0; set when that changes |
//!
//! The successes of a closed circuit are added in batches: when a tenth of the policy's window is over, or when the
//! circuit next does anything else. No label contains a key, so the number of series does not grow with the number of
//! circuits. [`BreakerboxBuilder::name`] sets the label `registry`.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
#[cfg(feature = "reqwest")]
pub mod reqwest;
pub mod sampling;
pub mod store;
mod sync;
mod telemetry;
pub mod throttle;
mod tickets;
#[cfg(feature = "tower")]
pub mod tower;
mod waiters;

pub use breakerbox::{Breakerbox, Counts, DEFAULT_MAX_CIRCUITS};
pub use breakerbox_core::fleet::Consistency;
pub use breakerbox_core::{
    Attribution, AttributionTooLong, Cause, Change, CircuitBy, CircuitStatus, Epoch, FailureRun, Key,
    KeyError, LatestOutcomes, Lease, Mode, Nonce, Outcome, OutcomeKind, OverrideCommand, Percentage, Policy,
    PolicyBuilder, PolicyError, PolicyErrorReason, Preset, RecentSample, Record, Refusal, Sample, Settlement,
    State, StatusClass, StatusMeaning, Ticket, TicketKind, Timestamp, Totals, TripRule, Version,
};
pub use builder::BreakerboxBuilder;
pub use circuit::{CallError, Circuit, Classification, OwnedPermit, Permit, by_result};
pub use clock::{Clock, ManualClock, SystemClock, TokioClock};
pub use extract::{ClassifyResponse, ExtractKey, ExtractPriority};
pub use fleet::{BackgroundTask, DEFAULT_STORE_TIMEOUT, FlushError, OnStoreLoss, OverrideError, StoredKeys};
pub use observe::{CircuitChange, StoreHealth};
pub use probe_timeout::ProbeTimeout;
pub use registry::TenantLimit;

/// Compiles and runs the examples in the README.
#[cfg(all(doctest, feature = "reqwest-middleware"))]
#[doc = include_str!("../README.md")]
struct Readme;
