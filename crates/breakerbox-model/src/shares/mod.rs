//! Fair shares of a limited resource: no owner (a tenant, an API key, an address) can take all of it from the others.
//!
//! | part | task |
//! | --- | --- |
//! | [`Shares`] | the rule, without locks: how much each owner holds, and how much it may hold right now |
//! | [`SharePool`] | shares for use by several threads: dropping a permit gives its amount back |
//!
//! **The rule.** An owner may always hold its share of the total, a quarter by default, as long as that much is free.
//! It may hold more only from what the others leave: a full share stays reserved for each other owner that holds
//! something, and one more for an owner that holds nothing yet. So a single owner can use three quarters, and a new
//! owner gets its quarter at once.
//!
//! **Not guaranteed.** Nothing is taken back from an owner. An owner that holds more than its allowance gets nothing
//! more until it has given enough back.

mod pool;

use std::collections::HashMap;
use std::hash::Hash;

pub use self::pool::{SharePermit, SharePool};

/// The default share of one owner, in percent of the total.
pub const DEFAULT_SHARE: u32 = 25;

/// Divides a limited total among owners, and counts how much each of them holds.
///
/// ```
/// use breakerbox_model::shares::{NoShare, Shares};
///
/// let mut places = Shares::new(8, 25);
/// assert_eq!(places.try_take(&"large", 6), Ok(()), "alone it may take more than its share of 2");
/// assert_eq!(places.try_take(&"large", 1), Err(NoShare::OwnerOver), "the rest is for others");
/// assert_eq!(places.try_take(&"small", 2), Ok(()));
/// places.give_back(&"large", 1);
/// assert_eq!(places.try_take(&"large", 1), Err(NoShare::OwnerOver), "no longer alone: 4 at most");
/// ```
#[derive(Clone, Debug)]
pub struct Shares<K> {
    whole: u64,
    percent: u32,
    used: u64,
    /// The amount per owner; owners that hold nothing have no entry.
    held: HashMap<K, u64>,
}

/// Why an owner can't take an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoShare {
    /// The amount would exceed the owner's allowance. The rest of the total is reserved for other owners.
    #[error("the share is used up")]
    OwnerOver,
    /// Less than the amount is left of the total.
    #[error("the whole capacity is in use")]
    AllUsed,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Creates shares of the total amount `whole`, of which nothing is held yet. Each owner's share is
    /// `percent` of the total, from 1 to 100; other values are clamped. At 100, only the total limits the
    /// owners.
    #[must_use]
    pub fn new(whole: u64, percent: u32) -> Self {
        Self { whole, percent: percent.clamp(1, 100), used: 0, held: HashMap::new() }
    }

    /// Returns each owner's share, which is at least 1. An owner may hold this much regardless of the number of other
    /// owners, as long as that much is free.
    #[must_use]
    pub fn share(&self) -> u64 {
        let share = u128::from(self.whole) * u128::from(self.percent) / 100;
        u64::try_from(share).unwrap_or(u64::MAX).max(1)
    }

    /// Returns the maximum that this owner may hold right now, including the amount that it holds already.
    #[must_use]
    pub fn allowance(&self, owner: &K) -> u64 {
        let others = self.held.len() - usize::from(self.held.contains_key(owner));
        let reserved = self.share().saturating_mul(others as u64 + 1);
        self.whole.saturating_sub(reserved).max(self.share()).min(self.whole)
    }

    /// Takes the whole amount for the owner, or nothing.
    ///
    /// # Errors
    /// Returns an error if the owner would exceed its allowance, or if all owners together would exceed the total.
    pub fn try_take(&mut self, owner: &K, amount: u64) -> Result<(), NoShare> {
        if amount == 0 {
            return Ok(());
        }
        let has_shares = self.percent < 100;
        if has_shares && self.held(owner).saturating_add(amount) > self.allowance(owner) {
            return Err(NoShare::OwnerOver);
        }
        if self.used.saturating_add(amount) > self.whole {
            return Err(NoShare::AllUsed);
        }
        self.used += amount;
        *self.held.entry(owner.clone()).or_default() += amount;
        Ok(())
    }

    /// Gives back an amount that this owner holds. If the owner holds less, everything that it holds is given back.
    pub fn give_back(&mut self, owner: &K, amount: u64) {
        let Some(held) = self.held.get_mut(owner) else { return };
        let amount = amount.min(*held);
        *held -= amount;
        self.used -= amount;
        if *held == 0 {
            self.held.remove(owner);
        }
    }

    /// Moves an amount from one owner to another, regardless of their shares. If `from` holds less, everything that
    /// it holds is moved.
    pub fn hand_over(&mut self, from: &K, to: &K, amount: u64) {
        let amount = amount.min(self.held(from));
        self.give_back(from, amount);
        if amount > 0 {
            self.used += amount;
            *self.held.entry(to.clone()).or_default() += amount;
        }
    }

    /// Changes the total. Owners keep what they hold, even if that exceeds the new total.
    pub const fn resize(&mut self, whole: u64) {
        self.whole = whole;
    }

    /// Returns the amount that this owner holds.
    #[must_use]
    pub fn held(&self, owner: &K) -> u64 {
        self.held.get(owner).copied().unwrap_or_default()
    }

    /// Returns the amount that all owners hold together.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns whether no owner holds anything.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_alone_leaves_one_share_free() {
        for (whole, percent, alone) in
            [(100, 25, 75), (8, 25, 6), (100, 10, 90), (100, 60, 60), (100, 100, 100)]
        {
            let shares = Shares::<u8>::new(whole, percent);
            assert_eq!(shares.allowance(&0), alone, "{percent} % of {whole}");
        }
    }

    #[test]
    fn a_newcomer_gets_its_share_at_once_and_the_first_one_falls_back() {
        let mut shares = Shares::new(100, 25);
        assert_eq!(shares.try_take(&'a', 75), Ok(()));
        assert_eq!(shares.try_take(&'a', 1), Err(NoShare::OwnerOver));
        assert_eq!(shares.try_take(&'b', 25), Ok(()));
        assert_eq!(shares.try_take(&'c', 1), Err(NoShare::AllUsed));
        // The amount that the first owner gives back is for others, as long as that owner exceeds its allowance.
        shares.give_back(&'a', 10);
        assert_eq!(shares.try_take(&'a', 1), Err(NoShare::OwnerOver));
        assert_eq!(shares.try_take(&'c', 10), Ok(()));
        assert_eq!(shares.allowance(&'a'), 25, "two others: nothing is left over");
        shares.give_back(&'c', 10);
        shares.give_back(&'b', 25);
        assert_eq!(shares.allowance(&'a'), 75, "alone again");
    }

    #[test]
    fn owners_within_their_share_never_refuse_each_other() {
        let mut shares = Shares::new(100, 25);
        for owner in 0..4 {
            assert_eq!(shares.try_take(&owner, 25), Ok(()), "{owner}");
        }
        assert_eq!(shares.try_take(&4, 1), Err(NoShare::AllUsed));
        assert_eq!((shares.used(), shares.held(&3)), (100, 25));
    }

    #[test]
    fn what_is_small_can_still_be_used() {
        for whole in 1..4 {
            let mut shares = Shares::new(whole, 25);
            assert_eq!(shares.try_take(&'a', 1), Ok(()), "{whole}");
        }
        let mut none = Shares::new(0, 25);
        assert_eq!(none.try_take(&'a', 1), Err(NoShare::OwnerOver));
        assert_eq!(none.try_take(&'a', 0), Ok(()));
        assert!(none.is_unused(), "who takes nothing holds nothing");
    }

    #[test]
    fn without_shares_there_is_but_one_limit() {
        let mut shares = Shares::new(100, 100);
        assert_eq!(shares.try_take(&'a', 100), Ok(()));
        assert_eq!(shares.try_take(&'a', 1), Err(NoShare::AllUsed));
    }

    #[test]
    fn nobody_gives_back_more_than_it_holds() {
        let mut shares = Shares::new(100, 25);
        assert_eq!(shares.try_take(&'a', 10), Ok(()));
        shares.give_back(&'b', 10);
        shares.give_back(&'a', 50);
        assert_eq!((shares.used(), shares.is_unused()), (0, true));
    }

    #[test]
    fn what_is_handed_over_stays_in_use() {
        let mut shares = Shares::new(100, 25);
        assert_eq!(shares.try_take(&'a', 75), Ok(()));
        shares.hand_over(&'a', &'b', 30);
        assert_eq!((shares.held(&'a'), shares.held(&'b'), shares.used()), (45, 30, 75));
        shares.hand_over(&'a', &'a', 1);
        shares.hand_over(&'c', &'b', 1);
        assert_eq!((shares.held(&'a'), shares.held(&'b'), shares.used()), (45, 30, 75));
    }

    #[test]
    fn a_smaller_whole_takes_nothing_away() {
        let mut shares = Shares::new(100, 25);
        assert_eq!(shares.try_take(&'a', 60), Ok(()));
        shares.resize(40);
        assert_eq!(shares.held(&'a'), 60);
        assert_eq!(shares.try_take(&'a', 1), Err(NoShare::OwnerOver));
        assert_eq!(shares.try_take(&'b', 1), Err(NoShare::AllUsed));
        shares.give_back(&'a', 40);
        assert_eq!(shares.try_take(&'b', 10), Ok(()));
    }

    /// A hostile owner can't prevent another owner from taking its share, except while all owners together hold the
    /// total.
    #[test]
    fn one_hostile_owner_never_takes_a_share_from_another() {
        let mut random = 7_u64;
        for _ in 0..200 {
            let mut shares = Shares::new(1_000, 25);
            for _ in 0..100 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let amount = random >> 55;
                if random & 1 == 0 {
                    let _ = shares.try_take(&"hostile", amount);
                } else {
                    shares.give_back(&"hostile", amount / 2);
                }
                let free = shares.share() - shares.held(&"other");
                let mut tried = shares.clone();
                assert_eq!(tried.try_take(&"other", free), Ok(()), "{shares:?}");
                if random & 2 == 0 {
                    let _ = shares.try_take(&"other", amount.min(free));
                } else {
                    shares.give_back(&"other", amount);
                }
            }
        }
    }
}
