//! What is seen from outside: the log and the metrics.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`log`] | lines for people or for machines, from the level on that was asked for |
//! | [`Metrics`] | what is counted, for `/metrics` |
//! | [`LocalFaults`] | faults of the gateway or its host, as they happen, for health, metrics and log |
//! | [`labels`] | the few words by which it is told apart |
//!
//! Labels are bounded: never a tenant, an endpoint or a URL. A gateway with 100,000 endpoints has as many series as one with ten.

pub mod labels;
mod local_faults;
pub mod log;
mod metrics;

pub use local_faults::LocalFaults;
pub use metrics::{ByLabel, Metrics};
