//! Telemetry: the log and the metrics.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`log`] | log lines, as text or JSON, at or above the configured level |
//! | [`Metrics`] | the metrics, for `/metrics` |
//! | `classic` | the metrics in the classic text format |
//! | [`LocalFaults`] | faults of the gateway or its host, for health, metrics and log |
//! | [`labels`] | the label values of metrics |
//!
//! Label values are never a tenant, an endpoint or a URL, so that a gateway with 100,000 endpoints has as many series
//! as one with ten.

mod classic;
pub mod labels;
mod local_faults;
pub mod log;
mod metrics;

pub use local_faults::LocalFaults;
pub use metrics::{ByLabel, Metrics};
