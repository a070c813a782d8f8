//! The atomics and locks on the fast path: the standard ones, or loom's, which test every interleaving.

#[cfg(not(breakerbox_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(breakerbox_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
