//! `breakerbox tenants`: manages tenants.

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::{Field, body};
use super::limit::Limit;
use super::output::{Column, Output};
use super::policies::{self, Changes};

const COLUMNS: &[Column] = &[
    Column::text("ID", &["/id"], 16),
    Column::text("NAME", &["/name"], 12),
    Column::text("ENABLED", &["/enabled"], 7),
    Column::text("CIRCUIT BY", &["/circuit_by"], 10),
    Column::text("BACKLOG LIMIT", &["/backlog/count"], 13),
    Column::time("CREATED", &["/created_at"]),
];

/// List, show, create, change and delete tenants.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List tenants, ordered by ID
    List {
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a tenant
    Show {
        /// ID of the tenant
        id: String,
    },
    /// Create a tenant
    Create {
        /// ID of the tenant
        id: String,
        /// API fields, such as name=Acme or backlog='{"count":1000,"bytes":1000000}'
        #[arg(value_name = "FIELD=VALUE")]
        fields: Vec<Field>,
    },
    /// Change a tenant; FIELD=null restores the default
    Change {
        /// ID of the tenant
        id: String,
        /// API fields, such as enabled=false or retry='["5s","5m"]'
        #[arg(value_name = "FIELD=VALUE", required = true)]
        fields: Vec<Field>,
    },
    /// Enable a tenant; its parked deliveries are sent
    Enable {
        /// ID of the tenant
        id: String,
    },
    /// Disable a tenant; its deliveries are parked until it is enabled
    Disable {
        /// ID of the tenant
        id: String,
    },
    /// Show the policy of the tenant's circuits with the origin of each value, or change it
    Policy {
        /// ID of the tenant
        id: String,
        /// Show or change the policy for the tenant's reminders instead
        #[arg(long)]
        reminders: bool,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show the secrets that sign reminders and deliveries to dynamic URLs
    Secrets {
        /// ID of the tenant
        id: String,
    },
    /// Delete a tenant that has no endpoints, reminders or unfinished deliveries
    Delete {
        /// ID of the tenant
        id: String,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let ask = match &arguments.action {
        Action::List { limit } => {
            let (items, more) = gateway.pages(&Ask::get(&["tenants"]), *limit)?;
            return output.list(COLUMNS, "/id", &items, more);
        }
        Action::Show { id } => Ask::get(&["tenants", id]),
        Action::Create { id, fields } => {
            Ask::post(&["tenants"]).json(&body([("id", Some(json!(id)))], fields))
        }
        Action::Change { id, fields } => Ask::patch(&["tenants", id]).json(&body([], fields)),
        Action::Enable { id } => Ask::patch(&["tenants", id]).json(&json!({ "enabled": true })),
        Action::Disable { id } => Ask::patch(&["tenants", id]).json(&json!({ "enabled": false })),
        Action::Policy { id, reminders, changes } => {
            let path = ["tenants", id, "reminders", "policy"];
            let path = if *reminders { &path[..] } else { &["tenants", id, "policy"] };
            return policies::run(gateway, path, changes, output);
        }
        Action::Secrets { id } => Ask::get(&["tenants", id, "secrets"]),
        Action::Delete { id } => Ask::delete(&["tenants", id]),
    };
    output.show(&gateway.request(ask)?)
}
