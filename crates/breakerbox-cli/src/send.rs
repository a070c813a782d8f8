//! `breakerbox send`: submits an event.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_model::objects::{EventType, Priority, TenantId};
use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::output::Output;
use super::payload;
use super::times;

/// Submit an event. When the command returns, the event is stored durably.
///
/// The payload is JSON, from the argument, a file (@order.json) or standard input (-), and is
/// sent byte for byte. With
/// --content-type, it can have any format.
///
///   breakerbox send invoice.paid '{"amount": 1200}'
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Event type, such as invoice.paid
    #[arg(value_name = "TYPE")]
    kind: EventType,

    /// Payload: JSON, @FILE, or - for standard input
    #[arg(default_value = "{}")]
    payload: String,

    /// Tenant of the event. Default: the tenant of the key, or `default`
    #[arg(long, value_name = "ID")]
    tenant: Option<TenantId>,

    /// Priority: high, important, medium or low. Default: medium
    #[arg(long)]
    priority: Option<Priority>,

    /// Send the event to this URL only, not to the tenant's endpoints
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// Idempotency key: the event is accepted once, however often it is submitted with this key within 24 hours
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,

    /// Earliest time of delivery: 5m (from now), 2030-01-31 (UTC) or 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    not_before: Option<String>,

    /// Time until the earliest delivery, such as 5s; the same as --not-before with a duration
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "not_before", value_parser = times::from_now)]
    within: Option<String>,

    /// Maximum time that deliveries wait before they expire, such as 72h
    #[arg(long, value_name = "DURATION", value_parser = crate::times::duration)]
    expires_after: Option<Duration>,

    /// Content type of a payload that is not JSON, such as text/plain
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_after: Option<String>,
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let payload = payload::read(&arguments.payload)?;
    let json = match &arguments.content_type {
        Some(_) => None,
        None => Some(payload::json(&payload)?),
    };
    let body = Body {
        r#type: arguments.kind.as_str(),
        tenant: arguments.tenant.as_ref().map(TenantId::as_str),
        payload_base64: json.is_none().then(|| STANDARD.encode(&payload)),
        payload: json,
        content_type: arguments.content_type.as_deref(),
        priority: arguments.priority.map(Priority::name),
        url: arguments.to.as_deref(),
        not_before: arguments.not_before.as_deref().or(arguments.within.as_deref()),
        expires_after: arguments.expires_after.map(breakerbox_core::format_duration),
    };
    let body = serde_json::to_vec(&body).map_err(|error| Failure::Input(error.to_string()))?;
    let ask =
        Ask::post(&["events"]).header("idempotency-key", arguments.idempotency_key.clone()).body(body.into());
    let accepted = arguments.gateway.request(ask)?;
    output.show(&accepted)?;
    if accepted["deliveries"] == 0 {
        output.hint(
            "no endpoint receives events of this type; `breakerbox endpoints list` shows the types of each",
        );
    }
    Ok(())
}
