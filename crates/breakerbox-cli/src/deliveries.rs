//! `breakerbox deliveries`: lists, shows, cancels and resends deliveries.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::{Ask, Gateway};
use super::delivery_filter::Filter;
use super::failure::Failure;
use super::fields::body;
use super::limit::Limit;
use super::names::{Kind, resolve};
use super::output::{Column, Output};
use super::watch::{deliveries as watch, interval};

const COLUMNS: &[Column] = &[
    Column::id("ID", &["/id"]),
    Column::tenant(),
    Column::text("TYPE", &["/type"], 10),
    Column::text("STATE", &["/state"], 9),
    Column::text("REASON", &["/waits_for", "/reason"], 15).optional(),
    Column::time("UNTIL", &["/waits_until"]).optional(),
    Column::text("TRIES", &["/attempts"], 5),
    Column::last(),
    Column::id("ENDPOINT", &["/endpoint", "/url"]),
    Column::id("EVENT", &["/event"]).extra(),
    Column::time("CREATED", &["/created_at"]),
];

const ATTEMPTS: &[Column] = &[
    Column::time("STARTED", &["/started_at"]),
    Column::text("STATUS", &["/status"], 6),
    Column::text("FAULT", &["/fault"], 14).optional(),
    Column::text("LATENCY MS", &["/latency_ms"], 10),
    Column::text("PROBE", &["/probe"], 5),
    Column::text("DETAIL", &["/detail", "/response"], 20),
];

/// The help for `--state` in commands that resend.
pub(super) const RESENDABLE: &str =
    "Only deliveries in this state: delivered, failed or cancelled. Default: failed";

/// List, show, cancel and resend deliveries, and list their attempts.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Subcommand)]
enum Action {
    /// List deliveries, newest first
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        limit: Limit,
    },
    /// Print each change of a delivery as it happens, until Ctrl-C
    ///
    /// Watches the newest 500 deliveries that match the filter. Without --from, shows deliveries created from now on,
    /// and unfinished ones.
    Watch {
        #[command(flatten)]
        filter: Filter,
        /// Interval between requests to the gateway, at least 200ms
        #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval)]
        every: Duration,
    },
    /// Show a delivery
    Show {
        /// ID of the delivery (dlv_...), or the end of it
        id: String,
    },
    /// List a delivery's attempts, newest first
    Attempts {
        /// ID of the delivery (dlv_...), or the end of it
        id: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Cancel a pending or retrying delivery
    Cancel {
        /// ID of the delivery (dlv_...), or the end of it
        id: String,
    },
    /// Resend a finished delivery, which becomes pending again
    Resend {
        /// ID of the delivery (dlv_...), or the end of it
        id: String,
    },
    /// Resend all deliveries that match the filter (by default, failed ones), as a background job; live traffic goes
    /// first
    #[command(mut_arg("state", |state| state.help(RESENDABLE)))]
    ResendAll {
        #[command(flatten)]
        filter: Filter,
    },
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<(), Failure> {
    let gateway = &arguments.gateway;
    let named = |name: &str| resolve(gateway, Kind::Delivery, name);
    let ask = match &arguments.action {
        Action::List { filter, limit } => {
            let (items, more) = gateway.pages(&filter.listing(gateway)?, *limit)?;
            return output.list(COLUMNS, "/id", &items, more);
        }
        Action::Attempts { id, limit } => {
            let id = named(id)?;
            let (items, more) = gateway.pages(&Ask::get(&["deliveries", &id, "attempts"]), *limit)?;
            return output.list(ATTEMPTS, "/started_at", &items, more);
        }
        Action::Watch { filter, every } => return watch(gateway, filter, *every, output),
        Action::Show { id } => Ask::get(&["deliveries", &named(id)?]),
        Action::Cancel { id } => Ask::post(&["deliveries", &named(id)?, "cancel"]),
        Action::Resend { id } => Ask::post(&["deliveries", &named(id)?, "resend"]),
        Action::ResendAll { filter } => resend(gateway, filter)?,
    };
    output.show(&gateway.request(ask)?)
}

/// Builds the request that starts a resend job with this filter.
pub(super) fn resend(gateway: &Gateway, filter: &Filter) -> Result<Ask, Failure> {
    let given = filter.parts(gateway)?.map(|(name, value)| (name, value.map(Value::from)));
    let filter: Value = body(given, []);
    // Resending everything that ever failed is rarely intended.
    if filter.as_object().is_some_and(serde_json::Map::is_empty) {
        let message =
            "a filter is missing; use --tenant, --endpoint, --event, --type, --state, --from or --until";
        return Err(Failure::Input(message.into()));
    }
    Ok(Ask::post(&["resends"]).json(&filter))
}
