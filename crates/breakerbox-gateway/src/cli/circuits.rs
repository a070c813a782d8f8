//! `breakerbox circuits`.

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::body;
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("TRIPS", "/trips"),
    ("RETRY AT", "/retry_at"),
    ("CHANGED", "/changed_at"),
    ("KEY", "/key"),
];

const CHANGES: &[Column] = &[
    ("AT", "/at"),
    ("FROM", "/from"),
    ("TO", "/to"),
    ("CAUSE", "/cause"),
    ("RULE", "/rule"),
    ("RETRY AT", "/retry_at"),
    ("ACTOR", "/actor"),
    ("REASON", "/reason"),
];

/// List and show circuits and what happened to them, and override them.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

/// Which circuit, and why.
#[derive(Args)]
struct Override {
    /// The circuit's id
    id: String,
    /// Why, for whoever looks at it later
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Subcommand)]
enum Action {
    /// List circuits
    List {
        /// Only in this state: closed, open, half_open or disabled
        #[arg(long)]
        state: Option<String>,
        /// Only this tenant's
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Show a circuit
    Show { id: String },
    /// List what happened to a circuit, the newest first
    History {
        id: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Refuse all calls until it is released
    ForceOpen(Override),
    /// Admit all calls until it is released
    ForceClosed(Override),
    /// Refuse all calls until it is enabled
    Disable(Override),
    /// Enable it: the next call probes, and earlier trips are forgotten
    Enable(Override),
    /// End an override: the next call probes
    Release(Override),
    /// Close it, and forget its trips
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
        Action::History { id, limit } => {
            let (items, more) = gateway.pages(&Ask::get(&["circuits", id, "history"]), *limit)?;
            return output.list(CHANGES, &items, more);
        }
        Action::Show { id } => return output.show(&gateway.ask(Ask::get(&["circuits", id]))?),
        Action::ForceOpen(circuit) => (circuit, "force-open"),
        Action::ForceClosed(circuit) => (circuit, "force-closed"),
        Action::Disable(circuit) => (circuit, "disable"),
        Action::Enable(circuit) => (circuit, "enable"),
        Action::Release(circuit) => (circuit, "release"),
        Action::Reset(circuit) => (circuit, "reset"),
    };
    let reason = circuit.reason.as_ref().map(|reason| json!(reason));
    let ask = Ask::post(&["circuits", &circuit.id, action]).json(&body([("reason", reason)], []));
    output.show(&gateway.ask(ask)?)
}
