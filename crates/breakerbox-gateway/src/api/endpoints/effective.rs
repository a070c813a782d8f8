//! The effective settings of an endpoint, each with its origin: the endpoint, its tenant, the gateway's configuration or
//! the built-in default. Policy values can also come from a preset or from the timeout.

use breakerbox_core::{CircuitBy, format_duration};
use breakerbox_model::delivery::{ResponseRules, RetrySchedule};
use breakerbox_storage::{Defaults, Directory, EndpointEntry};
use serde::Serialize;
use utoipa::ToSchema;

use super::view::EndpointView;
use crate::api::policies::NamesView;
use crate::api::problem::ApiResult;
use crate::api::tenants::{CircuitByName, RateView};

/// An endpoint with its effective settings.
#[derive(Serialize, ToSchema)]
#[schema(as = EndpointDetails)]
pub(super) struct EndpointShown {
    #[serde(flatten)]
    pub(super) endpoint: EndpointView,
    /// The settings that apply to deliveries to the endpoint, each with its origin.
    pub(super) effective: EffectiveView,
}

/// The origin of a setting: the `endpoint`, its `tenant`, the `gateway`'s configuration, or the built-in `default`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettingOrigin)]
pub(super) enum OriginView {
    Endpoint,
    Tenant,
    Gateway,
    Default,
}

impl OriginView {
    /// Returns the origin of a value that neither the endpoint nor the tenant sets.
    fn below<T: PartialEq>(configured: &T, built_in: &T) -> Self {
        if configured == built_in { Self::Default } else { Self::Gateway }
    }
}

macro_rules! settings {
    ($($name:ident $schema:ident $value:ty, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Serialize, ToSchema)]
        #[schema(as = $schema)]
        pub(super) struct $name {
            #[doc = $doc]
            value: $value,
            /// The origin of the value.
            origin: OriginView,
        }

        impl From<($value, OriginView)> for $name {
            fn from((value, origin): ($value, OriginView)) -> Self {
                Self { value, origin }
            }
        }
    )*};
}

settings! {
    TimeoutValue TimeoutSetting String, "The request timeout, such as `15s`.";
    InFlightValue InFlightSetting u32, "The maximum number of concurrent requests to the endpoint.";
    RateValue RateSetting Option<RateView>, "The rate limit for requests to the endpoint; null means no limit.";
    ExpiryValue ExpirySetting Option<String>, "The maximum time that a delivery waits before it expires; null means no limit.";
    CircuitByValue CircuitBySetting CircuitByName, "The requests that share a circuit: those to one `endpoint`, to one `host`, or all of the `tenant`.";
}

/// The delays between the attempts of a delivery.
#[derive(Serialize, ToSchema)]
#[schema(as = RetrySetting)]
pub(super) struct RetryValue {
    /// The delays between the attempts of a delivery. An empty list means a single attempt.
    #[schema(value_type = Vec<String>, example = json!(["5s", "5m", "30m"]))]
    value: RetrySchedule,
    /// The origin of the value.
    origin: OriginView,
}

/// Rules that override the default effect of responses.
#[derive(Serialize, ToSchema)]
#[schema(as = ResponseRulesSetting)]
pub(super) struct ResponseRulesValue {
    /// The rules by status, status class or fault. An empty object means that the default effects apply.
    #[schema(value_type = Object)]
    value: ResponseRules,
    /// The origin of the value.
    origin: OriginView,
}

/// The effective settings of an endpoint, each with its origin. A setting has the name with which the endpoint or its
/// tenant sets it.
#[derive(Serialize, ToSchema)]
#[schema(as = EffectiveSettings)]
pub(super) struct EffectiveView {
    /// The request timeout.
    timeout: TimeoutValue,
    /// The maximum number of concurrent requests to the endpoint.
    max_in_flight: InFlightValue,
    /// The rate limit for requests to the endpoint.
    rate: RateValue,
    /// The delays between the attempts of a delivery.
    retry: RetryValue,
    /// The maximum time that a delivery waits before it expires.
    expires_after: ExpiryValue,
    /// The requests that share a circuit.
    circuit_by: CircuitByValue,
    /// Rules that override the default effect of responses.
    response_rules: ResponseRulesValue,
    /// The values of the circuit's policy. If several endpoints share the circuit, the oldest one with its own policy or
    /// timeout decides.
    policy: NamesView,
}

impl EffectiveView {
    pub(super) fn new(directory: &Directory, endpoint: &EndpointEntry) -> ApiResult<Self> {
        use OriginView::{Default, Endpoint, Tenant};
        let (defaults, built_in) = (directory.defaults(), Defaults::default());
        let own = &endpoint.source.settings;
        let of_tenant = &endpoint.tenant.source.settings;
        // Endpoint, tenant and gateway, in this order: the first that sets the value.
        let origin = |endpoint: bool, tenant: bool, below: OriginView| match (endpoint, tenant) {
            (true, _) => Endpoint,
            (false, true) => Tenant,
            (false, false) => below,
        };
        let timeout = OriginView::below(&defaults.timeout, &built_in.timeout);
        let in_flight = OriginView::below(&defaults.max_in_flight, &built_in.max_in_flight);
        let retry = OriginView::below(&defaults.retry, &built_in.retry);
        let expiry = OriginView::below(&defaults.expires_after, &built_in.expires_after);
        let deciding = directory.deciding(&endpoint.circuit);
        Ok(Self {
            timeout: (format_duration(endpoint.timeout), origin(own.timeout.is_some(), false, timeout))
                .into(),
            max_in_flight: (endpoint.max_in_flight, origin(own.max_in_flight.is_some(), false, in_flight))
                .into(),
            rate: (endpoint.rate.map(RateView::from), origin(own.rate.is_some(), false, Default)).into(),
            retry: RetryValue {
                value: RetrySchedule::clone(&endpoint.retry),
                origin: origin(own.retry.is_some(), of_tenant.retry.is_some(), retry),
            },
            expires_after: (
                endpoint.expires_after.map(format_duration),
                origin(own.expires_after.is_some(), of_tenant.expires_after.is_some(), expiry),
            )
                .into(),
            circuit_by: (
                endpoint.tenant.circuit_by.into(),
                origin(false, endpoint.tenant.circuit_by != CircuitBy::default(), Default),
            )
                .into(),
            response_rules: ResponseRulesValue {
                value: of_tenant.response_rules.clone(),
                origin: origin(false, !of_tenant.response_rules.is_empty(), Default),
            },
            policy: deciding.as_deref().unwrap_or(endpoint).explained_policy()?.into_iter().collect(),
        })
    }
}
