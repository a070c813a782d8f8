//! The targets in a scenario file, and whether a throttle reaches them.

use std::fmt;

use serde::Deserialize;

use super::measures::Measures;

/// A scenario's targets. Targets that the scenario file omits are not checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Targets {
    /// Whether the scenario is only reported, and no target is checked.
    pub report_only: bool,
    /// The minimum of successful calls per second.
    pub goodput_min: Option<f64>,
    /// The maximum of calls per second sent to the backend.
    pub sent_max: Option<f64>,
    /// The minimum share of successful calls for the highest priorities, in percent, level 0 first.
    pub success_min: Vec<f64>,
    /// The maximum number of calls shed after the overload.
    pub needless_max: Option<f64>,
    /// The maximum time from the end of the overload to normal service, in seconds.
    pub back_max: Option<f64>,
    /// The maximum time to the first shed call in an outage, in seconds. If `first_shed_calls_max` is also set,
    /// reaching one of the two targets is sufficient.
    pub first_shed_seconds_max: Option<f64>,
    /// The maximum number of calls sent before the first shed call in an outage.
    pub first_shed_calls_max: Option<f64>,
    /// The minimum goodput, in percent of the goodput of the same scenario without retries.
    pub goodput_percent_of_no_retries_min: Option<f64>,
    /// The maximum number of percentage points by which the throttle may reduce any priority's success,
    /// compared with no admission control.
    pub points_below_none_max: Option<f64>,
    /// The maximum retry delay that a refusal may state in any run, in seconds.
    pub longest_hold_max: Option<f64>,
    /// The maximum number of calls that the throttle may shed in excess of the oracle, in percent of all
    /// calls. Intervals of ten seconds are compared separately.
    pub percent_beyond_oracle_max: Option<f64>,
}

/// The measurements that targets are compared with: the throttle's means, and the means of other runs where a
/// target needs them.
pub(super) struct Compared {
    own: Measures,
    pub(super) none: Option<Measures>,
    pub(super) without_retries: Option<Measures>,
    pub(super) percent_beyond_oracle: Option<f64>,
}

impl Compared {
    pub(super) const fn alone(own: Measures) -> Self {
        Self { own, none: None, without_retries: None, percent_beyond_oracle: None }
    }

    /// Returns the goodput, in percent of the goodput without retries.
    fn percent_of_no_retries(&self) -> Option<f64> {
        self.without_retries.as_ref().map(|other| 100.0 * self.own.goodput / other.goodput)
    }

    /// Returns the largest difference between a priority's success without and with the throttle, in percentage
    /// points.
    fn points_below_none(&self) -> Option<f64> {
        let below = |none: &Measures| {
            self.own.success.iter().zip(&none.success).map(|(own, none)| none - own).fold(0.0, f64::max)
        };
        self.none.as_ref().map(below)
    }
}

/// One target, and whether the measured value reached it.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// The target, for output.
    pub wanted: String,
    /// The measured value, for output.
    pub found: String,
    /// Whether the target was reached.
    pub met: bool,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.met { "met   " } else { "MISSED" };
        write!(f, "{mark} {}: {}", self.wanted, self.found)
    }
}

impl Targets {
    /// Returns for each target whether it was reached.
    pub(super) fn judge(&self, compared: &Compared) -> Vec<Judged> {
        let own = &compared.own;
        let mut judged = vec![
            at_least("goodput", self.goodput_min, Some(own.goodput)),
            at_least(
                "% of the goodput without retries",
                self.goodput_percent_of_no_retries_min,
                compared.percent_of_no_retries(),
            ),
            at_most("sent", self.sent_max, Some(own.sent)),
            at_most("needless sheds", self.needless_max, Some(own.needless)),
            at_most("back after s", self.back_max, Some(own.back)),
            at_most("longest hold s", self.longest_hold_max, Some(own.longest_hold)),
            at_most("points below none", self.points_below_none_max, compared.points_below_none()),
            at_most(
                "% shed beyond the oracle",
                self.percent_beyond_oracle_max,
                compared.percent_beyond_oracle,
            ),
            self.judge_first_shed(own),
        ];
        for (level, wanted) in self.success_min.iter().enumerate() {
            let what = format!("success of level {level}");
            judged.push(at_least(&what, Some(*wanted), own.success.get(level).copied()));
        }
        judged.into_iter().flatten().collect()
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

/// Compares a value with a minimum. A missing target is not checked; a missing value does not reach the target.
fn at_least(what: &str, wanted: Option<f64>, found: Option<f64>) -> Option<Judged> {
    let (wanted, found) = (wanted?, found.unwrap_or(f64::NAN));
    let met = found >= wanted;
    Some(Judged { wanted: format!("{what} >= {wanted}"), found: format!("{found:.2}"), met })
}

fn at_most(what: &str, wanted: Option<f64>, found: Option<f64>) -> Option<Judged> {
    let (wanted, found) = (wanted?, found.unwrap_or(f64::NAN));
    let met = found <= wanted;
    Some(Judged { wanted: format!("{what} <= {wanted}"), found: format!("{found:.2}"), met })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(targets: &Targets, own: Measures) -> Vec<bool> {
        targets.judge(&Compared::alone(own)).iter().map(|judged| judged.met).collect()
    }

    #[test]
    fn only_what_is_wanted_is_judged() {
        assert!(met(&Targets::default(), Measures::default()).is_empty());
        let targets = Targets { goodput_min: Some(99.0), sent_max: Some(115.0), ..Targets::default() };
        for (goodput, sent, expected) in
            [(99.0, 115.0, [true, true]), (98.9, 100.0, [false, true]), (100.0, 115.1, [true, false])]
        {
            assert_eq!(met(&targets, Measures { goodput, sent, ..Measures::default() }), expected);
        }
    }

    #[test]
    fn a_first_shed_in_time_or_after_few_calls_is_enough() {
        let both = Targets {
            first_shed_seconds_max: Some(1.0),
            first_shed_calls_max: Some(20.0),
            ..Targets::default()
        };
        let calls = Targets { first_shed_seconds_max: None, ..both.clone() };
        let own = |first_shed_seconds, first_shed_calls| Measures {
            first_shed_seconds,
            first_shed_calls,
            ..Measures::default()
        };
        for (seconds, sent, by_both, by_calls) in [
            (0.5, 50.0, true, false),
            (1.5, 20.0, true, true),
            (1.5, 21.0, false, false),
            (f64::INFINITY, f64::INFINITY, false, false),
        ] {
            assert_eq!(met(&both, own(seconds, sent)), [by_both], "{seconds} s, {sent} calls");
            assert_eq!(met(&calls, own(seconds, sent)), [by_calls], "{seconds} s, {sent} calls");
        }
    }

    #[test]
    fn a_figure_that_is_missing_does_not_reach_its_target() {
        let targets = Targets { percent_beyond_oracle_max: Some(1.0), ..Targets::default() };
        assert_eq!(met(&targets, Measures::default()), [false]);
    }
}
