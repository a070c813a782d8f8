//! Telemetry: the log and the metrics.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`log`] | log lines, as text or JSON, from the configured level on |
//! | [`Metrics`] | the metrics, for `/metrics` |
//! | [`LocalFaults`] | faults of the gateway or its host, for health, metrics and log |
//! | [`labels`] | the label values of metrics |
//!
//! Labels are bounded: never a tenant, an endpoint or a URL. A gateway with 100,000 endpoints has as many series as one
//! with ten.

pub mod labels;
mod local_faults;
pub mod log;
mod metrics;

pub use local_faults::LocalFaults;
pub use metrics::{ByLabel, Metrics};
