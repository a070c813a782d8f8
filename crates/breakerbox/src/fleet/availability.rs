//! Whether the store can be used, according to its responses. Reads and writes are counted separately: a store that
//! answers reads and refuses writes (memory full, read-only, privileges revoked) is lost for deciding, however many
//! reads succeed.
//!
//! Three failures in a row of one kind lose the store, so that a single lost answer does not. While it is lost, only
//! the periodic check counts; the store returns when a check succeeds, which includes a write. This is plain
//! arithmetic: no IO, no clock.

use crate::observe::StoreHealth;

/// How many failures in a row, of one kind, lose the store.
const FAILURES: u32 = 3;

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A request in flight. Its result counts only if the store was neither lost nor found since it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    access: Access,
    era: u64,
}

/// A check in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Check {
    sent: Sent,
    /// How many writes in a row had failed when it was sent.
    failed_writes: u32,
    /// Whether it reads as well.
    pub(super) reads: bool,
}

/// The state of the store, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Availability {
    failed_reads: u32,
    failed_writes: u32,
    is_lost: bool,
    /// Increases with every loss and every return.
    era: u64,
    /// The latest error, while the store is lost.
    error: String,
}

impl Availability {
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns whether the latest request of some kind failed, and the store is not lost yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.is_lost && (self.failed_reads > 0 || self.failed_writes > 0)
    }

    /// Notes that a request is about to be sent.
    pub(super) fn send(&self, access: Access) -> Sent {
        Sent { access, era: self.era }
    }

    /// Applies the result of a request: none, or the error. Returns the store's health if it changed.
    pub(super) fn note(&mut self, sent: Sent, error: Option<String>) -> Option<StoreHealth> {
        if self.is_lost || sent.era != self.era {
            return None;
        }
        let failures = match sent.access {
            Access::Read => &mut self.failed_reads,
            Access::Write => &mut self.failed_writes,
        };
        let Some(error) = error else {
            *failures = 0;
            return None;
        };
        *failures += 1;
        if *failures < FAILURES {
            return None;
        }
        self.is_lost = true;
        self.era += 1;
        self.error = error;
        Some(self.health())
    }

    /// Notes that a check is about to be sent. It writes, and also reads if something is wrong.
    pub(super) fn send_check(&self) -> Check {
        let reads = self.is_lost || self.is_in_doubt();
        Check { sent: self.send(Access::Write), failed_writes: self.failed_writes, reads }
    }

    /// Applies the result of a check. A check that fails confirms failures that were known when it was sent. One that
    /// was in flight when another write failed confirms nothing: both may have met the same short interruption.
    pub(super) fn note_check(&mut self, check: Check, error: Option<String>) -> Option<StoreHealth> {
        if check.sent.era != self.era {
            return None;
        }
        match error {
            Some(error) if self.is_lost => {
                self.error = error;
                None
            }
            None if self.is_lost => {
                *self = Self { era: self.era + 1, ..Self::default() };
                Some(self.health())
            }
            Some(_) if self.failed_writes > check.failed_writes => None,
            error => {
                if check.reads && error.is_none() {
                    self.failed_reads = 0;
                }
                self.note(check.sent, error)
            }
        }
    }

    pub(super) fn health(&self) -> StoreHealth {
        if self.is_lost {
            return StoreHealth::Degraded { error: self.error.clone() };
        }
        StoreHealth::Connected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(error: &str) -> Option<StoreHealth> {
        Some(StoreHealth::Degraded { error: error.to_owned() })
    }

    fn failed(availability: &mut Availability, access: Access, error: &str) -> Option<StoreHealth> {
        let sent = availability.send(access);
        availability.note(sent, Some(error.to_owned()))
    }

    fn succeeded(availability: &mut Availability, access: Access) {
        let sent = availability.send(access);
        assert_eq!(availability.note(sent, None), None);
    }

    fn checked(availability: &mut Availability, error: Option<&str>) -> Option<StoreHealth> {
        let check = availability.send_check();
        availability.note_check(check, error.map(str::to_owned))
    }

    #[test]
    fn reads_that_succeed_do_not_hide_writes_that_fail() {
        let mut availability = Availability::default();
        for _ in 0..2 {
            assert_eq!(failed(&mut availability, Access::Write, "OOM"), None);
            succeeded(&mut availability, Access::Read);
            assert!(availability.is_in_doubt());
        }
        assert_eq!(failed(&mut availability, Access::Write, "OOM"), lost("OOM"));
        assert!(availability.is_lost() && !availability.is_in_doubt());
    }

    #[test]
    fn three_failures_in_a_row_of_one_kind_lose_the_store_and_fewer_do_not() {
        let mut availability = Availability::default();
        for _ in 0..10 {
            for access in [Access::Read, Access::Write] {
                assert_eq!(failed(&mut availability, access, "slow"), None);
                assert_eq!(failed(&mut availability, access, "slow"), None);
            }
            succeeded(&mut availability, Access::Read);
            succeeded(&mut availability, Access::Write);
            assert!(!availability.is_in_doubt());
        }
        assert_eq!(failed(&mut availability, Access::Read, "gone"), None);
        assert_eq!(failed(&mut availability, Access::Read, "gone"), None);
        assert_eq!(failed(&mut availability, Access::Read, "gone"), lost("gone"));
    }

    #[test]
    fn a_check_after_a_failed_read_settles_the_doubt() {
        let mut availability = Availability::default();
        assert_eq!(checked(&mut availability, None), None);
        let _ = failed(&mut availability, Access::Read, "slow");
        let _ = failed(&mut availability, Access::Write, "slow");
        assert!(availability.is_in_doubt());
        assert_eq!(checked(&mut availability, None), None);
        assert!(!availability.is_in_doubt());
        assert_eq!(checked(&mut availability, Some("OOM")), None);
        assert_eq!(checked(&mut availability, Some("OOM")), None);
        assert_eq!(checked(&mut availability, Some("OOM")), lost("OOM"), "without any traffic");
    }

    #[test]
    fn a_check_that_overlaps_with_a_failure_is_no_second_one() {
        let mut availability = Availability::default();
        for _ in 0..2 {
            let check = availability.send_check();
            assert_eq!(failed(&mut availability, Access::Write, "slow"), None);
            assert_eq!(availability.note_check(check, Some("slow".to_owned())), None);
            assert!(availability.is_in_doubt());
        }
        assert_eq!(
            checked(&mut availability, Some("slow")),
            lost("slow"),
            "two writes, and a check after them"
        );
    }

    #[test]
    fn a_lost_store_returns_by_a_check_alone_and_old_results_count_for_nothing() {
        let mut availability = Availability::default();
        let old = availability.send(Access::Write);
        for _ in 0..3 {
            let _ = failed(&mut availability, Access::Write, "OOM");
        }
        // Other requests say nothing any more, whatever they say.
        assert_eq!(availability.note(old, None), None);
        succeeded(&mut availability, Access::Read);
        assert_eq!(checked(&mut availability, Some("read-only")), None);
        assert_eq!(Some(availability.health()), lost("read-only"));
        let old_check = availability.send_check();
        assert_eq!(checked(&mut availability, None), Some(StoreHealth::Connected));
        assert!(!availability.is_lost() && !availability.is_in_doubt());
        for _ in 0..3 {
            assert_eq!(availability.note(old, Some("gone".to_owned())), None);
            assert_eq!(availability.note_check(old_check, Some("gone".to_owned())), None);
        }
        assert!(!availability.is_in_doubt(), "they are from before");
    }
}
