//! Decides the next step for a reminder that the scheduler has read, regardless of why it was read.

use breakerbox_core::Timestamp;

use super::{CatchUp, Progress, RunResult, Schedule, Step, WhenFailed};
use crate::values::{ReminderId, TenantId};

/// The version of a reminder. It increases with every step and every change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReminderVersion(pub i64);

/// A reminder as the scheduler read it from the database.
#[derive(Clone, PartialEq, Debug)]
pub struct DueReminder {
    /// The id of the reminder that was read.
    pub id: ReminderId,
    /// The tenant that the reminder belongs to.
    pub tenant: TenantId,
    /// The version of the reminder that was read.
    pub version: ReminderVersion,
    /// Whether the reminder is active, and so fires by its schedule.
    pub is_active: bool,
    /// The times at which the reminder is due.
    pub schedule: Schedule,
    /// Which missed occurrences are fired. `None`: as the tenant's settings specify.
    pub catch_up: Option<CatchUp>,
    /// The number of runs fired so far.
    pub runs: u32,
    /// The scheduled time of the occurrence that the latest run serves. `None`: there was no run.
    pub last_at: Option<Timestamp>,
    /// A client's request that is not carried out yet, if any.
    pub request: Option<ClientRequest>,
    /// The latest run, unless its end was already processed.
    pub run: OpenRun,
}

/// A client's request concerning a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientRequest {
    /// Resume after a pause or a stop.
    Resume,
    /// Fire a run now.
    RunNow,
}

/// The latest run of a reminder, unless its end was already processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenRun {
    /// No run was fired yet, or the end of the latest run was already processed.
    None,
    /// The run is not finished.
    Unfinished,
    /// The run has ended, and its end is to be processed.
    Ended {
        /// How the run ended.
        how: RunResult,
        /// When the run's first request began. `None`: no request was sent.
        first_sent_at: Option<Timestamp>,
    },
}

/// The decision about a reminder's next step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decision {
    /// The id of the reminder that the decision applies to.
    pub id: ReminderId,
    /// The reminder's version that the decision is based on. The decision is not applied to a newer version.
    pub version: ReminderVersion,
    /// The reminder's new `last_at`: the scheduled time of the latest occurrence that a run serves or that was
    /// skipped.
    pub last_at: Option<Timestamp>,
    /// The next step to take.
    pub action: Action,
    /// Whether a fired run serves the occurrence that is the latest when the run is sent, rather than when it
    /// is fired.
    pub latest: bool,
}

/// The next step for a reminder, if there is one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// A step that the schedule requires.
    Step(Step),
    /// There is nothing to do, because the reminder is not active or its run is not finished.
    NoStep,
}

/// The tenant's settings that the next step depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReminderDefaults {
    /// Which missed occurrences are fired, for reminders that don't set their own `catch_up`.
    pub catch_up: CatchUp,
    /// What happens to a reminder when one of its runs has failed for good.
    pub when_failed: WhenFailed,
}

impl DueReminder {
    /// Decides the reminder's next step. `tenant` contains the tenant's settings for reminders.
    #[must_use]
    pub fn decide(&self, tenant: ReminderDefaults, now: Timestamp) -> Decision {
        let catch_up = self.catch_up.unwrap_or(tenant.catch_up);
        let progress = Progress {
            schedule: self.schedule.clone(),
            catch_up,
            when_failed: tenant.when_failed,
            runs: self.runs,
            last: self.last_at,
        };
        let (last, action) = match (self.run, self.request) {
            (OpenRun::Unfinished, _) => (progress.last, Action::NoStep),
            (OpenRun::Ended { how, first_sent_at }, _) if self.is_active => {
                let last = progress.last_when_ended(first_sent_at);
                (last, Action::Step(progress.ended(how, first_sent_at, now)))
            }
            (OpenRun::None, Some(ClientRequest::RunNow)) => {
                // This run stands for no occurrence: the schedule continues as if it had not been fired.
                let fire = Step::Fire { run: self.runs.saturating_add(1), scheduled_at: now, skipped: 0 };
                return Decision {
                    id: self.id,
                    version: self.version,
                    last_at: progress.last,
                    action: Action::Step(fire),
                    latest: false,
                };
            }
            (OpenRun::None, Some(ClientRequest::Resume)) if self.is_active => {
                (progress.last_when_resumed(now), Action::Step(progress.resumed(now)))
            }
            (OpenRun::None, _) if self.is_active => (progress.last, Action::Step(progress.due(now))),
            _ => (progress.last, Action::NoStep),
        };
        let last_at = match action {
            Action::Step(Step::Fire { scheduled_at, .. }) => Some(scheduled_at),
            _ => last,
        };
        Decision { id: self.id, version: self.version, last_at, action, latest: catch_up == CatchUp::Latest }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reminder::{Repeat, StopReason};
    use crate::values::Id;

    const DEFAULTS: ReminderDefaults =
        ReminderDefaults { catch_up: CatchUp::All, when_failed: WhenFailed::Stop };

    fn minute(minute: u64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    fn reminder() -> DueReminder {
        DueReminder {
            id: ReminderId(Id::from_number(7).unwrap()),
            tenant: "acme".parse().unwrap(),
            version: ReminderVersion(3),
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
            request: None,
            run: OpenRun::None,
        }
    }

    #[test]
    fn each_reason_to_look_has_its_answer() {
        let ended = |how| OpenRun::Ended { how, first_sent_at: Some(minute(11)) };
        let fire =
            |run, at, last| (Action::Step(Step::Fire { run, scheduled_at: at, skipped: 0 }), Some(last));
        let at_ease = reminder();
        let paused = DueReminder { is_active: false, ..reminder() };
        let table = [
            ("due", at_ease.clone(), fire(3, minute(12), minute(12))),
            (
                "its run is open",
                DueReminder { run: OpenRun::Unfinished, ..reminder() },
                (Action::NoStep, Some(minute(11))),
            ),
            (
                "its run was refused",
                DueReminder { run: ended(RunResult::Rejected), ..reminder() },
                (Action::Step(Step::Stop(StopReason::Rejected)), Some(minute(11))),
            ),
            (
                "its run was delivered",
                DueReminder { run: ended(RunResult::Delivered), ..reminder() },
                fire(3, minute(12), minute(12)),
            ),
            (
                "its run was refused while it was paused",
                DueReminder { run: ended(RunResult::Rejected), ..paused.clone() },
                (Action::NoStep, Some(minute(11))),
            ),
            (
                "asked to run now",
                DueReminder { request: Some(ClientRequest::RunNow), ..reminder() },
                fire(3, minute(12), minute(11)),
            ),
            (
                "asked to run now while paused",
                DueReminder { request: Some(ClientRequest::RunNow), ..paused.clone() },
                fire(3, minute(12), minute(11)),
            ),
            (
                "asked to run now while a run is open",
                DueReminder { request: Some(ClientRequest::RunNow), run: OpenRun::Unfinished, ..reminder() },
                (Action::NoStep, Some(minute(11))),
            ),
            ("paused", paused, (Action::NoStep, Some(minute(11)))),
        ];
        for (what, reminder, (action, last_at)) in table {
            let expected =
                Decision { id: reminder.id, version: reminder.version, last_at, action, latest: false };
            assert_eq!(reminder.decide(DEFAULTS, minute(12)), expected, "{what}");
        }
    }

    #[test]
    fn after_a_pause_the_next_one_in_the_future_is_waited_for() {
        let resumed = DueReminder { request: Some(ClientRequest::Resume), ..reminder() };
        let decided = resumed.decide(DEFAULTS, minute(30) + Duration::from_secs(1));
        assert_eq!(decided.action, Action::Step(Step::Wait(minute(31))));
        assert_eq!(decided.last_at, Some(minute(30)));
    }

    #[test]
    fn a_reminder_comes_before_its_tenant() {
        let latest = DueReminder { catch_up: Some(CatchUp::Latest), ..reminder() };
        let fire = Action::Step(Step::Fire { run: 3, scheduled_at: minute(15), skipped: 3 });
        assert_eq!(latest.decide(DEFAULTS, minute(15)).action, fire);
    }
}
