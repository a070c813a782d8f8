//! `breakerbox tenants policy` and `breakerbox endpoints policy`: show the effective values with the origin of each,
//! and change single values.

use breakerbox_core::POLICY_KEYS;
use clap::Args;
use serde_json::{Value, json};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::{Field, body};
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    Column::text("NAME", &["/name"], 25),
    Column::text("VALUE", &["/value"], 12),
    Column::text("DEFAULT", &["/default"], 12),
    Column::text("ORIGIN", &["/origin"], 12),
];

/// The values to change. Without any, the command only shows the policy.
#[derive(Args)]
pub(super) struct Changes {
    /// Set a value, such as failures=20, mean_latency=5s or failure_rate=off
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Field>,
    /// Remove a value set for this tenant or endpoint, so that the inherited value applies
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
}

/// Changes the policy at this API path, if there are changes, and then shows the policy.
pub(super) fn run(
    gateway: &Gateway,
    path: &[&str],
    changes: &Changes,
    output: Output,
) -> Result<(), Failure> {
    let Value::Object(mut change) = body([], &changes.set) else { return Ok(()) };
    for name in &changes.unset {
        if change.insert(name.clone(), Value::Null).is_some() {
            return Err(Failure::Input(format!("{name} can't be both set and unset")));
        }
    }
    let ask = if change.is_empty() { Ask::get(path) } else { Ask::patch(path).json(&Value::Object(change)) };
    let answer = gateway.request(ask)?;
    if output.json {
        return output.show(&answer);
    }
    output.list(COLUMNS, "/name", &rows(&answer), false)?;
    match (&answer["endpoint"], &answer["decided_by"]) {
        (Value::String(_), Value::Null) if !answer["own"].is_null() => {
            let by = answer["circuit_by"].as_str().unwrap_or_default();
            output
                .hint(&format!("the values set here have no effect while the tenant's `circuit_by` is {by}"));
        }
        (Value::String(endpoint), Value::String(other)) if endpoint != other => {
            output.hint(&format!("the older endpoint {other} shares this circuit, so its policy applies"));
        }
        _ => {}
    }
    Ok(())
}

/// Returns a table row for each value, in the order of the policy file.
fn rows(answer: &Value) -> Vec<Value> {
    let row = |name: &&str| {
        let found = answer["policy"].get(name)?;
        Some(
            json!({ "name": name, "value": found["value"], "default": found["default"], "origin": found["origin"] }),
        )
    };
    POLICY_KEYS.iter().filter_map(row).collect()
}
