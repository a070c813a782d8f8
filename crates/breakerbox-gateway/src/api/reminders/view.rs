//! The JSON representation of reminders and their runs.

use breakerbox_core::{Timestamp, format_duration};
use breakerbox_model::objects::{Reminder, ReminderState, Run};
use breakerbox_model::reminder::{CatchUp, Progress, Repeat, WhenFailed};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::circuits::CircuitOf;
use crate::api::deliveries::{DeliveryView, FailReasonView, StateNameView};
use crate::api::events::PrioritySchema;
use crate::api::reading::fields::Moment;

/// The number of upcoming times to show.
const UPCOMING: usize = 5;

/// A callback scheduled for a time, once or repeatedly.
#[derive(Serialize, ToSchema)]
#[schema(as = Reminder)]
pub(super) struct ReminderView {
    /// Reminder ID. Together with the number of a run, it forms the `webhook-id` of that run's requests.
    #[schema(example = "rem_01h5k2m8w4c7e")]
    id: String,
    /// Tenant ID.
    tenant: String,
    /// The tenant's own name for the reminder; null if it has none.
    reference: Option<String>,
    /// The URL that each run calls.
    url: String,
    /// The content type of the payload.
    content_type: String,
    /// The size of the payload, in bytes.
    payload_bytes: u64,
    /// The time of the run; with `every`, the time of the first run; with `cron`, the earliest time of a run.
    #[schema(value_type = String, format = "date-time")]
    at: Moment,
    /// The interval between runs; null unless the reminder has one.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$")]
    every: Option<String>,
    /// The cron expression, in the time zone `time_zone`; null unless the reminder has one.
    cron: Option<String>,
    /// The time zone of `cron`; null without `cron`.
    time_zone: Option<String>,
    /// The time after which the reminder no longer runs; null means no end.
    #[schema(value_type = Option<String>, format = "date-time")]
    ends_at: Option<Moment>,
    /// The maximum number of runs; null means no limit.
    #[schema(minimum = 1)]
    max_runs: Option<u32>,
    /// Which missed occurrences to fire: `all`, or only the `latest`; null means the tenant's setting.
    #[schema(value_type = Option<CatchUpName>)]
    catch_up: Option<&'static str>,
    /// The priority of the reminder's runs.
    #[schema(value_type = PrioritySchema)]
    priority: &'static str,
    /// The maximum time that a run waits before it expires; null means no limit.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$")]
    expires_after: Option<String>,
    /// The state of the reminder.
    #[schema(value_type = ReminderStateView)]
    state: &'static str,
    /// The reason why the reminder stopped: `rejected` (the receiver responded with 400), `gone` (410), `failed` (no
    /// retries are left, or the run expired), or `unreadable` (the stored reminder can't be read).
    #[schema(value_type = Option<StopReasonView>)]
    stopped_reason: Option<&'static str>,
    /// The number of runs fired so far.
    runs: u32,
    /// The number of missed occurrences that were skipped because `catch_up` is `latest`.
    skipped: u64,
    /// The scheduled time of the latest run.
    #[schema(value_type = Option<String>, format = "date-time")]
    last_at: Option<Moment>,
    /// The time of the next run; null while a run is unfinished, or if no run is scheduled.
    #[schema(value_type = Option<String>, format = "date-time")]
    next_at: Option<Moment>,
    /// The delivery ID of the unfinished run. There is at most one.
    open_run: Option<String>,
    /// The next times at which the reminder fires, at most five.
    #[schema(value_type = Vec<String>)]
    upcoming: Vec<Moment>,
    /// The circuit that governs the reminder's calls.
    circuit: Option<CircuitOf>,
    /// The time of creation.
    #[schema(value_type = String, format = "date-time")]
    created_at: Moment,
    /// The time of the last change by a client.
    #[schema(value_type = String, format = "date-time")]
    changed_at: Moment,
}

/// Which missed occurrences to fire.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
#[schema(as = CatchUp)]
pub(in crate::api) enum CatchUpName {
    All,
    Latest,
}

/// The state of a reminder.
#[derive(ToSchema)]
#[schema(as = ReminderState, rename_all = "snake_case")]
#[allow(dead_code)]
pub(super) enum ReminderStateView {
    Active,
    Paused,
    Stopped,
    Finished,
    Cancelled,
}

/// The reason why a reminder stopped.
#[derive(ToSchema)]
#[schema(as = StopReason, rename_all = "snake_case")]
#[allow(dead_code)]
enum StopReasonView {
    Rejected,
    Gone,
    Failed,
    Unreadable,
}

/// The context needed to build a reminder's view.
pub(super) struct ReminderContext {
    /// The tenant's catch-up rule, for a reminder that has no rule of its own.
    pub(super) catch_up: CatchUp,
    pub(super) circuit: Option<CircuitOf>,
    /// The current wall-clock time.
    pub(super) now: Timestamp,
    /// Whether the reminder is resuming from a pause. Occurrences during the pause are skipped.
    pub(super) resumes: bool,
}

impl ReminderView {
    pub(super) fn new(reminder: Reminder, around: ReminderContext) -> Self {
        let upcoming: Vec<_> = upcoming(&reminder, &around).into_iter().map(Moment).collect();
        let Reminder { settings, state, .. } = reminder;
        let schedule = settings.schedule;
        let (every, cron, time_zone) = match &schedule.repeat {
            Repeat::Once => (None, None, None),
            Repeat::Every(every) => (Some(format_duration(*every)), None, None),
            Repeat::Cron(cron) => (None, Some(cron.to_string()), Some(cron.zone().to_owned())),
        };
        let stopped_reason = match state {
            ReminderState::Stopped(why) => Some(why.name()),
            _ => None,
        };
        Self {
            id: reminder.id.to_string(),
            tenant: reminder.tenant.to_string(),
            reference: settings.reference,
            url: settings.url.into(),
            content_type: settings.content_type.to_string(),
            payload_bytes: reminder.payload_size,
            at: Moment(schedule.first_at),
            every,
            cron,
            time_zone,
            ends_at: schedule.ends_at.map(Moment),
            max_runs: schedule.max_runs,
            catch_up: settings.catch_up.map(CatchUp::name),
            priority: settings.priority.name(),
            expires_after: settings.expires_after.map(format_duration),
            state: state.name().name(),
            stopped_reason,
            runs: reminder.runs,
            skipped: reminder.skipped,
            last_at: reminder.last_at.map(Moment),
            next_at: upcoming.first().copied().filter(|_| reminder.open_run.is_none()),
            open_run: reminder.open_run.map(|run| run.to_string()),
            upcoming,
            circuit: around.circuit,
            created_at: Moment(reminder.created_at),
            changed_at: Moment(reminder.changed_at),
        }
    }
}

/// Returns the next times at which the schedule fires the reminder. Empty if there are none.
fn upcoming(reminder: &Reminder, around: &ReminderContext) -> Vec<Timestamp> {
    if reminder.state != ReminderState::Active {
        return Vec::new();
    }
    let mut standing = Progress {
        schedule: reminder.settings.schedule.clone(),
        catch_up: reminder.settings.catch_up.unwrap_or(around.catch_up),
        // Assumes that each run succeeds.
        when_failed: WhenFailed::Stop,
        runs: reminder.runs,
        last: reminder.done_until,
    };
    if around.resumes {
        standing.last = standing.last_when_resumed(around.now);
    }
    standing.upcoming(around.now, UPCOMING)
}

/// One run of a reminder.
#[derive(Serialize, ToSchema)]
#[schema(as = Run)]
pub(super) struct RunView {
    /// The number of the run, starting at 1.
    #[schema(minimum = 1)]
    number: u32,
    /// The `webhook-id` of the run's requests.
    #[schema(example = "rem_01h5k2m8w4c7e_1")]
    webhook_id: String,
    /// The scheduled time of the occurrence that this run serves.
    #[schema(value_type = String, format = "date-time")]
    scheduled_at: Moment,
    /// The number of missed occurrences that were skipped before this run.
    skipped: u32,
    /// Delivery ID of the run. Use it to list the run's attempts.
    delivery: String,
    /// The URL that the run calls.
    url: Option<String>,
    /// The state of the run's delivery.
    #[schema(value_type = StateNameView)]
    state: &'static str,
    /// The reason why the run failed.
    #[schema(value_type = Option<FailReasonView>)]
    reason: Option<&'static str>,
    /// Whether the run is held back by a circuit, a throttle or a disabled tenant, even if it is due.
    parked: bool,
    /// The number of attempts used.
    attempts: u32,
    /// The HTTP status of the latest attempt's response; null if there was no attempt or no response.
    #[schema(example = 503)]
    last_status: Option<u16>,
    /// Why the latest attempt had no response: a fault, a colon and a short description; null if it had one, or if there
    /// was no attempt.
    #[schema(example = "connect: connection refused")]
    last_error: Option<String>,
    /// While the run is pending or retrying, the earliest time of the next attempt.
    #[schema(value_type = Option<String>, format = "date-time")]
    due_at: Option<Moment>,
    /// The time at which the run was fired.
    #[schema(value_type = String, format = "date-time")]
    fired_at: Moment,
    /// The time at which the first request started.
    #[schema(value_type = Option<String>, format = "date-time")]
    sent_at: Option<Moment>,
    /// The time at which the run was delivered, failed or cancelled.
    #[schema(value_type = Option<String>, format = "date-time")]
    finished_at: Option<Moment>,
}

impl RunView {
    pub(super) fn new(api: &Api, run: Run) -> Self {
        let Run { id, scheduled_at, skipped, sent_at, delivery } = run;
        let delivery = DeliveryView::new(api, delivery);
        Self {
            number: id.number,
            webhook_id: id.to_string(),
            scheduled_at: Moment(scheduled_at),
            skipped,
            delivery: delivery.id,
            url: delivery.url,
            state: delivery.state,
            reason: delivery.reason,
            parked: delivery.parked,
            attempts: delivery.attempts,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            due_at: delivery.due_at,
            fired_at: delivery.created_at,
            sent_at: sent_at.map(Moment),
            finished_at: delivery.finished_at,
        }
    }
}
