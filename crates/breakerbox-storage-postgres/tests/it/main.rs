//! Tests of the shared storage on private Postgres servers.

#![allow(clippy::unwrap_used)]

mod opening;
mod queue;
mod records;
mod server;
