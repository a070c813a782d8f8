//! The webhook gateway, as a library: it serves the API, dispatches deliveries and fires reminders. Its decisions are
//! in `breakerbox-model`, its storage is behind the traits of `breakerbox-storage`, and its command line is
//! `breakerbox-cli`.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`api`] | the REST API, and its HTTP server |
//! | [`config`] | the settings: file, environment, flags |
//! | [`notifications`] | sends notifications: webhook, Slack, mail |
//! | [`permits`] | the permits that workers acquire and settle in the decision API |
//! | [`telemetry`] | the log and the metrics |
//! | [`gateway`] | assembles, starts and stops all of it |
//! | [`dispatch`] | the loops that send deliveries |

pub mod api;
pub mod config;
pub mod dispatch;
pub mod gateway;
pub mod notifications;
pub mod permits;
pub mod telemetry;
