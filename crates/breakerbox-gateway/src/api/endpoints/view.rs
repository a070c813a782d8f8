//! The JSON representation of endpoints and of changes to them.

use std::time::Duration;

use breakerbox_core::{CircuitBy, CircuitStatus, Key, format_duration};
use breakerbox_egress::AddressPolicy;
use breakerbox_model::delivery::{CustomHeaders, RetrySchedule};
use breakerbox_model::objects::{
    DisabledBecause, Endpoint, EndpointSettings, Filter, LastAttempt, Secret, TenantId,
};
use serde::Serialize;
use serde_json::Value;
use url::Url;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::circuits::CircuitOf;
use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::bodies::bodies;
use crate::api::reading::fields::{Change, Moment, Object, Span, Text};
use crate::api::reading::payload::{callable, wrong_url};
use crate::api::tenants::{RateView, checked_name, checked_policy};
use crate::api::waits::{LaneNow, WaitsForView};

/// The maximum length of a description, in characters.
const LONGEST_DESCRIPTION: usize = 500;
/// The maximum number of event types and patterns.
const MOST_TYPES: usize = 100;
/// The maximum value of an endpoint's request timeout.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(300);
/// The maximum value of an endpoint's in-flight limit.
const MOST_IN_FLIGHT: u32 = 10_000;

/// A tenant's registered destination for events.
#[derive(Serialize, ToSchema)]
#[schema(as = Endpoint)]
pub(super) struct EndpointView {
    /// Endpoint ID.
    #[schema(example = "ep_01h5k2m8w4c7e")]
    id: String,
    /// Tenant ID.
    tenant: String,
    /// The URL that receives the events.
    url: String,
    /// A human-readable description.
    description: String,
    /// The event types that the endpoint receives, such as `invoice.paid` or `invoice.*`. An empty list means all.
    types: Vec<String>,
    /// Whether the endpoint is enabled. Deliveries to a disabled endpoint are parked.
    enabled: bool,
    /// The reason why the endpoint is disabled: by its owner, by a 410 response (`gone`), or because its circuit is
    /// disabled; null if it is enabled.
    disabled_reason: Option<BecauseView>,
    /// The circuit that governs deliveries to the endpoint.
    circuit: Option<CircuitOf>,
    /// The number of pending and retrying deliveries.
    waiting: u64,
    /// What the delivery that is sent next waits for, as in a delivery; null if none is waiting.
    #[schema(value_type = Option<WaitsForView>)]
    waits_for: Option<&'static str>,
    /// The time until which it waits; null if only a change ends the wait, or if the time is not known.
    #[schema(value_type = Option<String>, format = "date-time")]
    waits_until: Option<Moment>,
    /// The HTTP status of the latest attempt's response; null if there was no attempt or no response.
    #[schema(example = 503)]
    last_status: Option<u16>,
    /// Why the latest attempt had no response: `timeout`, `dns`, `address_denied`, `connect`, `tls`, `reset` or
    /// `protocol`, a colon and a short description; null if it had one, or if there was no attempt.
    #[schema(example = "connect: connection refused")]
    last_error: Option<String>,
    /// The time at which the latest attempt began; null if there was none.
    #[schema(value_type = Option<String>, format = "date-time")]
    last_attempt_at: Option<Moment>,
    /// The names of the custom headers. Their values are not shown, because they may be secrets.
    header_names: Vec<String>,
    /// The request timeout; null means the gateway's default.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "5s")]
    timeout: Option<String>,
    /// The maximum number of concurrent requests to the endpoint; null means the gateway's default.
    #[schema(minimum = 1, maximum = 10_000)]
    max_in_flight: Option<u32>,
    /// The rate limit for requests to the endpoint; null means no limit.
    rate: Option<RateView>,
    /// The delays between the attempts of a delivery; null means the tenant's.
    #[schema(value_type = Option<Vec<String>>)]
    retry: Option<RetrySchedule>,
    /// Circuit policy values that override the tenant's; null if there are none.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
    /// The maximum time that a delivery waits before it expires; null means the tenant's.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$")]
    expires_after: Option<String>,
    /// The time of creation.
    #[schema(value_type = String, format = "date-time")]
    created_at: Moment,
    /// The time of the last change.
    #[schema(value_type = String, format = "date-time")]
    changed_at: Moment,
}

/// The reason why an endpoint is disabled.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DisabledReason)]
enum BecauseView {
    Owner,
    Gone,
    Circuit,
}

impl EndpointView {
    /// Creates the view of an endpoint. `key` and `status` are of its circuit.
    pub(super) fn new(endpoint: Endpoint, key: Option<&str>, status: CircuitStatus) -> Self {
        let settings = endpoint.settings;
        let because = match endpoint.disabled {
            Some(DisabledBecause::Owner) => Some(BecauseView::Owner),
            Some(DisabledBecause::Gone) => Some(BecauseView::Gone),
            Some(DisabledBecause::Circuit) => Some(BecauseView::Circuit),
            None => (status == CircuitStatus::Disabled).then_some(BecauseView::Circuit),
        };
        Self {
            id: endpoint.id.to_string(),
            tenant: endpoint.tenant.to_string(),
            url: settings.url.into(),
            description: settings.description,
            types: settings.filter.patterns().collect(),
            enabled: because.is_none(),
            disabled_reason: because,
            circuit: key.map(|key| CircuitOf::new(key, status)),
            waiting: 0,
            waits_for: None,
            waits_until: None,
            last_status: None,
            last_error: None,
            last_attempt_at: None,
            header_names: settings.headers.iter().map(|(name, _)| name.to_string()).collect(),
            timeout: settings.timeout.map(format_duration),
            max_in_flight: settings.max_in_flight,
            rate: settings.rate.map(RateView::from),
            retry: settings.retry,
            policy: settings.policy,
            expires_after: settings.expires_after.map(format_duration),
            created_at: Moment(endpoint.created_at),
            changed_at: Moment(endpoint.changed_at),
        }
    }

    /// Adds what the endpoint's deliveries wait for.
    pub(super) fn waiting(self, api: &Api, lane: LaneNow) -> Self {
        Self {
            waiting: lane.waiting,
            waits_for: lane.wait.map(|wait| wait.waits_for.name()),
            waits_until: lane.wait.and_then(|wait| wait.until).map(|at| api.shown(at)),
            ..self
        }
    }

    /// Adds the result of the latest attempt, if there was one.
    pub(super) fn last_attempt(self, last: Option<&LastAttempt>) -> Self {
        Self {
            last_status: last.and_then(|last| last.status),
            last_error: last.and_then(LastAttempt::error),
            last_attempt_at: last.map(|last| Moment(last.started_at)),
            ..self
        }
    }
}

bodies! {
    /// An endpoint to create.
    #[schema(as = NewEndpoint, example = json!({"url": "https://hooks.example.com/in", "tenant": "acme", "types": ["invoice.*"]}))]
    create EndpointBody {
        /// The URL that receives the events, http or https.
        #[schema(format = "uri", max_length = 8192, example = "https://hooks.example.com/in")]
        url: [String],
        /// Tenant ID. Keys bound to one tenant may omit it; other keys default to `default`.
        #[serde(default)]
        #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
        tenant: [Option<Text<TenantId>>],
        /// The secret that signs requests. Default: a generated one.
        #[serde(default)]
        #[schema(value_type = Option<String>, pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
        secret: [Option<Text<Secret>>],
        /// Whether the endpoint is enabled. Default: `true`.
        #[serde(default)]
        enabled: [Option<bool>],
    }
    /// A change to an endpoint. Omitted fields stay unchanged; null restores the default.
    #[schema(example = json!({"types": ["invoice.paid"], "max_in_flight": 8}))]
    change EndpointChange {
        /// The URL that receives the events, http or https. Pending and retrying deliveries go to the new URL.
        #[schema(format = "uri", max_length = 8192)]
        url: [Option<String>],
    }
    both {
        /// A human-readable description, at most 500 characters. Default: empty.
        #[schema(max_length = 500)]
        description: [Option<String>],
        /// The event types to receive, such as `invoice.paid` or `invoice.*`, at most 100. An empty list means all.
        /// Default: all.
        #[schema(max_items = 100)]
        types: [Option<Vec<String>>],
        /// Custom headers for each request; they replace the current ones. Not allowed: `Host`, hop-by-hop headers,
        /// `Content-Length` and `webhook-*`. Default: none.
        #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
        headers: [Change<CustomHeaders>],
        /// The request timeout, from `100ms` to `5m`. Default: the gateway's `delivery.timeout` (`15s`).
        #[schema(value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "15s")]
        timeout: [Change<Span>],
        /// The maximum number of concurrent requests to the endpoint, 1 to 10,000. Default: the gateway's
        /// `delivery.max_in_flight` (64).
        #[schema(value_type = Option<u32>, minimum = 1, maximum = 10_000)]
        max_in_flight: [Change<u32>],
        /// The rate limit for requests to the endpoint. Default: no limit.
        #[schema(value_type = Option<RateView>)]
        rate: [Change<Object<RateView>>],
        /// The delays between the attempts of a delivery, at most 50. Default: the tenant's.
        #[schema(value_type = Option<Vec<String>>, max_items = 50, example = json!(["5s", "5m", "30m"]))]
        retry: [Change<RetrySchedule>],
        /// Circuit policy values, with the names used in policy files. Needs an admin key. Default: none; the tenant's
        /// values apply.
        #[schema(value_type = Option<Object>)]
        policy: [Change<Value>],
        /// The maximum time that a delivery waits before it expires, such as `72h`. Default: the tenant's.
        #[schema(value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "72h")]
        expires_after: [Change<Span>],
    }
}

impl EndpointChange {
    /// Returns whether the body sets `policy`, which only an admin key may set.
    pub(super) const fn sets_policy(&self) -> bool {
        !self.policy.is_keep()
    }

    /// Returns the settings with the change applied.
    pub(super) fn onto(
        self,
        mut settings: EndpointSettings,
        addresses: &AddressPolicy,
    ) -> ApiResult<EndpointSettings> {
        if let Some(url) = self.url {
            settings.url = destination(&url, addresses)?;
        }
        if let Some(description) = self.description {
            settings.description = checked_name("description", description, LONGEST_DESCRIPTION)?;
        }
        if let Some(types) = self.types {
            settings.filter = filter(&types)?;
        }
        settings.headers = self.headers.onto(Some(settings.headers)).unwrap_or_default();
        settings.timeout = self.timeout.try_map(checked_timeout)?.onto(settings.timeout);
        settings.max_in_flight = self.max_in_flight.try_map(checked_in_flight)?.onto(settings.max_in_flight);
        settings.rate = self.rate.try_map(|rate| rate.0.checked("rate"))?.onto(settings.rate);
        settings.retry = self.retry.onto(settings.retry);
        settings.policy = self.policy.try_map(checked_policy)?.onto(settings.policy);
        settings.expires_after = self.expires_after.map(|span| span.0).onto(settings.expires_after);
        Ok(settings)
    }
}

/// Returns default settings for an endpoint with this URL.
pub(super) fn fresh(url: &str, addresses: &AddressPolicy) -> ApiResult<EndpointSettings> {
    Ok(EndpointSettings::new(destination(url, addresses)?))
}

/// Parses and checks an endpoint's URL.
fn destination(text: &str, addresses: &AddressPolicy) -> ApiResult<Url> {
    // Checked with a placeholder tenant: a URL that can't have a circuit can't be a destination.
    Key::of("t", text, CircuitBy::Endpoint).map_err(|error| wrong_url(&error))?;
    callable(text, addresses)
}

fn filter(types: &[String]) -> ApiResult<Filter> {
    if types.len() > MOST_TYPES {
        let why = format!("must be at most {MOST_TYPES}, but are {}", types.len());
        return Err(Problem::invalid("types", why));
    }
    for (place, text) in types.iter().enumerate() {
        if let Err(why) = Filter::any_of([text.as_str()]) {
            return Err(Problem::invalid(
                &format!("types[{place}]"),
                format_args!("{why}, or such a type and `.*`"),
            ));
        }
    }
    Filter::any_of(types.iter().map(String::as_str)).map_err(|why| Problem::invalid("types", why))
}

pub(in crate::api) fn checked_timeout(span: Span) -> ApiResult<Duration> {
    if (Duration::from_millis(100)..=LONGEST_TIMEOUT).contains(&span.0) {
        return Ok(span.0);
    }
    Err(Problem::invalid("timeout", format_args!("must be 100ms to 5m, but is {}", format_duration(span.0))))
}

pub(in crate::api) fn checked_in_flight(found: u32) -> ApiResult<u32> {
    if (1..=MOST_IN_FLIGHT).contains(&found) {
        return Ok(found);
    }
    Err(Problem::invalid("max_in_flight", format_args!("must be 1 to {MOST_IN_FLIGHT}, but is {found}")))
}
