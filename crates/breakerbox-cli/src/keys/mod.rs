//! `breakerbox keys`: manages API keys, through the API or in a stopped gateway's data directory.

mod offline;

use std::path::PathBuf;
use std::time::Duration;

use breakerbox::{Clock, SystemClock};
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Scope, TenantId};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::body;
use super::limit::Limit;
use super::names::{Kind, resolve};
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::text("NAME", &["/name"], 16),
    Column::text("SCOPES", &["/scopes"], 10),
    Column::text("TENANT", &["/tenant"], 6),
    Column::time("CREATED", &["/created_at"]),
    Column::time("EXPIRES", &["/expires_at"]),
    Column::time("REVOKED", &["/revoked_at"]),
];

/// Create, list and revoke API keys.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,

    /// Use this data directory instead of the API; needs no API key, and the gateway must be stopped
    #[arg(long, value_name = "DIRECTORY", global = true)]
    data: Option<PathBuf>,

    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// Create a key. The key is shown only once, because the gateway stores only its hash
    Create(New),
    /// List keys, newest first
    List {
        /// Only keys of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<TenantId>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Revoke a key; requests with the key are rejected immediately
    Revoke {
        /// ID of the key (key_...), the end of it, or the name of the key; not the key itself
        id: String,
    },
}

#[derive(Args)]
pub(super) struct New {
    /// Description of the key, such as its owner and purpose
    #[arg(long)]
    name: String,
    /// Scope of the key: admin, manage, read or send; repeat for several. manage includes read, admin includes all
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true, value_parser = scope)]
    scopes: Vec<Scope>,
    /// Bind the key to this tenant. Default: all tenants
    #[arg(long, value_name = "ID")]
    tenant: Option<TenantId>,
    /// Lifetime of the key, such as 90d. Default: it never expires
    #[arg(long, value_name = "DURATION", value_parser = crate::times::duration)]
    expires_after: Option<Duration>,
}

fn scope(text: &str) -> Result<Scope, String> {
    let found = Scope::ALL.into_iter().find(|scope| scope.name() == text);
    found.ok_or_else(|| "must be admin, manage, read or send".into())
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    if let Some(data) = &arguments.data {
        return offline::run(data, &arguments.action, output);
    }
    let gateway = &arguments.gateway;
    match &arguments.action {
        Action::Create(new) => {
            let names: Vec<_> = new.scopes.iter().map(|scope| scope.name()).collect();
            let given = [
                ("name", Some(json!(new.name))),
                ("scopes", Some(json!(names))),
                ("tenant", new.tenant.as_ref().map(|tenant| json!(tenant.as_str()))),
                ("expires_at", new.expires_at().map(|moment| json!(written(moment)))),
            ];
            created_once(&gateway.request(Ask::post(&["keys"]).json(&body(given, [])))?, output)
        }
        Action::List { tenant, limit } => {
            let ask = Ask::get(&["keys"]).query("tenant", tenant.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            output.list(COLUMNS, "/id", &items, more)
        }
        Action::Revoke { id } => {
            let id = resolve(gateway, Kind::ApiKey, id)?;
            output.show(&gateway.request(Ask::post(&["keys", &id, "revoke"]))?)
        }
    }
}

impl New {
    fn expires_at(&self) -> Option<Timestamp> {
        self.expires_after.map(|span| SystemClock.now() + span)
    }
}

/// Formats a time as the API does.
fn written(moment: Timestamp) -> String {
    let millis = i64::try_from(moment.as_micros() / 1_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn created_once(created: &Value, output: Output) -> Result<(), Failure> {
    output.name(created, "/key")?;
    output.hint("the key is shown only once; store it safely");
    Ok(())
}
