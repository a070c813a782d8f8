//! Generates ids that sort by time and that no other process generates.
//!
//! An id is a time in milliseconds and 21 bits. In even milliseconds, the first 10 of these bits are the number of the process,
//! modulo 1024, and the others count: 2048 ids in two milliseconds. A range that is longer, for an event with a large
//! fan-out, begins at an odd millisecond, which the database hands out once.
//!
//! Two processes have the same 10 bits only if a thousand others started in between. If they then generate the same id,
//! the second insert violates a primary key and is repeated with another number.

use std::sync::{Mutex, PoisonError};

use breakerbox_core::Timestamp;
use breakerbox_model::objects::Id;

/// The number of low bits of an id that do not belong to its time.
const LOW_BITS: u32 = 21;
/// The number of low bits that count.
const COUNT_BITS: u32 = 11;
/// The maximum length of a range that this process generates alone.
pub(crate) const MAX_RANGE: u32 = 1 << COUNT_BITS;
/// The maximum length of a range that begins at an odd millisecond.
pub(crate) const MAX_LARGE_RANGE: u32 = 1 << LOW_BITS;

/// Generates a process's ids.
pub(crate) struct Ids(Mutex<State>);

struct State {
    process: i64,
    /// The millisecond of the last id, which is even.
    millis: i64,
    /// The number of ids that are used in that millisecond.
    used: u32,
}

impl Ids {
    /// Creates a generator for the process with this number.
    pub(crate) fn new(worker: i64) -> Self {
        Self(Mutex::new(State { process: bits(worker), millis: 0, used: 0 }))
    }

    /// Continues with the number of another process, because an id was used twice.
    pub(crate) fn renumber(&self, worker: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).process = bits(worker);
    }

    /// Reserves up to [`MAX_RANGE`] consecutive ids, and returns the first.
    pub(crate) fn next(&self, count: u32, now: Timestamp) -> Id {
        debug_assert!(count <= MAX_RANGE, "longer ranges come from the database");
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let even = (Id::first_at(now).number() >> LOW_BITS) & !1;
        if even > state.millis {
            (state.millis, state.used) = (even, 0);
        }
        if state.used + count > MAX_RANGE {
            // The clock catches up: on average, no process needs a million ids a second.
            (state.millis, state.used) = (state.millis + 2, 0);
        }
        let number = state.millis << LOW_BITS | state.process << COUNT_BITS | i64::from(state.used);
        state.used += count;
        Id::from_number(number).unwrap_or_else(|| Id::first_at(now))
    }
}

fn bits(worker: i64) -> i64 {
    worker & ((1 << (LOW_BITS - COUNT_BITS)) - 1)
}

/// Returns the odd millisecond to begin a large range with.
pub(crate) fn odd_millis(now: Timestamp) -> i64 {
    (Id::first_at(now).number() >> LOW_BITS) | 1
}

/// Returns the first id of a large range that begins at an odd millisecond.
pub(crate) fn first_of(odd_millis: i64) -> i64 {
    odd_millis << LOW_BITS
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000) + Duration::from_micros(micros)
    }

    #[test]
    fn ids_of_two_processes_never_meet_and_sort_by_time() {
        let (one, two) = (Ids::new(7), Ids::new(1_024 + 8));
        let mut seen = HashSet::new();
        let mut last = 0;
        for micros in 0..20_000 {
            for ids in [&one, &two] {
                assert!(seen.insert(ids.next(1, at(micros)).number()));
            }
            let id = one.next(1, at(micros));
            assert!(id.number() > last && seen.insert(id.number()));
            last = id.number();
        }
        assert!(seen.iter().all(|id| (id >> LOW_BITS) % 2 == 0), "odd milliseconds are for large ranges");
    }

    #[test]
    fn a_range_stays_in_its_process_and_a_clock_that_is_set_back_repeats_nothing() {
        let ids = Ids::new(1_023);
        let first = ids.next(2_000, at(0)).number();
        let second = ids.next(100, at(0)).number();
        assert_eq!(second >> LOW_BITS, (first >> LOW_BITS) + 2);
        assert!(ids.next(1, at(0)).number() == second + 100);
        assert_eq!((first >> COUNT_BITS) & 1_023, 1_023);
        assert_eq!((first + 1_999) >> COUNT_BITS, first >> COUNT_BITS);
    }
}
