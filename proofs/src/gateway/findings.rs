//! The findings of a test: measured values, each with the guaranteed value, and whether the guarantee is met.

use std::fmt::{self, Display};
use std::time::Duration;

/// The values that a test measured, each with its guarantee if it has one.
#[derive(Clone, Debug)]
pub struct Findings {
    title: String,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    what: String,
    seen: String,
    promised: String,
    holds: bool,
}

impl Findings {
    /// Creates empty findings with a title.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new() }
    }

    /// Adds a measured value for information only; no guarantee is checked against it.
    pub fn note(&mut self, what: &str, seen: impl Display) {
        self.rows.push(Row {
            what: what.into(),
            seen: seen.to_string(),
            promised: String::new(),
            holds: true,
        });
    }

    /// Adds a measured value, with the guaranteed value and whether the guarantee is met (`holds`).
    pub fn hold(&mut self, what: &str, seen: impl Display, promised: impl Display, holds: bool) {
        let (seen, promised) = (seen.to_string(), promised.to_string());
        self.rows.push(Row { what: what.into(), seen, promised, holds });
    }

    /// Adds a measured value that must equal the guaranteed value.
    pub fn exactly<T: Display + PartialEq>(&mut self, what: &str, seen: T, promised: T) {
        let holds = seen == promised;
        self.hold(what, seen, promised, holds);
    }

    /// Adds a measured value with an upper limit.
    pub fn at_most<T: Display + PartialOrd>(&mut self, what: &str, seen: T, limit: T) {
        let holds = seen <= limit;
        self.hold(what, seen, format_args!("at most {limit}"), holds);
    }

    /// Adds a measured value with a lower limit.
    pub fn at_least<T: Display + PartialOrd>(&mut self, what: &str, seen: T, limit: T) {
        let holds = seen >= limit;
        self.hold(what, seen, format_args!("at least {limit}"), holds);
    }

    /// Adds a duration with an upper limit. If `judged` is `false`, as on a busy machine, the duration is
    /// only noted, without the limit.
    pub fn within(&mut self, what: &str, seen: Duration, limit: Duration, judged: bool) {
        if judged {
            self.hold(what, Millis(seen), format_args!("at most {}", Millis(limit)), seen <= limit);
        } else {
            self.note(what, Millis(seen));
        }
    }

    /// Adds a measured value with a guarantee. If `judged` is `false`, as on a busy machine, the value is
    /// only noted, without the guarantee.
    pub fn judge(
        &mut self,
        what: &str,
        seen: impl Display,
        promised: impl Display,
        holds: bool,
        judged: bool,
    ) {
        if judged {
            self.hold(what, seen, promised, holds);
        } else {
            self.note(what, seen);
        }
    }

    /// Returns the violated guarantees.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let broken = self.rows.iter().filter(|row| !row.holds);
        broken
            .map(|row| {
                format!("{}: {}: {}, and promised is {}", self.title, row.what, row.seen, row.promised)
            })
            .collect()
    }
}

impl Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |of: fn(&Row) -> &str| self.rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0);
        let (what, seen, promised) =
            (width(|row| &row.what), width(|row| &row.seen), width(|row| &row.promised));
        writeln!(f, "== {}", self.title)?;
        for row in &self.rows {
            let verdict = match (row.promised.is_empty(), row.holds) {
                (true, _) => "",
                (false, true) => "holds",
                (false, false) => "BROKEN",
            };
            let line =
                format!("{:what$}  {:>seen$}  {:promised$}  {verdict}", row.what, row.seen, row.promised);
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A duration that is displayed in milliseconds or seconds.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Millis(pub Duration);

impl Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_secs_f64() * 1_000.0;
        let text = match millis {
            0.0..10.0 => format!("{millis:.2} ms"),
            10.0..10_000.0 => format!("{millis:.0} ms"),
            _ => format!("{:.1} s", millis / 1_000.0),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_hold_is_a_fault() {
        let mut findings = Findings::new("a proof");
        findings.note("events", 5);
        findings.exactly("lost", 1, 0);
        findings.at_most("requests", 7, 100);
        findings.within("took", Duration::from_secs(9), Duration::from_secs(1), false);
        findings.judge("rate", 3, "at least 5", false, false);
        assert_eq!(findings.faults(), ["a proof: lost: 1, and promised is 0"]);
        findings.within("took", Duration::from_secs(9), Duration::from_secs(1), true);
        findings.judge("rate", 3, "at least 5", false, true);
        assert_eq!(findings.faults().len(), 3);
        assert!(findings.to_string().contains("BROKEN"));
    }
}
