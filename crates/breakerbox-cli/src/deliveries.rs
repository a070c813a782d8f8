//! `breakerbox deliveries`: lists, shows, cancels and resends deliveries.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::body;
use super::limit::Limit;
use super::names::{Kind, resolve, resolve_filter};
use super::output::{Column, Output};
use super::times;
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

/// A filter for deliveries. A delivery must match all given conditions.
#[derive(Args)]
pub(super) struct Filter {
    /// Only deliveries of this tenant
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// Only deliveries to this endpoint: its ID, the end of its ID, its URL or its description
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Only deliveries of this event: its ID, or the end of it
    #[arg(long, value_name = "ID")]
    event: Option<String>,
    /// Only deliveries of this event type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only deliveries in this state: pending, in_flight, retrying, delivered, failed or cancelled
    #[arg(long)]
    state: Option<String>,
    /// Only deliveries created at this time or later: 1h (an hour ago), 2026-11-18 (UTC) or 2026-11-18T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    from: Option<String>,
    /// Only deliveries created before this time, in the same forms
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    until: Option<String>,
}

impl Filter {
    /// Returns the fields of the filter, with names resolved to ids.
    fn parts(&self, gateway: &Gateway) -> Result<[(&'static str, Option<String>); 7], Failure> {
        Ok([
            ("tenant", self.tenant.clone()),
            ("endpoint", resolve_filter(gateway, Kind::Endpoint, self.endpoint.as_ref())?),
            ("event", resolve_filter(gateway, Kind::Event, self.event.as_ref())?),
            ("type", self.kind.clone()),
            ("state", self.state.clone()),
            ("from", self.from.clone()),
            ("until", self.until.clone()),
        ])
    }

    /// Returns whether the filter has a beginning (`--from`).
    pub(super) const fn has_beginning(&self) -> bool {
        self.from.is_some()
    }

    /// Builds the request that lists the deliveries.
    pub(super) fn listing(&self, gateway: &Gateway) -> Result<Ask, Failure> {
        let parts = self.parts(gateway)?.into_iter();
        Ok(parts.fold(Ask::get(&["deliveries"]), |ask, (name, value)| ask.query(name, value)))
    }
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
