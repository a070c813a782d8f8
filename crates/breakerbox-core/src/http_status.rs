//! The meaning of HTTP statuses: one table, for calls that a service makes and for webhooks that the gateway delivers.
//!
//! The two columns for circuits differ where a status answers another question. A service asks whether the destination
//! works: a 404 is the destination's correct answer about a resource. A delivery asks whether the endpoint takes
//! events: a 404 means that the endpoint is not there. On a 429, a service's circuit is the only part that slows down,
//! so it counts as a failure; the gateway pauses the endpoint's lane instead, so its circuit ignores it.

use crate::outcome::OutcomeKind;
use crate::throttle::LoadSignal;

/// The class of an HTTP status, from which its effects follow.
///
/// | class | statuses |
/// | --- | --- |
/// | accepted | 2xx |
/// | payload rejected | 400, 409, 413, 415, 422 |
/// | gone | 410 |
/// | rate limited | 429 |
/// | overloaded | 504; 503 with a `Retry-After` |
/// | failed | 408, any other status of 500 and above, a number below 100 |
/// | not served | any other 4xx, 1xx, 3xx |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StatusClass {
    /// The destination did what it was asked to do.
    Accepted,
    /// The destination works, and rejects the content of this request.
    PayloadRejected,
    /// The resource existed, and will not return.
    Gone,
    /// The caller sent more requests than it may.
    RateLimited,
    /// The destination, or a server behind it, has no capacity.
    Overloaded,
    /// The destination failed.
    Failed,
    /// The destination responded, but does not serve this request at this URL: a redirect, a missing resource, missing
    /// credentials.
    NotServed,
}

/// What a status means for a circuit and a throttle.
///
/// | class | [`call`](Self::call) | [`delivery`](Self::delivery) | [`throttle`](Self::throttle) |
/// | --- | --- | --- | --- |
/// | accepted | success | success | accept |
/// | payload rejected | success | ignored; for a probe: success | accept |
/// | gone | success | ignored | accept |
/// | rate limited | failure | ignored | reject |
/// | overloaded | failure | failure | reject |
/// | failed | failure | failure | accept |
/// | not served | success | failure | accept |
///
/// ```
/// use breakerbox_core::{OutcomeKind, StatusMeaning};
///
/// let not_found = StatusMeaning::of(404, false);
/// assert_eq!((not_found.call, not_found.delivery), (OutcomeKind::Success, OutcomeKind::Failure));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StatusMeaning {
    /// The class of the status.
    pub class: StatusClass,
    /// The outcome of a service's own call, for the circuit of a library user.
    pub call: OutcomeKind,
    /// The outcome of a webhook delivery, for the circuit of a gateway's endpoint.
    pub delivery: OutcomeKind,
    /// The signal for the throttle of either.
    pub throttle: LoadSignal,
}

impl StatusMeaning {
    /// Returns the meaning of a status. `has_retry_after` is whether the response has a `Retry-After`.
    #[must_use]
    pub const fn of(status: u16, has_retry_after: bool) -> Self {
        use LoadSignal::{Accept, Reject};
        use OutcomeKind::{Failure, Ignored, Success};
        let (class, call, delivery, throttle) = match status {
            200..=299 => (StatusClass::Accepted, Success, Success, Accept),
            400 | 409 | 413 | 415 | 422 => (StatusClass::PayloadRejected, Success, Ignored, Accept),
            410 => (StatusClass::Gone, Success, Ignored, Accept),
            429 => (StatusClass::RateLimited, Failure, Ignored, Reject),
            504 => (StatusClass::Overloaded, Failure, Failure, Reject),
            503 if has_retry_after => (StatusClass::Overloaded, Failure, Failure, Reject),
            ..=99 | 408 | 500.. => (StatusClass::Failed, Failure, Failure, Accept),
            100..=199 | 300..=399 | 401..=499 => (StatusClass::NotServed, Success, Failure, Accept),
        };
        Self { class, call, delivery, throttle }
    }

    /// Returns the outcome of a webhook delivery. A probe whose payload is rejected has shown that the endpoint works.
    #[must_use]
    pub const fn delivery_outcome(&self, is_probe: bool) -> OutcomeKind {
        match self.class {
            StatusClass::PayloadRejected if is_probe => OutcomeKind::Success,
            _ => self.delivery,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_differ_only_where_the_documentation_says_why() {
        let differ = |status: u16| {
            let meaning = StatusMeaning::of(status, false);
            meaning.call != meaning.delivery
        };
        for status in 0..=u16::MAX {
            let class = StatusMeaning::of(status, false).class;
            let expected = matches!(
                class,
                StatusClass::PayloadRejected
                    | StatusClass::Gone
                    | StatusClass::RateLimited
                    | StatusClass::NotServed
            );
            assert_eq!(differ(status), expected, "{status}");
        }
    }

    #[test]
    fn a_retry_after_makes_a_503_an_overload_and_changes_nothing_else() {
        for status in 0..=u16::MAX {
            let (plain, asks) = (StatusMeaning::of(status, false), StatusMeaning::of(status, true));
            if status == 503 {
                assert_eq!((plain.class, asks.class), (StatusClass::Failed, StatusClass::Overloaded));
            } else {
                assert_eq!(plain, asks, "{status}");
            }
        }
    }

    #[test]
    fn a_probe_whose_payload_is_rejected_succeeded() {
        for (status, is_probe, expected) in [
            (422, true, OutcomeKind::Success),
            (422, false, OutcomeKind::Ignored),
            (410, true, OutcomeKind::Ignored),
            (429, true, OutcomeKind::Ignored),
            (500, true, OutcomeKind::Failure),
        ] {
            assert_eq!(StatusMeaning::of(status, false).delivery_outcome(is_probe), expected, "{status}");
        }
    }
}
