//! Actions on a reminder: pause, resume, run now, cancel.

use axum::extract::State;
use breakerbox_core::CircuitStatus;
use breakerbox_model::objects::{Reminder, ReminderId};
use http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::view::ReminderView;
use super::{Resumes, around, circuit_of, seen, shown};
use crate::api::Api;
use crate::api::caller::{Allowed, Manage, SendOrManage};
use crate::api::circuits;
use crate::api::idempotency::{self, Created, CreatedOnce, KeyHeader, Keyed};
use crate::api::problem::ApiResult;
use crate::api::reading::{AnyBody, Named};
use crate::api::revision::Revised;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(run))
        .routes(routes!(cancel))
}

/// Pause a reminder
///
/// The reminder does not fire until it is resumed. A waiting run is withdrawn, as if it had not been fired; a run in
/// flight finishes, and is not retried.
#[utoipa::path(
    post,
    path = "/v1/reminders/{reminder}/pause",
    operation_id = "pause_reminder",
    tag = "reminders",
    params(("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The reminder", body = ReminderView, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn pause(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<ReminderId>,
) -> ApiResult<Revised<ReminderView>> {
    seen(&api, &caller, id).await?;
    let reminder = api.services.records.pause_reminder(id).await?;
    Ok(Revised(reminder.revision, shown(&api, reminder, Resumes::No).await?))
}

/// Resume a reminder
///
/// Resumes a paused or stopped reminder. Occurrences during the pause are skipped. A one-off reminder that has not run
/// yet runs now.
#[utoipa::path(
    post,
    path = "/v1/reminders/{reminder}/resume",
    operation_id = "resume_reminder",
    tag = "reminders",
    params(("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The reminder", body = ReminderView, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn resume(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<ReminderId>,
) -> ApiResult<Revised<ReminderView>> {
    seen(&api, &caller, id).await?;
    let reminder = api.services.records.resume_reminder(id).await?;
    Ok(Revised(reminder.revision, shown(&api, reminder, Resumes::Yes).await?))
}

/// Run a reminder now
///
/// Fires a run in addition to the schedule, in any state except cancelled. If a run is already waiting, that run
/// becomes due instead.
#[utoipa::path(
    post,
    path = "/v1/reminders/{reminder}/run",
    operation_id = "run_reminder",
    tag = "reminders",
    params(KeyHeader, ("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 202, description = "The reminder; the run is fired at once", body = ReminderView, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn run(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<ReminderId>,
    Keyed(AnyBody, key): Keyed<AnyBody>,
) -> ApiResult<CreatedOnce> {
    let before = seen(&api, &caller, id).await?;
    let circuit = circuit_of(&api, &before);
    let status = circuits::statuses(&api, std::slice::from_ref(&circuit)).await?;
    let status = status.first().copied().unwrap_or(CircuitStatus::Closed);
    let tenant = before.tenant;
    let services = api.clone();
    let request = idempotency::request(key, Some(&tenant), move |reminder: &Reminder| {
        let view = ReminderView::new(reminder.clone(), around(&services, reminder, circuit, status));
        Created::new(reminder.id, &view).with_status(StatusCode::ACCEPTED).revised(reminder.revision)
    });
    Ok(api.services.records.run_reminder_for(request, id).await?.into())
}

/// Cancel a reminder
///
/// Cancels the reminder permanently. A waiting run is cancelled; a run in flight finishes, and is not retried. The
/// reminder and its runs stay visible for as long as finished deliveries are kept.
#[utoipa::path(
    post,
    path = "/v1/reminders/{reminder}/cancel",
    operation_id = "cancel_reminder",
    tag = "reminders",
    params(("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The reminder", body = ReminderView, headers(("etag" = String)))),
    security(("api_key" = ["send"]), ("api_key" = ["manage"])),
)]
async fn cancel(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<SendOrManage>,
    Named(id): Named<ReminderId>,
) -> ApiResult<Revised<ReminderView>> {
    seen(&api, &caller, id).await?;
    let reminder = api.services.records.cancel_reminder(id).await?;
    Ok(Revised(reminder.revision, shown(&api, reminder, Resumes::No).await?))
}
