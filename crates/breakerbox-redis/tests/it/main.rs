//! Tests of the Redis store against real servers.

#![allow(clippy::unwrap_used)]

mod clustered;
mod conformance;
mod connecting;
mod costs;
mod faults;
mod fleet;
mod index;
mod leaving;
mod refused_writes;
mod same_as_memory;
mod server;
