//! Shares for use by several threads: dropping a permit gives its amount back.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{NoShare, Shares};

/// A limited total that owners share. A clone is another handle to the same total.
///
/// ```
/// use breakerbox_model::shares::SharePool;
///
/// let look_ups = SharePool::new(32, 25);
/// let mine = look_ups.try_acquire(&"acme", 8).unwrap();
/// assert_eq!(look_ups.used(), 8);
/// drop(mine);
/// assert_eq!(look_ups.used(), 0);
/// ```
#[derive(Debug)]
pub struct SharePool<K>(Arc<Mutex<Shares<K>>>);

impl<K> Clone for SharePool<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// An amount that an owner holds until the permit is dropped.
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub struct SharePermit<K: Clone + Eq + Hash> {
    pool: SharePool<K>,
    owner: K,
    amount: u64,
}

impl<K: Clone + Eq + Hash> SharePool<K> {
    /// Creates a pool with the total amount `whole`, of which each owner's share is `percent`; see [`Shares::new`].
    #[must_use]
    pub fn new(whole: u64, percent: u32) -> Self {
        Self(Arc::new(Mutex::new(Shares::new(whole, percent))))
    }

    /// Takes the whole amount for the owner, or nothing, without blocking.
    ///
    /// # Errors
    /// Returns an error if the owner would exceed its allowance, or if all owners together would exceed the total.
    pub fn try_acquire(&self, owner: &K, amount: u64) -> Result<SharePermit<K>, NoShare> {
        self.lock().try_take(owner, amount)?;
        Ok(SharePermit { pool: self.clone(), owner: owner.clone(), amount })
    }

    /// Returns the amount that all owners hold together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    fn lock(&self) -> MutexGuard<'_, Shares<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> SharePermit<K> {
    /// Takes an additional amount for the same owner, all of it or nothing.
    ///
    /// # Errors
    /// The same as for [`SharePool::try_acquire`]. The permit keeps the amount that it already holds.
    pub fn try_grow(&mut self, amount: u64) -> Result<(), NoShare> {
        self.pool.lock().try_take(&self.owner, amount)?;
        self.amount += amount;
        Ok(())
    }
}

impl<K: Clone + Eq + Hash> Drop for SharePermit<K> {
    fn drop(&mut self) {
        self.pool.lock().give_back(&self.owner, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_there_again() {
        let pool = SharePool::new(100, 25);
        let mut first = pool.try_acquire(&'a', 10).unwrap();
        first.try_grow(65).unwrap();
        assert_eq!(first.try_grow(1), Err(NoShare::OwnerOver));
        let second = pool.try_acquire(&'b', 25).unwrap();
        assert_eq!(pool.try_acquire(&'c', 1).unwrap_err(), NoShare::AllUsed);
        drop(first);
        assert_eq!(pool.used(), 25);
        assert!(pool.try_acquire(&'c', 25).is_ok());
        drop(second);
        assert_eq!(pool.used(), 0, "all guards are gone");
    }
}
