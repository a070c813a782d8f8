//! The guides to limits, notices and reminders: their commands are run against a real server on loopback.

mod limits;
mod notices;
mod reminders;
#[allow(dead_code, reason = "the tests of the API use the rest")]
#[path = "../../../../breakerbox-gateway/tests/it/api/site.rs"]
mod site;
#[path = "../../../../breakerbox-gateway/tests/it/api/things.rs"]
mod things;
