//! The transition table: what the next record of a circuit is.
//!
//! Every function here takes the record as it is and returns the step to swap in, or nothing where nothing changes.
//! None of them writes: in memory the step is applied, in a store it is swapped in by version, so that of two workers
//! that decide at once one wins.

mod acquire;
mod clock;
mod command;
mod probe;
mod sample;
mod trip;

use core::time::Duration;

pub use acquire::Answer;
pub use sample::{MissingLatencySum, RecentSample, Sample, Span};

/// By how much a probe's lease outlasts its timeout: a result that comes at the last moment still has to travel.
pub const LEASE_MARGIN: Duration = Duration::from_secs(2);
