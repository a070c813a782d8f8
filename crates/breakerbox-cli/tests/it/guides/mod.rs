//! The guides to limits, notifications and reminders: their commands are run against a real server on loopback.

mod limits;
mod notifications;
mod reminders;
#[allow(dead_code, reason = "the tests of the API use the rest")]
#[path = "../../../../breakerbox-gateway/tests/it/api/site.rs"]
mod site;
#[path = "../../../../breakerbox-gateway/tests/it/api/things.rs"]
mod things;
