//! Recoveries with many concurrent callers: one probe at a time, however the probes end.
//!
//! | item | description |
//! | --- | --- |
//! | [`ProbeEnd`] | how a probe ends, and the waves in a round with such a probe |
//! | `wave` | a hundred callers acquire at the same moment; their shared state, and the observations |
//! | `receiver` | the destination: counts the probes that call, and detects simultaneous ones |
//! | `caller` | one of the hundred: acquires a permit and, if it is a probe, ends the probe as planned |
//! | `pool` | the callers as tasks and threads that live as long as the test |
//! | [`prove`](prove()) | runs many rounds |
//! | [`Proof`] | the results, and whether they are correct |
//!
//! The library is the real one, with a [`ManualClock`](breakerbox::ManualClock): a cool-off of half a minute
//! takes no time, and a caller can acquire in the exact microsecond in which it ends. Only the scheduling of
//! the threads is random. To verify that callers really compete, the test counts the rounds in which another
//! caller was acquiring at the moment the probe was granted.

mod caller;
mod pool;
mod probe_end;
mod proof;
mod prove;
mod receiver;
mod wave;

pub use probe_end::ProbeEnd;
pub use proof::Proof;
pub use prove::{RecoveryError, prove};
