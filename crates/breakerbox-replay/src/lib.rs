//! Replay: runs past traffic through the real engine, in virtual time. It reads no clock, opens no file and touches no network.
//!
//! The cast: [`input`] reads lines of traffic and says exactly what is wrong with a bad one; [`engine`] asks and settles
//! as time passes; [`report`] prints transitions and decisions; [`summary`] counts; [`timeline`] remembers enough for
//! [`page`] to draw.
//!
//! What is guaranteed: the same traffic and the same policy give the same result, byte for byte; jitter is off. Memory
//! grows with the number of keys and of calls in flight, both bounded, and not with the length of the traffic. What is
//! not: refused calls are gone in a replay. In real life they are retried, so a real destination would see them later.

pub mod engine;
pub mod input;
pub mod page;
pub mod report;
pub mod summary;
pub mod timeline;

pub use engine::{Engine, EngineError, Limits};
pub use input::{Call, Format, InputError, Line, Reader, Tick};
pub use report::Report;
pub use summary::Tally;
