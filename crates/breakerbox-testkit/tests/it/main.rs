//! The testkit, tried from outside.

#![allow(clippy::unwrap_used)]

mod fleet;
mod lease_model;
mod memory_store;
mod overload;
mod recovery;
mod servers;
mod sim;
