//! Values that threads share without blocking: the atomics of the standard library, or those of loom, which tests
//! every interleaving; and a floating-point number in an atomic.

#[cfg(not(breakerbox_loom))]
pub(super) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[cfg(breakerbox_loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use self::Ordering::Relaxed;

/// A floating-point number in an atomic. Relaxed ordering is enough, because no other data is published through it.
#[derive(Default, Debug)]
pub(super) struct Number(AtomicU64);

impl Number {
    pub(super) fn new(value: f64) -> Self {
        Self(AtomicU64::new(value.to_bits()))
    }

    pub(super) fn load(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    pub(super) fn store(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    /// Replaces the value with the result of `next`, and returns the previous value. If `next` returns `None`, the
    /// value stays unchanged and is returned as the error.
    pub(super) fn update(&self, mut next: impl FnMut(f64) -> Option<f64>) -> Result<f64, f64> {
        let bits = self.0.fetch_update(Relaxed, Relaxed, |bits| next(f64::from_bits(bits)).map(f64::to_bits));
        bits.map(f64::from_bits).map_err(f64::from_bits)
    }
}
