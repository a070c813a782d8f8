//! Reminders: create one or several, list, show, change; show their payloads and runs; and actions on them.
//!
//! A key with the scope `send` may create and cancel reminders. Changing, pausing, resuming and running now need the
//! scope `manage`.
//!
//! | part | what it does |
//! | --- | --- |
//! | `body`, `times`, `reference` | the fields of a reminder, and its schedule |
//! | `schema` | request bodies, as documented in OpenAPI |
//! | `view` | the JSON representation of reminders and runs |
//! | `acts` | pause, resume, run now, cancel |
//! | `preview` | the next times of a schedule, without creating a reminder |

mod acts;
mod body;
mod preview;
mod reference;
mod schema;
mod times;
mod view;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use breakerbox_core::CircuitStatus;
use breakerbox_model::objects::{Purpose, Reminder, ReminderId, ReminderStateName, TenantId};
use breakerbox_model::reminder::CatchUp;
use breakerbox_storage::TenantEntry;
use breakerbox_storage::records::{NewReminder, PageOf, ReminderFilter};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::body::{BatchBody, ReminderBody};
use self::reference::Reference;
pub(super) use self::view::CatchUpName;
use self::view::{ReminderContext, ReminderStateView, ReminderView, RunView};
use super::Api;
use super::caller::{Allowed, Caller, Manage, Read, SendOrManage};
use super::circuits::{self, CircuitOf};
use super::idempotency::{self, Created, CreatedOnce, Key, KeyHeader};
use super::listing::{Limit, Listed, Paging};
use super::problem::{ApiResult, Code, Problem};
use super::reading::fields::Text;
use super::reading::payload::{Circumstances, body_limit};
use super::reading::{Named, Query, is_json, read_body};
use super::revision::{IfMatch, Revised};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(create_batch))
        .routes(routes!(show, change))
        .routes(routes!(payload))
        .routes(routes!(runs))
        .merge(acts::routes())
        .merge(preview::routes())
}

/// A filter for reminders. A reminder must match all given conditions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only reminders of this tenant.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only reminders in this state.
    #[param(value_type = Option<ReminderStateView>)]
    state: Option<Text<ReminderStateName>>,
    /// Only the reminder with this reference.
    #[param(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    reference: Option<Text<Reference>>,
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    cursor: Option<String>,
}

/// List reminders
///
/// Newest first. A page may have fewer items than `limit`, or none, even if it is not the last; follow `next` until it
/// is null.
#[utoipa::path(
    get,
    path = "/v1/reminders",
    operation_id = "list_reminders",
    tag = "reminders",
    params(ListQuery),
    responses((status = 200, description = "Reminders; newest first", body = Listed<ReminderView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(which): Query<ListQuery>,
) -> ApiResult<axum::Json<Listed<ReminderView>>> {
    let tenant = caller.tenant_seen(which.tenant.map(|tenant| tenant.0), &api.services.directory)?;
    let filter = ReminderFilter {
        tenant,
        state: which.state.map(|state| state.0),
        reference: which.reference.map(|text| text.0.0),
    };
    let page: PageOf = Paging { limit: which.limit, cursor: which.cursor }.into();
    let found = api.services.records.reminders(&filter, &page).await?;
    let items = shown_all(&api, found.items).await?;
    Ok(axum::Json(Listed { items, next: found.next.map(|cursor| cursor.0) }))
}

/// Create a reminder
///
/// With `at` alone the reminder runs once; with `every` or `cron` it repeats. The response is sent after the reminder
/// is stored durably, and shows its next times.
#[utoipa::path(
    post,
    path = "/v1/reminders",
    operation_id = "create_reminder",
    tag = "reminders",
    request_body(content = schema::ReminderSchema, content_type = "application/json"),
    params(KeyHeader),
    responses((status = 201, description = "The reminder", body = ReminderView, headers(("etag" = String)))),
    security(("api_key" = ["send"]), ("api_key" = ["manage"])),
)]
async fn create(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<SendOrManage>,
    request: Request,
) -> ApiResult<CreatedOnce> {
    is_json(request.headers())?;
    let key = Key::of(&request)?;
    let limit = api.services.limits.payload;
    let (body, _room) = read_body(request, &api.budget, body_limit(limit)).await?;
    let reminder = ReminderBody::read(&body)?;
    let tenant = known(&api, caller.tenant_for(reminder.tenant())?)?;
    let new = reminder.into_new(&body, circumstances(&api, &tenant))?;
    let key = key.map(|key| key.of_body(&body));
    let circuits = Circuits::of(&api, &tenant, std::slice::from_ref(&new)).await?;
    let request = idempotency::request(key, Some(&tenant.id), move |reminder: &Reminder| {
        let view = circuits.shown(0, reminder);
        Created::new(reminder.id, &view).revised(reminder.revision)
    });
    let answered = api.services.records.create_reminder_for(request, new).await;
    Ok(answered.map_err(|error| taken(error.into()))?.into())
}

/// New reminders, in the order of the batch.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedReminders)]
struct CreatedBatchView {
    /// The new reminders, in the order of the batch.
    reminders: Vec<ReminderView>,
}

/// Create a batch of reminders
///
/// By default at most 1,000 reminders and 4 MiB. Accepts all of the reminders or none. The response is in the order of
/// the batch.
#[utoipa::path(
    post,
    path = "/v1/reminders/batch",
    operation_id = "create_reminders",
    tag = "reminders",
    request_body(content = schema::BatchSchema, content_type = "application/json"),
    params(KeyHeader),
    responses((status = 201, description = "The reminders", body = CreatedBatchView)),
    security(("api_key" = ["send"]), ("api_key" = ["manage"])),
)]
async fn create_batch(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<SendOrManage>,
    request: Request,
) -> ApiResult<CreatedOnce> {
    is_json(request.headers())?;
    let key = Key::of(&request)?;
    let limits = &api.services.limits;
    let (body, _room) = read_body(request, &api.budget, limits.batch_bytes).await?;
    let batch = BatchBody::read(&body, limits.batch_events)?;
    let tenant = known(&api, caller.tenant_for(batch.tenant())?)?;
    let new = batch.into_new(circumstances(&api, &tenant))?;
    let key = key.map(|key| key.of_body(&body));
    let circuits = Circuits::of(&api, &tenant, &new).await?;
    let request = idempotency::request(key, Some(&tenant.id), move |created: &Vec<Reminder>| {
        let show = |(place, reminder)| circuits.shown(place, reminder);
        let reminders = created.iter().enumerate().map(show).collect();
        let first = created.first().map(|reminder| reminder.id.to_string()).unwrap_or_default();
        Created::new(first, &CreatedBatchView { reminders })
    });
    let answered = api.services.records.create_reminders_for(request, new).await;
    Ok(answered.map_err(|error| taken(error.into()))?.into())
}

/// Show a reminder
#[utoipa::path(
    get,
    path = "/v1/reminders/{reminder}",
    operation_id = "show_reminder",
    tag = "reminders",
    params(("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The reminder", body = ReminderView, headers(("etag" = String)))),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<ReminderId>,
) -> ApiResult<Revised<ReminderView>> {
    let reminder = seen(&api, &caller, id).await?;
    Ok(Revised(reminder.revision, shown(&api, reminder, Resumes::No).await?))
}

/// Change a reminder
///
/// Omitted fields stay unchanged; `null` restores the default. A new schedule applies immediately: a waiting run is
/// withdrawn, and earlier occurrences are not caught up on. If the schedule is unchanged, a waiting run continues with
/// the changed fields.
#[utoipa::path(
    patch,
    path = "/v1/reminders/{reminder}",
    operation_id = "change_reminder",
    tag = "reminders",
    request_body(content = schema::ReminderChangeSchema, content_type = "application/json"),
    params(
        ("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("if-match" = Option<String>, Header, description = "Change the resource only if its `etag` still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 200, description = "The reminder", body = ReminderView, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn change(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<ReminderId>,
    IfMatch(revision): IfMatch,
    request: Request,
) -> ApiResult<Revised<ReminderView>> {
    is_json(request.headers())?;
    let limit = api.services.limits.payload;
    let (body, _room) = read_body(request, &api.budget, body_limit(limit)).await?;
    let change = ReminderBody::read(&body)?;
    let before = seen(&api, &caller, id).await?;
    let tenant = known(&api, before.tenant.clone())?;
    let patch = change.into_patch(&body, circumstances(&api, &tenant))?;
    let edit = move |stored: &Reminder| Ok(patch.onto(stored)?);
    let changed = api.services.records.edit_reminder(id, Box::new(edit), revision).await;
    let reminder = changed.map_err(|error| taken(error.into()))?;
    Ok(Revised(reminder.revision, shown(&api, reminder, Resumes::No).await?))
}

/// Show the payload of a reminder
///
/// Returns the payload byte for byte, with its own content type.
#[utoipa::path(
    get,
    path = "/v1/reminders/{reminder}/payload",
    operation_id = "show_reminder_payload",
    tag = "reminders",
    params(("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The payload", content(
        (schema::Payload = "application/octet-stream"),
        (Value = "*/*", example = json!({"invoice": 7})),
    ))),
    security(("api_key" = ["read"])),
)]
async fn payload(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<ReminderId>,
) -> ApiResult<Response> {
    let reminder = seen(&api, &caller, id).await?;
    let payload = api.services.records.reminder_payload(id).await?;
    let mut response = Response::new(payload.into());
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_str(&reminder.settings.content_type);
    let plain = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, content_type.unwrap_or(plain));
    // The payload belongs to a tenant. A browser must not render it as the gateway's content.
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

/// List the runs of a reminder
///
/// Newest first, for as long as finished deliveries are kept. To list the attempts of a run, use its delivery.
#[utoipa::path(
    get,
    path = "/v1/reminders/{reminder}/runs",
    operation_id = "list_runs",
    tag = "reminders",
    params(("reminder" = String, Path, description = "Reminder ID", pattern = "^rem_[0-7][0-9a-hjkmnp-tv-z]{12}$"), Paging),
    responses((status = 200, description = "Runs of the reminder; newest first", body = Listed<RunView>)),
    security(("api_key" = ["read"])),
)]
async fn runs(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<ReminderId>,
    Query(paging): Query<Paging>,
) -> ApiResult<axum::Json<Listed<RunView>>> {
    seen(&api, &caller, id).await?;
    let found = api.services.records.runs(id, &paging.into()).await?;
    Ok(axum::Json(Listed::of(found, |run| RunView::new(&api, run))))
}

/// Returns a reminder, if the caller may access it.
async fn seen(api: &Api, caller: &Caller, id: ReminderId) -> ApiResult<Reminder> {
    let reminder = api.services.records.reminder(id).await?;
    if caller.owns(reminder.owner, &api.services.directory) {
        Ok(reminder)
    } else {
        Err(Problem::not_found("reminder", &id.to_string()))
    }
}

fn known(api: &Api, tenant: TenantId) -> ApiResult<Arc<TenantEntry>> {
    api.services.directory.tenant(&tenant).ok_or_else(|| Problem::tenant_not_found(tenant.as_str()))
}

fn circumstances<'c>(api: &'c Api, tenant: &'c TenantEntry) -> Circumstances<'c> {
    let (payload, addresses) = (api.services.limits.payload, &*api.services.addresses);
    Circumstances { tenant, payload, addresses, now: api.wall() }
}

/// If the problem is `already_exists`, sets its field to `reference`, because another reminder has the same reference.
fn taken(problem: Problem) -> Problem {
    match (problem.code(), problem.field().map(|outer| format!("{outer}.reference"))) {
        (Code::AlreadyExists, outer) => problem.of_field(outer.as_deref().unwrap_or("reference")),
        _ => problem,
    }
}

/// Whether a reminder is resuming from a pause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resumes {
    Yes,
    No,
}

async fn shown(api: &Api, reminder: Reminder, resumes: Resumes) -> ApiResult<ReminderView> {
    let circuit = circuit_of(api, &reminder);
    let status = circuits::statuses(api, std::slice::from_ref(&circuit)).await?;
    let status = status.first().copied().unwrap_or(CircuitStatus::Closed);
    let around =
        ReminderContext { resumes: resumes == Resumes::Yes, ..around(api, &reminder, circuit, status) };
    Ok(ReminderView::new(reminder, around))
}

async fn shown_all(api: &Api, reminders: Vec<Reminder>) -> ApiResult<Vec<ReminderView>> {
    let keys: Vec<_> = reminders.iter().map(|reminder| circuit_of(api, reminder)).collect();
    let statuses = circuits::statuses(api, &keys).await?;
    let shown = |(reminder, (key, status)): (Reminder, (Option<Arc<str>>, CircuitStatus))| {
        let around = around(api, &reminder, key, status);
        ReminderView::new(reminder, around)
    };
    Ok(reminders.into_iter().zip(keys.into_iter().zip(statuses)).map(shown).collect())
}

/// The circuits of reminders that are being created. They are looked up in advance, so that the response can be built
/// within the transaction.
struct Circuits {
    api: Api,
    keys: Vec<Option<Arc<str>>>,
    statuses: Vec<CircuitStatus>,
}

impl Circuits {
    async fn of(api: &Api, tenant: &TenantEntry, new: &[NewReminder]) -> ApiResult<Self> {
        let key = |new: &NewReminder| tenant.key_of(Purpose::Reminders, new.settings.url.as_str()).ok();
        let keys: Vec<_> = new.iter().map(key).collect();
        let statuses = circuits::statuses(api, &keys).await?;
        Ok(Self { api: api.clone(), keys, statuses })
    }

    /// Returns the view of a new reminder. `place` is its index in the batch.
    fn shown(&self, place: usize, reminder: &Reminder) -> ReminderView {
        let key = self.keys.get(place).cloned().flatten();
        let status = self.statuses.get(place).copied().unwrap_or(CircuitStatus::Closed);
        ReminderView::new(reminder.clone(), around(&self.api, reminder, key, status))
    }
}

/// Returns the key of a reminder's circuit. `None` if its tenant was deleted in the meantime.
fn circuit_of(api: &Api, reminder: &Reminder) -> Option<Arc<str>> {
    let tenant = api.services.directory.tenant(&reminder.tenant)?;
    tenant.key_of(Purpose::Reminders, reminder.settings.url.as_str()).ok()
}

fn around(api: &Api, reminder: &Reminder, key: Option<Arc<str>>, status: CircuitStatus) -> ReminderContext {
    let tenant = api.services.directory.tenant(&reminder.tenant);
    ReminderContext {
        catch_up: tenant.map_or_else(CatchUp::default, |tenant| tenant.reminders.catch_up),
        circuit: key.map(|key| CircuitOf::new(&key, status)),
        now: api.wall(),
        resumes: false,
    }
}
