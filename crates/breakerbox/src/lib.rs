//! One circuit breaker per endpoint.
//!
//! ```
//! use breakerbox::{Breakerbox, Policy, Refusal};
//! use std::time::Duration;
//!
//! let policy = Policy::builder().consecutive_failures(3).cool_off(Duration::from_secs(30)).build()?;
//! let breakers = Breakerbox::builder().policy(policy).build();
//! let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
//!
//! for _ in 0..3 {
//!     circuit.ask().expect("closed").failure();
//! }
//! assert!(matches!(circuit.ask(), Err(Refusal::Open { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod breakerbox;
mod call;
mod cell;
mod circuit;
mod clock;
mod observe;
mod permit;
mod registry;
mod spread;
mod sync;

pub use breakerbox::{Breakerbox, Builder, Counts, DEFAULT_MAX_CIRCUITS};
pub use breakerbox_core::{
    Attribution, Cause, Change, CircuitBy, Command, Key, KeyError, Outcome, OutcomeKind, Policy,
    PolicyBuilder, PolicyError, Preset, Record, Refusal, Status, Timestamp, Totals, TripRule, Verdict,
};
pub use call::{CallError, Judgement, by_result};
pub use circuit::Circuit;
pub use clock::{Clock, ManualClock, SystemClock};
pub use observe::CircuitChange;
pub use permit::Permit;
