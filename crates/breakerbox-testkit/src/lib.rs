//! Test tools that the tests and commands of several crates share: store conformance checks, fault injection,
//! private servers, load generation, and simulations in virtual time. The crate is not for users of Breakerbox.
//!
//! | item | description |
//! | --- | --- |
//! | [`conformance`] | checks for every store, operation by operation |
//! | [`fleet_checks`] | fleet checks over a real server, for the tests of every shared store |
//! | [`faults`] | a store wrapper that injects faults: delays, lost requests or responses, refused writes, no change events |
//! | [`proxy`] | a TCP proxy that delays, drops, closes or resets connections on command |
//! | [`receiver`] | a real HTTP receiver with configurable responses, which records the requests |
//! | [`mail`] | a small SMTP server that stores the mails that it receives |
//! | [`load`] | a load generator: closed loop, and open loop without coordinated omission |
//! | [`gateway`] | a gateway in its own process, and a client for its API |
//! | [`stamp`], [`usage`] | timestamps inside payloads; CPU time and memory of processes and threads |
//! | [`StoreWithServer`] | a store together with the server that it runs on |
//! | [`servers`] | private Postgres and Redis servers, which tests can kill, pause and restart |
//! | [`overload`] | throttles in front of a simulated backend, in virtual time |
//! | [`sim`] | a whole fleet with the real library, in virtual time, with injected faults |
//! | [`recovery`] | a hundred concurrent callers at the end of a cool-off, in many rounds, with the real library |

pub mod conformance;
pub mod faults;
pub mod fleet_checks;
pub mod gateway;
pub mod load;
pub mod mail;
pub mod overload;
pub mod proxy;
pub mod receiver;
pub mod recovery;
pub mod servers;
pub mod sim;
pub mod stamp;
mod store_with_server;
pub mod usage;

pub use self::store_with_server::StoreWithServer;
