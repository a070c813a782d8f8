//! Tests of the SQLite backend: the conformance suites, and tests specific to a database file.

#![allow(clippy::unwrap_used)]

mod queue;
mod records;
