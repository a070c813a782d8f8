//! The library, as a service uses it.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod calls;
mod circuits;
mod faults_of_others;
mod memory_store;
mod observers;
mod policies;
mod registry;
mod same_as_the_core;
mod service;
mod throttles;
mod waiting;
