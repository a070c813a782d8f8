//! `breakerbox circuits`: lists, shows and overrides circuits.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::limit::Limit;
use super::names::resolve_circuit;
use super::output::{Column, Output};
use super::times;
use super::watch::{circuits as watch, interval};

const COLUMNS: &[Column] = &[
    Column::hash("ID", &["/fingerprint"]),
    Column::text("STATE", &["/state"], 9),
    Column::text("MODE", &["/mode/name"], 13).unless("automatic"),
    Column::text("CAUSE", &["/cause"], 16),
    Column::text("TRIPS", &["/trips"], 5),
    Column::time("CHANGED", &["/changed_at"]),
    Column::time("RETRY", &["/retry_at"]).optional(),
    Column::last(),
    Column::text("KEY", &["/key"], 14),
];

const CHANGES: &[Column] = &[
    Column::time("AT", &["/at"]),
    Column::text("FROM", &["/from"], 9),
    Column::text("TO", &["/to"], 9),
    Column::text("CAUSE", &["/cause"], 16),
    Column::text("TRIPS", &["/trips"], 5),
    Column::since("COOL-OFF", "/at", &["/retry_at"]),
    Column::id("ACTOR", &["/actor"]).optional(),
    Column::text("REASON", &["/reason"], 10).optional(),
    Column::text("KEY", &["/key"], 12),
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
    /// Circuit: its ID, key or fingerprint, its destination, or the ID or URL of its endpoint
    #[arg(value_name = "CIRCUIT")]
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
        /// Circuit: its ID, key or fingerprint, its destination, or the ID or URL of its endpoint
        #[arg(value_name = "CIRCUIT")]
        id: String,
    },
    /// List the changes of one circuit or of all circuits, newest first
    History {
        /// Circuit: its ID, key or fingerprint, its destination, or the ID or URL of its endpoint. Default: all circuits
        #[arg(value_name = "CIRCUIT")]
        id: Option<String>,
        /// Only changes of this tenant's circuits
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Only changes to this state: closed, open, half_open or disabled
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Only changes at this time or later: 1h (an hour ago), 2026-11-18 (UTC) or 2026-11-18T12:00:00Z
        #[arg(long, value_name = "TIME", value_parser = times::past)]
        from: Option<String>,
        /// Only changes before this time, in the same forms
        #[arg(long, value_name = "TIME", value_parser = times::past)]
        until: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Print the changes of circuits in the last minute, and then each change as it happens, until Ctrl-C
    Watch {
        /// Circuit: its ID, key or fingerprint, its destination, or the ID or URL of its endpoint. Default: all circuits
        #[arg(value_name = "CIRCUIT")]
        id: Option<String>,
        /// Only circuits of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Begin with the changes since this time: 1h (an hour ago), now, or 2026-11-18T12:00:00Z
        #[arg(long, value_name = "TIME", default_value = "1m", value_parser = times::past)]
        from: String,
        /// Interval between requests to the gateway, at least 200ms
        #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval)]
        every: Duration,
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
            return output.list(COLUMNS, "/id", &items, more);
        }
        Action::History { id, tenant, state, from, until, limit } => {
            let circuit = id.as_ref().map(|id| resolve_circuit(gateway, id)).transpose()?;
            let ask = Ask::get(&["changes"])
                .query("circuit", circuit)
                .query("tenant", tenant.as_ref())
                .query("to", state.as_ref())
                .query("from", from.as_ref())
                .query("until", until.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            return output.list(CHANGES, "/at", &items, more);
        }
        Action::Watch { id, tenant, from, every } => {
            let circuit = id.as_ref().map(|id| resolve_circuit(gateway, id)).transpose()?;
            return watch(gateway, circuit.as_deref(), tenant.as_deref(), from, *every, output);
        }
        Action::Show { id } => {
            let id = resolve_circuit(gateway, id)?;
            return output.show(&gateway.request(Ask::get(&["circuits", &id]))?);
        }
        Action::ForceOpen(circuit) => (circuit, "force_open"),
        Action::ForceClosed(circuit) => (circuit, "force_closed"),
        Action::Disable(circuit) => (circuit, "disable"),
        Action::Enable(circuit) => (circuit, "enable"),
        Action::Release(circuit) => (circuit, "release"),
        Action::Reset(circuit) => (circuit, "reset"),
    };
    let id = resolve_circuit(gateway, &circuit.id)?;
    let ask = Ask::post(&["circuits", &id, action]).json(&json!({ "reason": circuit.reason }));
    output.show(&gateway.request(ask)?)
}
