//! Additional tallies for threads that contend, each on its own cache line.

use std::sync::atomic::AtomicUsize;

use crate::sync::{AtomicU64, Ordering};

const TALLIES: usize = 8;

/// A tally sharded over eight cache lines (512 bytes), so that threads don't contend for one.
pub(crate) struct Spread([CacheLine; TALLIES]);

#[repr(align(64))]
struct CacheLine(AtomicU64);

impl Spread {
    pub(crate) fn new(word: u64) -> Self {
        Self(std::array::from_fn(|_| CacheLine(AtomicU64::new(word))))
    }

    /// Returns this thread's tally. A thread has the same index in every circuit.
    #[inline]
    pub(crate) fn of_this_thread(&self) -> &AtomicU64 {
        &self.0[INDEX.with(|index| *index)].0
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter().map(|cache_line| &cache_line.0)
    }
}

static NEXT_INDEX: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static INDEX: usize = NEXT_INDEX.fetch_add(1, Ordering::Relaxed) % TALLIES;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreading_takes_half_a_kilobyte_and_gives_neighbours_different_lines() {
        assert_eq!(size_of::<Spread>(), 512);
        let spread = Spread::new(7);
        let address = |tally: &AtomicU64| std::ptr::from_ref(tally) as usize;
        let here = address(spread.of_this_thread());
        let there = std::thread::scope(|scope| {
            scope
                .spawn(|| (0..2).map(|_| address(spread.of_this_thread())).collect::<Vec<_>>())
                .join()
                .unwrap()
        });
        assert_eq!(there[0], there[1]);
        assert!(here % 64 == 0 && there[0] % 64 == 0);
        assert_eq!(spread.all().count(), TALLIES);
    }
}
