//! The filter for deliveries, which listing, watching and resending share.

use clap::Args;

use super::client::{Ask, Gateway};
use super::failure::Failure;
use super::names::{Kind, resolve_filter};
use super::times;

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
    pub(super) fn parts(&self, gateway: &Gateway) -> Result<[(&'static str, Option<String>); 7], Failure> {
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
