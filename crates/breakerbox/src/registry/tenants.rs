//! The number of cells per tenant, and the limit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_core::Timestamp;

/// The approximate memory for one circuit without its key, in bytes. It includes the window, the state in the fleet,
/// and the throttle.
const BYTES_EACH: usize = 2_048;

/// The number of copies of the key that each circuit holds.
const COPIES_OF_KEY: usize = 4;

/// How long to wait before searching a tenant's cells again if the last search found almost no evictable cells.
pub(super) const SEARCH_PAUSE: Duration = Duration::from_millis(20);

/// The limit for each tenant in a registry. A tenant is a key's first word, up to a space or a slash, as
/// [`Key::of`](breakerbox_core::Key::of) builds it. For example, `acme https://a.example/` and `acme/reminders` belong
/// to `acme`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantLimit {
    /// The maximum number of a tenant's circuits.
    pub circuits: usize,
    /// The maximum memory for a tenant's circuits, in bytes. A circuit's memory is estimated as 2 KiB plus four times
    /// the length of its key.
    pub bytes: usize,
}

/// Returns a key's tenant.
pub(super) fn of(key: &str) -> &str {
    key.split([' ', '/']).next().unwrap_or(key)
}

/// Returns the approximate memory for a key's cell, in bytes.
const fn cost(key: &str) -> usize {
    BYTES_EACH + COPIES_OF_KEY * key.len()
}

pub(super) struct Tenants {
    limit: TenantLimit,
    /// The tenants that have cells. Locked only when cells are added or evicted.
    held: Mutex<HashMap<Box<str>, Held>>,
}

#[derive(Default)]
struct Held {
    circuits: usize,
    bytes: usize,
    /// The time until which this tenant's cells are not searched, because the last search found almost no evictable
    /// cells.
    searched_until: Timestamp,
}

impl Held {
    fn has_room(&self, key: &str, limit: TenantLimit) -> bool {
        self.circuits < limit.circuits && self.bytes.saturating_add(cost(key)) <= limit.bytes
    }
}

impl Tenants {
    pub(super) fn new(limit: TenantLimit) -> Self {
        Self { limit, held: Mutex::default() }
    }

    pub(super) fn has_room(&self, key: &str) -> bool {
        self.lock()
            .get(of(key))
            .map_or_else(|| Held::default().has_room(key, self.limit), |held| held.has_room(key, self.limit))
    }

    /// Reserves a slot for this key, if its tenant has a free slot. Returns whether it succeeded.
    pub(super) fn try_take(&self, key: &str) -> bool {
        let mut all = self.lock();
        let Some(held) = all.get_mut(of(key)) else {
            let mut held = Held::default();
            let has_room = held.has_room(key, self.limit);
            if has_room {
                held.circuits = 1;
                held.bytes = cost(key);
                all.insert(of(key).into(), held);
            }
            return has_room;
        };
        let has_room = held.has_room(key, self.limit);
        if has_room {
            held.circuits += 1;
            held.bytes += cost(key);
        }
        has_room
    }

    /// Releases this key's slot.
    pub(super) fn release(&self, key: &str) {
        let mut all = self.lock();
        let Some(held) = all.get_mut(of(key)) else { return };
        held.circuits = held.circuits.saturating_sub(1);
        held.bytes = held.bytes.saturating_sub(cost(key));
        if held.circuits == 0 {
            all.remove(of(key));
        }
    }

    /// Returns whether this tenant's cells may be searched for evictable cells now.
    pub(super) fn may_search(&self, key: &str, now: Timestamp) -> bool {
        self.lock().get(of(key)).is_some_and(|held| now >= held.searched_until)
    }

    /// Records that a search found almost no evictable cells, so that the next one is delayed.
    pub(super) fn searched_in_vain(&self, key: &str, now: Timestamp) {
        if let Some(held) = self.lock().get_mut(of(key)) {
            held.searched_until = now + SEARCH_PAUSE;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_the_first_word_up_to_a_slash() {
        for (key, tenant) in [
            ("acme https://a.example/", "acme"),
            ("acme", "acme"),
            ("acme/reminders", "acme"),
            ("acme/reminders https://a.example/", "acme"),
            ("", ""),
        ] {
            assert_eq!(of(key), tenant, "{key}");
        }
    }

    #[test]
    fn places_are_counted_in_number_and_bytes() {
        let tenants = Tenants::new(TenantLimit { circuits: 2, bytes: 3 * BYTES_EACH });
        assert!(tenants.try_take("a 1") && tenants.try_take("a 2"));
        assert!(!tenants.try_take("a 3"), "two at most");
        assert!(tenants.try_take("b 1"), "another tenant");
        assert!(!tenants.try_take(&format!("b {}", "x".repeat(BYTES_EACH))), "too many bytes");
        tenants.release("a 1");
        assert!(tenants.try_take("a 3") && !tenants.has_room("a 4"));
        for key in ["a 2", "a 3", "b 1"] {
            tenants.release(key);
        }
        assert!(tenants.lock().is_empty(), "those that have none are forgotten");
    }
}
