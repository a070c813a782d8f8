//! Previews a schedule before a reminder is created: the next times, in its time zone.

use axum::extract::State;
use breakerbox_model::reminder::{CatchUp, Progress, WhenFailed};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::times::TimesChange;
use crate::api::Api;
use crate::api::caller::{Allowed, SendOrRead};
use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::Json;
use crate::api::reading::fields::{Change, Moment, Span, Text};

/// The default number of times to return.
const COUNT: usize = 10;
/// The maximum number of times to return.
const MOST: usize = 50;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(preview))
}

/// A schedule to preview, with the fields of a reminder.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SchedulePreview, example = json!({"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "from": "2030-03-29T00:00:00Z", "count": 3}))]
struct PreviewBody {
    /// The time of the run; with `every`, the time of the first run; with `cron`, the earliest time of a run.
    /// Default with `every` or `cron`: now.
    #[schema(value_type = Option<String>, format = "date-time")]
    #[serde(default)]
    at: Change<Text<Moment>>,
    /// The interval between runs, from `1s` to `1825d`. Default: the reminder runs once.
    #[schema(value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "24h")]
    #[serde(default)]
    every: Change<Span>,
    /// A cron expression, in the time zone `time_zone`: minute, hour, day, month, weekday. Default: the
    /// reminder runs once.
    #[schema(value_type = Option<String>, max_length = 256, example = "0 9 * * MON-FRI")]
    #[serde(default)]
    cron: Change<String>,
    /// The time zone of `cron`, a name from the IANA database. Default: `UTC`.
    #[schema(value_type = Option<String>, max_length = 64, example = "Europe/Berlin")]
    #[serde(default)]
    time_zone: Change<String>,
    /// The time after which the reminder no longer runs. Only with `every` or `cron`. Default: no end.
    #[schema(value_type = Option<String>, format = "date-time")]
    #[serde(default)]
    ends_at: Change<Text<Moment>>,
    /// The maximum number of runs. Only with `every` or `cron`. Default: no limit.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 4_294_967_295_u64)]
    #[serde(default)]
    max_runs: Change<u32>,
    /// The assumed time of creation. Default: now.
    #[schema(value_type = Option<String>, format = "date-time")]
    #[serde(default)]
    from: Option<Text<Moment>>,
    /// The number of times to return, at most 50. Default: 10.
    #[schema(minimum = 1, maximum = 50)]
    #[serde(default)]
    count: Option<u32>,
}

/// The next times of a schedule.
#[derive(Serialize, ToSchema)]
#[schema(as = ScheduleTimes)]
struct PreviewView {
    /// The times, earliest first.
    times: Vec<TimeView>,
    /// Whether the schedule has more times.
    more: bool,
}

/// A time at which a reminder would fire.
#[derive(Serialize, ToSchema)]
#[schema(as = ScheduleTime)]
struct TimeView {
    /// The time in UTC.
    #[schema(value_type = String, format = "date-time")]
    at: Moment,
    /// The local time in the schedule's time zone, with its offset from UTC.
    #[schema(format = "date-time", example = "2030-03-29T02:30:00+01:00")]
    local: String,
    /// The day of the week in the schedule's time zone.
    #[schema(example = "Friday")]
    weekday: String,
}

/// Preview a schedule
///
/// Returns the times at which a reminder with these fields would fire. Nothing is created.
#[utoipa::path(
    post,
    path = "/v1/reminders/preview",
    operation_id = "preview_schedule",
    tag = "reminders",
    request_body = PreviewBody,
    responses((status = 200, description = "The next times", body = PreviewView)),
    security(("api_key" = ["send"]), ("api_key" = ["read"])),
)]
async fn preview(
    State(api): State<Api>,
    _: Allowed<SendOrRead>,
    Json(body): Json<PreviewBody>,
) -> ApiResult<axum::Json<PreviewView>> {
    let PreviewBody { at, every, cron, time_zone, ends_at, max_runs, from, count } = body;
    let count = match count.map(usize::try_from) {
        None => COUNT,
        Some(Ok(count @ 1..=MOST)) => count,
        Some(_) => return Err(Problem::invalid("count", format_args!("must be 1 to {MOST}"))),
    };
    let now = from.map_or_else(|| api.wall(), |from| from.0.0);
    let schedule = TimesChange { at, every, cron, time_zone, ends_at, max_runs }.fresh().schedule(now)?;
    let (catch_up, when_failed) = (CatchUp::All, WhenFailed::Stop);
    let standing = Progress { schedule, catch_up, when_failed, runs: 0, last: None };
    let mut times = standing.upcoming(now, count + 1);
    let more = times.len() > count;
    times.truncate(count);
    let shown = |at| {
        let local = standing.schedule.local(at);
        TimeView {
            at: Moment(at),
            local: local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            weekday: local.strftime("%A").to_string(),
        }
    };
    Ok(axum::Json(PreviewView { times: times.into_iter().map(shown).collect(), more }))
}
