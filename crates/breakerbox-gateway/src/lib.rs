//! The `breakerbox` binary, as a library so that tests and fuzz targets can reach its parts.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`api`] | the REST API, and the server that it is behind |
//! | [`config`] | the settings: file, environment, flags |
//! | [`notifications`] | sends notifications: webhook, Slack, mail |
//! | [`permits`] | the decision API's permits: given to workers, settled by what they report |
//! | [`send`] | outgoing HTTP, and which addresses may be called |
//! | [`telemetry`] | the log and the metrics |
//! | [`gateway`] | all of it put together, started and stopped |
//! | [`host`] | what the process needs from its host, and how it notices that it lacks it |
//! | [`work`] | the loops that move deliveries |
//! | [`cli`] | the command line: reads arguments, opens files, prints |

pub mod api;
pub mod cli;
pub mod config;
pub mod gateway;
pub mod host;
pub mod notifications;
pub mod permits;
pub mod send;
pub mod telemetry;
pub mod work;
