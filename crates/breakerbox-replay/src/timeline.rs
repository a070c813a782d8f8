//! The data that a page draws for one key: its states over time, and its calls in time intervals (cells).
//!
//! Both are limited, regardless of the length of the traffic: when there are too many cells or states, neighbours are
//! merged and the drawing becomes coarser. Merged states are shown as "many changes".

use breakerbox_core::{CircuitStatus, OutcomeKind};

/// The maximum number of cells (time intervals) in one key's timeline.
const CELLS: u64 = 120;

/// The maximum number of state periods per key.
const STRETCHES: usize = 300;

/// The kinds of calls that a drawing distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The call was admitted, and succeeded or was ignored.
    Good,
    /// The call was admitted, and failed.
    Failed,
    /// The call was refused, and would have failed.
    Saved,
    /// The call was refused, and would have succeeded.
    Delayed,
}

impl Shown {
    /// All kinds, in the order in which they are stacked.
    pub const ALL: [Self; 4] = [Self::Good, Self::Failed, Self::Delayed, Self::Saved];

    /// Returns the kind of a call, or `None` for a refused call whose outcome is ignored.
    pub(super) const fn of(admitted: bool, outcome: OutcomeKind) -> Option<Self> {
        match (admitted, outcome) {
            (true, OutcomeKind::Failure) => Some(Self::Failed),
            (true, _) => Some(Self::Good),
            (false, OutcomeKind::Failure) => Some(Self::Saved),
            (false, OutcomeKind::Success) => Some(Self::Delayed),
            (false, OutcomeKind::Ignored) => None,
        }
    }
}

/// A period in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The start of the period, in milliseconds.
    pub from_ms: u64,
    /// The circuit's state in the period. `None` if many changes were merged.
    pub status: Option<CircuitStatus>,
    /// The rule that caused the state, if any.
    pub rule: Option<&'static str>,
}

/// The calls in one time interval. Empty intervals are not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The index of the interval; 0 is the start of the timeline.
    pub index: u64,
    /// The number of calls of each kind, indexed by [`Shown`] in the order of its declaration.
    pub counts: [u32; 4],
}

/// One key's states and calls over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    origin_ms: u64,
    cell_ms: u64,
    cells: Vec<Cell>,
    /// The state periods, in chronological order. Before the first period, the circuit is closed.
    stretches: Vec<Stretch>,
}

impl Timeline {
    pub(super) const fn new(origin_ms: u64) -> Self {
        Self { origin_ms, cell_ms: 1, cells: Vec::new(), stretches: Vec::new() }
    }

    pub(super) fn call(&mut self, at_ms: u64, shown: Shown) {
        while (at_ms - self.origin_ms) / self.cell_ms >= CELLS {
            self.widen_cells();
        }
        let mut counts = [0; 4];
        counts[shown as usize] = 1;
        self.add(Cell { index: (at_ms - self.origin_ms) / self.cell_ms, counts });
    }

    pub(super) fn change(&mut self, stretch: Stretch) {
        self.stretches.push(stretch);
        if self.stretches.len() > STRETCHES {
            self.merge_stretches();
        }
    }

    /// Widens the cells to at least this many milliseconds, so that all keys on a page have the same cell width.
    pub(super) fn widen_to(&mut self, cell_ms: u64) {
        while self.cell_ms < cell_ms {
            self.widen_cells();
        }
    }

    /// Returns the duration of a cell, in milliseconds.
    #[must_use]
    pub const fn cell_ms(&self) -> u64 {
        self.cell_ms
    }

    /// Returns the cells that contain calls, in chronological order.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the state periods, in chronological order.
    #[must_use]
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    fn widen_cells(&mut self) {
        self.cell_ms = self.cell_ms.saturating_mul(2);
        for cell in std::mem::take(&mut self.cells) {
            self.add(Cell { index: cell.index / 2, ..cell });
        }
    }

    /// Adds the counts to the last cell if it has the same index, otherwise appends the cell. Calls arrive in
    /// chronological order, so no earlier cell can match.
    fn add(&mut self, cell: Cell) {
        match self.cells.last_mut().filter(|last| last.index == cell.index) {
            Some(last) => {
                for (count, more) in last.counts.iter_mut().zip(cell.counts) {
                    *count = count.saturating_add(more);
                }
            }
            None => self.cells.push(cell),
        }
    }

    /// Merges the earlier half of the periods into one, shown as "many changes". The later half keeps its detail.
    fn merge_stretches(&mut self) {
        let half = STRETCHES / 2;
        let merged = self.stretches.first().map(|first| Stretch { status: None, rule: None, ..*first });
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
        assert!(timeline.cells().len() as u64 <= CELLS);
        let sum = |shown: Shown| timeline.cells().iter().map(|cell| cell.counts[shown as usize]).sum::<u32>();
        assert_eq!((sum(Shown::Good), sum(Shown::Failed)), (900, 100));
        assert_eq!(timeline.cells()[0].counts[Shown::Failed as usize], 2, "at 1,000 and 1,010 ms");
    }

    #[test]
    fn a_call_long_after_the_first_still_has_a_cell_and_the_time_between_costs_nothing() {
        let mut timeline = Timeline::new(0);
        timeline.call(0, Shown::Good);
        timeline.call(super::super::input::MAX_MILLIS, Shown::Good);
        let places: Vec<_> = timeline.cells().iter().map(|cell| cell.index).collect();
        assert_eq!(places.len(), 2);
        assert!(places[1] < CELLS && places[1] >= CELLS / 2);
    }

    #[test]
    fn many_changes_are_merged_and_shown_as_such() {
        let mut timeline = Timeline::new(0);
        for from_ms in 0..100_000 {
            let status = Some(if from_ms % 2 == 0 { CircuitStatus::Open } else { CircuitStatus::Closed });
            timeline.change(Stretch { from_ms, status, rule: None });
        }
        let stretches = timeline.stretches();
        assert!(stretches.len() <= STRETCHES);
        assert_eq!((stretches[0].from_ms, stretches[0].status), (0, None), "from the first on: many changes");
        let last = stretches.last().unwrap();
        assert_eq!(
            (last.from_ms, last.status),
            (99_999, Some(CircuitStatus::Closed)),
            "the latest stay sharp"
        );
        assert!(stretches.is_sorted_by_key(|stretch| stretch.from_ms));
    }
}
