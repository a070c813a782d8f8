//! Decides when a reminder runs, and what follows a run. Pure: no clock, no IO, no random source; time is an
//! argument.
//!
//! | part | decision |
//! | --- | --- |
//! | [`Schedule`], [`Repeat`] | when a reminder is due: once, at an interval, or by a cron expression in a time zone |
//! | [`Cron`] | the local times that an expression matches, and the effect of the zone's gaps and overlaps |
//! | [`Progress`], [`Step`] | the next step: fire, wait, stop or finish |
//! | [`DueReminder`], [`Decision`] | a reminder as the scheduler read it, and the decision about it |
//!
//! Times are wall-clock times, in microseconds since 1970. A wall clock can jump, so the next run is calculated from
//! the previous one, never from now, and nothing fires twice.

mod cron;
mod decide;
mod error;
mod progress;
mod schedule;
mod stored_schedule;
#[cfg(test)]
mod tests;

pub use cron::{Cron, CronError, CronField};
pub use decide::{Action, ClientRequest, Decision, DueReminder, OpenRun, ReminderDefaults, ReminderVersion};
pub use error::ScheduleError;
pub use progress::{CatchUp, Progress, RunResult, Step, StopReason, UnknownName, WhenFailed};
pub use schedule::{MAX_EVERY, MAX_SKIPPED, MIN_EVERY, Missed, Repeat, Schedule, ScheduleChange};
