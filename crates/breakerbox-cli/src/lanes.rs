//! `breakerbox lanes`: lists lanes and what their deliveries wait for.

use clap::{Args, Subcommand};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::limit::Limit;
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("TENANT", "/tenant"),
    ("WAITING", "/waiting"),
    ("IN FLIGHT", "/in_flight"),
    ("WAITS FOR", "/waits_for"),
    ("UNTIL", "/waits_until"),
    ("CIRCUIT", "/circuit/state"),
    ("ENDPOINT", "/endpoint"),
    ("KEY", "/circuit/key"),
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
    output.list(COLUMNS, &items, more)
}
