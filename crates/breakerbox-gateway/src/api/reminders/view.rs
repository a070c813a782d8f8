//! The JSON of reminders and their runs.

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

/// The number of upcoming times that are shown.
const UPCOMING: usize = 5;

/// A callback that is scheduled for a time, once or repeatedly.
#[derive(Serialize, ToSchema)]
#[schema(as = Reminder)]
pub(super) struct ReminderView {
    /// Its name. With the number of a run it is the `webhook-id` of that run's requests.
    #[schema(example = "rem_01h5k2m8w4c7e")]
    id: String,
    /// Whose.
    tenant: String,
    /// The owner's own name for it.
    reference: Option<String>,
    /// Who is called.
    url: String,
    /// What the payload is.
    content_type: String,
    /// How many bytes it has.
    payload_bytes: u64,
    /// When it is due; with `every` the first time, with `cron` not before.
    #[schema(value_type = String, format = "date-time")]
    at: Moment,
    /// It repeats after so long.
    every: Option<String>,
    /// It repeats at these local times.
    cron: Option<String>,
    /// Whose clock `cron` goes by.
    time_zone: Option<String>,
    /// Nothing is due after this.
    #[schema(value_type = Option<String>, format = "date-time")]
    ends_at: Option<Moment>,
    /// So many runs at the most.
    max_runs: Option<u32>,
    /// What fires of that which was missed; null: as the tenant says.
    #[schema(value_type = Option<CatchUpName>, inline)]
    catch_up: Option<&'static str>,
    /// How important its runs are.
    #[schema(value_type = PrioritySchema, inline)]
    priority: &'static str,
    /// A run that waits is given up after so long; null: never.
    expires_after: Option<String>,
    /// What has become of it.
    #[schema(value_type = ReminderStateView, inline)]
    state: &'static str,
    /// Why it stopped: `rejected` (the receiver answered 400), `gone` (410), `failed` (no retries are left, or it expired)
    /// or `unreadable` (the stored reminder can't be read).
    #[schema(value_type = Option<StopReasonView>, inline)]
    stopped_because: Option<&'static str>,
    /// Runs that were fired.
    runs: u32,
    /// Occurrences for which none was: only the latest was asked for.
    skipped: u64,
    /// The time for which the latest run was fired.
    #[schema(value_type = Option<String>, format = "date-time")]
    last_at: Option<Moment>,
    /// When it fires next; null while a run is open, and if it does not fire by itself.
    #[schema(value_type = Option<String>, format = "date-time")]
    next_at: Option<Moment>,
    /// The delivery of the run that is not finished. There is one run at a time.
    open_run: Option<String>,
    /// The next times for which it fires, at most five.
    #[schema(value_type = Vec<String>)]
    upcoming: Vec<Moment>,
    /// The circuit that its callbacks go through.
    #[schema(inline)]
    circuit: Option<CircuitOf>,
    /// When it was created.
    #[schema(value_type = String, format = "date-time")]
    created_at: Moment,
    /// When somebody last changed it.
    #[schema(value_type = String, format = "date-time")]
    changed_at: Moment,
}

/// What fires of that which was missed.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
pub(in crate::api) enum CatchUpName {
    All,
    Latest,
}

/// The state of a reminder.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)]
pub(super) enum ReminderStateView {
    Active,
    Paused,
    Stopped,
    Finished,
    Cancelled,
}

/// Why a reminder stopped.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)]
enum StopReasonView {
    Rejected,
    Gone,
    Failed,
    Unreadable,
}

/// The context that the view of a reminder needs.
pub(super) struct Around {
    /// The tenant's catch-up rule, unless the reminder has its own.
    pub(super) catch_up: CatchUp,
    pub(super) circuit: Option<CircuitOf>,
    /// The wall-clock time.
    pub(super) now: Timestamp,
    /// Whether the reminder resumes from a pause at this moment: occurrences during the pause are skipped.
    pub(super) resumes: bool,
}

impl ReminderView {
    pub(super) fn new(reminder: Reminder, around: Around) -> Self {
        let upcoming: Vec<_> = upcoming(&reminder, &around).into_iter().map(Moment).collect();
        let Reminder { settings, state, .. } = reminder;
        let schedule = settings.schedule;
        let (every, cron, time_zone) = match &schedule.repeat {
            Repeat::Once => (None, None, None),
            Repeat::Every(every) => (Some(format_duration(*every)), None, None),
            Repeat::Cron(cron) => (None, Some(cron.to_string()), Some(cron.zone().to_owned())),
        };
        let stopped_because = match state {
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
            stopped_because,
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

/// Returns the next times at which it fires by its schedule. Empty if it does not.
fn upcoming(reminder: &Reminder, around: &Around) -> Vec<Timestamp> {
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
    /// The first is 1.
    number: u32,
    /// The `webhook-id` of its requests.
    #[schema(example = "rem_01h5k2m8w4c7e_1")]
    webhook_id: String,
    /// The time for which it was fired.
    #[schema(value_type = String, format = "date-time")]
    scheduled_at: Moment,
    /// How many occurrences before that one were missed and not fired.
    skipped: u32,
    /// Its delivery. The attempts are there.
    delivery: String,
    /// Where to.
    url: Option<String>,
    /// What has become of it.
    #[schema(value_type = StateNameView, inline)]
    state: &'static str,
    /// Why it failed.
    #[schema(value_type = Option<FailReasonView>, inline)]
    reason: Option<&'static str>,
    /// Whether it waits, though it may be due: for a circuit, for a throttle, or for a switch that is off. A registered
    /// endpoint also waits for a `Retry-After` and for its rate limit.
    parked: bool,
    /// Attempts that were used up.
    attempts: u32,
    /// While it waits: not before this.
    #[schema(value_type = Option<String>, format = "date-time")]
    due_at: Option<Moment>,
    /// When it was fired.
    #[schema(value_type = String, format = "date-time")]
    fired_at: Moment,
    /// When its first request began.
    #[schema(value_type = Option<String>, format = "date-time")]
    sent_at: Option<Moment>,
    /// When it was delivered, failed or cancelled.
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
            due_at: delivery.due_at,
            fired_at: delivery.created_at,
            sent_at: sent_at.map(Moment),
            finished_at: delivery.finished_at,
        }
    }
}
