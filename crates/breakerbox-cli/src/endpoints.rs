//! `breakerbox endpoints`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::{Field, body};
use super::limit::Limit;
use super::output::{Column, Output};
use super::policies::{self, Changes};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("TENANT", "/tenant"),
    ("CIRCUIT", "/circuit/state"),
    ("ENABLED", "/enabled"),
    ("WHY NOT", "/disabled_because"),
    ("TYPES", "/types"),
    ("URL", "/url"),
];

/// List, show, create, change, try out and delete endpoints.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List endpoints, the newest first
    List {
        /// Only this tenant's
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show an endpoint and the state of its circuit
    Show { id: String },
    /// Create an endpoint; the answer has its secret
    Create {
        /// Where its events go
        #[arg(value_name = "DESTINATION")]
        destination: String,
        /// Whose
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Which events it gets, such as invoice.paid or invoice.*; all if nothing is said
        #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
        types: Vec<String>,
        /// What the API takes, such as timeout=5s or max_in_flight=8
        #[arg(value_name = "FIELD=VALUE")]
        fields: Vec<Field>,
    },
    /// Change an endpoint; null means the default again
    Change {
        id: String,
        /// What the API takes, such as timeout=5s or types='["invoice.*"]'
        #[arg(value_name = "FIELD=VALUE", required = true)]
        fields: Vec<Field>,
    },
    /// Send again, whatever it was disabled for; what is parked drains
    Enable { id: String },
    /// Send nothing until it is enabled; what comes is parked
    Disable { id: String },
    /// Show which numbers govern the endpoint's circuit, and where each is from; or change some
    Policy {
        id: String,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show the secrets that its requests are signed with
    Secrets { id: String },
    /// Sign with a new secret, and with the one before for a while
    Rotate { id: String },
    /// Send one request now, whatever the circuit says, and show the answer; exit code 1 unless that is 2xx
    Test { id: String },
    /// Delete an endpoint; what waits for it is cancelled
    Delete { id: String },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let ask = match &arguments.action {
        Action::List { tenant, limit } => {
            let ask = Ask::get(&["endpoints"]).query("tenant", tenant.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            return output.list(COLUMNS, &items, more);
        }
        Action::Show { id } => Ask::get(&["endpoints", id]),
        Action::Create { destination, tenant, types, fields } => {
            let given = [
                ("url", Some(json!(destination))),
                ("tenant", tenant.as_ref().map(|tenant| json!(tenant))),
                ("types", (!types.is_empty()).then(|| json!(types))),
            ];
            Ask::post(&["endpoints"]).json(&body(given, fields))
        }
        Action::Change { id, fields } => Ask::patch(&["endpoints", id]).json(&body([], fields)),
        Action::Enable { id } => Ask::post(&["endpoints", id, "enable"]),
        Action::Disable { id } => Ask::post(&["endpoints", id, "disable"]),
        Action::Policy { id, changes } => {
            return policies::run(gateway, &["endpoints", id, "policy"], changes, output);
        }
        Action::Secrets { id } => Ask::get(&["endpoints", id, "secrets"]),
        Action::Rotate { id } => Ask::post(&["endpoints", id, "secrets", "rotate"]),
        Action::Test { id } => Ask::post(&["endpoints", id, "test"]),
        Action::Delete { id } => Ask::delete(&["endpoints", id]),
    };
    let answer = gateway.request(ask)?;
    output.show(&answer)?;
    if matches!(arguments.action, Action::Create { .. })
        && let Some(secret) = answer.get("secret").and_then(Value::as_str)
    {
        output.hint(&format!("its receiver verifies with this secret: breakerbox listen --secret {secret}"));
    }
    if matches!(arguments.action, Action::Test { .. }) {
        return tested(&answer);
    }
    Ok(())
}

/// Fails unless the endpoint answered the test with 2xx, so that scripts notice it.
fn tested(answer: &Value) -> Result<(), Failure> {
    if answer.get("ok") != Some(&Value::Bool(false)) {
        return Ok(());
    }
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    let why = match answer.get("status").and_then(Value::as_u64) {
        Some(status) => format!("it answered {status}"),
        None => [text("fault"), text("detail")].into_iter().flatten().collect::<Vec<_>>().join(": "),
    };
    Err(Failure::Environment(format!("the endpoint did not take the test request: {why}")))
}
