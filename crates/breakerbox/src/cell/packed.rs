//! The two words that threads share: the gate, which states what may be done without the lock, and the tally, which
//! counts successes.

use breakerbox_core::Epoch;

/// How callers acquire permits at present. The gate contains this value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FastPath {
    /// Admit the call without the lock.
    Admit,
    /// Refuse the call without the lock, if the cool-off is not over.
    Refuse,
    /// Take the lock, and let the core decide.
    Locked,
}

/// The gate's word, which packs the epoch, whether latencies are needed, and the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gate(pub(super) u64);

impl Gate {
    const EPOCH_SHIFT: u32 = 3;
    const TIMED: u64 = 0b100;

    pub(super) const fn new(epoch: Epoch, timed: bool, fast_path: FastPath) -> Self {
        let timed = if timed { Self::TIMED } else { 0 };
        Self(epoch.0 << Self::EPOCH_SHIFT | timed | fast_path as u64)
    }

    pub(super) const fn fast_path(self) -> FastPath {
        match self.0 & 0b11 {
            0 => FastPath::Admit,
            1 => FastPath::Refuse,
            _ => FastPath::Locked,
        }
    }

    pub(super) const fn is_timed(self) -> bool {
        self.0 & Self::TIMED != 0
    }

    pub(super) const fn epoch(self) -> Epoch {
        Epoch(self.0 >> Self::EPOCH_SHIFT)
    }
}

/// The tally's word, which packs a mark for the epoch, the number of successes, and the sum of their latencies in
/// microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tally(pub(super) u64);

impl Tally {
    const MARK_SHIFT: u32 = 48;
    const COUNT_SHIFT: u32 = 32;
    const MOST: u64 = u16::MAX as u64;
    const LONGEST: u64 = u32::MAX as u64;

    pub(super) const fn empty(epoch: Epoch) -> Self {
        Self(epoch.0 << Self::MARK_SHIFT)
    }

    pub(super) const fn count(self) -> u64 {
        self.0 >> Self::COUNT_SHIFT & Self::MOST
    }

    pub(super) const fn micros(self) -> u64 {
        self.0 & Self::LONGEST
    }

    /// Returns the tally with one more success; `None` if the tally belongs to another epoch or would overflow.
    pub(super) const fn with(self, epoch: Epoch, micros: u64) -> Option<Self> {
        let same_epoch = self.0 >> Self::MARK_SHIFT == Self::empty(epoch).0 >> Self::MARK_SHIFT;
        let room = self.count() < Self::MOST && micros <= Self::LONGEST - self.micros();
        if same_epoch && room { Some(Self(self.0 + (1 << Self::COUNT_SHIFT) + micros)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_keeps_what_it_is_given() {
        for fast_path in [FastPath::Admit, FastPath::Refuse, FastPath::Locked] {
            for timed in [false, true] {
                let gate = Gate::new(Epoch(1 << 60), timed, fast_path);
                assert_eq!(
                    (gate.epoch(), gate.is_timed(), gate.fast_path()),
                    (Epoch(1 << 60), timed, fast_path)
                );
            }
        }
    }

    #[test]
    fn the_tally_adds_up_until_there_is_no_room() {
        let epoch = Epoch(0x1234_5678);
        let one = Tally::empty(epoch).with(epoch, 250).unwrap();
        let two = one.with(epoch, 50).unwrap();
        assert_eq!((two.count(), two.micros()), (2, 300));
        assert_eq!(two.with(Epoch(0x1234_5679), 1), None, "another epoch");
        assert_eq!(two.with(epoch, u64::from(u32::MAX)), None, "no room for the time");
        let mut full = Tally::empty(epoch);
        for _ in 0..u16::MAX {
            full = full.with(epoch, 0).unwrap();
        }
        assert_eq!(full.with(epoch, 0), None, "no room for one more");
        assert_eq!((full.count(), full.micros()), (65_535, 0));
    }
}
