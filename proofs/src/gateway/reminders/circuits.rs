//! The circuit for a tenant's reminders, as returned by the API.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use breakerbox::Timestamp;
use serde_json::Value;

use crate::gateway::site::Site;

/// Returns the API path of the circuit for a tenant's reminders.
fn place(tenant: &str) -> String {
    format!("/v1/circuits/cir_{}", URL_SAFE_NO_PAD.encode(format!("{tenant}/reminders")))
}

/// Returns the circuit for a tenant's reminders as JSON, with its state, window and policy.
pub(super) fn circuit(site: &Site, tenant: &str) -> Result<Value> {
    Ok(site.api().get(&place(tenant))?)
}

/// Returns the state in a circuit's JSON.
pub(super) fn state(circuit: &Value) -> String {
    circuit.get("state").and_then(Value::as_str).unwrap_or("unknown").to_owned()
}

/// Returns the changes to the circuit for a tenant's reminders, newest first.
pub(super) fn history(site: &Site, tenant: &str) -> Result<Vec<Value>> {
    let answer = site.api().get(&format!("{}/history", place(tenant)))?;
    answer.get("items").and_then(Value::as_array).cloned().context("a listing has items")
}

/// Returns a string field in a circuit change, or an empty string.
pub(super) fn word(change: &Value, name: &str) -> String {
    change.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the time of a circuit change.
pub(super) fn time_of(change: &Value) -> Result<Timestamp> {
    let at: jiff::Timestamp = word(change, "at").parse().with_context(|| format!("no time in {change}"))?;
    Ok(Timestamp::from_micros(u64::try_from(at.as_microsecond())?))
}
