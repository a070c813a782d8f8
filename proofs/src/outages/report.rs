//! The observations in one outage with one [`Setting`], and the violated guarantees.

use std::fmt;
use std::time::Duration;

use super::scene::{CLOSED, RECOVERING, SHUT};
use super::setting::Setting;
use super::{Away, Case, Size};
use crate::fleet::Kind;
use crate::fleet::protocol::Tally;
use crate::fleet::worker::OnLoss;

/// The observations in one outage.
#[derive(Debug)]
pub struct Report {
    kind: Kind,
    case: Case,
    setting: Setting,
    size: Size,
    was_away: Duration,
    /// The time until every process had detected the outage, or `None` if there was nothing to detect.
    noticed_after: Option<Duration>,
    fresh: Tally,
    /// The calls after every process had detected the outage, by group of circuits.
    calls: Vec<Tally>,
    longest_ask: Duration,
    /// The time from the destinations' recovery until the last circuit closed, while the store rejected writes.
    /// `None` if not measured.
    pub(super) recovered_alone_after: Option<Duration>,
    pub(super) connected_after: Duration,
    pub(super) agreed_after: Duration,
    pub(super) losses: u64,
    pub(super) overlaps: usize,
    pub(super) forbidden_calls: usize,
    pub(super) strayed: Option<String>,
}

impl Report {
    pub(super) fn new(kind: Kind, case: Case, setting: Setting, size: Size, was_away: Duration) -> Self {
        Self {
            kind,
            case,
            setting,
            size,
            was_away,
            noticed_after: None,
            fresh: Tally::default(),
            calls: Vec::new(),
            longest_ask: Duration::ZERO,
            recovered_alone_after: None,
            connected_after: Duration::ZERO,
            agreed_after: Duration::ZERO,
            losses: 0,
            overlaps: 0,
            forbidden_calls: 0,
            strayed: None,
        }
    }

    pub(super) fn note_away(&mut self, away: Away) {
        self.noticed_after = Some(away.noticed_after);
        self.recovered_alone_after = away.recovered_alone_after;
        away.before.iter().chain(&away.calls).for_each(|tally| self.note_ask(tally));
        self.note_ask(&away.fresh);
        (self.calls, self.fresh) = (away.calls, away.fresh);
    }

    pub(super) fn note_ask(&mut self, tally: &Tally) {
        self.longest_ask = self.longest_ask.max(Duration::from_micros(tally.longest_ask_us));
    }

    /// Returns the names of the outage and of the fleet's settings.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}, {}, {}", self.kind.name(), self.case.name(), self.setting.name())
    }

    /// Returns the violated guarantees.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let limit = self.size.store_timeout + self.size.margin;
        if self.longest_ask > limit {
            faults.push(format!("an ask waited {:?}, and the limit is {limit:?}", self.longest_ask));
        }
        for (what, after) in [("noticed the return", self.connected_after), ("agreed", self.agreed_after)] {
            if after > self.size.agree_within {
                faults
                    .push(format!("not all {what} within {:?}, but after {after:?}", self.size.agree_within));
            }
        }
        if let Some(after) =
            self.noticed_after.filter(|after| self.case.refuses_writes() && *after > self.size.notice_within)
        {
            faults.push(format!("not reported within {:?}, but after {after:?}", self.size.notice_within));
        }
        if self.case.is_harmless() && self.losses > 0 {
            faults.push("the store was reported lost, and it was there".into());
        }
        if self.forbidden_calls > 0 {
            faults.push(format!("{} calls went to circuits that are not closed", self.forbidden_calls));
        }
        faults.extend(self.strayed.clone());
        if self.case.lasts() {
            faults.extend(self.wrong_meanwhile());
        }
        faults
    }

    /// Returns a message for each group of circuits whose calls were not admitted or refused as the fleet's
    /// `on_store_loss` setting requires.
    fn wrong_meanwhile(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut hold = |holds: bool, what: &str| {
            if !holds {
                wrong.push(format!("{what}: {:?}, fresh: {:?}", self.calls, self.fresh));
            }
        };
        let [closed, shut, recovering] = [CLOSED, SHUT, RECOVERING].map(|group| &self.calls[group]);
        hold(self.calls.iter().all(|calls| calls.acquires > 0), "nothing was asked");
        match self.setting.on_loss {
            OnLoss::Local => {
                hold(closed.calls == closed.acquires, "not all of what is closed was admitted");
                hold(admitted(shut) == 0, "what is open was admitted");
                hold(recovering.open + recovering.probing > 0, "what recovers was not open");
                hold(self.fresh.calls == self.fresh.acquires, "what nobody knows was not admitted");
            }
            OnLoss::Admit => {
                hold(self.calls.iter().all(|calls| calls.calls == calls.acquires), "not all was admitted");
            }
            OnLoss::Refuse => {
                hold(self.calls.iter().all(|calls| admitted(calls) == 0), "not all was refused");
            }
        }
        wrong
    }

    /// Returns the table header.
    #[must_use]
    pub fn head() -> String {
        format!(
            "{:8} {:17} {:6} {:>6} {:>8} {:>7} {:>8} {:>8} {:>9} {:>9} {:>9} {:>8} {:>8}",
            "store",
            "case",
            "loss",
            "away",
            "noticed",
            "asks",
            "admitted",
            "longest",
            "recovered",
            "connected",
            "agreed",
            "overlaps",
            "verdict"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Tally) -> u64| self.calls.iter().map(of).sum::<u64>();
        let ms =
            |after: Option<Duration>| after.map_or("-".into(), |after| format!("{} ms", after.as_millis()));
        let verdict = if self.faults().is_empty() { "holds" } else { "BROKEN" };
        write!(
            f,
            "{:8} {:17} {:6} {:>4.1} s {:>8} {:>7} {:>8} {:>5} ms {:>9} {:>6} ms {:>6} ms {:>8} {:>8}",
            self.kind.name(),
            self.case.name(),
            self.setting.name(),
            self.was_away.as_secs_f64(),
            ms(self.noticed_after),
            sum(|calls| calls.acquires),
            sum(admitted),
            self.longest_ask.as_millis(),
            ms(self.recovered_alone_after),
            self.connected_after.as_millis(),
            self.agreed_after.as_millis(),
            self.overlaps,
            verdict
        )
    }
}

const fn admitted(tally: &Tally) -> u64 {
    tally.calls + tally.probes
}
