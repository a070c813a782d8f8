//! Telemetry: a registry's circuits as `tracing` events and as metrics of the facade `metrics`, so that a service sees
//! its circuits without an observer. Both are features; without them, everything here is empty and compiles to nothing.
//!
//! Guaranteed: no event and no metric for a healthy call, whose success is added to a counter together with others when
//! its circuit next takes its lock; no code of a subscriber or recorder runs under a circuit's lock.

#[cfg(feature = "metrics")]
mod meters;
#[cfg(feature = "tracing")]
mod trace;

use std::sync::Arc;

use breakerbox_core::{Change, CircuitStatus, OutcomeKind, Refusal};

/// The name of a registry whose builder sets none.
pub(crate) const DEFAULT_NAME: &str = "default";

/// A registry's telemetry. Clones share their counts.
#[derive(Clone)]
pub(crate) struct Telemetry {
    #[cfg(feature = "tracing")]
    name: Arc<str>,
    #[cfg(feature = "metrics")]
    meters: Arc<meters::Meters>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new(&DEFAULT_NAME.into())
    }
}

/// The state as which a circuit is counted in the gauge of circuits.
#[derive(Clone, Copy, Default)]
pub(crate) struct CountedAs {
    #[cfg(feature = "metrics")]
    status: Option<CircuitStatus>,
}

#[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(clippy::unused_self))]
impl Telemetry {
    pub(crate) fn new(name: &Arc<str>) -> Self {
        let _ = name;
        Self {
            #[cfg(feature = "tracing")]
            name: Arc::clone(name),
            #[cfg(feature = "metrics")]
            meters: Arc::new(meters::Meters::new(Arc::clone(name))),
        }
    }

    /// Publishes a transition. Must not be called under a lock.
    pub(crate) fn changed(&self, key: &str, change: &Change) {
        let _ = (key, change);
        #[cfg(feature = "tracing")]
        trace::changed(&self.name, key, change);
        #[cfg(feature = "metrics")]
        self.meters.changed(change);
    }

    /// Publishes that the store was lost, with the error, or recovered. Must not be called under a lock.
    pub(crate) fn store_changed(&self, error: Option<&str>) {
        let _ = error;
        #[cfg(feature = "tracing")]
        trace::store_changed(&self.name, error);
        #[cfg(feature = "metrics")]
        self.meters.store_changed(error.is_none());
    }

    /// Counts a refusal. Must not be called under a lock.
    #[inline(always)]
    pub(crate) fn refused(&self, refusal: &Refusal) {
        let _ = refusal;
        #[cfg(feature = "metrics")]
        self.meters.refused(refusal);
    }

    /// Counts a call that was settled outside the fast path. May be called under a circuit's lock.
    #[inline(always)]
    pub(crate) fn settled(&self, kind: OutcomeKind) {
        let _ = kind;
        #[cfg(feature = "metrics")]
        self.meters.add_calls(kind, 1);
    }

    /// Counts successes of the fast path. May be called under a circuit's lock.
    #[inline(always)]
    pub(crate) fn succeeded(&self, calls: u64) {
        let _ = calls;
        #[cfg(feature = "metrics")]
        self.meters.add_calls(OutcomeKind::Success, calls);
    }

    /// Counts a circuit in its state. May be called under the circuit's lock, which must protect `counted_as`.
    #[inline(always)]
    pub(crate) fn count_as(&self, counted_as: &mut CountedAs, status: impl FnOnce() -> CircuitStatus) {
        let _ = (&counted_as, &status);
        #[cfg(feature = "metrics")]
        {
            let status = Some(status());
            if counted_as.status != status {
                self.meters.moved(counted_as.status, status);
                counted_as.status = status;
            }
        }
    }

    /// No longer counts a circuit in its state.
    #[cfg(feature = "metrics")]
    pub(crate) fn uncount(&self, counted_as: &mut CountedAs) {
        self.meters.moved(counted_as.status.take(), None);
    }

    /// Passes on to the recorder what was counted under a lock. Must not be called under a lock.
    #[inline(always)]
    pub(crate) fn flush(&self) {
        #[cfg(feature = "metrics")]
        self.meters.flush();
    }
}
