//! The effect of a reply on the delivery, its circuit, its throttle and its lane.
//!
//! The default table is [`by_default`]; [`StatusMeaning`] is its part about statuses, which the library shares. An admin can override single cells of it for a tenant ([`ResponseRules`]).
//! The effect does not depend on the number of attempts, or on whether the endpoint is registered.

use std::time::Duration;

use breakerbox_core::throttle::LoadSignal;
use breakerbox_core::{OutcomeKind, StatusClass, StatusMeaning};

use super::rules::ResponseRules;
use crate::delivery::{Fault, Reply};

/// The maximum time that a lane sleeps because of a receiver's `Retry-After`.
pub const MAX_LANE_SLEEP: Duration = Duration::from_secs(3_600);

/// The effect of a reply on the delivery, its circuit, its throttle and its lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyEffect {
    /// What happens to the delivery.
    pub disposition: Disposition,
    /// The outcome that is reported to the circuit.
    pub circuit: OutcomeKind,
    /// The `Retry-After` that is passed on to the circuit, if the outcome is a failure.
    pub retry_after: Option<Duration>,
    /// The load signal that is sent to the throttle.
    pub throttle: LoadSignal,
    /// The time that the lane sleeps. `None`: it does not sleep.
    pub sleep: Option<Duration>,
}

/// What happens to a delivery after an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Disposition {
    /// The receiver accepted the delivery.
    Delivered,
    /// The delivery is retried, if attempts are left.
    Retry,
    /// The receiver rejected the payload, so the delivery fails at once.
    Rejected,
    /// The endpoint is gone, so the delivery fails at once, and the endpoint is disabled.
    Gone,
    /// The gateway or its host was at fault, so the delivery waits again, and no attempt is used.
    PutOff,
}

/// A row of the default table: the effects of a reply, without those of `Retry-After`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) disposition: Disposition,
    pub(super) circuit: OutcomeKind,
    pub(super) throttle: LoadSignal,
}

impl ResponseRules {
    /// Returns the effect of a reply. `cool_off` is the circuit's cool-off. The lane sleeps for that time after a probe
    /// that is retried and whose outcome is ignored, unless the receiver asked for another delay.
    ///
    /// ```
    /// use breakerbox_core::OutcomeKind;
    /// use breakerbox_model::delivery::{Disposition, Reply, ResponseRules};
    /// use std::time::Duration;
    ///
    /// let cool_off = Duration::from_secs(30);
    /// let refused = Reply::Answered { status: 422, retry_after: None };
    /// let effect = ResponseRules::default().of(refused, false, cool_off);
    /// assert_eq!((effect.disposition, effect.circuit), (Disposition::Rejected, OutcomeKind::Ignored));
    /// ```
    #[must_use]
    pub fn of(&self, reply: Reply, is_probe: bool, cool_off: Duration) -> ReplyEffect {
        let Row { disposition, circuit, throttle } = self.over(by_default(reply, is_probe), reply);
        let asked = asks_to_wait(reply);
        let (retry_after, sleep) = match circuit {
            OutcomeKind::Failure => (asked, None),
            // The circuit of a receiver that is not failing does not hold back the lane, so the lane has to sleep.
            OutcomeKind::Success | OutcomeKind::Ignored => (None, asked.map(|wait| wait.min(MAX_LANE_SLEEP))),
        };
        // A probe that decided nothing would otherwise be repeated at once, without end.
        let undecided = is_probe && circuit == OutcomeKind::Ignored && disposition == Disposition::Retry;
        let sleep = sleep.or_else(|| undecided.then_some(cool_off));
        ReplyEffect { disposition, circuit, retry_after, throttle, sleep }
    }
}

/// Returns the reply's row in the default table, without any tenant's rules.
pub(super) fn by_default(reply: Reply, is_probe: bool) -> Row {
    let row = |disposition, circuit, throttle| Row { disposition, circuit, throttle };
    match reply {
        Reply::Answered { status, retry_after } => {
            let meaning = StatusMeaning::of(status, retry_after.is_some());
            let disposition = match meaning.class {
                StatusClass::Accepted => Disposition::Delivered,
                StatusClass::PayloadRejected => Disposition::Rejected,
                StatusClass::Gone => Disposition::Gone,
                _ => Disposition::Retry,
            };
            row(disposition, meaning.delivery_outcome(is_probe), meaning.throttle)
        }
        Reply::Failed(Fault::Timeout) => row(Disposition::Retry, OutcomeKind::Failure, LoadSignal::Reject),
        // A lower rate would not help: the circuit handles these faults.
        Reply::Failed(
            Fault::Dns | Fault::Connect | Fault::Tls | Fault::Reset | Fault::Protocol | Fault::Denied,
        ) => row(Disposition::Retry, OutcomeKind::Failure, LoadSignal::Neither),
        Reply::Failed(Fault::Local(_)) => row(Disposition::PutOff, OutcomeKind::Ignored, LoadSignal::Neither),
    }
}

/// Returns the `Retry-After` delay of a 429 or 503 response, which applies to all deliveries to the endpoint.
/// Other statuses return `None`, because their delay applies to one delivery only.
const fn asks_to_wait(reply: Reply) -> Option<Duration> {
    match reply {
        Reply::Answered { status: 429 | 503, retry_after } => retry_after,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::LocalFault;

    const COOL_OFF: Duration = Duration::from_secs(30);

    fn secs(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    fn answered(status: u16, retry_after: Option<u64>) -> Reply {
        Reply::Answered { status, retry_after: retry_after.map(Duration::from_secs) }
    }

    /// Checks the rows of docs/guide/gateway.md#response-handling, in order: the replies, whether the call is a
    /// probe, and the expected effect.
    #[test]
    fn the_table() {
        use Disposition::{Delivered, Gone, Rejected, Retry};
        use LoadSignal::{Accept, Neither, Reject};
        use OutcomeKind::{Failure, Ignored, Success};
        let each = |statuses: &[u16]| statuses.iter().map(|s| answered(*s, None)).collect::<Vec<_>>();
        let failed = |faults: &[Fault]| faults.iter().map(|f| Reply::Failed(*f)).collect::<Vec<_>>();
        let both = [false, true];
        let effect = |disposition, circuit, throttle| ReplyEffect {
            disposition,
            circuit,
            throttle,
            retry_after: None,
            sleep: None,
        };
        let table: [(Vec<Reply>, &[bool], ReplyEffect); 17] = [
            (each(&[200, 201, 202, 204, 299]), &both, effect(Delivered, Success, Accept)),
            (each(&[400, 409, 413, 415, 422]), &[false], effect(Rejected, Ignored, Accept)),
            (each(&[400, 409, 413, 415, 422]), &[true], effect(Rejected, Success, Accept)),
            (each(&[429]), &[false], effect(Retry, Ignored, Reject)),
            (each(&[429]), &[true], ReplyEffect { sleep: Some(COOL_OFF), ..effect(Retry, Ignored, Reject) }),
            (
                vec![answered(429, Some(90))],
                &both,
                ReplyEffect { sleep: secs(90), ..effect(Retry, Ignored, Reject) },
            ),
            (
                vec![answered(429, Some(3_601)), answered(429, Some(u64::MAX))],
                &both,
                ReplyEffect { sleep: secs(3_600), ..effect(Retry, Ignored, Reject) },
            ),
            (
                vec![answered(503, Some(90))],
                &both,
                ReplyEffect { retry_after: secs(90), ..effect(Retry, Failure, Reject) },
            ),
            (
                vec![answered(503, Some(0))],
                &both,
                ReplyEffect { retry_after: secs(0), ..effect(Retry, Failure, Reject) },
            ),
            (each(&[410]), &both, effect(Gone, Ignored, Accept)),
            (
                each(&[401, 403, 404, 405, 406, 408, 411, 412, 414, 418, 423, 425, 428, 431, 451, 499]),
                &both,
                { effect(Retry, Failure, Accept) },
            ),
            (each(&[300, 301, 302, 303, 304, 307, 308, 399]), &both, effect(Retry, Failure, Accept)),
            (each(&[500, 501, 502, 503, 505, 507, 511, 520, 599]), &both, effect(Retry, Failure, Accept)),
            (each(&[504]), &both, effect(Retry, Failure, Reject)),
            // Statuses outside the HTTP standard are treated like a 500.
            (each(&[0, 101, 199, 600, 999, u16::MAX]), &both, effect(Retry, Failure, Accept)),
            (failed(&[Fault::Timeout]), &both, effect(Retry, Failure, Reject)),
            (
                failed(&[
                    Fault::Dns,
                    Fault::Connect,
                    Fault::Tls,
                    Fault::Reset,
                    Fault::Protocol,
                    Fault::Denied,
                ]),
                &both,
                effect(Retry, Failure, Neither),
            ),
        ];
        let mut faults = 0;
        for (replies, probes, expected) in table {
            for (reply, is_probe) in replies.iter().flat_map(|reply| probes.iter().map(move |p| (*reply, *p)))
            {
                faults += usize::from(matches!(reply, Reply::Failed(_)) && !is_probe);
                assert_eq!(
                    ResponseRules::default().of(reply, is_probe, COOL_OFF),
                    expected,
                    "{reply:?}, {is_probe}"
                );
            }
        }
        assert_eq!(faults, Fault::ALL.len(), "each fault has its row");
    }

    #[test]
    fn a_local_fault_counts_nowhere_whatever_a_tenant_says_of_faults() {
        let said =
            Fault::ALL.map(|fault| format!(r#""{}": {{"circuit": "failure"}}"#, fault.name())).join(", ");
        let strict: ResponseRules = serde_json::from_str(&format!("{{{said}}}")).unwrap();
        for (fault, is_probe) in LocalFault::ALL.iter().flat_map(|fault| [(*fault, false), (*fault, true)]) {
            for rules in [&ResponseRules::default(), &strict] {
                let effect = rules.of(Reply::Failed(Fault::Local(fault)), is_probe, COOL_OFF);
                let expected = (Disposition::PutOff, OutcomeKind::Ignored, LoadSignal::Neither, None, None);
                let ReplyEffect { disposition, circuit, retry_after, throttle, sleep } = effect;
                assert_eq!(
                    (disposition, circuit, throttle, retry_after, sleep),
                    expected,
                    "{fault:?} {is_probe}"
                );
            }
        }
        let local = r#"{"local": {"circuit": "failure"}}"#;
        assert!(serde_json::from_str::<ResponseRules>(local).is_err(), "nothing can be said of it");
    }

    #[test]
    fn only_those_two_answers_may_ask_everyone_to_wait() {
        for status in [200, 301, 400, 404, 410, 500, 502, 504] {
            let effect = ResponseRules::default().of(answered(status, Some(90)), true, COOL_OFF);
            assert_eq!((effect.retry_after, effect.sleep), (None, None), "{status}");
        }
    }
}
