//! Rows 12 and 13 of the table: operators' overrides, which apply in any state; and the excuse of failures that were not
//! the destination's.

use crate::change::{Cause, OverrideCommand, Step};
use crate::record::{Attribution, Mode, Record, State};
use crate::time::Timestamp;
use crate::token::RandomBits;

impl Record {
    /// Applies an operator's command. Release and enable end any override, including disabled. Returns `None` if the
    /// command changes nothing: there is no override to end, or there are no failures to excuse, or a probe decides
    /// already.
    #[must_use]
    pub fn apply_override(
        &self,
        command: OverrideCommand,
        by: &Attribution,
        draw: RandomBits,
        now: Timestamp,
    ) -> Option<Step> {
        let mut next = Self { retry_at: None, lease: None, ..self.clone() };
        match command {
            OverrideCommand::ForceOpen | OverrideCommand::Disable => {
                next.state = State::Open;
                next.opened_at = Some(now);
                next.mode = match command {
                    OverrideCommand::Disable => Mode::Disabled(by.clone()),
                    _ => Mode::ForcedOpen(by.clone()),
                };
            }
            OverrideCommand::ForceClosed => {
                next.state = State::Closed;
                next.evidence = None;
                next.mode = Mode::ForcedClosed(by.clone());
            }
            OverrideCommand::Release | OverrideCommand::Enable => {
                if self.is_automatic() {
                    return None;
                }
                next.state = State::Open;
                next.opened_at = Some(now);
                next.retry_at = Some(now);
                next.mode = Mode::Automatic;
                if command == OverrideCommand::Enable {
                    next.trips = 0;
                    next.failing_since = None;
                }
            }
            OverrideCommand::Excuse => {
                let is_probing = self.lease.is_some_and(|lease| lease.is_live(now));
                if !self.is_automatic() || self.state == State::Closed || is_probing {
                    return None;
                }
                next.state = State::Open;
                next.retry_at = Some(now);
                next.probe_successes = 0;
                next.trips = 0;
                next.failing_since = None;
            }
            OverrideCommand::Reset => {
                next.state = State::Closed;
                next.opened_at = None;
                next.evidence = None;
                next.trips = 0;
                next.failing_since = None;
                next.mode = Mode::Automatic;
            }
        }
        Some(Step::transition(self, next, Cause::Override { command, by: by.clone() }, draw, now))
    }
}
