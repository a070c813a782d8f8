//! How the receiver answers: pure, one request after the other.

use std::time::Duration;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) status: u16,
    pub(super) delay: Duration,
    pub(super) fail_status: u16,
    pub(super) retry_after: Option<Duration>,
}

/// The answer to one request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) delay: Duration,
    pub(super) retry_after: Option<Duration>,
}

/// How the receiver answers from now on.
#[derive(Clone, Debug)]
pub(super) struct Answering {
    plan: Plan,
    /// How many are still to fail.
    fail_next: u64,
    /// Until told otherwise.
    failing: bool,
}

impl Answering {
    pub(super) const fn new(plan: Plan, fail_next: u64, failing: bool) -> Self {
        Self { plan, fail_next, failing }
    }

    /// The answer to the next request. One that is not believed is refused, and counts for nothing.
    pub(super) fn next(&mut self, refused: bool) -> Answer {
        let Plan { status, delay, fail_status, retry_after } = self.plan;
        if refused {
            return Answer { status: 401, delay: Duration::ZERO, retry_after: None };
        }
        let fails = self.failing || self.fail_next > 0;
        self.fail_next = self.fail_next.saturating_sub(1);
        if fails {
            Answer { status: fail_status, delay, retry_after }
        } else {
            Answer { status, delay, retry_after: None }
        }
    }

    /// From now on every request fails, or none does.
    pub(super) const fn set(&mut self, failing: bool) {
        self.failing = failing;
        self.fail_next = 0;
    }

    /// The other way round; answers which way that is.
    pub(super) const fn toggle(&mut self) -> bool {
        self.set(!(self.failing || self.fail_next > 0));
        self.failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        status: 204,
        delay: Duration::from_secs(1),
        fail_status: 503,
        retry_after: Some(Duration::from_secs(7)),
    };

    fn statuses(answering: &mut Answering, count: usize) -> Vec<u16> {
        (0..count).map(|_| answering.next(false).status).collect()
    }

    #[test]
    fn the_first_fail_and_then_none() {
        let mut answering = Answering::new(PLAN, 2, false);
        assert_eq!(answering.next(true).status, 401, "who is refused uses up no failure");
        assert_eq!(statuses(&mut answering, 4), [503, 503, 204, 204]);
    }

    #[test]
    fn all_fail_until_told_otherwise() {
        let mut answering = Answering::new(PLAN, 0, true);
        assert_eq!(statuses(&mut answering, 2), [503, 503]);
        assert!(!answering.toggle());
        assert_eq!(statuses(&mut answering, 1), [204]);
        assert!(answering.toggle());
        assert_eq!(statuses(&mut answering, 1), [503]);
        answering.set(false);
        assert_eq!(statuses(&mut answering, 1), [204]);
        let mut counted = Answering::new(PLAN, 5, false);
        assert!(!counted.toggle(), "it was failing");
        assert_eq!(statuses(&mut counted, 1), [204]);
    }

    #[test]
    fn only_failures_ask_for_time() {
        let mut answering = Answering::new(PLAN, 1, false);
        assert_eq!(answering.next(false).retry_after, Some(Duration::from_secs(7)));
        assert_eq!(answering.next(false).retry_after, None);
    }
}
