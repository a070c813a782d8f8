//! `breakerbox lanes`: lists lanes and what their deliveries wait for.

use clap::{Args, Subcommand};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::limit::Limit;
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::tenant(),
    Column::text("WAITING", &["/waiting"], 7),
    Column::text("IN FLIGHT", &["/in_flight"], 9),
    Column::text("WAITS FOR", &["/waits_for"], 15),
    Column::time("UNTIL", &["/waits_until"]),
    Column::text("CIRCUIT", &["/circuit/state"], 9),
    Column::id("ENDPOINT", &["/endpoint"]).extra(),
    Column::text("KEY", &["/circuit/key"], 25),
];

/// List lanes, and what their deliveries wait for.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List the lanes with unfinished deliveries, newest first
    List {
        /// Only lanes of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let Action::List { tenant, limit } = &arguments.action;
    let ask = Ask::get(&["lanes"]).query("tenant", tenant.as_ref());
    let (items, more) = arguments.gateway.pages(&ask, *limit)?;
    output.list(COLUMNS, "/id", &items, more)
}
