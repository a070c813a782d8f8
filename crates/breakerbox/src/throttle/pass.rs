//! Passes: the right to make one call, settled once.

use std::borrow::Cow;

use breakerbox_core::throttle::{self as core, LoadSignal};

use super::handle::Throttle;

/// The right to make one call. Settle it with the call's result. A pass that is dropped counts as neither accepted nor
/// rejected.
///
/// ```
/// use breakerbox::throttle::{Priority, Throttle};
///
/// let throttle = Throttle::default();
/// match throttle.try_acquire(Priority::HIGH) {
///     // Make the call, then say whether the destination had room for it.
///     Ok(pass) => pass.accept(),
///     Err(shed) => println!("{shed}"),
/// }
/// ```
#[derive(Debug)]
#[must_use = "a pass that is dropped says nothing about the destination"]
pub struct Pass<'t, C> {
    throttle: Cow<'t, Throttle<C>>,
    /// The core's pass, until it is settled. `None` if the call is not counted.
    held: Option<core::Pass>,
}

impl<'t, C> Pass<'t, C> {
    #[inline]
    pub(super) const fn new(throttle: Cow<'t, Throttle<C>>, held: Option<core::Pass>) -> Self {
        Self { throttle, held }
    }

    /// Settles the pass as accepted, because the destination took the call, whatever the response.
    #[inline]
    pub fn accept(self) {
        self.settle(LoadSignal::Accept);
    }

    /// Settles the pass as rejected, because the destination was overloaded, or did not respond in time.
    pub fn reject(self) {
        self.settle(LoadSignal::Reject);
    }

    /// Settles the pass with the call's load signal.
    #[inline]
    pub fn settle(mut self, signal: LoadSignal) {
        if let Some(held) = self.held.take() {
            self.throttle.settle(held, signal);
        }
    }
}

impl<C> Drop for Pass<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.throttle.settle(held, LoadSignal::Neither);
        }
    }
}
