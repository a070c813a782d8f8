//! Fleets of separate processes, over a real store, against a real receiver.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Process`] | a worker, as a proof holds it: told what to do, stopped, resumed, killed |
//! | [`worker`] | the worker itself: the same binary, with a registry of its own |
//! | [`words`] | what the two say to each other |
//! | [`Receiver`] | the destination, and the witness: when did each request begin and end? |
//! | [`Backing`] | the store's server |
//! | [`Site`] | server, receiver, and workers with a way of their own to the store |
//! | `traffic`, `caller` | what a worker does by itself: calls at a rate, or asks as fast as it can |
//! | `watched` | how often two processes wanted the same lease at once |
//! | [`recover`] | recoveries by all processes at once; [`judge`] says whether one is as promised, [`Recoveries`] adds up |
//! | [`befall`] | faults of single processes ([`Fault`]), round by round; [`Befallen`] adds up |
//! | [`recover_beside_broken`] | recovery beside a process whose own network is broken |
//! | [`keep_states`] | states decided while the store is away are kept |
//! | [`ramp_together`] | the ramp over all processes, by the receiver's count |
//! | [`run_jobs`] | processes that live for one call |
//! | [`Row`], [`Scale`] | what came of those four, and how much of each is tried |
//! | `lane` | what all faults have in common: three processes, a short cool-off, and a long one after it |
//!
//! A worker is killed with its handle, and ends with its proof, however that ends.

mod backing;
mod befall;
mod befallen;
mod broken_process;
mod caller;
mod fault;
mod fleet_ramp;
mod jobs;
mod judge;
mod kept_states;
mod lane;
mod mode;
mod process;
mod receiver;
mod recoveries;
mod rounds;
mod row;
mod site;
mod traffic;
mod watched;
pub mod words;
pub mod worker;

pub use self::backing::{Backing, Kind, Server};
pub use self::befallen::{Befallen, befall};
pub use self::broken_process::recover_beside_broken;
pub use self::fault::Fault;
pub use self::fleet_ramp::ramp_together;
pub use self::jobs::{Jobs, run_jobs};
pub use self::judge::{Seen, judge};
pub use self::kept_states::keep_states;
pub use self::mode::Mode;
pub use self::process::{Asked, PATIENCE, Pending, Process};
pub use self::receiver::{Manner, Receiver, Visit};
pub use self::recoveries::Recoveries;
pub use self::rounds::{Plan, recover};
pub use self::row::{Row, Scale};
pub use self::site::{Latency, Member, Site, Worker};
