//! What a page needs to draw one key: its states over time, and its calls in cells of time.
//!
//! Both are bounded, however long the traffic: when there are too many cells or states, neighbours are merged and the
//! picture gets coarser. Merged states are shown as what they are, many changes.

use breakerbox_core::{OutcomeKind, Status};

/// How many cells of calls a key has at the most.
const CELLS: usize = 120;

/// How many stretches of states a key has at the most.
const STRETCHES: usize = 600;

/// How a call is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Let through, and well (or ignored).
    Good,
    /// Let through, and failed.
    Failed,
    /// Refused, and would have failed.
    Saved,
    /// Refused, and would have been well.
    Delayed,
}

impl Shown {
    /// All of them, in the order in which they are stacked.
    pub const ALL: [Self; 4] = [Self::Good, Self::Failed, Self::Delayed, Self::Saved];

    pub(super) const fn of(admitted: bool, outcome: OutcomeKind) -> Self {
        match (admitted, outcome) {
            (true, OutcomeKind::Failure) => Self::Failed,
            (true, _) => Self::Good,
            (false, OutcomeKind::Failure) => Self::Saved,
            (false, _) => Self::Delayed,
        }
    }
}

/// A stretch of time in one state; none where many changes were merged.
pub type Stretch = (u64, Option<Status>);

/// One key over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    origin_ms: u64,
    cell_ms: u64,
    cells: Vec<[u32; 4]>,
    /// Where each stretch begins. Before the first, the circuit is closed.
    stretches: Vec<Stretch>,
}

impl Timeline {
    pub(super) const fn new(origin_ms: u64) -> Self {
        Self { origin_ms, cell_ms: 1, cells: Vec::new(), stretches: Vec::new() }
    }

    pub(super) fn call(&mut self, at_ms: u64, shown: Shown) {
        let mut cell = (at_ms - self.origin_ms) / self.cell_ms;
        while cell >= CELLS as u64 {
            self.widen_cells();
            cell /= 2;
        }
        let cell = usize::try_from(cell).expect("below the number of cells");
        if cell >= self.cells.len() {
            self.cells.resize(cell + 1, [0; 4]);
        }
        let count = &mut self.cells[cell][shown as usize];
        *count = count.saturating_add(1);
    }

    pub(super) fn change(&mut self, at_ms: u64, to: Status) {
        self.stretches.push((at_ms, Some(to)));
        if self.stretches.len() > STRETCHES {
            self.merge_stretches();
        }
    }

    /// Makes the cells at least this wide, so that all keys of a page have the same.
    pub(super) fn widen_to(&mut self, cell_ms: u64) {
        while self.cell_ms < cell_ms {
            self.widen_cells();
        }
    }

    /// How much time a cell covers.
    #[must_use]
    pub const fn cell_ms(&self) -> u64 {
        self.cell_ms
    }

    /// The cells: calls by how they are drawn.
    #[must_use]
    pub fn cells(&self) -> &[[u32; 4]] {
        &self.cells
    }

    /// Where each stretch begins.
    #[must_use]
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    fn widen_cells(&mut self) {
        self.cell_ms = self.cell_ms.saturating_mul(2);
        let merged = self.cells.chunks(2).map(|pair| {
            let second = pair.get(1).copied().unwrap_or_default();
            std::array::from_fn(|i| pair[0][i].saturating_add(second[i]))
        });
        self.cells = merged.collect();
    }

    /// Merges the earlier half into one stretch of many changes; the latest stay sharp.
    fn merge_stretches(&mut self) {
        let half = STRETCHES / 2;
        let merged = self.stretches.first().map(|(at_ms, _)| (*at_ms, None));
        self.stretches = merged.into_iter().chain(self.stretches[half..].iter().copied()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_get_wider_and_keep_their_counts() {
        let mut timeline = Timeline::new(1_000);
        for at_ms in 1_000..2_000 {
            timeline.call(at_ms, if at_ms % 10 == 0 { Shown::Failed } else { Shown::Good });
        }
        assert_eq!(timeline.cell_ms(), 16);
        assert!(timeline.cells().len() <= CELLS);
        let sum = |shown: Shown| timeline.cells().iter().map(|cell| cell[shown as usize]).sum::<u32>();
        assert_eq!((sum(Shown::Good), sum(Shown::Failed)), (900, 100));
        assert_eq!(timeline.cells()[0][Shown::Failed as usize], 2, "at 1,000 and 1,010 ms");
    }

    #[test]
    fn a_call_long_after_the_first_still_has_a_cell() {
        let mut timeline = Timeline::new(0);
        timeline.call(0, Shown::Good);
        timeline.call(super::super::input::MAX_MILLIS, Shown::Good);
        assert!(timeline.cells().len() <= CELLS);
    }

    #[test]
    fn many_changes_are_merged_and_shown_as_such() {
        let mut timeline = Timeline::new(0);
        for n in 0..100_000 {
            timeline.change(n, if n % 2 == 0 { Status::Open } else { Status::Closed });
        }
        assert!(timeline.stretches().len() <= STRETCHES);
        assert_eq!(timeline.stretches()[0], (0, None), "from the first on: many changes");
        assert_eq!(
            timeline.stretches().last(),
            Some(&(99_999, Some(Status::Closed))),
            "the latest stay sharp"
        );
        assert!(timeline.stretches().is_sorted_by_key(|(at_ms, _)| *at_ms));
    }
}
