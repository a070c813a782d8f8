//! The gateway as its users see it: over HTTP, with a real database.

#![allow(clippy::unwrap_used)]

mod api;
mod clocks;
mod dispatch;
mod gateway;
mod limits;
mod metrics;
mod notifications;
mod permits;
mod reminders;

use std::path::Path;

/// Returns the repository's root.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
