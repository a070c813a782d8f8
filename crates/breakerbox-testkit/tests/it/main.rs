//! The testkit, tried from outside.

#![allow(clippy::unwrap_used)]

mod overload;
mod recovery;
