//! The `breakerbox` binary, as a library so that tests and fuzz targets can reach its parts.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`api`] | the REST API, and the server that it is behind |
//! | [`config`] | the settings: file, environment, flags |
//! | [`notifications`] | sends notifications: webhook, Slack, mail |
//! | [`permits`] | the decision API's permits: given to workers, settled by what they report |
//! | [`telemetry`] | the log and the metrics |
//! | [`gateway`] | all of it put together, started and stopped |
//! | [`dispatch`] | the loops that move deliveries |
//! | [`cli`] | the command line: reads arguments, opens files, prints |

pub mod api;
pub mod cli;
pub mod config;
pub mod dispatch;
pub mod gateway;
pub mod notifications;
pub mod permits;
pub mod telemetry;
