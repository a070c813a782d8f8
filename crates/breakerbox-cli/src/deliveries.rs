//! `breakerbox deliveries`: lists, shows, cancels and resends deliveries.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::fields::body;
use super::limit::Limit;
use super::output::{Column, Output};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("TENANT", "/tenant"),
    ("TYPE", "/type"),
    ("STATE", "/state"),
    ("REASON", "/reason"),
    ("WAITS FOR", "/waits_for"),
    ("UNTIL", "/waits_until"),
    ("ATTEMPTS", "/attempts"),
    ("ENDPOINT", "/endpoint"),
    ("CREATED", "/created_at"),
];

const ATTEMPTS: &[Column] = &[
    ("STARTED", "/started_at"),
    ("STATUS", "/status"),
    ("FAULT", "/fault"),
    ("LATENCY MS", "/latency_ms"),
    ("PROBE", "/probe"),
    ("DETAIL", "/detail"),
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
    /// Only deliveries to this endpoint
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,
    /// Only deliveries of this event
    #[arg(long, value_name = "ID")]
    event: Option<String>,
    /// Only deliveries of this event type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only deliveries in this state: pending, in_flight, retrying, delivered, failed or cancelled
    #[arg(long)]
    state: Option<String>,
    /// Only deliveries created at this time or later, such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only deliveries created before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Filter {
    fn parts(&self) -> [(&'static str, Option<&String>); 7] {
        [
            ("tenant", self.tenant.as_ref()),
            ("endpoint", self.endpoint.as_ref()),
            ("event", self.event.as_ref()),
            ("type", self.kind.as_ref()),
            ("state", self.state.as_ref()),
            ("from", self.from.as_ref()),
            ("until", self.until.as_ref()),
        ]
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
    /// Show a delivery
    Show {
        /// ID of the delivery (dlv_...)
        id: String,
    },
    /// List a delivery's attempts, newest first
    Attempts {
        /// ID of the delivery (dlv_...)
        id: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Cancel a pending or retrying delivery
    Cancel {
        /// ID of the delivery (dlv_...)
        id: String,
    },
    /// Resend a finished delivery, which becomes pending again
    Resend {
        /// ID of the delivery (dlv_...)
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
    let ask = match &arguments.action {
        Action::List { filter, limit } => {
            let ask = filter
                .parts()
                .into_iter()
                .fold(Ask::get(&["deliveries"]), |ask, (name, value)| ask.query(name, value));
            let (items, more) = gateway.pages(&ask, *limit)?;
            return output.list(COLUMNS, &items, more);
        }
        Action::Attempts { id, limit } => {
            let (items, more) = gateway.pages(&Ask::get(&["deliveries", id, "attempts"]), *limit)?;
            return output.list(ATTEMPTS, &items, more);
        }
        Action::Show { id } => Ask::get(&["deliveries", id]),
        Action::Cancel { id } => Ask::post(&["deliveries", id, "cancel"]),
        Action::Resend { id } => Ask::post(&["deliveries", id, "resend"]),
        Action::ResendAll { filter } => resend(filter)?,
    };
    output.show(&gateway.request(ask)?)
}

/// Builds the request that starts a resend job with this filter.
pub(super) fn resend(filter: &Filter) -> Result<Ask, Failure> {
    let given = filter.parts().map(|(name, value)| (name, value.map(|value| json!(value))));
    let filter: Value = body(given, []);
    // Resending everything that ever failed is rarely intended.
    if filter.as_object().is_some_and(serde_json::Map::is_empty) {
        let message =
            "a filter is missing; use --tenant, --endpoint, --event, --type, --state, --from or --until";
        return Err(Failure::Input(message.into()));
    }
    Ok(Ask::post(&["resends"]).json(&filter))
}
