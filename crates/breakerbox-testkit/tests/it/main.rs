//! Tests of the testkit through its public interface.

#![allow(clippy::unwrap_used)]

mod fleet;
mod fleet_local;
mod fleet_ramp;
mod fleet_reports;
mod fleet_rig;
mod lease_model;
mod lifecycle;
mod memory_store;
mod overload;
mod proxy;
mod receiver;
mod recovery;
mod sampling;
mod servers;
mod sim;
mod store_away;
mod store_back;
mod strict;
mod tickets;
