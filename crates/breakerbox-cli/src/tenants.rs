//! `breakerbox tenants`.

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::{Field, body};
use super::limit::Limit;
use super::output::{Column, Output};
use super::policies::{self, Changes};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/name"),
    ("ENABLED", "/enabled"),
    ("CIRCUIT BY", "/circuit_by"),
    ("BACKLOG LIMIT", "/backlog/count"),
    ("CREATED", "/created_at"),
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
    /// List tenants by name
    List {
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a tenant
    Show { id: String },
    /// Create a tenant
    Create {
        id: String,
        /// What the API takes, such as name=Acme or backlog='{"count":1000,"bytes":1000000}'
        #[arg(value_name = "FIELD=VALUE")]
        fields: Vec<Field>,
    },
    /// Change a tenant; null means the default again
    Change {
        id: String,
        /// What the API takes, such as enabled=false or retry='["5s","5m"]'
        #[arg(value_name = "FIELD=VALUE", required = true)]
        fields: Vec<Field>,
    },
    /// Send again what is parked because the tenant was disabled
    Enable { id: String },
    /// Send nothing until it is enabled; what comes is parked
    Disable { id: String },
    /// Show which numbers govern the tenant's circuits, and where each is from; or change some
    Policy {
        id: String,
        /// Those of its reminders' circuits
        #[arg(long)]
        reminders: bool,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show the secrets that deliveries to dynamic URLs are signed with
    Secrets { id: String },
    /// Delete a tenant that has neither endpoints nor waiting deliveries
    Delete { id: String },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let ask = match &arguments.action {
        Action::List { limit } => {
            let (items, more) = gateway.pages(&Ask::get(&["tenants"]), *limit)?;
            return output.list(COLUMNS, &items, more);
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
