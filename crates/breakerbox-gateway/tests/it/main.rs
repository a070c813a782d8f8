//! The `breakerbox` command, as its users run it.

#![allow(clippy::unwrap_used)]

mod command;
mod docs;
mod hostile;
mod replay;
mod replay_errors;
mod replay_output;
