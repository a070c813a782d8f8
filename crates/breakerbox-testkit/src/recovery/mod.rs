//! Recoveries under many concurrent callers: one probe at a time, however the probes end.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`ProbeEnd`] | how a probe ends, and the waves of a round with such a probe |
//! | `wave` | a hundred callers acquire at the same moment; their shared state, and what is observed |
//! | `receiver` | the destination's view: who calls, and whether two probes call at once |
//! | `caller` | one of the hundred: acquires, and if it may probe, ends the probe as planned |
//! | `pool` | the callers as tasks and threads that live as long as the proof |
//! | [`prove`](prove()) | runs many rounds |
//! | [`Proof`] | the results, and whether they are correct |
//!
//! The library is the real one, with a [`ManualClock`](breakerbox::ManualClock): a cool-off of half a minute takes no
//! time, and a caller can acquire in the very microsecond in which it ends. Only the scheduling of the threads is
//! random. To show that callers really compete, a proof counts the rounds in which another caller was acquiring at the
//! moment the probe was given out.

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
