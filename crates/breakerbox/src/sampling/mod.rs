//! Sampling: circuits whose outcomes are already in a database. One process in the fleet, the leader, requests every
//! key's totals from a [`Sampler`] at the interval `sample_every`, and decides about every circuit; the other
//! processes only check.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Sampling`] | all sampled circuits, by key; built by [`BreakerboxBuilder::sampling`](crate::BreakerboxBuilder::sampling) |
//! | [`SampledCircuit`], [`Checked`] | a handle to one circuit, and the result of a check |
//! | [`Sampler`], [`Poll`], [`Since`] | the source of the totals, and a request to it |
//! | [`SqlTable`], [`SqlQuery`] | the table or your own query for an SQL sampler: see `SqliteSampler`, and `PostgresSampler` in `breakerbox-postgres` |
//! | [`SamplingEvent`], [`Report`] | whether this process is the leader, the results of ticks, and poll errors |
//!
//! ```
//! use breakerbox::sampling::{Poll, SampleError, Sampler};
//! use breakerbox::store::MemoryStore;
//! use breakerbox::{Breakerbox, Policy, Preset, Sample};
//! use std::collections::HashMap;
//!
//! struct Attempts; // Your table of attempts, or any other slot where they are counted.
//!
//! #[async_trait::async_trait]
//! impl Sampler for Attempts {
//!     async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
//!         // One question for all keys: what finished within `poll.window`, except for those in `poll.since`.
//!         Ok(HashMap::from([("acme".into(), Sample::new(9, 1))]))
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let sampling = Breakerbox::builder()
//!     .store(MemoryStore::new()) // For a fleet: Redis or Postgres.
//!     .sampling(Policy::builder().preset(Preset::Convoy))
//!     .sampler(Attempts)
//!     .build()?;
//! match sampling.check("acme").await? {
//!     Ok(checked) => {
//!         // Send, write what came of it into the table, and then:
//!         checked.settle();
//!     }
//!     Err(refusal) => println!("not now: {refusal}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Guaranteed: one leader at a time decides; the store refuses a leader's writes after its term, even if the leader
//! was paused in between; no attempt counts twice, or if it was made before a transition; a poll that fails or is
//! empty changes nothing; a half-open circuit admits one call at a time. Not guaranteed: that calls to a failing
//! destination stop before the next tick. The guide is `docs/guide/sampling.md`.

mod builder;
mod check;
mod election;
mod handle;
mod known;
mod leader;
mod report;
mod sampler;
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tick;

pub use self::builder::{DEFAULT_POLL_TIMEOUT, DEFAULT_SAMPLE_EVERY, SamplingBuilder, SamplingError};
pub use self::check::Checked;
pub use self::handle::{SampledCircuit, Sampling};
pub use self::report::{Report, SamplingEvent, Ticked};
pub use self::sampler::{Poll, SampleError, Sampler, Since};
pub use self::sql::{Dialect, LatencyUnit, SqlError, SqlQuery, SqlSource, SqlTable, TimeFormat};
#[cfg(feature = "sqlite")]
pub use self::sqlite::SqliteSampler;
