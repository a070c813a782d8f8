//! `breakerbox notices`: what people were told, and whether a tenant's targets take it.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("AT", "/at"),
    ("KIND", "/kind"),
    ("TENANT", "/tenant"),
    ("STATE", "/sends/0/state"),
    ("TITLE", "/title"),
];

const TESTED: &[Column] = &[("TARGET", "/target"), ("OK", "/ok"), ("ANSWER", "/answer"), ("TO", "/to")];

const SECRETS: &[Column] = &[("TARGET", "/target"), ("SECRET", "/secret")];

/// List what people were told, and try where it goes.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List notices, the newest first
    List {
        /// Only this tenant's
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Only of this kind, such as trip or disabled
        #[arg(long)]
        kind: Option<String>,
        /// Only those that are so at a target: waiting, sent, given_up or dropped
        #[arg(long)]
        state: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Send a test notice to each target of a tenant
    Test { tenant: String },
    /// Show what notices to a tenant's webhooks are signed with
    Secrets { tenant: String },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    match &arguments.action {
        Action::List { tenant, kind, state, limit } => {
            let ask = Ask::get(&["notices"])
                .query("tenant", tenant.as_ref())
                .query("kind", kind.as_ref())
                .query("state", state.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            output.list(COLUMNS, &items, more)
        }
        Action::Test { tenant } => {
            let tested = gateway.ask(Ask::post(&["tenants", tenant, "notices", "test"]))?;
            output.list(TESTED, &items(&tested, "/targets"), false)
        }
        Action::Secrets { tenant } => {
            let shown = gateway.ask(Ask::get(&["tenants", tenant, "notices", "secrets"]))?;
            output.list(SECRETS, &items(&shown, "/secrets"), false)
        }
    }
}

fn items(answer: &Value, pointer: &str) -> Vec<Value> {
    answer.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
}
