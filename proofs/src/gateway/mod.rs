//! The gateway, tried as its owner has it: a process of its own, under load, with everything that can befall it.
//!
//! | part | what it proves |
//! | --- | --- |
//! | [`kills`] | `kill -9` under load: nothing is lost |
//! | [`powercut`] | the power is cut under load: nothing is lost, the database is whole |
//! | [`sigterm`] | `SIGTERM` under load: it ends well, nothing is lost or sent twice |
//! | [`findings`], [`ledger`], [`seed`] | what was found; where every accepted event is; what a seed chooses |
//!
//! The program under proof is this package's own: called with `serve` it is the gateway, so it is never an old one.

pub mod findings;
pub mod kills;
pub mod ledger;
pub mod powercut;
pub mod seed;
pub mod sigterm;
