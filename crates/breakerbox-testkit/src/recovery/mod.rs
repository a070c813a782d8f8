//! Recoveries under many askers: one probe at a time, whatever becomes of the probes.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Fate`] | what becomes of a probe, and what a round with such a probe looks like |
//! | `wave` | a hundred askers ask at the same moment; what they share, and what is seen of it |
//! | `receiver` | what the destination sees: who calls, and whether two call at once |
//! | `asker` | one of the hundred: asks, and if it may probe, lets the probe meet its fate |
//! | `pool` | the askers as tasks and threads that live as long as the proof |
//! | [`prove`](prove()) | rounds of it |
//! | [`Proof`] | what came of them, and whether it is as it should be |
//!
//! The library is the real one, with a [`ManualClock`](breakerbox::ManualClock): a cool-off of half a minute takes no time,
//! and an ask comes to the microsecond at its end. Only the threads are left to chance. So that chance is seen to do its
//! part, a proof counts the rounds in which somebody else was asking at the very moment the probe was given out.

mod asker;
mod fate;
mod pool;
mod proof;
mod prove;
mod receiver;
mod wave;

pub use fate::Fate;
pub use proof::Proof;
pub use prove::{RecoveryError, prove};
