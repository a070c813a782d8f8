//! The testkit, tried from outside.

#![allow(clippy::unwrap_used)]

mod fleet;
mod fleet_rig;
mod lease_model;
mod memory_store;
mod overload;
mod proxy;
mod receiver;
mod recovery;
mod sampling;
mod sampling_rig;
mod servers;
mod sim;
mod store_away;
mod strict;
mod tickets;
