//! Token buckets for many keys that share one limit. The time is an argument.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use breakerbox_core::Timestamp;

use super::TokenBucket;
use crate::values::RateLimit;

/// A token bucket for each key, for a limited number of keys. When a key is added at the limit, the keys with
/// full buckets are forgotten first, because they lose nothing; if no bucket is full, all keys are forgotten.
#[derive(Debug)]
pub struct KeyedBuckets<K> {
    limit: RateLimit,
    most: usize,
    buckets: HashMap<K, TokenBucket>,
}

impl<K: Eq + Hash> KeyedBuckets<K> {
    /// Creates token buckets for at most `most` keys, each with this limit.
    #[must_use]
    pub fn new(limit: RateLimit, most: usize) -> Self {
        Self { limit, most, buckets: HashMap::new() }
    }

    /// Takes all of these tokens from the key's bucket, or none. A number above the burst size is treated as the
    /// burst size.
    ///
    /// # Errors
    /// Returns the time at which there will be enough tokens, if there are too few now.
    pub fn take<Q>(&mut self, key: &Q, tokens: u32, now: Timestamp) -> Result<(), Timestamp>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(bucket) = self.buckets.get_mut(key) {
            return bucket.take_many(tokens, now);
        }
        if self.buckets.len() >= self.most {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        if self.buckets.len() >= self.most {
            self.buckets.clear();
        }
        let mut bucket = TokenBucket::new(self.limit);
        let taken = bucket.take_many(tokens, now);
        self.buckets.insert(key.to_owned(), bucket);
        taken
    }

    /// Returns unused tokens to the key's bucket.
    pub fn give_back<Q>(&mut self, key: &Q, tokens: u32)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(bucket) = self.buckets.get_mut(key) {
            (0..tokens.min(self.limit.burst)).for_each(|_| bucket.give_back());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000 + seconds * 1_000)
    }

    fn buckets(most: usize) -> KeyedBuckets<String> {
        KeyedBuckets::new(RateLimit { per_second: 1.0, burst: 3 }, most)
    }

    #[test]
    fn each_key_has_its_own_tokens() {
        let mut buckets = buckets(10);
        assert_eq!(buckets.take("a", 3, at(0)), Ok(()));
        assert_eq!(buckets.take("a", 2, at(0)), Err(at(2)), "both are there then");
        assert_eq!(buckets.take("b", 3, at(0)), Ok(()));
        buckets.give_back("b", 2);
        assert_eq!(buckets.take("b", 2, at(0)), Ok(()));
        assert_eq!(buckets.take("a", 2, at(2)), Ok(()));
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let mut buckets = buckets(3);
        for second in 0..100 {
            assert_eq!(buckets.take(&format!("key {second}"), 3, at(second)), Ok(()));
            assert!(buckets.buckets.len() <= 3);
        }
        assert!(buckets.take("key 99", 1, at(99)).is_err(), "the latest is remembered");
        for key in 0..10 {
            assert_eq!(buckets.take(&format!("at once {key}"), 3, at(100)), Ok(()));
        }
        assert!(buckets.buckets.len() <= 3);
    }
}
