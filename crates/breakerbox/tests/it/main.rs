//! The library, as a service uses it.

#![allow(clippy::unwrap_used)]

mod calls;
mod circuits;
mod memory_store;
mod observers;
mod owned_permits;
mod policies;
mod probes;
mod registry;
mod same_as_the_core;
mod service;
mod throttles;
mod waiting;
