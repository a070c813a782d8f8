//! Reports circuit transitions in log and metrics. A circuit that is read from the database after a restart changed
//! before this process started: it is reported as restored, and not counted as a transition.

use breakerbox::CircuitChange;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Moment, ShownKey};
use tracing::info;

use crate::telemetry::Metrics;

/// Logs a change, and counts it if it happened after startup.
pub(super) fn report(heard: &CircuitChange, started_at: Timestamp, metrics: &Metrics) {
    let change = &heard.change;
    if change.at < started_at {
        info!(circuit = %ShownKey(&heard.key), state = %change.to, since = %Moment(change.at), "circuit restored");
        return;
    }
    metrics.transitions.of(change.to).inc();
    info!(circuit = %ShownKey(&heard.key), from = %change.from, to = %change.to, cause = ?change.cause, "circuit changed");
}
