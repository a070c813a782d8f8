//! Throttle observers: functions that are called when a throttle starts or stops shedding, in the thread that
//! acquires, never under a lock.
//!
//! Without observers, acquiring a pass costs no extra time. If several threads see the same change, one reports it. A
//! state that is shorter than the time between two requests for a pass may not be reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use breakerbox_core::throttle::{Throttle, ThrottleState};

use crate::observe::call_guarded;

/// One throttle's change of state.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ThrottleChange {
    /// The throttle's key; `None` if the throttle is not in a registry.
    pub key: Option<Arc<str>>,
    /// The previous state.
    pub from: ThrottleState,
    /// The new state.
    pub to: ThrottleState,
}

type Observer = Box<dyn Fn(&ThrottleChange) + Send + Sync>;

#[derive(Default)]
pub(super) struct ThrottleObservers(Vec<Observer>);

/// The state that observers were last notified of, as an index into [`STATES`].
#[derive(Default)]
pub(super) struct LastNotified(AtomicU8);

const STATES: [ThrottleState; 3] = [ThrottleState::Calm, ThrottleState::Shedding, ThrottleState::Probing];

impl ThrottleObservers {
    pub(super) fn add(&mut self, observer: impl Fn(&ThrottleChange) + Send + Sync + 'static) {
        self.0.push(Box::new(observer));
    }

    /// Notifies all observers if the throttle's state has changed since they were last notified.
    #[inline]
    pub(super) fn notify_if_changed(&self, key: &str, throttle: &Throttle, last: &LastNotified) {
        if !self.0.is_empty() {
            self.notify(key, throttle, last);
        }
    }

    fn notify(&self, key: &str, throttle: &Throttle, last: &LastNotified) {
        let now = throttle.state().and_then(|state| STATES.iter().position(|&known| known == state));
        let Some(now) = now.and_then(|index| u8::try_from(index).ok()) else { return };
        let before = last.0.load(Ordering::Relaxed);
        if before == now
            || last.0.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let key = Some(key).filter(|key| !key.is_empty()).map(Arc::from);
        let [from, to] = [before, now].map(|index| STATES[usize::from(index)]);
        let change = ThrottleChange { key, from, to };
        for observer in &self.0 {
            // If an observer panics, neither the others nor the caller's call are affected.
            call_guarded(|| observer(&change));
        }
    }
}
