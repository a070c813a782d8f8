//! `breakerbox events`: lists and shows events.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::{Ask, Gateway};
use super::failure::{Failure, printable};
use super::limit::Limit;
use super::names::{Kind, resolve};
use super::output::{Column, Output, print, print_bytes};
use super::times;

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::tenant(),
    Column::text("TYPE", &["/type"], 10),
    Column::text("PRIORITY", &["/priority"], 9),
    Column::text("BYTES", &["/payload_bytes"], 8),
    Column::text("DELIVERIES", &["/deliveries"], 10),
    Column::time("ACCEPTED", &["/accepted_at"]),
    Column::text("URL", &["/url"], 16).optional(),
];

/// List events, and show them with their payloads.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List events, newest first
    List {
        /// Only events of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Only events of this type
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Only events accepted at this time or later: 1h (an hour ago), 2026-11-18 (UTC) or 2026-11-18T12:00:00Z
        #[arg(long, value_name = "TIME", value_parser = times::past)]
        from: Option<String>,
        /// Only events accepted before this time, in the same forms
        #[arg(long, value_name = "TIME", value_parser = times::past)]
        until: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show an event and its payload
    Show {
        /// ID of the event (evt_...), or the end of it
        #[arg(value_name = "EVENT")]
        id: String,
        /// Print only the payload, byte for byte
        #[arg(long)]
        payload: bool,
    },
}

/// The payload of an event, as the API returns it.
#[derive(Deserialize)]
struct Payload<'b> {
    #[serde(borrow)]
    payload: Option<&'b RawValue>,
    payload_base64: Option<&'b str>,
}

impl Payload<'_> {
    /// Returns the payload byte for byte.
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let odd = |_| Failure::Environment("the gateway's payload is not base64".to_owned());
        match (self.payload, self.payload_base64) {
            (Some(json), _) => Ok(json.get().into()),
            (None, Some(text)) => STANDARD.decode(text).map_err(odd),
            (None, None) => Ok(vec![]),
        }
    }
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    match &arguments.action {
        Action::List { tenant, kind, from, until, limit } => {
            let ask = Ask::get(&["events"])
                .query("tenant", tenant.as_ref())
                .query("type", kind.as_ref())
                .query("from", from.as_ref())
                .query("until", until.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            output.list(COLUMNS, "/id", &items, more)
        }
        Action::Show { id, payload } => {
            let id = resolve(gateway, Kind::Event, id)?;
            let body = gateway.request_bytes(Ask::get(&["events", &id]))?;
            show(gateway, &body, *payload, output)
        }
    }
}

/// Prints an event: its fields, and then its payload as it was submitted.
fn show(gateway: &Gateway, body: &[u8], only_payload: bool, output: Output) -> Result<(), Failure> {
    let mut event = gateway.parsed(body)?;
    let found: Payload<'_> =
        serde_json::from_slice(body).map_err(|_| gateway.odd("the response is not an event"))?;
    let payload = found.bytes()?;
    if only_payload {
        return print_bytes(&payload);
    }
    if output.json || output.quiet {
        return output.show(&event);
    }
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "payload" | "payload_base64"));
    }
    output.show(&event)?;
    match std::str::from_utf8(&payload) {
        Ok(text) => {
            let lines: String =
                text.lines().map(|line| format!("    {}\n", printable(line.chars()))).collect();
            print(&format!("payload:\n{lines}"))
        }
        Err(_) => {
            let bytes = payload.len();
            print(&format!("payload:\n    ({bytes} bytes that are not text; --payload prints them)\n"))
        }
    }
}
