//! What Breakerbox is tried with: things that no user needs, and that more than one crate's tests or commands do.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`conformance`] | what every store must do, checked verb by verb |
//! | [`faults`] | a store that is slow, silent, deaf, or forgetful of its answers |
//! | [`servers`] | private servers for tests: real ones, with the faults of real ones |
//! | [`overload`] | throttles in front of a simulated backend, in virtual time |
//! | [`sim`] | a whole fleet with the real library, in virtual time, with whatever can fail |
//! | [`recovery`] | a hundred askers at the end of a cool-off, round after round, with the real library |

pub mod conformance;
pub mod faults;
pub mod overload;
pub mod recovery;
pub mod servers;
pub mod sim;
