//! Response rules for reminder runs, and the merging of two sets of rules.
//!
//! A reminder is a promise to call, not an event that a receiver may reject: only 400 and 410 fail a run at once, and
//! every other response that is not a success is retried. The effects on the circuit and the throttle are the same as
//! for deliveries. A tenant's own rules for reminders take precedence over these.

use super::effect::Disposition;
use super::rules::{Case, ResponseRule, ResponseRules};

/// The statuses that fail a delivery at once, but are retried for a reminder.
const RETRIED: [u16; 4] = [409, 413, 415, 422];

impl ResponseRules {
    /// Returns the rules in which reminders differ from deliveries: 409, 413, 415 and 422 are retried. 400 and 410
    /// still fail at once.
    #[must_use]
    pub fn for_reminders() -> Self {
        let retried = ResponseRule { disposition: Some(Disposition::Retry), ..ResponseRule::default() };
        Self(RETRIED.into_iter().map(|status| (Case::Status(status), retried)).collect())
    }

    /// Returns these rules merged with `base`. A value that these rules set for a status or its class overrides the
    /// value for that status in `base`.
    ///
    /// ```
    /// use breakerbox_model::delivery::{Disposition, Reply, ResponseRules};
    /// use std::time::Duration;
    ///
    /// let own: ResponseRules = serde_json::from_str(r#"{"4xx": {"action": "fail"}}"#)?;
    /// let rules = own.applied_over(&ResponseRules::for_reminders());
    /// let conflict = Reply::Answered { status: 409, retry_after: None };
    /// assert_eq!(ResponseRules::for_reminders().of(conflict, false, Duration::ZERO).disposition, Disposition::Retry);
    /// assert_eq!(rules.of(conflict, false, Duration::ZERO).disposition, Disposition::Rejected);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn applied_over(&self, base: &Self) -> Self {
        let mut laid = self.clone();
        for (case, below) in &base.0 {
            let class = match case {
                Case::Status(status) => self.rule_for(Case::Class(status / 100)),
                Case::Class(_) | Case::Fault(_) => ResponseRule::default(),
            };
            laid.0.insert(*case, self.rule_for(*case).or(class).or(*below));
        }
        laid
    }
}

impl ResponseRule {
    /// Returns this rule, with unset columns taken from `other`.
    fn or(self, other: Self) -> Self {
        Self {
            disposition: self.disposition.or(other.disposition),
            circuit: self.circuit.or(other.circuit),
            throttle: self.throttle.or(other.throttle),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breakerbox_core::OutcomeKind::{Failure, Ignored, Success};
    use breakerbox_core::throttle::LoadSignal::{Accept, Neither, Reject};

    use super::*;
    use crate::delivery::Disposition::{Delivered, Gone, Rejected, Retry};
    use crate::delivery::response_rules::effect::by_default;
    use crate::delivery::{Fault, Reply, ReplyEffect};

    const COOL_OFF: Duration = Duration::from_secs(30);

    fn answered(status: u16) -> Reply {
        Reply::Answered { status, retry_after: None }
    }

    fn asks(status: u16, seconds: u64) -> Reply {
        Reply::Answered { status, retry_after: Some(Duration::from_secs(seconds)) }
    }

    /// Checks the rows of docs/guide/gateway.md#response-handling, with the differences in
    /// docs/guide/reminders.md#response-handling.
    #[test]
    fn the_table_for_reminders() {
        let rules = ResponseRules::for_reminders();
        let effect = |disposition, circuit, throttle| ReplyEffect {
            disposition,
            circuit,
            throttle,
            retry_after: None,
            sleep: None,
        };
        let each = |statuses: &[u16]| statuses.iter().copied().map(answered).collect::<Vec<_>>();
        let failed = |faults: &[Fault]| faults.iter().copied().map(Reply::Failed).collect::<Vec<_>>();
        let wait = Some(Duration::from_secs(90));
        let both = [false, true];
        let table: [(Vec<Reply>, &[bool], ReplyEffect); 15] = [
            (each(&[200, 201, 204, 299]), &both, effect(Delivered, Success, Accept)),
            (each(&[400]), &[false], effect(Rejected, Ignored, Accept)),
            (each(&[400]), &[true], effect(Rejected, Success, Accept)),
            (each(&[410]), &both, effect(Gone, Ignored, Accept)),
            (each(&[409, 413, 415, 422]), &[false], effect(Retry, Ignored, Accept)),
            (each(&[409, 413, 415, 422]), &[true], effect(Retry, Success, Accept)),
            (each(&[429]), &[false], effect(Retry, Ignored, Reject)),
            (each(&[429]), &[true], ReplyEffect { sleep: Some(COOL_OFF), ..effect(Retry, Ignored, Reject) }),
            (vec![asks(429, 90)], &both, ReplyEffect { sleep: wait, ..effect(Retry, Ignored, Reject) }),
            (vec![asks(503, 90)], &both, ReplyEffect { retry_after: wait, ..effect(Retry, Failure, Reject) }),
            (each(&[401, 403, 404, 405, 408, 499]), &both, effect(Retry, Failure, Accept)),
            (
                each(&[301, 302, 304, 500, 502, 503, 505, 599, 101, 999]),
                &both,
                effect(Retry, Failure, Accept),
            ),
            (each(&[504]), &both, effect(Retry, Failure, Reject)),
            (failed(&[Fault::Timeout]), &both, effect(Retry, Failure, Reject)),
            (
                failed(&[Fault::Dns, Fault::Connect, Fault::Tls, Fault::Reset, Fault::Protocol]),
                &both,
                effect(Retry, Failure, Neither),
            ),
        ];
        for (replies, probes, expected) in table {
            for reply in replies {
                for probe in probes {
                    assert_eq!(rules.of(reply, *probe, COOL_OFF), expected, "{reply:?}, {probe}");
                }
            }
        }
    }

    /// Only success, 400 and 410 end a run; every other reply is retried.
    #[test]
    fn all_else_is_retried() {
        let rules = ResponseRules::for_reminders();
        for status in 0..=999 {
            let expected = match status {
                200..=299 => Delivered,
                400 => Rejected,
                410 => Gone,
                _ => Retry,
            };
            assert_eq!(rules.of(answered(status), false, COOL_OFF).disposition, expected, "{status}");
        }
        for fault in Fault::ALL {
            assert_eq!(rules.of(Reply::Failed(fault), false, COOL_OFF).disposition, Retry, "{fault:?}");
        }
        let deliveries = ResponseRules::default();
        for reply in (0..=999).flat_map(|status| [answered(status), asks(status, 7)]) {
            for probe in [false, true] {
                let (run, delivery) =
                    (rules.of(reply, probe, COOL_OFF), deliveries.of(reply, probe, COOL_OFF));
                assert_eq!((run.circuit, run.throttle), (delivery.circuit, delivery.throttle), "{reply:?}");
                assert_eq!((run.retry_after, run.sleep), (delivery.retry_after, delivery.sleep), "{reply:?}");
            }
        }
    }

    #[test]
    fn what_lies_above_comes_first() {
        let read = |text| serde_json::from_str::<ResponseRules>(text).unwrap();
        let base = read(
            r#"{"422": {"action": "retry", "throttle": "neither"}, "5xx": {"circuit": "ignored"},
                "404": {"action": "disable"}, "timeout": {"circuit": "success", "throttle": "accept"}}"#,
        );
        let own = read(
            r#"{"4xx": {"action": "fail"}, "404": {"circuit": "ignored"}, "503": {"action": "succeed"},
                "5xx": {"throttle": "neither"}, "timeout": {"circuit": "failure"}}"#,
        );
        let laid = own.applied_over(&base);
        let table = [
            // The upper rules have a rule for the class, which overrides the lower rules' rule for the status.
            (answered(422), (Rejected, Ignored, Neither)),
            (answered(404), (Rejected, Ignored, Accept)),
            // Cases without an upper rule follow the lower rules; cases without any rule follow the table.
            (answered(503), (Delivered, Ignored, Neither)),
            (answered(500), (Retry, Ignored, Neither)),
            (answered(200), (Delivered, Success, Accept)),
            (Reply::Failed(Fault::Timeout), (Retry, Failure, Accept)),
            (Reply::Failed(Fault::Reset), (Retry, Failure, Neither)),
        ];
        for (reply, expected) in table {
            let effect = laid.of(reply, false, COOL_OFF);
            assert_eq!((effect.disposition, effect.circuit, effect.throttle), expected, "{reply:?}");
        }
        // Applying both sets one after the other gives the same result.
        let faults = Fault::ALL.into_iter().map(Reply::Failed);
        for reply in (100..=999).map(answered).chain(faults) {
            let row = by_default(reply, false);
            assert_eq!(laid.over(row, reply), own.over(base.over(row, reply), reply), "{reply:?}");
        }
        assert_eq!(ResponseRules::default().applied_over(&base), base);
        assert_eq!(own.applied_over(&ResponseRules::default()), own);
    }
}
