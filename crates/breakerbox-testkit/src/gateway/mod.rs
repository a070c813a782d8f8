//! A gateway in its own process and directory, controlled through its API.
//!
//! | item | description |
//! | --- | --- |
//! | [`Gateway`] | the process: start, stop, kill, and restart on the same directory; it is killed when dropped |
//! | [`Api`] | a client for the API: tenants, endpoints, events, deliveries |
//! | [`Metrics`] | the samples from `/metrics` |
//!
//! The module depends only on the path of the gateway's program, so that proofs, benchmarks and the gateway's
//! own tests can use it.

mod api;
mod metrics;
mod process;

use std::io;

pub use self::api::{Api, Event, payload};
pub use self::metrics::Metrics;
pub use self::process::{Gateway, Settings};
use crate::servers::ServerError;

/// An error from a gateway process, or from a request to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The gateway did not start.
    #[error(transparent)]
    NotReady(#[from] ServerError),
    /// The gateway did not exit in time.
    #[error("it did not end within {limit:?}; the log:\n{log}")]
    DidNotEnd {
        /// The timeout that was exceeded.
        limit: std::time::Duration,
        /// The gateway's output.
        log: String,
    },
    /// The gateway responded with an unexpected status.
    #[error("{request} was answered {status}: {body}")]
    Refused {
        /// The method and path of the request.
        request: String,
        /// The response's HTTP status.
        status: u16,
        /// The response body.
        body: String,
    },
    /// The gateway did not respond.
    #[error("{request} was not answered")]
    NoAnswer {
        /// The method and path of the request.
        request: String,
        /// The HTTP client's error.
        #[source]
        source: reqwest::Error,
    },
    /// A file or process could not be created.
    #[error(transparent)]
    System(#[from] io::Error),
}
