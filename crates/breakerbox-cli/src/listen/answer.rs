//! Decides the local receiver's responses, one request at a time. Pure.

use std::time::Duration;

/// The responses configured by the flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) status: u16,
    pub(super) delay: Duration,
    pub(super) fail_status: u16,
    pub(super) retry_after: Option<Duration>,
}

/// The response to one request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) delay: Duration,
    pub(super) retry_after: Option<Duration>,
}

/// The state of the receiver, which decides the next responses.
#[derive(Clone, Debug)]
pub(super) struct Answering {
    plan: Plan,
    /// The number of requests that still have to fail.
    fail_next: u64,
    /// Whether all requests fail, until the receiver is told to recover.
    failing: bool,
}

impl Answering {
    pub(super) const fn new(plan: Plan, fail_next: u64, failing: bool) -> Self {
        Self { plan, fail_next, failing }
    }

    /// Returns the response to the next request. If `refused` is set, because the signature is invalid, the response
    /// is 401, and the request does not count towards `fail_next`.
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

    /// Sets whether every request fails from now on, and sets `fail_next` to 0.
    pub(super) const fn set(&mut self, failing: bool) {
        self.failing = failing;
        self.fail_next = 0;
    }

    /// Toggles whether requests fail. Returns the new value.
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
