//! `breakerbox reminders`: manages reminders.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::{Field, body};
use super::limit::Limit;
use super::names::{Kind, resolve};
use super::output::{Column, Output};
use super::payload;
use super::times;

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::tenant(),
    Column::text("STATE", &["/state"], 9),
    Column::text("STOPPED", &["/stopped_reason"], 10).optional(),
    Column::text("RUNS", &["/runs"], 5),
    Column::time("NEXT", &["/next_at"]),
    Column::text("SCHEDULE", &["/cron", "/every"], 12),
    Column::text("REFERENCE", &["/reference"], 9).optional(),
    Column::text("URL", &["/url"], 16),
];

const RUNS: &[Column] = &[
    Column::id("DELIVERY", &["/delivery"]),
    Column::text("RUN", &["/number"], 4),
    Column::time("SCHEDULED", &["/scheduled_at"]),
    Column::text("SKIPPED", &["/skipped"], 7).unless("0"),
    Column::text("STATE", &["/state"], 9),
    Column::text("REASON", &["/reason"], 10).optional(),
    Column::text("PARKED", &["/parked"], 6).unless("no"),
    Column::text("TRIES", &["/attempts"], 5),
    Column::time("SENT", &["/sent_at"]),
    Column::time("FINISHED", &["/finished_at"]),
];

const TIMES: &[Column] = &[
    Column::text("AT", &["/at"], 24),
    Column::text("LOCAL", &["/local"], 29),
    Column::text("WEEKDAY", &["/weekday"], 9),
];

/// List, show, create, change, pause, resume, run and cancel reminders.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

/// The help for `--time-zone` in the command that changes a reminder.
const NEW_TIME_ZONE: &str = "Time zone of the cron expression, such as Europe/Berlin";

/// The help for `--payload` in the command that changes a reminder.
const NEW_PAYLOAD: &str = "New payload: JSON, @FILE, or - for standard input";

/// The help for `--priority` in the command that changes a reminder.
const NEW_PRIORITY: &str = "Priority: high, important, medium or low";

/// The help for `--catch-up` in the command that changes a reminder.
const NEW_CATCH_UP: &str = "Which missed occurrences to catch up on: all or latest";

/// The help for `FIELD=VALUE` in the command that changes a reminder.
const NEW_FIELDS: &str = "API fields, such as max_runs=null; they override the options";

/// The fields that define a reminder's schedule.
#[derive(Args)]
struct Times {
    /// Time of the run: 5m (from now), 2030-01-31 (UTC) or 2030-01-31T09:00:00+01:00; with --every, time of the first
    /// run; with --cron, earliest time of a run
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    at: Option<String>,
    /// Time until the run, such as 5s; the same as --at with a duration
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "at", value_parser = times::from_now)]
    within: Option<String>,
    /// Interval between runs, such as 24h
    #[arg(long, value_name = "DURATION", conflicts_with = "cron", value_parser = times::duration_text)]
    every: Option<String>,
    /// Cron expression, in the time zone of --time-zone: minute, hour, day, month, weekday, such as '0 9 * * MON-FRI'
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Time zone of the cron expression, such as Europe/Berlin. Default: UTC
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Time after which the reminder no longer runs, in the forms of --at
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    ends_at: Option<String>,
    /// Maximum number of runs
    #[arg(long, value_name = "N")]
    max_runs: Option<u32>,
}

impl Times {
    fn parts(&self) -> [(&'static str, Option<Value>); 6] {
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        [
            ("at", text(&self.at).or_else(|| text(&self.within))),
            ("every", text(&self.every)),
            ("cron", text(&self.cron)),
            ("time_zone", text(&self.time_zone)),
            ("ends_at", text(&self.ends_at)),
            ("max_runs", self.max_runs.map(|most| json!(most))),
        ]
    }
}

/// The fields of a reminder other than its schedule.
#[derive(Args)]
struct Sent {
    /// Payload: JSON, @FILE, or - for standard input. Default: {}
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// File with the payload
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    payload_file: Option<String>,
    /// Content type of a payload that is not JSON, such as text/plain
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Priority: high, important, medium or low. Default: medium
    #[arg(long)]
    priority: Option<String>,
    /// Which missed occurrences to catch up on: all or latest. Default: the tenant's setting
    #[arg(long, value_name = "RULE")]
    catch_up: Option<String>,
    /// Your own name for the reminder, unique within the tenant
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
    /// Maximum time that a run waits before it expires, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    expires_after: Option<String>,
    /// API fields, such as priority=low; they override the options
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<Field>,
}

impl Sent {
    fn parts(&self) -> [(&'static str, Option<Value>); 4] {
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        [
            ("priority", text(&self.priority)),
            ("catch_up", text(&self.catch_up)),
            ("reference", text(&self.reference)),
            ("expires_after", text(&self.expires_after)),
        ]
    }

    fn payload(&self) -> Result<Option<Vec<u8>>, Failure> {
        match (&self.payload, &self.payload_file) {
            (Some(argument), _) => payload::read(argument).map(Some),
            (None, Some(path)) => payload::file(path).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// A request body whose payload is sent byte for byte.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    fields: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
}

impl Body<'_> {
    fn written(
        given: Vec<(&'static str, Option<Value>)>,
        sent: &Sent,
        payload: Option<&[u8]>,
    ) -> Result<Vec<u8>, Failure> {
        let fields = body(given.into_iter().chain(sent.parts()), &sent.fields);
        let json = match (payload, &sent.content_type) {
            (Some(payload), None) => Some(payload::json(payload)?),
            _ => None,
        };
        let raw = payload.filter(|_| json.is_none()).map(|payload| STANDARD.encode(payload));
        let content_type = sent.content_type.as_deref();
        let body = Body { fields: &fields, payload: json, payload_base64: raw, content_type };
        serde_json::to_vec(&body).map_err(|error| Failure::Input(error.to_string()))
    }
}

#[derive(Subcommand)]
enum Action {
    /// List reminders, newest first
    List {
        /// Only reminders of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Only reminders in this state: active, paused, stopped, finished or cancelled
        #[arg(long)]
        state: Option<String>,
        /// Only the reminder with this reference
        #[arg(long, value_name = "NAME")]
        reference: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a reminder and its next run
    Show {
        /// Reminder: its ID (rem_...), the end of its ID, or its reference
        #[arg(value_name = "REMINDER")]
        id: String,
    },
    /// Create a reminder: once (--at or --in), at an interval (--every) or by a cron expression (--cron)
    Create {
        /// URL to call
        #[arg(value_name = "DESTINATION")]
        destination: String,
        /// Tenant of the reminder. Default: the tenant of the key, or `default`
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        times: Times,
        #[command(flatten)]
        sent: Sent,
    },
    /// Change a reminder; FIELD=null restores the default
    #[command(mut_arg("time_zone", |zone| zone.help(NEW_TIME_ZONE)))]
    #[command(mut_arg("payload", |payload| payload.help(NEW_PAYLOAD)))]
    #[command(mut_arg("priority", |priority| priority.help(NEW_PRIORITY)))]
    #[command(mut_arg("catch_up", |catch_up| catch_up.help(NEW_CATCH_UP)))]
    #[command(mut_arg("fields", |fields| fields.help(NEW_FIELDS)))]
    Change {
        /// Reminder: its ID (rem_...), the end of its ID, or its reference
        #[arg(value_name = "REMINDER")]
        id: String,
        /// New URL to call
        #[arg(long = "to", value_name = "DESTINATION")]
        destination: Option<String>,
        #[command(flatten)]
        times: Times,
        #[command(flatten)]
        sent: Sent,
    },
    /// Pause a reminder until it is resumed; a waiting run is withdrawn
    Pause {
        /// Reminder: its ID (rem_...), the end of its ID, or its reference
        #[arg(value_name = "REMINDER")]
        id: String,
    },
    /// Resume a paused or stopped reminder; occurrences during the pause are skipped
    Resume {
        /// Reminder: its ID (rem_...), the end of its ID, or its reference
        #[arg(value_name = "REMINDER")]
        id: String,
    },
    /// Start a run now, in addition to the schedule
    Run {
        /// Reminder: its ID (rem_...), the end of its ID, or its reference
        #[arg(value_name = "REMINDER")]
        id: String,
    },
    /// Cancel a reminder permanently
    Cancel {
        /// Reminder: its ID (rem_...), the end of its ID, or its reference
        #[arg(value_name = "REMINDER")]
        id: String,
    },
    /// List a reminder's runs, newest first
    Runs {
        /// Reminder: its ID (rem_...), the end of its ID, or its reference
        #[arg(value_name = "REMINDER")]
        id: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show when a schedule would run, without creating a reminder
    Preview {
        #[command(flatten)]
        times: Times,
        /// Assumed time of creation, in the forms of --at. Default: now
        #[arg(long, value_name = "TIME", value_parser = times::future)]
        from: Option<String>,
        /// Number of runs to show, at most 50. Default: 10
        #[arg(long, value_name = "N")]
        count: Option<u32>,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let named = |name: &str| resolve(gateway, Kind::Reminder, name);
    let ask = match &arguments.action {
        Action::List { tenant, state, reference, limit } => {
            let ask =
                Ask::get(&["reminders"]).query("tenant", tenant.as_ref()).query("state", state.as_ref());
            let (items, more) = gateway.pages(&ask.query("reference", reference.as_ref()), *limit)?;
            return output.list(COLUMNS, "/id", &items, more);
        }
        Action::Runs { id, limit } => {
            let (items, more) = gateway.pages(&Ask::get(&["reminders", &named(id)?, "runs"]), *limit)?;
            return output.list(RUNS, "/delivery", &items, more);
        }
        Action::Preview { times, from, count } => {
            let more =
                [("from", from.as_ref().map(|from| json!(from))), ("count", count.map(|count| json!(count)))];
            let given = times.parts().into_iter().chain(more);
            let answer = gateway.request(Ask::post(&["reminders", "preview"]).json(&body(given, [])))?;
            let shown = answer.get("times").and_then(Value::as_array);
            return output.list(TIMES, "/at", shown.map_or(&[], Vec::as_slice), false);
        }
        Action::Show { id } => Ask::get(&["reminders", &named(id)?]),
        Action::Create { destination, tenant, times, sent } => {
            let mut given = vec![
                ("url", Some(json!(destination))),
                ("tenant", tenant.as_ref().map(|tenant| json!(tenant))),
            ];
            given.extend(times.parts());
            let payload = sent.payload()?.unwrap_or_else(|| b"{}".to_vec());
            Ask::post(&["reminders"]).body(Body::written(given, sent, Some(&payload))?.into())
        }
        Action::Change { id, destination, times, sent } => {
            let mut given = vec![("url", destination.as_ref().map(|url| json!(url)))];
            given.extend(times.parts());
            let payload = sent.payload()?;
            let written = Body::written(given, sent, payload.as_deref())?;
            if written == b"{}" {
                let message = "nothing to change; pass an option such as --cron '0 10 * * *', or a field such as priority=low";
                return Err(Failure::Input(message.into()));
            }
            Ask::patch(&["reminders", &named(id)?]).body(written.into())
        }
        Action::Pause { id } => Ask::post(&["reminders", &named(id)?, "pause"]),
        Action::Resume { id } => Ask::post(&["reminders", &named(id)?, "resume"]),
        Action::Run { id } => Ask::post(&["reminders", &named(id)?, "run"]),
        Action::Cancel { id } => Ask::post(&["reminders", &named(id)?, "cancel"]),
    };
    output.show(&gateway.request(ask)?)
}
