//! The destination: counts the probes that call, and detects simultaneous ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The destination of all probes in a test.
#[derive(Default)]
pub(super) struct Receiver {
    live: AtomicU32,
    overlaps: AtomicU64,
}

impl Receiver {
    /// Starts a probe's call, which lasts until the visit is dropped.
    pub(super) fn visit(self: &Arc<Self>) -> Visit {
        if self.live.fetch_add(1, Ordering::SeqCst) > 0 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        Visit(Arc::clone(self))
    }

    /// Returns the number of probes that are calling now.
    pub(super) fn live(&self) -> u32 {
        self.live.load(Ordering::SeqCst)
    }

    /// Returns how many times a probe started while another probe was calling.
    pub(super) fn overlaps(&self) -> u64 {
        self.overlaps.load(Ordering::SeqCst)
    }

    /// Ends the call of a lost probe (one that is never settled), whose lease has expired.
    pub(super) fn leave(&self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A probe's call in progress.
pub(super) struct Visit(Arc<Receiver>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_who_is_in_at_once_and_not_who_comes_after() {
        let receiver = Arc::new(Receiver::default());
        drop(receiver.visit());
        let first = receiver.visit();
        assert_eq!((receiver.live(), receiver.overlaps()), (1, 0));
        let second = receiver.visit();
        assert_eq!((receiver.live(), receiver.overlaps()), (2, 1));
        drop((first, second));
        assert_eq!((receiver.live(), receiver.overlaps()), (0, 1));
    }
}
