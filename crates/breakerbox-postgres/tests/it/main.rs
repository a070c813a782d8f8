//! The Postgres store, tried from outside, on private servers.

#![allow(clippy::unwrap_used)]

mod conformance;
mod server;
