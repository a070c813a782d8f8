//! Decides from the store's responses whether it can be used. Reads and writes are counted separately: a store that
//! responds to reads but refuses writes (memory full, read-only, privileges revoked) cannot be used for decisions,
//! however many reads succeed.
//!
//! The store is lost after three consecutive failures of one kind, so that a single missing response is not enough.
//! While it is lost, only the periodic check counts; the store is available again when a check succeeds, which
//! includes a write. This module does no IO and reads no clock.

use crate::observe::StoreHealth;

/// The number of consecutive failures of one kind (reads or writes) after which the store counts as lost.
const FAILURES: u32 = 3;

/// The kind of request. Failures of each kind are counted separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A token for a request in flight. The request's result is ignored if the store was lost or recovered after the
/// request was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    access: Access,
    era: u64,
}

/// A token for a check of the store in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Check {
    sent: Sent,
    /// The number of consecutive failed writes when the check was sent.
    failed_writes: u32,
    /// Whether the check also reads.
    pub(super) reads: bool,
}

/// The store's availability, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct Availability {
    failed_reads: u32,
    failed_writes: u32,
    is_lost: bool,
    /// The number of times that the store was lost or recovered.
    era: u64,
    /// The latest error, while the store is lost.
    error: String,
}

impl Availability {
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns whether the latest read or write failed, but the store is not lost yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.is_lost && (self.failed_reads > 0 || self.failed_writes > 0)
    }

    /// Returns a token for a request that is about to be sent.
    pub(super) fn send(&self, access: Access) -> Sent {
        Sent { access, era: self.era }
    }

    /// Applies a request's result. `error` is `None` if the request succeeded. Returns the store's health if it
    /// changed, otherwise `None`.
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

    /// Returns a token for a check that is about to be sent. The check writes, and also reads if the store is lost or
    /// in doubt.
    pub(super) fn send_check(&self) -> Check {
        let reads = self.is_lost || self.is_in_doubt();
        Check { sent: self.send(Access::Write), failed_writes: self.failed_writes, reads }
    }

    /// Applies a check's result. A failed check counts as a further failure, in addition to those known when it was
    /// sent. It does not count if another write failed while the check was in flight, because one short interruption
    /// may have caused both failures.
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
        // The results of other requests no longer count.
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
