//! Tests of the Postgres store through its public interface, on private servers.

#![allow(clippy::unwrap_used)]

mod changes;
mod conformance;
mod connecting;
mod cost;
mod expiry;
mod faults;
mod fleet;
mod keys;
mod leaving;
mod refused_writes;
mod same_as_memory;
mod sampler;
mod samples;
mod server;
mod waiting;
