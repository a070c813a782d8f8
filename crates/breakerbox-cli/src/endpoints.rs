//! `breakerbox endpoints`: manages and tests endpoints.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::{Field, body};
use super::limit::Limit;
use super::names::{Kind, resolve};
use super::output::{Column, Output};
use super::policies::{self, Changes};

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::tenant(),
    Column::text("CIRCUIT", &["/circuit/state"], 9),
    Column::text("DISABLED", &["/disabled_reason"], 8).optional(),
    Column::text("WAITING", &["/waiting"], 7),
    Column::text("WAITS FOR", &["/waits_for"], 11).optional(),
    Column::time("UNTIL", &["/waits_until"]).optional(),
    Column::last(),
    Column::text("TYPES", &["/types"], 5).most(14).optional(),
    Column::text("URL", &["/url"], 16),
];

/// List, show, create, change, test and delete endpoints.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List endpoints, newest first
    List {
        /// Only endpoints of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show an endpoint and the state of its circuit
    Show {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
    },
    /// Create an endpoint, and show its signing secret
    Create {
        /// URL that receives the events
        #[arg(value_name = "DESTINATION")]
        destination: String,
        /// Tenant of the endpoint. Default: the tenant of the key, or `default`
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Event types to receive, such as invoice.paid or invoice.*. Default: all
        #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
        types: Vec<String>,
        /// API fields, such as timeout=5s or max_in_flight=8
        #[arg(value_name = "FIELD=VALUE")]
        fields: Vec<Field>,
    },
    /// Change an endpoint; FIELD=null restores the default
    Change {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
        /// API fields, such as timeout=5s or types='["invoice.*"]'
        #[arg(value_name = "FIELD=VALUE", required = true)]
        fields: Vec<Field>,
    },
    /// Enable an endpoint, regardless of what disabled it; its parked deliveries are sent
    Enable {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
    },
    /// Disable an endpoint; its deliveries are parked until it is enabled
    Disable {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
    },
    /// Show the policy of the endpoint's circuit with the origin of each value, or change it
    Policy {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show the signing secrets of an endpoint
    Secrets {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
    },
    /// Create a new signing secret; the previous one stays valid for 24 hours
    Rotate {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
    },
    /// Send a test request now, regardless of the circuit, and show the response; exit code 1 unless it is 2xx
    Test {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
    },
    /// Delete an endpoint, and cancel its pending and retrying deliveries
    Delete {
        /// Endpoint: its ID (ep_...), the end of its ID, its URL or its description
        #[arg(value_name = "ENDPOINT")]
        id: String,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let named = |name: &str| resolve(gateway, Kind::Endpoint, name);
    let ask = match &arguments.action {
        Action::List { tenant, limit } => {
            let ask = Ask::get(&["endpoints"]).query("tenant", tenant.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            return output.list(COLUMNS, "/id", &items, more);
        }
        Action::Show { id } => Ask::get(&["endpoints", &named(id)?]),
        Action::Create { destination, tenant, types, fields } => {
            let given = [
                ("url", Some(json!(destination))),
                ("tenant", tenant.as_ref().map(|tenant| json!(tenant))),
                ("types", (!types.is_empty()).then(|| json!(types))),
            ];
            Ask::post(&["endpoints"]).json(&body(given, fields))
        }
        Action::Change { id, fields } => Ask::patch(&["endpoints", &named(id)?]).json(&body([], fields)),
        Action::Enable { id } => Ask::post(&["endpoints", &named(id)?, "enable"]),
        Action::Disable { id } => Ask::post(&["endpoints", &named(id)?, "disable"]),
        Action::Policy { id, changes } => {
            return policies::run(gateway, &["endpoints", &named(id)?, "policy"], changes, output);
        }
        Action::Secrets { id } => Ask::get(&["endpoints", &named(id)?, "secrets"]),
        Action::Rotate { id } => Ask::post(&["endpoints", &named(id)?, "secrets", "rotate"]),
        Action::Test { id } => Ask::post(&["endpoints", &named(id)?, "test"]),
        Action::Delete { id } => Ask::delete(&["endpoints", &named(id)?]),
    };
    let answer = gateway.request(ask)?;
    let shown = if output.json { answer.clone() } else { with_origins(answer.clone()) };
    output.show(&shown)?;
    if matches!(arguments.action, Action::Create { .. })
        && let Some(secret) = answer.get("secret").and_then(Value::as_str)
    {
        output.hint(&format!(
            "verify requests with this secret, for example: breakerbox listen --secret {secret}"
        ));
    }
    if matches!(arguments.action, Action::Test { .. }) {
        return tested(&answer);
    }
    Ok(())
}

/// Replaces an endpoint's own settings by the effective ones with the origin of each, if the gateway returned them.
fn with_origins(mut endpoint: Value) -> Value {
    if let Some(fields) = endpoint.as_object_mut()
        && let Some(Value::Object(mut effective)) = fields.remove("effective")
    {
        // The value and its origin suffice; `endpoints policy` shows the defaults beside them.
        let policy = effective.get_mut("policy").and_then(Value::as_object_mut);
        for value in policy.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            value.remove("default");
        }
        fields.extend(effective);
    }
    endpoint
}

/// Returns an error unless the response to the test was 2xx, so that scripts can check the exit code.
fn tested(answer: &Value) -> Result<(), Failure> {
    if answer.get("ok") != Some(&Value::Bool(false)) {
        return Ok(());
    }
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    let why = match answer.get("status").and_then(Value::as_u64) {
        Some(status) => format!("it responded with {status}"),
        None => [text("fault"), text("detail")].into_iter().flatten().collect::<Vec<_>>().join(": "),
    };
    Err(Failure::Environment(format!("the test request failed: {why}")))
}
