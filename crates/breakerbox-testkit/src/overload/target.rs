//! What a scenario file wants to be reached, and whether it was.

use std::fmt;

use serde::Deserialize;

use super::measures::Measures;

/// What is to be reached. What a file does not say is not judged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Targets {
    /// Nothing is judged: the scenario is there to be reported.
    pub report_only: bool,
    /// Successful calls a second.
    pub goodput_min: Option<f64>,
    /// Calls sent to the backend, a second.
    pub sent_max: Option<f64>,
    /// Successful calls of the highest levels, in percent.
    pub success_min: Vec<f64>,
    /// Sheds after the overload.
    pub needless_max: Option<f64>,
    /// Seconds to normal service after the overload.
    pub back_max: Option<f64>,
    /// Seconds to the first shed in an outage. Where calls are given as well, either is enough.
    pub first_shed_seconds_max: Option<f64>,
    /// Calls to the first shed in an outage.
    pub first_shed_calls_max: Option<f64>,
    /// Goodput, in percent of that of the same scenario without retries.
    pub goodput_percent_of_no_retries_min: Option<f64>,
    /// How much less of any level may succeed than without a throttle, in points.
    pub points_below_none_max: Option<f64>,
    /// Sheds that the oracle did not make in the same ten seconds, in percent of all calls.
    pub percent_beyond_oracle_max: Option<f64>,
}

/// The means that targets look at: those of the throttle, and those it is compared to.
pub(super) struct Compared<'a> {
    pub(super) own: &'a Measures,
    pub(super) none: &'a Measures,
    pub(super) without_retries: Option<&'a Measures>,
    pub(super) percent_beyond_oracle: f64,
}

/// One target, and what was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// What was to be reached.
    pub wanted: String,
    /// What was found.
    pub found: String,
    /// Whether that is enough.
    pub met: bool,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.met { "met   " } else { "MISSED" };
        write!(f, "{mark} {}: {}", self.wanted, self.found)
    }
}

impl Targets {
    /// Each target, and whether it was reached.
    pub(super) fn judge(&self, compared: &Compared<'_>) -> Vec<Judged> {
        let own = compared.own;
        let mut judged = Vec::new();
        let mut at_least = |what: &str, wanted: Option<f64>, found: f64| {
            judged.extend(wanted.map(|wanted| Judged {
                wanted: format!("{what} >= {wanted}"),
                found: format!("{found:.2}"),
                met: found >= wanted,
            }));
        };
        at_least("goodput", self.goodput_min, own.goodput);
        for (level, wanted) in self.success_min.iter().enumerate() {
            at_least(&format!("success of level {level}"), Some(*wanted), own.success[level]);
        }
        let of_no_retries = compared.without_retries.map_or(0.0, |other| 100.0 * own.goodput / other.goodput);
        at_least("% of goodput without retries", self.goodput_percent_of_no_retries_min, of_no_retries);
        let mut at_most = |what: &str, wanted: Option<f64>, found: f64| {
            judged.extend(wanted.map(|wanted| Judged {
                wanted: format!("{what} <= {wanted}"),
                found: format!("{found:.2}"),
                met: found <= wanted,
            }));
        };
        at_most("sent", self.sent_max, own.sent);
        at_most("needless sheds", self.needless_max, own.needless);
        at_most("back after s", self.back_max, own.back);
        let below = own.success.iter().zip(&compared.none.success).map(|(own, none)| none - own);
        at_most("points below none", self.points_below_none_max, below.fold(0.0, f64::max));
        at_most("% shed beyond the oracle", self.percent_beyond_oracle_max, compared.percent_beyond_oracle);
        judged.extend(self.judge_first_shed(own));
        judged
    }

    fn judge_first_shed(&self, own: &Measures) -> Option<Judged> {
        let limits = [
            (self.first_shed_seconds_max, own.first_shed_seconds, "s"),
            (self.first_shed_calls_max, own.first_shed_calls, "calls"),
        ];
        let given: Vec<_> =
            limits.iter().filter_map(|(max, found, unit)| max.map(|max| (max, *found, unit))).collect();
        let text = |part: fn(&(f64, f64, &&str)) -> String| given.iter().map(part).collect::<Vec<_>>();
        (!given.is_empty()).then(|| Judged {
            wanted: format!(
                "first shed within {}",
                text(|(max, _, unit)| format!("{max} {unit}")).join(" or ")
            ),
            found: text(|(_, found, unit)| format!("{found:.2} {unit}")).join(", "),
            met: given.iter().any(|(max, found, _)| found <= max),
        })
    }
}
