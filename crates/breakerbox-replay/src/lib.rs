//! Replay: runs past traffic through the real engine, in virtual time. It reads no clock, opens no file and touches no network.
//!
//! [`input`] parses lines of traffic, and reports exactly what is wrong with an invalid one; [`engine`] acquires and
//! settles in virtual time; [`report`] prints transitions and decisions; [`tally`] counts; [`summary`] puts the counts together; [`timeline`] collects what
//! [`page`] draws.
//!
//! **Guarantees.** The same traffic and the same policy give the same result, byte for byte; jitter is off. Memory
//! grows with the number of keys and of calls in flight, both bounded, and not with the length of the traffic. **Not
//! modelled:** retries. Refused calls are gone in a replay; in production they are retried, so a real destination would
//! get them later.

pub mod engine;
pub mod input;
pub mod page;
pub mod report;
pub mod summary;
pub mod tally;
pub mod timeline;

pub use engine::{Engine, EngineError, Limits};
pub use input::{Call, Format, InputError, Line, Reader, Tick};
pub use report::Report;
pub use tally::Tally;
