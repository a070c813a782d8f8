//! The transition table: what the next record of a circuit is.
//!
//! Every function here takes the record as it is and returns the [`Step`] to swap in, or nothing where nothing changes.
//! None of them writes: in memory the step is applied, in a store it is swapped in by version, so that of two workers
//! that decide at once one wins.
//!
//! | row | from | when | to | in |
//! | --- | --- | --- | --- | --- |
//! | 0 | overridden | an ask | same | `ask` |
//! | 1 | closed | a counted outcome makes a trip rule hold | open | `trip` |
//! | 2 | open | an ask before `retry_at` | open | `ask` |
//! | 3 | open | an ask from `retry_at` on | half-open, the asker has the lease | `ask` |
//! | 4 | half-open | an ask while the lease is live | half-open | `ask` |
//! | 5 | half-open | an ask while the lease is free or expired | half-open, the asker has the lease | `ask` |
//! | 6 | half-open | the probe succeeded in time | half-open or closed | `probe` |
//! | 7 | half-open | the probe failed in time | open | `probe` |
//! | 8 | half-open | the probe was ignored or cancelled | half-open, the lease is free | `probe` |
//! | 9 | any | an outcome whose epoch, nonce or lease is not current | same | `probe` |
//! | 10 | at a trip | closed for `forgive_after` | trips count from 0 | `trip` |
//! | 11 | at a trip | `disable_after` trips, no success for `disable_min` | disabled | `trip` |
//! | 12 | any | force open, force closed, disable | that mode | `command` |
//! | 13 | any | release, enable, reset | open or closed, automatic | `command` |

mod ask;
mod clock;
mod command;
mod probe;
mod sample;
mod trip;

use core::time::Duration;

pub use ask::Answer;
pub use sample::{MissingLatencySum, Sample};

#[cfg(doc)]
use crate::change::Step;

/// By how much a probe's lease outlasts its timeout: a result that comes at the last moment still has to travel.
pub const LEASE_MARGIN: Duration = Duration::from_secs(2);
