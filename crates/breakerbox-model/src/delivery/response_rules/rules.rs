//! Response rules: the cases in which a tenant differs from the default table. An admin sets them.
//!
//! A rule for a status comes before a rule for its class; cases and columns without a rule follow the table. Rules do
//! not change the effect of `Retry-After`: a receiver that asks for a pause gets it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use breakerbox_core::throttle::LoadSignal;
use breakerbox_core::{OutcomeKind, nearest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::effect::{Disposition, Row};
use crate::delivery::{Fault, Reply};

/// The maximum number of rules.
pub const MAX_RESPONSE_RULES: usize = 100;

const DISPOSITIONS: [(&str, Disposition); 4] = [
    ("delivered", Disposition::Delivered),
    ("retried", Disposition::Retry),
    ("failed", Disposition::Rejected),
    ("gone", Disposition::Gone),
];
const OUTCOMES: [(&str, OutcomeKind); 3] =
    [("success", OutcomeKind::Success), ("failure", OutcomeKind::Failure), ("ignored", OutcomeKind::Ignored)];
const LOAD_SIGNALS: [(&str, LoadSignal); 3] =
    [("accept", LoadSignal::Accept), ("reject", LoadSignal::Reject), ("neither", LoadSignal::Neither)];
const COLUMNS: [&str; 3] = ["delivery", "circuit", "throttle"];

/// Response rules: the cases that differ from the default table.
///
/// Serialized, it is a map from a status (`"404"`), a class of statuses (`"4xx"`) or a fault (`"timeout"`) to the
/// effect on the `delivery` (delivered, retried, failed, gone), the `circuit` (success, failure, ignored) and the
/// `throttle` (accept, reject, neither). Columns that are left out keep their default.
///
/// ```
/// use breakerbox_model::delivery::{Disposition, Reply, ResponseRules};
/// use std::time::Duration;
///
/// let rules: ResponseRules = serde_json::from_str(r#"{"404": {"delivery": "failed", "circuit": "ignored"}}"#)?;
/// let not_found = Reply::Answered { status: 404, retry_after: None };
/// assert_eq!(rules.of(not_found, false, Duration::ZERO).disposition, Disposition::Rejected);
///
/// let wrong = serde_json::from_str::<ResponseRules>(r#"{"404": {"circuit": "open"}}"#).unwrap_err();
/// assert!(wrong.to_string().starts_with("rulings.404.circuit: must be success, failure or ignored"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, Value>",
    into = "BTreeMap<String, BTreeMap<&'static str, &'static str>>"
)]
pub struct ResponseRules(pub(super) BTreeMap<Case, ResponseRule>);

/// The case that a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Case {
    Status(u16),
    /// The first digit of the status.
    Class(u16),
    /// The index of the fault among all faults.
    Fault(usize),
}

/// The columns that a rule sets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct ResponseRule {
    pub(super) disposition: Option<Disposition>,
    pub(super) circuit: Option<OutcomeKind>,
    pub(super) throttle: Option<LoadSignal>,
}

/// Why rules are refused. Each error names the field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseRulesError {
    /// There are too many rules.
    #[error("rulings: must be at most {MAX_RESPONSE_RULES}, but are {found}")]
    TooMany {
        /// The number of rules.
        found: usize,
    },
    /// The case is neither a status, a class nor a fault.
    #[error(
        "rulings.{case}: must be about a status such as \"404\", a class such as \"4xx\" or a fault: {}",
        fault_names()
    )]
    UnknownCase {
        /// The case, cut short.
        case: String,
    },
    /// The rule is not a map of columns.
    #[error("rulings.{case}: must be an object with delivery, circuit or throttle")]
    NoColumns {
        /// The case of the rule.
        case: String,
    },
    /// The column is unknown.
    #[error("rulings.{case}.{column}: is unknown{}; there are delivery, circuit and throttle", did_you_mean(.column))]
    UnknownColumn {
        /// The case of the rule.
        case: String,
        /// The name of the column, cut short.
        column: String,
    },
    /// The column does not accept this value.
    #[error("rulings.{case}.{column}: must be {allowed}")]
    UnknownValue {
        /// The case of the rule.
        case: String,
        /// The name of the column.
        column: &'static str,
        /// The values that the column accepts.
        allowed: &'static str,
    },
    /// A fault means that there was no response, so nothing can have been delivered.
    #[error("rulings.{fault}.delivery: must be retried or failed, since nothing was answered")]
    NotAnswered {
        /// The name of the fault.
        fault: &'static str,
    },
}

impl ResponseRules {
    /// Returns whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the row of the table, with the rules applied.
    pub(super) fn over(&self, row: Row, reply: Reply) -> Row {
        if self.0.is_empty() {
            return row;
        }
        match reply {
            Reply::Answered { status, .. } => {
                self.rule_for(Case::Status(status)).over(self.rule_for(Case::Class(status / 100)).over(row))
            }
            // No rule of a tenant can blame the receiver for a fault of the gateway.
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
                "delivery" => {
                    rule.disposition = Some(read(
                        case,
                        "delivery",
                        "delivered, retried, failed or gone",
                        &DISPOSITIONS,
                        value,
                    )?);
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
            self.disposition.map(|disposition| written(&DISPOSITIONS, disposition)),
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

/// Returns foreign text, short enough for an error message.
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
            r#"{"404": {"circuit": "ignored"}, "4xx": {"delivery": "failed", "circuit": "success"},
                "timeout": {"throttle": "neither"}, "500": {"delivery": "gone"}}"#,
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
        let failed = rules(r#"{"404": {"circuit": "ignored", "delivery": "failed"}}"#);
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
            r#"{"200":{"delivery":"retried"},"4xx":{"circuit":"ignored","delivery":"gone","throttle":"neither"}}"#,
            r#"{"address_denied":{"delivery":"failed"},"dns":{"throttle":"accept"},"tls":{"circuit":"success"}}"#,
        ] {
            assert_eq!(serde_json::to_string(&rules(text)).unwrap(), text);
        }
        assert!(rules("{}").is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (r#"{"099": {"circuit": "success"}}"#, "rulings.099: must be about"),
            (r#"{"1000": {"circuit": "success"}}"#, "rulings.1000: must be about"),
            (r#"{"+44": {"circuit": "success"}}"#, "rulings.+44: must be about"),
            (r#"{"0xx": {"circuit": "success"}}"#, "rulings.0xx: must be about"),
            (r#"{"+4xx": {"circuit": "success"}}"#, "rulings.+4xx: must be about"),
            (r#"{"xx": {"circuit": "success"}}"#, "rulings.xx: must be about"),
            (r#"{"Timeout": {"circuit": "success"}}"#, "rulings.Timeout: must be about"),
            (r#"{"404": {}}"#, "rulings.404: must be an object"),
            (r#"{"404": "failed"}"#, "rulings.404: must be an object"),
            (r#"{"404": null}"#, "rulings.404: must be an object"),
            (
                r#"{"404": {"circut": "success"}}"#,
                "rulings.404.circut: is unknown (did you mean circuit?); there are",
            ),
            (r#"{"404": {"delivery": "lost"}}"#, "rulings.404.delivery: must be delivered, retried"),
            (r#"{"404": {"circuit": 7}}"#, "rulings.404.circuit: must be success, failure or ignored"),
            (r#"{"4xx": {"throttle": null}}"#, "rulings.4xx.throttle: must be accept, reject or neither"),
            (r#"{"timeout": {"delivery": "delivered"}}"#, "rulings.timeout.delivery: must be retried or"),
            (r#"{"reset": {"delivery": "gone"}}"#, "rulings.reset.delivery: must be retried or failed"),
        ];
        for (text, start) in table {
            let error = serde_json::from_str::<ResponseRules>(text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{text}: {error}");
        }
        let many: serde_json::Map<_, _> = (100..201)
            .map(|status| (status.to_string(), serde_json::json!({"circuit": "ignored"})))
            .collect();
        let error = serde_json::from_value::<ResponseRules>(Value::Object(many)).unwrap_err();
        assert!(error.to_string().starts_with("rulings: must be at most 100, but are 101"), "{error}");
    }
}
