//! Tests of the library's public API, as a service uses it.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod calls;
mod circuits;
mod errors;
mod faults_of_others;
#[cfg(feature = "tower")]
mod hyper_client;
mod memory_store;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tower")]
mod mock;
mod observers;
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
mod overload;
mod owned_permits;
mod paused_time;
mod policies;
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
mod receiver;
mod registry;
#[cfg(feature = "reqwest-middleware")]
mod reqwest_client;
mod same_as_the_core;
mod sampling;
mod service;
#[cfg(feature = "sqlite")]
mod sqlite_sampler;
mod throttles;
#[cfg(feature = "tower")]
mod tower_circuit;
#[cfg(feature = "tower")]
mod tower_fleet;
#[cfg(feature = "tower")]
mod tower_readiness;
#[cfg(feature = "tower")]
mod tower_throttle;
#[cfg(feature = "tracing")]
mod tracing_events;
mod waiting;
