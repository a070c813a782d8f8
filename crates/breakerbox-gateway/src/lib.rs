//! The `breakerbox` binary, as a library so that tests and fuzz targets can reach its parts.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`api`] | the REST API, and the server that it is behind |
//! | [`clock`] | the wall clock, and the clock that leases, circuits and limits go by |
//! | [`config`] | the settings: file, environment, flags |
//! | [`notify`] | what people are told, and how it gets to them |
//! | [`objects`] | what the gateway keeps: tenants, endpoints, events, deliveries |
//! | [`delivery`] | what happens next to a delivery; pure |
//! | [`reminder`] | when a reminder runs, and what comes after a run; pure |
//! | [`permits`] | the decision API's permits: given to workers, settled by what they report |
//! | [`queue`] | the durable queue: one trait, SQLite behind it |
//! | [`secrets`] | secrets at rest: master keys, sealing, opening |
//! | [`send`] | outgoing HTTP, and which addresses may be called |
//! | [`shares`] | fair shares of what is limited, by tenant, key or address; pure |
//! | [`telemetry`] | the log and the metrics |
//! | [`gateway`] | all of it put together, started and stopped |
//! | [`host`] | what the process needs from its host, and how it notices that it lacks it |
//! | [`work`] | the loops that move deliveries |
//! | [`cli`] | the command line: reads arguments, opens files, prints |

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod delivery;
pub mod gateway;
pub mod host;
pub mod notify;
pub mod objects;
pub mod permits;
pub mod queue;
pub mod reminder;
pub mod secrets;
pub mod send;
pub mod shares;
pub mod telemetry;
pub mod work;
