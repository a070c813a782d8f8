//! The transition table: it decides the next record of a circuit.
//!
//! Every function here takes the current record and returns the step to swap in, or `None` if nothing changes. None
//! of them writes. In memory the step is applied directly; in a store it is swapped in by version, so that if two
//! processes decide at the same time, one wins.

mod acquire;
mod clock;
mod overrides;
mod probe;
mod sample;
mod trip;

pub use acquire::Answer;
pub use sample::{MissingLatencySum, RecentSample, Sample, Span};

pub use crate::record::LEASE_MARGIN;
