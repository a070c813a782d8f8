//! What Breakerbox is tried with: things that no user needs, and that more than one crate's tests or commands do.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`conformance`] | what every store must do, checked verb by verb |
//! | [`faults`] | a store that is slow, silent, deaf, or forgetful of its answers |
//! | [`proxy`] | a way to a server that delays, loses, cuts or resets, as it is told |
//! | [`receiver`] | a real HTTP receiver that answers as it is told, and writes down what it saw |
//! | [`mail`] | a small mail server that keeps what it gets |
//! | [`load`] | a load generator: closed loop, and open loop without coordinated omission |
//! | [`gateway`] | a gateway as a process of its own, and what its owner asks of it |
//! | [`stamp`], [`usage`] | a time inside a payload; CPU time and memory of processes and threads |
//! | [`Held`] | a store together with the server that it is on |
//! | [`servers`] | private servers for tests: real ones, with the faults of real ones |
//! | [`overload`] | throttles in front of a simulated backend, in virtual time |
//! | [`sim`] | a whole fleet with the real library, in virtual time, with whatever can fail |
//! | [`recovery`] | a hundred askers at the end of a cool-off, round after round, with the real library |

pub mod conformance;
pub mod faults;
pub mod gateway;
mod held;
pub mod load;
pub mod mail;
pub mod overload;
pub mod proxy;
pub mod receiver;
pub mod recovery;
pub mod servers;
pub mod sim;
pub mod stamp;
pub mod usage;

pub use self::held::Held;
