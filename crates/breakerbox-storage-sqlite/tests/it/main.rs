//! The SQLite backend: what every backend must do, and what is only true of a file.

#![allow(clippy::unwrap_used)]

mod queue;
mod records;
