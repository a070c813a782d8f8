//! `breakerbox circuits`: lists, shows and overrides circuits.

use breakerbox_model::objects::EndpointId;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::limit::Limit;
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("MODE", "/mode/name"),
    ("CAUSE", "/cause"),
    ("TRIPS", "/trips"),
    ("CHANGED", "/changed_at"),
    ("RETRY AT", "/retry_at"),
    ("KEY", "/key"),
];

const CHANGES: &[Column] = &[
    ("AT", "/at"),
    ("FROM", "/from"),
    ("TO", "/to"),
    ("CAUSE", "/cause"),
    ("TRIPS", "/trips"),
    ("RETRY AT", "/retry_at"),
    ("ACTOR", "/actor"),
    ("REASON", "/reason"),
    ("KEY", "/key"),
];

/// List, show and override circuits, and list their history.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

/// The circuit to override, and the reason.
#[derive(Args)]
struct Override {
    /// ID of the circuit (cir_...) or of its endpoint (ep_...)
    id: String,
    /// Reason, shown with the circuit and in its history
    #[arg(long)]
    reason: String,
}

#[derive(Subcommand)]
enum Action {
    /// List circuits
    List {
        /// Only circuits in this state: closed, open, half_open or disabled
        #[arg(long)]
        state: Option<String>,
        /// Only circuits of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a circuit
    Show {
        /// ID of the circuit (cir_...) or of its endpoint (ep_...)
        id: String,
    },
    /// List the changes of one circuit or of all circuits, newest first
    History {
        /// ID of a circuit (cir_...) or of its endpoint (ep_...); default: all circuits
        id: Option<String>,
        /// Only changes of this tenant's circuits
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Only changes to this state: closed, open, half_open or disabled
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Only changes at this time or later, such as 2030-01-31T12:00:00Z
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Only changes before this time
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Refuse all calls until the circuit is released
    ForceOpen(Override),
    /// Admit all calls until the circuit is released
    ForceClosed(Override),
    /// Refuse all calls until the circuit is enabled
    Disable(Override),
    /// Enable a disabled circuit; the next call is a probe, and the trip count is reset to 0
    Enable(Override),
    /// End an override; the next call is a probe, and the trip count is kept
    Release(Override),
    /// Close the circuit, and set its trip count to 0
    Reset(Override),
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let (circuit, action) = match &arguments.action {
        Action::List { state, tenant, limit } => {
            let ask = Ask::get(&["circuits"]).query("state", state.as_ref()).query("tenant", tenant.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            return output.list(COLUMNS, &items, more);
        }
        Action::History { id, tenant, state, from, until, limit } => {
            let circuit = id.as_ref().map(|id| circuit_of(gateway, id)).transpose()?;
            let ask = Ask::get(&["changes"])
                .query("circuit", circuit)
                .query("tenant", tenant.as_ref())
                .query("to", state.as_ref())
                .query("from", from.as_ref())
                .query("until", until.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            return output.list(CHANGES, &items, more);
        }
        Action::Show { id } => {
            let id = circuit_of(gateway, id)?;
            return output.show(&gateway.request(Ask::get(&["circuits", &id]))?);
        }
        Action::ForceOpen(circuit) => (circuit, "force_open"),
        Action::ForceClosed(circuit) => (circuit, "force_closed"),
        Action::Disable(circuit) => (circuit, "disable"),
        Action::Enable(circuit) => (circuit, "enable"),
        Action::Release(circuit) => (circuit, "release"),
        Action::Reset(circuit) => (circuit, "reset"),
    };
    let id = circuit_of(gateway, &circuit.id)?;
    let ask = Ask::post(&["circuits", &id, action]).json(&json!({ "reason": circuit.reason }));
    output.show(&gateway.request(ask)?)
}

/// Returns the circuit's ID. If `id` is an endpoint's, asks the gateway for the endpoint's circuit.
fn circuit_of(gateway: &Gateway, id: &str) -> Result<String, Failure> {
    if !id.starts_with(EndpointId::PREFIX) {
        return Ok(id.into());
    }
    let endpoint = gateway.request(Ask::get(&["endpoints", id]))?;
    let circuit = endpoint.pointer("/circuit/id").and_then(Value::as_str);
    circuit.map(String::from).ok_or_else(|| Failure::Environment(format!("the endpoint {id} has no circuit")))
}
