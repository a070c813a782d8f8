//! Transitions as `tracing` events, with the target `breakerbox`.

use breakerbox_core::{Change, CircuitStatus};

/// Emits a transition: a warning if the circuit now refuses calls, otherwise information.
pub(super) fn changed(registry: &str, key: &str, change: &Change) {
    let Change { from, to, cause, trips, .. } = change;
    let (from, to, cause) = (from.name(), to.name(), cause.name());
    let cool_off_ms =
        change.retry_at.map(|at| u64::try_from(at.since(change.at).as_millis()).unwrap_or(u64::MAX));
    match change.to {
        CircuitStatus::Open | CircuitStatus::Disabled => {
            tracing::warn!(target: "breakerbox", registry, key, from, to, cause, trips, cool_off_ms, "circuit {to}");
        }
        _ => tracing::info!(target: "breakerbox", registry, key, from, to, cause, trips, "circuit {to}"),
    }
}

/// Emits that the store was lost (a warning), or that it recovered.
pub(super) fn store_changed(registry: &str, error: Option<&str>) {
    match error {
        None => tracing::info!(target: "breakerbox", registry, "store connected"),
        Some(error) => {
            tracing::warn!(target: "breakerbox", registry, error, "store degraded");
        }
    }
}
