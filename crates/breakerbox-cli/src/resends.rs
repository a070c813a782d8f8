//! `breakerbox resends`: jobs that make finished deliveries pending again; live traffic goes first.

use clap::{Args, Subcommand};

use super::client::{Ask, Gateway};
use super::deliveries::{RESENDABLE, resend};
use super::delivery_filter::Filter;
use super::failure::Failure;
use super::limit::Limit;
use super::names::{Kind, resolve};
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::text("STATE", &["/state"], 9),
    Column::text("TENANT", &["/filter/tenant"], 6),
    Column::text("RESENT", &["/resent"], 7),
    Column::text("SKIPPED", &["/skipped"], 7),
    Column::time("PROCESSED UNTIL", &["/processed_until"]),
    Column::time("CREATED", &["/created_at"]),
    Column::time("FINISHED", &["/finished_at"]),
];

/// List, show, start and cancel jobs that resend many deliveries.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List resend jobs, newest first
    List {
        /// Only jobs of this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a resend job and its progress
    Show {
        /// ID of the job (job_...), or the end of it
        id: String,
    },
    /// Resend all deliveries that match the filter (by default, failed ones)
    #[command(mut_arg("state", |state| state.help(RESENDABLE)))]
    Start {
        #[command(flatten)]
        filter: Filter,
    },
    /// Cancel a resend job; deliveries that it has already made pending stay pending
    Cancel {
        /// ID of the job (job_...), or the end of it
        id: String,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let ask = match &arguments.action {
        Action::List { tenant, limit } => {
            let ask = Ask::get(&["resends"]).query("tenant", tenant.as_ref());
            let (items, more) = gateway.pages(&ask, *limit)?;
            return output.list(COLUMNS, "/id", &items, more);
        }
        Action::Show { id } => Ask::get(&["resends", &resolve(gateway, Kind::Job, id)?]),
        Action::Start { filter } => resend(gateway, filter)?,
        Action::Cancel { id } => Ask::post(&["resends", &resolve(gateway, Kind::Job, id)?, "cancel"]),
    };
    output.show(&gateway.request(ask)?)
}
