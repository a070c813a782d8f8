//! The requirements for every backend: one test suite, run against each of them.
//!
//! | part | checks |
//! | --- | --- |
//! | [`queue_conformance!`](crate::queue_conformance) | the durable queue: accept, claim, settle, maintenance, crashes, races; random operations compared with a model |
//! | [`records_conformance!`](crate::records_conformance) | everything that the API shows and changes, including reminders |
//!
//! A backend's tests invoke both macros. They need the feature `conformance`.

#![allow(missing_docs, reason = "the name of a case says what it checks")]
#![allow(clippy::unwrap_used, reason = "it fails a test")]

pub mod queue;
pub mod records;
