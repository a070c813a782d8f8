//! The transition table: it decides the next record of a circuit.
//!
//! Every function here takes the current record and returns the step to swap in, or `None` if nothing changes. None
//! of them writes: in memory the step is applied, in a store it is swapped in by version, so that of two processes
//! that decide at once one wins.

mod acquire;
mod clock;
mod overrides;
mod probe;
mod sample;
mod trip;

pub use acquire::Answer;
pub use sample::{MissingLatencySum, RecentSample, Sample, Span};

pub use crate::record::LEASE_MARGIN;
