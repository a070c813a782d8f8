//! `breakerbox deliveries`.

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
    ("PARKED", "/parked"),
    ("ATTEMPTS", "/attempts"),
    ("DUE", "/due_at"),
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

/// List and show deliveries and their attempts, cancel and resend them.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    gateway: Gateway,
}

/// Which deliveries. All that is said must hold.
#[derive(Args)]
pub(super) struct Filter {
    /// Only this tenant's
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// Only to this endpoint
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,
    /// Only of this event
    #[arg(long, value_name = "ID")]
    event: Option<String>,
    /// Only of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only in this state: pending, in_flight, retrying, delivered, failed or cancelled
    #[arg(long)]
    state: Option<String>,
    /// Created then or later, such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Created before then
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
    /// List deliveries, the newest first
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show a delivery
    Show { id: String },
    /// List the attempts of a delivery, the newest first
    Attempts {
        id: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Cancel a delivery that waits
    Cancel { id: String },
    /// Make a finished delivery pending again
    Resend { id: String },
    /// Make all failed deliveries pending again for which this holds; a job does it behind live traffic
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

/// Builds the request that starts a job to resend the deliveries of this filter.
pub(super) fn resend(filter: &Filter) -> Result<Ask, Failure> {
    let given = filter.parts().map(|(name, value)| (name, value.map(|value| json!(value))));
    let filter: Value = body(given, []);
    // A resend of everything that ever failed is rarely intended.
    if filter.as_object().is_some_and(serde_json::Map::is_empty) {
        let message = "say which: --tenant, --endpoint, --event, --type, --state, --from or --until";
        return Err(Failure::Input(message.into()));
    }
    Ok(Ask::post(&["resends"]).json(&filter))
}
