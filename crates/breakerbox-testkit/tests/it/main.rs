//! The testkit, tried from outside.

#![allow(clippy::unwrap_used)]

mod memory_store;
mod overload;
mod recovery;
