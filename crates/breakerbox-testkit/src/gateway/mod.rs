//! A gateway in a process of its own, with a folder of its own, driven through its API.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Gateway`] | the process, which tests can start, stop, kill, and start again on the same folder; it ends when this is dropped |
//! | [`Api`] | a client for the API: tenants, endpoints, events, deliveries |
//! | [`Metrics`] | the samples of `/metrics` |
//!
//! The module knows only the path of the gateway's program, so that proofs, benchmarks and the gateway's own tests can
//! use it.

mod api;
mod metrics;
mod process;

use std::io;

pub use self::api::{Api, Event, payload};
pub use self::metrics::Metrics;
pub use self::process::{Gateway, Settings};
use crate::servers::ServerError;

/// An error of a gateway process, or of a request to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The gateway did not start.
    #[error(transparent)]
    NotReady(#[from] ServerError),
    /// The gateway did not end in time.
    #[error("it did not end within {limit:?}; the log:\n{log}")]
    DidNotEnd {
        /// The limit that it exceeded.
        limit: std::time::Duration,
        /// The output of the gateway.
        log: String,
    },
    /// The gateway answered with an unexpected status.
    #[error("{request} was answered {status}: {body}")]
    Refused {
        /// Method and path of the request.
        request: String,
        /// The HTTP status.
        status: u16,
        /// The body of the answer.
        body: String,
    },
    /// The gateway did not answer.
    #[error("{request} was not answered")]
    NoAnswer {
        /// Method and path of the request.
        request: String,
        /// The error of the HTTP client.
        #[source]
        source: reqwest::Error,
    },
    /// The system did not provide a file or a process.
    #[error(transparent)]
    System(#[from] io::Error),
}
