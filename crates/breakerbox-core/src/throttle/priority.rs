//! Priorities: the importance of calls, in as many levels as the throttle's owner chooses.
//!
//! A level out of range is refused when the priority is created, so code that receives a priority need not check it.

use core::num::NonZeroU16;

/// The importance of a call. Level 0 is the most important.
///
/// ```
/// use breakerbox_core::throttle::{Levels, Priority};
///
/// assert!(Priority::HIGH < Priority::LOW, "in the order in which calls are served");
/// assert_eq!(Levels::STANDARD.priority(3), Ok(Priority::LOW));
/// assert_eq!(
///     Levels::STANDARD.priority(4).unwrap_err().to_string(),
///     "priority: there are 4 levels, 0 to 3, but this is 4"
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(u16);

impl Priority {
    /// For calls that are critical to the user's experience.
    pub const HIGH: Self = Self(0);
    /// For calls that are important, but not critical.
    pub const IMPORTANT: Self = Self(1);
    /// For calls of medium importance, where a few failures hardly affect users.
    pub const MEDIUM: Self = Self(2);
    /// For calls that are trivial, or easily made later.
    pub const LOW: Self = Self(3);

    /// Returns the level, where 0 is the most important.
    #[must_use]
    pub const fn level(self) -> u16 {
        self.0
    }
}

/// The number of priority levels, at least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels(NonZeroU16);

impl Levels {
    /// Four levels: high, important, medium and low.
    pub const STANDARD: Self = Self(NonZeroU16::new(4).expect("four is not zero"));

    /// Creates a number of levels.
    ///
    /// # Errors
    /// If `count` is zero.
    pub const fn new(count: u16) -> Result<Self, NoLevels> {
        match NonZeroU16::new(count) {
            Some(count) => Ok(Self(count)),
            None => Err(NoLevels),
        }
    }

    /// Returns the number of levels.
    #[must_use]
    pub const fn count(self) -> u16 {
        self.0.get()
    }

    /// Returns the priority with this level.
    ///
    /// # Errors
    /// If the level is not below the number of levels.
    pub const fn priority(self, level: u16) -> Result<Priority, PriorityError> {
        if level < self.count() {
            Ok(Priority(level))
        } else {
            Err(PriorityError { levels: self.count(), found: level })
        }
    }

    /// Returns a priority's level. If the priority was created for more levels than there are, returns the lowest
    /// level.
    pub(super) fn level_of(self, priority: Priority) -> u16 {
        priority.level().min(self.count() - 1)
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// The error for zero priority levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("levels: there must be at least one")]
pub struct NoLevels;

/// The error for a priority level that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("priority: there are {levels} levels, 0 to {last}, but this is {found}", last = .levels - 1)]
pub struct PriorityError {
    /// The valid number of levels.
    pub levels: u16,
    /// The level that was given.
    pub found: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_out_of_range_is_an_error_when_it_is_made() {
        let table =
            [(1, 0, true), (1, 1, false), (4, 3, true), (4, 4, false), (u16::MAX, u16::MAX - 1, true)];
        for (count, level, good) in table {
            let made = Levels::new(count).unwrap().priority(level);
            assert_eq!(made.is_ok(), good, "{level} of {count}");
        }
        assert_eq!(Levels::new(0), Err(NoLevels));
    }

    #[test]
    fn a_priority_from_elsewhere_is_at_most_the_lowest() {
        let two = Levels::new(2).unwrap();
        assert_eq!(two.level_of(Priority::HIGH), 0);
        assert_eq!(two.level_of(Priority::LOW), 1);
    }
}
