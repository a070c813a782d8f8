//! The webhook gateway, as a library: it serves the API, dispatches deliveries and fires reminders. What it decides is in
//! `breakerbox-model`, what it stores behind the traits of `breakerbox-storage`; it has no command line of its own.
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

pub mod api;
pub mod config;
pub mod dispatch;
pub mod gateway;
pub mod notifications;
pub mod permits;
pub mod telemetry;
