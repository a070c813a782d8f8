//! Decides the next step of a reminder that the scheduler has read, whatever the reason for reading it.

use breakerbox_core::Timestamp;

use super::{CatchUp, Ended, Schedule, Standing, Step, WhenFailed};
use crate::objects::{ReminderId, TenantId};

/// A version of a reminder: it grows with every step and change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenTurn(pub i64);

/// A reminder as the scheduler read it.
#[derive(Clone, PartialEq, Debug)]
pub struct Looked {
    /// The reminder.
    pub id: ReminderId,
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// The version that was read.
    pub turn: SeenTurn,
    /// Whether it fires by itself.
    pub is_active: bool,
    /// When it is due.
    pub schedule: Schedule,
    /// Which missed occurrences are fired. `None`: the tenant's setting applies.
    pub catch_up: Option<CatchUp>,
    /// The number of runs that were fired.
    pub runs: u32,
    /// The occurrence that the latest run stands for.
    pub last_at: Option<Timestamp>,
    /// The request of a client that is not carried out yet.
    pub asked: Option<Asked>,
    /// The latest run, if its end was not processed yet.
    pub run: OpenRun,
}

/// A request of a client to a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Asked {
    /// To resume after a pause or a stop.
    Resume,
    /// To run now.
    RunNow,
}

/// The latest run of a reminder, unless its end was processed already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenRun {
    /// There is no such run.
    None,
    /// It is not finished.
    Unfinished,
    /// It has ended.
    Ended {
        /// The result of the run.
        how: Ended,
        /// When its first request began.
        first_sent_at: Option<Timestamp>,
    },
}

/// The decision about a reminder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decided {
    /// The reminder.
    pub id: ReminderId,
    /// The version that the decision is about: it is not carried out on a newer one.
    pub turn: SeenTurn,
    /// The occurrence that the latest run turned out to stand for.
    pub last_at: Option<Timestamp>,
    /// The next step.
    pub act: Act,
    /// Whether a run that is fired stands for the latest occurrence until it is sent.
    pub latest: bool,
}

/// The next step of a reminder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Act {
    /// A step of the schedule.
    Step(Step),
    /// No step: the reminder is not active, or its run is not finished.
    Rest,
}

/// The tenant's settings that the next step depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantSays {
    /// Which missed occurrences are fired, unless the reminder sets it.
    pub catch_up: CatchUp,
    /// The effect of a run that failed for good.
    pub when_failed: WhenFailed,
}

impl Looked {
    /// Returns the next step.
    #[must_use]
    pub fn decide(&self, tenant: TenantSays, now: Timestamp) -> Decided {
        let catch_up = self.catch_up.unwrap_or(tenant.catch_up);
        let standing = Standing {
            schedule: self.schedule.clone(),
            catch_up,
            when_failed: tenant.when_failed,
            runs: self.runs,
            last: self.last_at,
        };
        let (last, act) = match (self.run, self.asked) {
            (OpenRun::Unfinished, _) => (standing.last, Act::Rest),
            (OpenRun::Ended { how, first_sent_at }, _) if self.is_active => {
                let last = standing.last_when_ended(first_sent_at);
                (last, Act::Step(standing.ended(how, first_sent_at, now)))
            }
            (OpenRun::None, Some(Asked::RunNow)) => {
                // The run stands for no occurrence: the schedule continues as if it had not happened.
                let fire = Step::Fire { run: self.runs.saturating_add(1), scheduled_at: now, skipped: 0 };
                return Decided {
                    id: self.id,
                    turn: self.turn,
                    last_at: standing.last,
                    act: Act::Step(fire),
                    latest: false,
                };
            }
            (OpenRun::None, Some(Asked::Resume)) if self.is_active => {
                (standing.last_when_resumed(now), Act::Step(standing.resumed(now)))
            }
            (OpenRun::None, _) if self.is_active => (standing.last, Act::Step(standing.due(now))),
            _ => (standing.last, Act::Rest),
        };
        let last_at = match act {
            Act::Step(Step::Fire { scheduled_at, .. }) => Some(scheduled_at),
            _ => last,
        };
        Decided { id: self.id, turn: self.turn, last_at, act, latest: catch_up == CatchUp::Latest }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::objects::Id;
    use crate::reminder::{Repeat, StopReason};

    const SAYS: TenantSays = TenantSays { catch_up: CatchUp::All, when_failed: WhenFailed::Stop };

    fn minute(minute: u64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    fn looked() -> Looked {
        Looked {
            id: ReminderId(Id::from_number(7).unwrap()),
            tenant: "acme".parse().unwrap(),
            turn: SeenTurn(3),
            is_active: true,
            schedule: Schedule {
                first_at: minute(10),
                repeat: Repeat::Every(Duration::from_secs(60)),
                ends_at: None,
                max_runs: None,
            },
            catch_up: None,
            runs: 2,
            last_at: Some(minute(11)),
            asked: None,
            run: OpenRun::None,
        }
    }

    #[test]
    fn each_reason_to_look_has_its_answer() {
        let ended = |how| OpenRun::Ended { how, first_sent_at: Some(minute(11)) };
        let fire = |run, at, last| (Act::Step(Step::Fire { run, scheduled_at: at, skipped: 0 }), Some(last));
        let at_ease = looked();
        let paused = Looked { is_active: false, ..looked() };
        let table = [
            ("due", at_ease.clone(), fire(3, minute(12), minute(12))),
            (
                "its run is open",
                Looked { run: OpenRun::Unfinished, ..looked() },
                (Act::Rest, Some(minute(11))),
            ),
            (
                "its run was refused",
                Looked { run: ended(Ended::Rejected), ..looked() },
                (Act::Step(Step::Stop(StopReason::Rejected)), Some(minute(11))),
            ),
            (
                "its run was delivered",
                Looked { run: ended(Ended::Delivered), ..looked() },
                fire(3, minute(12), minute(12)),
            ),
            (
                "its run was refused while it was paused",
                Looked { run: ended(Ended::Rejected), ..paused.clone() },
                (Act::Rest, Some(minute(11))),
            ),
            (
                "asked to run now",
                Looked { asked: Some(Asked::RunNow), ..looked() },
                fire(3, minute(12), minute(11)),
            ),
            (
                "asked to run now while paused",
                Looked { asked: Some(Asked::RunNow), ..paused.clone() },
                fire(3, minute(12), minute(11)),
            ),
            (
                "asked to run now while a run is open",
                Looked { asked: Some(Asked::RunNow), run: OpenRun::Unfinished, ..looked() },
                (Act::Rest, Some(minute(11))),
            ),
            ("paused", paused, (Act::Rest, Some(minute(11)))),
        ];
        for (what, looked, (act, last_at)) in table {
            let expected = Decided { id: looked.id, turn: looked.turn, last_at, act, latest: false };
            assert_eq!(looked.decide(SAYS, minute(12)), expected, "{what}");
        }
    }

    #[test]
    fn after_a_pause_the_next_one_in_the_future_is_waited_for() {
        let resumed = Looked { asked: Some(Asked::Resume), ..looked() };
        let decided = resumed.decide(SAYS, minute(30) + Duration::from_secs(1));
        assert_eq!(decided.act, Act::Step(Step::Wait(minute(31))));
        assert_eq!(decided.last_at, Some(minute(30)));
    }

    #[test]
    fn a_reminder_comes_before_its_tenant() {
        let latest = Looked { catch_up: Some(CatchUp::Latest), ..looked() };
        let fire = Act::Step(Step::Fire { run: 3, scheduled_at: minute(15), skipped: 3 });
        assert_eq!(latest.decide(SAYS, minute(15)).act, fire);
    }
}
