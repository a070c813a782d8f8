//! Response rules: a tenant's exceptions to the default table. An admin sets them.
//!
//! A rule for a status takes precedence over a rule for its class; cases and columns without a rule follow the table.
//! Rules do not change the effect of `Retry-After`: a receiver that asks for a pause gets it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use breakerbox_core::throttle::LoadSignal;
use breakerbox_core::{OutcomeKind, nearest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::effect::{Disposition, Row};
use crate::delivery::{Fault, Reply};

/// The maximum number of response rules.
pub const MAX_RESPONSE_RULES: usize = 100;

const ACTIONS: [(&str, Disposition); 4] = [
    ("succeed", Disposition::Delivered),
    ("retry", Disposition::Retry),
    ("fail", Disposition::Rejected),
    ("disable", Disposition::Gone),
];
const OUTCOMES: [(&str, OutcomeKind); 3] =
    [("success", OutcomeKind::Success), ("failure", OutcomeKind::Failure), ("ignored", OutcomeKind::Ignored)];
const LOAD_SIGNALS: [(&str, LoadSignal); 3] =
    [("accept", LoadSignal::Accept), ("reject", LoadSignal::Reject), ("neither", LoadSignal::Neither)];
const COLUMNS: [&str; 3] = ["action", "circuit", "throttle"];

/// A set of response rules: exceptions to the default table.
///
/// It serializes as a map from a status (`"404"`), a class of statuses (`"4xx"`) or a fault (`"timeout"`) to the
/// `action` on the delivery (succeed, retry, fail, disable), the outcome for the `circuit` (success, failure,
/// ignored) and the signal for the `throttle` (accept, reject, neither). Omitted columns keep their default.
///
/// ```
/// use breakerbox_model::delivery::{Disposition, Reply, ResponseRules};
/// use std::time::Duration;
///
/// let rules: ResponseRules = serde_json::from_str(r#"{"404": {"action": "fail", "circuit": "ignored"}}"#)?;
/// let not_found = Reply::Answered { status: 404, retry_after: None };
/// assert_eq!(rules.of(not_found, false, Duration::ZERO).disposition, Disposition::Rejected);
///
/// let wrong = serde_json::from_str::<ResponseRules>(r#"{"404": {"circuit": "open"}}"#).unwrap_err();
/// assert!(wrong.to_string().starts_with("response_rules.404.circuit: must be success, failure or ignored"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, Value>",
    into = "BTreeMap<String, BTreeMap<&'static str, &'static str>>"
)]
pub struct ResponseRules(pub(super) BTreeMap<Case, ResponseRule>);

/// The case that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Case {
    Status(u16),
    /// The first digit of the status, such as 4 for `4xx`.
    Class(u16),
    /// The index of the fault in `Fault::ALL`.
    Fault(usize),
}

/// The columns that a rule sets. Unset columns follow the default table.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct ResponseRule {
    pub(super) disposition: Option<Disposition>,
    pub(super) circuit: Option<OutcomeKind>,
    pub(super) throttle: Option<LoadSignal>,
}

/// Why response rules are rejected. Each error names the field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseRulesError {
    /// There are more than [`MAX_RESPONSE_RULES`] rules.
    #[error("response_rules: must be at most {MAX_RESPONSE_RULES}, but are {found}")]
    TooMany {
        /// The number of rules given.
        found: usize,
    },
    /// The case is not a status, a class or a fault.
    #[error(
        "response_rules.{case}: must be a status such as \"404\", a class such as \"4xx\" or a fault: {}",
        fault_names()
    )]
    UnknownCase {
        /// The case as given, truncated for the error message.
        case: String,
    },
    /// The rule is not a map of columns.
    #[error("response_rules.{case}: must be an object with action, circuit or throttle")]
    NoColumns {
        /// The case that the rule applies to.
        case: String,
    },
    /// A rule sets a column that does not exist.
    #[error("response_rules.{case}.{column}: is unknown{}; use action, circuit or throttle", did_you_mean(.column))]
    UnknownColumn {
        /// The case that the rule applies to.
        case: String,
        /// The column's name as given, truncated for the error message.
        column: String,
    },
    /// The column does not accept the value.
    #[error("response_rules.{case}.{column}: must be {allowed}")]
    UnknownValue {
        /// The case that the rule applies to.
        case: String,
        /// The column: `action`, `circuit` or `throttle`.
        column: &'static str,
        /// The values that the column accepts, as text for the error message.
        allowed: &'static str,
    },
    /// The rule marks a fault as delivered. A fault means that there was no response, so nothing can have been
    /// delivered.
    #[error("response_rules.{fault}.action: must be retry or fail, because there was no response")]
    NotAnswered {
        /// The name of the fault, such as `timeout`.
        fault: &'static str,
    },
}

impl ResponseRules {
    /// Returns whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces those columns of a reply's default row that a rule for the reply's status, class or fault
    /// sets.
    pub(super) fn over(&self, row: Row, reply: Reply) -> Row {
        if self.0.is_empty() {
            return row;
        }
        match reply {
            Reply::Answered { status, .. } => {
                self.rule_for(Case::Status(status)).over(self.rule_for(Case::Class(status / 100)).over(row))
            }
            // A tenant's rules can't blame the receiver for a fault of the gateway.
            Reply::Failed(Fault::Local(_)) => row,
            Reply::Failed(fault) => self.rule_for(Case::of(fault)).over(row),
        }
    }

    pub(super) fn rule_for(&self, case: Case) -> ResponseRule {
        self.0.get(&case).copied().unwrap_or_default()
    }
}

impl ResponseRule {
    fn over(self, row: Row) -> Row {
        Row {
            disposition: self.disposition.unwrap_or(row.disposition),
            circuit: self.circuit.unwrap_or(row.circuit),
            throttle: self.throttle.unwrap_or(row.throttle),
        }
    }

    fn read(case: Case, columns: &Value) -> Result<Self, ResponseRulesError> {
        let Value::Object(columns) = columns else {
            return Err(ResponseRulesError::NoColumns { case: case.to_string() });
        };
        if columns.is_empty() {
            return Err(ResponseRulesError::NoColumns { case: case.to_string() });
        }
        let mut rule = Self::default();
        for (column, value) in columns {
            match column.as_str() {
                "action" => {
                    rule.disposition =
                        Some(read(case, "action", "succeed, retry, fail or disable", &ACTIONS, value)?);
                }
                "circuit" => {
                    rule.circuit =
                        Some(read(case, "circuit", "success, failure or ignored", &OUTCOMES, value)?);
                }
                "throttle" => {
                    rule.throttle =
                        Some(read(case, "throttle", "accept, reject or neither", &LOAD_SIGNALS, value)?);
                }
                _ => {
                    return Err(ResponseRulesError::UnknownColumn {
                        case: case.to_string(),
                        column: shortened(column),
                    });
                }
            }
        }
        match (case, rule.disposition) {
            (Case::Fault(index), Some(Disposition::Delivered | Disposition::Gone)) => {
                Err(ResponseRulesError::NotAnswered { fault: Fault::ALL[index].name() })
            }
            _ => Ok(rule),
        }
    }

    fn written(self) -> BTreeMap<&'static str, &'static str> {
        let texts = [
            self.disposition.map(|disposition| written(&ACTIONS, disposition)),
            self.circuit.map(|outcome| written(&OUTCOMES, outcome)),
            self.throttle.map(|signal| written(&LOAD_SIGNALS, signal)),
        ];
        COLUMNS.into_iter().zip(texts).filter_map(|(column, text)| Some((column, text?))).collect()
    }
}

fn read<T: Copy>(
    case: Case,
    column: &'static str,
    allowed: &'static str,
    names: &[(&str, T)],
    value: &Value,
) -> Result<T, ResponseRulesError> {
    let named = names.iter().find(|(name, _)| value.as_str() == Some(name));
    named.map(|(_, value)| *value).ok_or(ResponseRulesError::UnknownValue {
        case: case.to_string(),
        column,
        allowed,
    })
}

fn written<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| name)
}

impl Case {
    fn of(fault: Fault) -> Self {
        Self::Fault(Fault::ALL.iter().position(|other| *other == fault).unwrap_or_default())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Class(hundreds) => write!(f, "{hundreds}xx"),
            Self::Fault(index) => f.write_str(Fault::ALL[*index].name()),
        }
    }
}

impl FromStr for Case {
    type Err = ResponseRulesError;

    fn from_str(text: &str) -> Result<Self, ResponseRulesError> {
        if let Some(fault) = Fault::ALL.into_iter().find(|fault| fault.name() == text) {
            return Ok(Self::of(fault));
        }
        let digits = text.strip_suffix("xx");
        let class = digits.filter(|digit| digit.len() == 1).and_then(|digit| digit.parse().ok());
        let status = (text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text);
        match (class, status.and_then(|status| status.parse().ok())) {
            (Some(hundreds @ 1..=9), _) => Ok(Self::Class(hundreds)),
            (_, Some(status @ 100..=999)) => Ok(Self::Status(status)),
            _ => Err(ResponseRulesError::UnknownCase { case: shortened(text) }),
        }
    }
}

impl TryFrom<BTreeMap<String, Value>> for ResponseRules {
    type Error = ResponseRulesError;

    fn try_from(cases: BTreeMap<String, Value>) -> Result<Self, ResponseRulesError> {
        if cases.len() > MAX_RESPONSE_RULES {
            return Err(ResponseRulesError::TooMany { found: cases.len() });
        }
        let read = |(case, columns): (&String, &Value)| {
            let case = case.parse()?;
            Ok((case, ResponseRule::read(case, columns)?))
        };
        cases.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl From<ResponseRules> for BTreeMap<String, BTreeMap<&'static str, &'static str>> {
    fn from(rules: ResponseRules) -> Self {
        rules.0.into_iter().map(|(case, rule)| (case.to_string(), rule.written())).collect()
    }
}

fn fault_names() -> String {
    Fault::ALL.map(Fault::name).join(", ")
}

fn did_you_mean(column: &str) -> String {
    nearest(column, COLUMNS).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

/// Returns untrusted text, short enough for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const COOL_OFF: Duration = Duration::from_secs(30);

    fn rules(text: &str) -> ResponseRules {
        serde_json::from_str(text).unwrap()
    }

    fn answered(status: u16) -> Reply {
        Reply::Answered { status, retry_after: None }
    }

    #[test]
    fn a_status_comes_before_its_class_and_the_rest_is_as_it_was() {
        let rules = rules(
            r#"{"404": {"circuit": "ignored"}, "4xx": {"action": "fail", "circuit": "success"},
                "timeout": {"throttle": "neither"}, "500": {"action": "disable"}}"#,
        );
        let table = [
            (answered(404), (Disposition::Rejected, OutcomeKind::Ignored, LoadSignal::Accept)),
            (answered(401), (Disposition::Rejected, OutcomeKind::Success, LoadSignal::Accept)),
            (answered(429), (Disposition::Rejected, OutcomeKind::Success, LoadSignal::Reject)),
            (answered(500), (Disposition::Gone, OutcomeKind::Failure, LoadSignal::Accept)),
            (answered(501), (Disposition::Retry, OutcomeKind::Failure, LoadSignal::Accept)),
            (answered(200), (Disposition::Delivered, OutcomeKind::Success, LoadSignal::Accept)),
            (Reply::Failed(Fault::Timeout), (Disposition::Retry, OutcomeKind::Failure, LoadSignal::Neither)),
            (Reply::Failed(Fault::Connect), (Disposition::Retry, OutcomeKind::Failure, LoadSignal::Neither)),
        ];
        for (reply, expected) in table {
            let effect = rules.of(reply, false, COOL_OFF);
            assert_eq!((effect.disposition, effect.circuit, effect.throttle), expected, "{reply:?}");
        }
    }

    #[test]
    fn who_asks_to_wait_is_heard_by_the_circuit_if_it_fails_and_else_by_the_lane() {
        let wait = Duration::from_secs(90);
        let asks = |status| Reply::Answered { status, retry_after: Some(wait) };
        let counted = rules(r#"{"429": {"circuit": "failure"}, "503": {"circuit": "ignored"}}"#);
        let effect = counted.of(asks(429), false, COOL_OFF);
        assert_eq!((effect.retry_after, effect.sleep), (Some(wait), None));
        let effect = counted.of(asks(503), false, COOL_OFF);
        assert_eq!((effect.retry_after, effect.sleep), (None, Some(wait)));
        assert_eq!(counted.of(answered(429), true, COOL_OFF).sleep, None, "its circuit waits");
    }

    #[test]
    fn a_probe_that_decides_nothing_is_not_repeated_at_once() {
        let ignored = rules(r#"{"404": {"circuit": "ignored"}}"#);
        assert_eq!(ignored.of(answered(404), true, COOL_OFF).sleep, Some(COOL_OFF));
        assert_eq!(ignored.of(answered(404), false, COOL_OFF).sleep, None);
        let failed = rules(r#"{"404": {"circuit": "ignored", "action": "fail"}}"#);
        assert_eq!(
            failed.of(answered(404), true, COOL_OFF).sleep,
            None,
            "the next probe is another delivery"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "{}",
            r#"{"200":{"action":"retry"},"4xx":{"action":"disable","circuit":"ignored","throttle":"neither"}}"#,
            r#"{"address_denied":{"action":"fail"},"dns":{"throttle":"accept"},"tls":{"circuit":"success"}}"#,
        ] {
            assert_eq!(serde_json::to_string(&rules(text)).unwrap(), text);
        }
        assert!(rules("{}").is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (r#"{"099": {"circuit": "success"}}"#, "response_rules.099: must be a status"),
            (r#"{"1000": {"circuit": "success"}}"#, "response_rules.1000: must be a status"),
            (r#"{"+44": {"circuit": "success"}}"#, "response_rules.+44: must be a status"),
            (r#"{"0xx": {"circuit": "success"}}"#, "response_rules.0xx: must be a status"),
            (r#"{"+4xx": {"circuit": "success"}}"#, "response_rules.+4xx: must be a status"),
            (r#"{"xx": {"circuit": "success"}}"#, "response_rules.xx: must be a status"),
            (r#"{"Timeout": {"circuit": "success"}}"#, "response_rules.Timeout: must be a status"),
            (r#"{"404": {}}"#, "response_rules.404: must be an object"),
            (r#"{"404": "failed"}"#, "response_rules.404: must be an object"),
            (r#"{"404": null}"#, "response_rules.404: must be an object"),
            (
                r#"{"404": {"circut": "success"}}"#,
                "response_rules.404.circut: is unknown (did you mean circuit?); use action",
            ),
            (r#"{"404": {"action": "lost"}}"#, "response_rules.404.action: must be succeed, retry"),
            (r#"{"404": {"circuit": 7}}"#, "response_rules.404.circuit: must be success, failure or ignored"),
            (
                r#"{"4xx": {"throttle": null}}"#,
                "response_rules.4xx.throttle: must be accept, reject or neither",
            ),
            (r#"{"timeout": {"action": "succeed"}}"#, "response_rules.timeout.action: must be retry or"),
            (r#"{"reset": {"action": "disable"}}"#, "response_rules.reset.action: must be retry or fail"),
        ];
        for (text, start) in table {
            let error = serde_json::from_str::<ResponseRules>(text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{text}: {error}");
        }
        let many: serde_json::Map<_, _> = (100..201)
            .map(|status| (status.to_string(), serde_json::json!({"circuit": "ignored"})))
            .collect();
        let error = serde_json::from_value::<ResponseRules>(Value::Object(many)).unwrap_err();
        assert!(error.to_string().starts_with("response_rules: must be at most 100, but are 101"), "{error}");
    }
}
