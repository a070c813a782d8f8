//! `breakerbox reminders`.

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
use super::output::{Column, Output};
use super::payload;

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("TENANT", "/tenant"),
    ("STATE", "/state"),
    ("WHY", "/stopped_because"),
    ("RUNS", "/runs"),
    ("NEXT", "/next_at"),
    ("EVERY", "/every"),
    ("CRON", "/cron"),
    ("REFERENCE", "/reference"),
    ("URL", "/url"),
];

const RUNS: &[Column] = &[
    ("DELIVERY", "/delivery"),
    ("RUN", "/number"),
    ("SCHEDULED", "/scheduled_at"),
    ("SKIPPED", "/skipped"),
    ("STATE", "/state"),
    ("REASON", "/reason"),
    ("PARKED", "/parked"),
    ("ATTEMPTS", "/attempts"),
    ("SENT", "/sent_at"),
    ("FINISHED", "/finished_at"),
];

const TIMES: &[Column] = &[("AT", "/at"), ("LOCAL", "/local"), ("WEEKDAY", "/weekday")];

/// List, show, create, change, pause, resume, run and cancel reminders.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

/// When.
#[derive(Args)]
struct Times {
    /// When it is due, such as 2030-01-31T09:00:00+01:00; with --every the first time, with --cron not before
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// It repeats after so long, such as 24h
    #[arg(long, value_name = "DURATION", conflicts_with = "cron")]
    every: Option<String>,
    /// It repeats at these local times: minute, hour, day, month, weekday, such as '0 9 * * MON-FRI'
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Whose clock --cron goes by, such as Europe/Berlin; UTC if nothing is said
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Nothing is due after this
    #[arg(long, value_name = "TIME")]
    ends_at: Option<String>,
    /// So many runs at the most
    #[arg(long, value_name = "N")]
    max_runs: Option<u32>,
}

impl Times {
    fn parts(&self) -> [(&'static str, Option<Value>); 6] {
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        [
            ("at", text(&self.at)),
            ("every", text(&self.every)),
            ("cron", text(&self.cron)),
            ("time_zone", text(&self.time_zone)),
            ("ends_at", text(&self.ends_at)),
            ("max_runs", self.max_runs.map(|most| json!(most))),
        ]
    }
}

/// What is sent, and how.
#[derive(Args)]
struct Sent {
    /// The payload: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// The payload is in this file
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    payload_file: Option<String>,
    /// The payload is this, and not JSON
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// high, important, medium or low
    #[arg(long)]
    priority: Option<String>,
    /// Of what was missed, all or latest
    #[arg(long, value_name = "WHAT")]
    catch_up: Option<String>,
    /// Your own name for it, unique within the tenant
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
    /// Give a run up if it has waited so long, such as 1h
    #[arg(long, value_name = "DURATION")]
    expires_after: Option<String>,
    /// What the API takes, such as max_runs=null
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
    /// List reminders, the newest first
    List {
        /// Only this tenant's
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Only in this state: active, paused, stopped, finished or cancelled
        #[arg(long)]
        state: Option<String>,
        /// Only with this reference
        #[arg(long, value_name = "NAME")]
        reference: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a reminder, and when it fires next
    Show { id: String },
    /// Create a reminder: --at alone runs once, --every and --cron repeat
    Create {
        /// Who is called
        #[arg(value_name = "DESTINATION")]
        destination: String,
        /// Whose
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        times: Times,
        #[command(flatten)]
        sent: Sent,
    },
    /// Change a reminder; FIELD=null means the default again
    Change {
        id: String,
        /// Who is called
        #[arg(long = "to", value_name = "DESTINATION")]
        destination: Option<String>,
        #[command(flatten)]
        times: Times,
        #[command(flatten)]
        sent: Sent,
    },
    /// Fire nothing until it is resumed; a run that waits is withdrawn
    Pause { id: String },
    /// Go on after a pause or a stop; what was due meanwhile is skipped
    Resume { id: String },
    /// Fire a run now, besides the schedule
    Run { id: String },
    /// Cancel a reminder for good
    Cancel { id: String },
    /// List the runs of a reminder, the newest first
    Runs {
        id: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show when a schedule would fire, and create nothing
    Preview {
        #[command(flatten)]
        times: Times,
        /// As if it were created then
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// How many times, at most 50
        #[arg(long, value_name = "N")]
        count: Option<u32>,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let ask = match &arguments.action {
        Action::List { tenant, state, reference, limit } => {
            let ask =
                Ask::get(&["reminders"]).query("tenant", tenant.as_ref()).query("state", state.as_ref());
            let (items, more) = gateway.pages(&ask.query("reference", reference.as_ref()), *limit)?;
            return output.list(COLUMNS, &items, more);
        }
        Action::Runs { id, limit } => {
            let (items, more) = gateway.pages(&Ask::get(&["reminders", id, "runs"]), *limit)?;
            return output.list(RUNS, &items, more);
        }
        Action::Preview { times, from, count } => {
            let more =
                [("from", from.as_ref().map(|from| json!(from))), ("count", count.map(|count| json!(count)))];
            let given = times.parts().into_iter().chain(more);
            let answer = gateway.request(Ask::post(&["reminders", "preview"]).json(&body(given, [])))?;
            let shown = answer.get("times").and_then(Value::as_array);
            return output.list(TIMES, shown.map_or(&[], Vec::as_slice), false);
        }
        Action::Show { id } => Ask::get(&["reminders", id]),
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
                let message = "say what to change, such as --cron '0 10 * * *' or priority=low";
                return Err(Failure::Input(message.into()));
            }
            Ask::patch(&["reminders", id]).body(written.into())
        }
        Action::Pause { id } => Ask::post(&["reminders", id, "pause"]),
        Action::Resume { id } => Ask::post(&["reminders", id, "resume"]),
        Action::Run { id } => Ask::post(&["reminders", id, "run"]),
        Action::Cancel { id } => Ask::post(&["reminders", id, "cancel"]),
    };
    output.show(&gateway.request(ask)?)
}
