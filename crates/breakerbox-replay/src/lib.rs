//! Replay: runs past traffic through the real engine, in virtual time. It reads no clock, opens no file and does not
//! use the network.
//!
//! [`clock`] reads and writes clock times; [`input`] parses lines of traffic, and reports exactly what is wrong with
//! an invalid line; [`engine`] acquires and settles in virtual time; [`report`] prints transitions and decisions;
//! [`tally`] counts; [`summary`] summarizes the counts; [`timeline`] collects the data that [`page`] draws.
//!
//! **Guarantees.** The same traffic and policy give the same result, byte for byte; jitter is off. Memory grows with
//! the number of keys and of calls in flight, which are both limited, and not with the length of the traffic. **Not
//! modelled:** retries. A replay drops refused calls, whereas in production they are retried and reach the
//! destination later.

pub mod clock;
pub mod engine;
pub mod input;
pub mod page;
pub mod report;
pub mod summary;
pub mod tally;
pub mod timeline;

pub use clock::Times;
pub use engine::{Engine, EngineError, Limits};
pub use input::{Call, Counted, Format, InputError, Line, Reader, ResultTable, Tick};
pub use report::Report;
pub use tally::Tally;
