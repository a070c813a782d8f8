//! `breakerbox notifications`: lists notifications, and tests a tenant's targets.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::limit::Limit;
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::time("AT", &["/at"]),
    Column::text("KIND", &["/kind"], 16),
    Column::tenant(),
    Column::text("STATE", &["/results/0/state"], 8),
    Column::text("TITLE", &["/title"], 30),
];

const TESTED: &[Column] = &[
    Column::id("TARGET", &["/target"]),
    Column::text("OK", &["/ok"], 3),
    Column::text("RESPONSE", &["/response"], 20),
    Column::text("TO", &["/to"], 20),
];

const SECRETS: &[Column] = &[Column::id("TARGET", &["/target"]), Column::text("SECRET", &["/secret"], 94)];

/// List notifications, test a tenant's targets, and show their signing secrets.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List notifications, newest first
    List {
        /// Only notifications of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Only notifications of this type, such as trip or disabled
        #[arg(long)]
        kind: Option<String>,
        /// Only notifications in this state at a target: waiting, sent, given_up or dropped
        #[arg(long)]
        state: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Send a test notification to each target of a tenant; exit code 1 unless all accept it
    Test {
        /// ID of the tenant
        tenant: String,
    },
    /// Show the secrets that sign notifications to a tenant's webhooks
    Secrets {
        /// ID of the tenant
        tenant: String,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    match &arguments.action {
        Action::List { tenant, kind, state, limit } => {
            let ask = Ask::get(&["notifications"])
                .query("tenant", tenant.as_ref())
                .query("kind", kind.as_ref())
                .query("state", state.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            output.list(COLUMNS, "/id", &items, more)
        }
        Action::Test { tenant } => {
            let tested = gateway.request(Ask::post(&["tenants", tenant, "notifications", "test"]))?;
            let targets = items(&tested, "/targets");
            output.list(TESTED, "/target", &targets, false)?;
            let failed = targets.iter().filter(|target| target["ok"] == false).count();
            if failed > 0 {
                let of = targets.len();
                return Err(Failure::Environment(format!(
                    "{failed} of {of} targets did not accept the test notification"
                )));
            }
            Ok(())
        }
        Action::Secrets { tenant } => {
            let shown = gateway.request(Ask::get(&["tenants", tenant, "notifications", "secrets"]))?;
            output.list(SECRETS, "/target", &items(&shown, "/secrets"), false)
        }
    }
}

fn items(answer: &Value, pointer: &str) -> Vec<Value> {
    answer.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
}
