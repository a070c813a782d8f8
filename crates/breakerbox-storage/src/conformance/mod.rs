//! What every backend must do: one suite, run against each of them.
//!
//! | part | what it checks |
//! | --- | --- |
//! | [`queue_conformance!`](crate::queue_conformance) | the durable queue: accept, claim, settle, upkeep, crashes, races; random operations against a model |
//! | [`records_conformance!`](crate::records_conformance) | everything that people see and change, reminders among it |
//!
//! A backend's tests call both. Needs the feature `conformance`.

#![allow(missing_docs, reason = "the name of a case says what it checks")]
#![allow(clippy::unwrap_used, reason = "it fails a test")]

pub mod queue;
pub mod records;
