//! A gateway as its owner has it: a process of its own, with a folder of its own, talked to by its API.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Gateway`] | the process: started, asked, stopped, killed, started again on the same folder; gone when this is dropped |
//! | [`Api`] | what an owner does: tenants, endpoints, events, what became of them |
//! | [`Metrics`] | what `/metrics` says |
//!
//! It knows the gateway's program only by its path, so that proofs, benchmarks and the gateway's own tests can use it.

mod api;
mod metrics;
mod process;

use std::io;

pub use self::api::{Api, Event, payload};
pub use self::metrics::Metrics;
pub use self::process::{Gateway, Settings};
use crate::servers::ServerError;

/// Why a gateway did not do what it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// It is not there.
    #[error(transparent)]
    NotReady(#[from] ServerError),
    /// It printed no admin key at its first start.
    #[error("no admin key was printed; the log:\n{log}")]
    NoKey {
        /// What it wrote.
        log: String,
    },
    /// It did not end in time.
    #[error("it did not end within {limit:?}; the log:\n{log}")]
    DidNotEnd {
        /// How long it had.
        limit: std::time::Duration,
        /// What it wrote.
        log: String,
    },
    /// It answered otherwise than it should.
    #[error("{request} was answered {status}: {body}")]
    Refused {
        /// What was asked.
        request: String,
        /// The status.
        status: u16,
        /// What it said.
        body: String,
    },
    /// It did not answer.
    #[error("{request} was not answered")]
    NoAnswer {
        /// What was asked.
        request: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// A file or a process could not be had.
    #[error(transparent)]
    System(#[from] io::Error),
}
