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
//! | `lane` | what all faults have in common: three processes, a short cool-off, and a long one after it |
//!
//! A worker is killed with its handle, and ends with its proof, however that ends.

mod backing;
mod befall;
mod befallen;
mod caller;
mod fault;
mod judge;
mod lane;
mod process;
mod receiver;
mod recoveries;
mod rounds;
mod site;
mod traffic;
mod watched;
pub mod words;
pub mod worker;

pub use self::backing::{Backing, Kind, Server};
pub use self::befallen::{Befallen, befall};
pub use self::fault::Fault;
pub use self::judge::{Seen, judge};
pub use self::process::{Asked, PATIENCE, Pending, Process};
pub use self::receiver::{Manner, Receiver, Visit};
pub use self::recoveries::Recoveries;
pub use self::rounds::{Plan, recover};
pub use self::site::{Latency, Site, Worker};
