//! The effective settings of tenants and endpoints, with defaults filled in.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{CircuitBy, KeyError, Policy};
use breakerbox_model::delivery::{CustomHeaders, ResponseRules, RetrySchedule};
use breakerbox_model::objects::{
    Backlog, CircuitOwner, DisabledBecause, Endpoint, EndpointId, Filter, LaneId, Purpose, RateLimit,
    SigningSecrets, Tenant, TenantId, TenantSettings,
};
use breakerbox_model::reminder::{CatchUp, WhenFailed};
use url::Url;

use super::defaults::Defaults;
use super::policy::{ExplainedValue, PolicyLayers, PolicyOrigin};
use crate::records::RecordsError;

/// The effective settings of a tenant, with defaults filled in.
#[derive(Debug)]
pub struct TenantEntry {
    /// The tenant's name in circuit keys, paths and responses.
    pub id: TenantId,
    /// The tenant as it is stored, without defaults.
    pub source: Tenant,
    /// The tenant's number in the database.
    pub row: i64,
    /// Whether the tenant's deliveries are sent.
    pub enabled: bool,
    /// Which destinations share a circuit: those with the same URL, the same host, or all of the tenant's.
    pub circuit_by: CircuitBy,
    /// The policy for the tenant's circuits, unless an endpoint has its own.
    pub policy: Arc<Policy>,
    /// Whether `policy` is the tenant's own, rather than the gateway's.
    pub has_own_policy: bool,
    /// The delays before failed attempts to dynamic URLs are retried.
    pub retry: Arc<RetrySchedule>,
    /// The timeout for a request to a dynamic URL.
    pub timeout: Duration,
    /// The maximum number of requests in flight per dynamic-URL lane.
    pub max_in_flight: u32,
    /// The tenant's exceptions to the default response handling.
    pub response_rules: Arc<ResponseRules>,
    /// The maximum backlog of waiting deliveries.
    pub backlog: Backlog,
    /// The limit on events submitted per second. `None`: no limit.
    pub ingest_rate: Option<RateLimit>,
    /// The maximum time that deliveries to dynamic URLs may wait before they expire. `None`: they never expire.
    pub expires_after: Option<Duration>,
    /// The secrets that sign deliveries to dynamic URLs.
    pub secrets: Arc<SigningSecrets>,
    /// The effective settings for the tenant's reminders.
    pub reminders: ReminderEntry,
    /// The policy layers that the endpoints' policies are applied over.
    layers: PolicyLayers,
}

/// The effective settings for a tenant's reminders, with defaults filled in.
#[derive(Debug)]
pub struct ReminderEntry {
    /// The policy for reminder circuits.
    pub policy: Arc<Policy>,
    /// Which callback URLs share a circuit.
    pub circuit_by: CircuitBy,
    /// The delays before a run's failed attempts are retried.
    pub retry: Arc<RetrySchedule>,
    /// The exceptions to the default response handling.
    pub response_rules: Arc<ResponseRules>,
    /// What happens to a reminder when one of its runs has failed for good.
    pub when_failed: WhenFailed,
    /// Which missed occurrences are fired, for reminders that don't set their own `catch_up`.
    pub catch_up: CatchUp,
    /// The timeout for one callback request.
    pub timeout: Duration,
    /// The maximum number of callbacks in flight per circuit.
    pub max_in_flight: u32,
    /// The maximum number of unfinished reminders, and the maximum total size of their payloads.
    pub limit: Backlog,
    layers: PolicyLayers,
}

impl ReminderEntry {
    fn resolve(settings: &TenantSettings, defaults: &Defaults) -> Result<Self, RecordsError> {
        let rules = &settings.reminders;
        let timeout = rules.timeout.unwrap_or(defaults.timeout);
        let layers = defaults.reminder_layers().over(PolicyOrigin::Reminders, rules.policy.as_ref());
        let built = layers.build(timeout).map_err(|error| match error {
            RecordsError::Policy(why) => RecordsError::ReminderPolicy(why),
            other => other,
        })?;
        Ok(Self {
            policy: Arc::new(built.policy),
            circuit_by: rules.circuit_by,
            retry: Arc::new(
                rules.retry.clone().map_or_else(RetrySchedule::for_reminders, RetrySchedule::without_jitter),
            ),
            response_rules: Arc::new(rules.response_rules.applied_over(&ResponseRules::for_reminders())),
            when_failed: rules.when_failed,
            catch_up: rules.catch_up,
            timeout,
            max_in_flight: rules.max_in_flight.unwrap_or(defaults.max_in_flight),
            limit: rules.limit.unwrap_or_default(),
            layers,
        })
    }

    /// Returns the values of the reminder policy, each with its origin and the value that applies without the
    /// tenant's settings.
    ///
    /// # Errors
    /// Never returns an error for an entry in the directory, because its policy was already built once.
    pub fn explained_policy(&self, defaults: &Defaults) -> Result<Vec<ExplainedValue>, RecordsError> {
        self.layers.explained(&defaults.reminder_layers(), self.timeout)
    }
}

impl TenantEntry {
    pub(super) fn resolve(tenant: Tenant, row: i64, defaults: &Defaults) -> Result<Self, RecordsError> {
        let settings = &tenant.settings;
        let layers = defaults.policy_layers().over(PolicyOrigin::Tenant, settings.policy.as_ref());
        Ok(Self {
            id: tenant.id.clone(),
            row,
            enabled: settings.enabled,
            circuit_by: settings.circuit_by,
            policy: Arc::new(layers.build(defaults.timeout)?.policy),
            has_own_policy: settings.policy.is_some(),
            retry: Arc::new(settings.retry.as_ref().unwrap_or(&defaults.retry).clone()),
            timeout: defaults.timeout,
            max_in_flight: defaults.max_in_flight,
            response_rules: Arc::new(settings.response_rules.clone()),
            backlog: settings.backlog.unwrap_or(defaults.backlog),
            ingest_rate: settings.ingest_rate,
            expires_after: settings.expires_after.or(defaults.expires_after),
            secrets: Arc::new(tenant.secrets.clone()),
            reminders: ReminderEntry::resolve(settings, defaults)?,
            layers,
            source: tenant,
        })
    }

    /// Returns the values of the tenant's policy, each with its origin and the gateway's value.
    ///
    /// # Errors
    /// Never returns an error for an entry in the directory, because its policy was already built once.
    pub fn explained_policy(&self, defaults: &Defaults) -> Result<Vec<ExplainedValue>, RecordsError> {
        self.layers.explained(&defaults.policy_layers(), self.timeout)
    }

    /// Returns the key of the circuit that the tenant's deliveries to this URL use.
    ///
    /// # Errors
    /// Returns an error if the URL can't be a destination.
    pub fn circuit_of(&self, url: &str) -> Result<Arc<str>, KeyError> {
        self.key_of(Purpose::Deliveries, url)
    }

    /// Returns the key of the circuit that the tenant's calls to this URL use, for this purpose.
    ///
    /// # Errors
    /// Returns an error if the URL can't be a destination.
    pub fn key_of(&self, purpose: Purpose, url: &str) -> Result<Arc<str>, KeyError> {
        let by = match purpose {
            Purpose::Deliveries => self.circuit_by,
            Purpose::Reminders => self.reminders.circuit_by,
        };
        let owner = CircuitOwner { tenant: self.id.clone(), purpose };
        owner.circuit_of(url, by).map(|key| key.text().into())
    }
}

/// The effective settings of an endpoint, with defaults filled in.
#[derive(Debug)]
pub struct EndpointEntry {
    /// The endpoint's id in paths and responses.
    pub id: EndpointId,
    /// The endpoint as it is stored, without defaults.
    pub source: Endpoint,
    /// The tenant that the endpoint belongs to.
    pub tenant: Arc<TenantEntry>,
    /// The URL that requests are sent to.
    pub url: Url,
    /// The key of the endpoint's circuit.
    pub circuit: Arc<str>,
    /// The policy that applies to the endpoint's circuit.
    pub policy: Arc<Policy>,
    /// Whether `policy` is the endpoint's own, rather than the tenant's. An endpoint's own policy applies only if the
    /// tenant's `circuit_by` is `endpoint`.
    pub has_own_policy: bool,
    /// Which of the tenant's events the endpoint receives.
    pub filter: Filter,
    /// Custom headers that are sent with each request.
    pub headers: CustomHeaders,
    /// The timeout for a whole request.
    pub timeout: Duration,
    /// The maximum number of requests in flight to the endpoint.
    pub max_in_flight: u32,
    /// The limit on requests per second. `None`: no limit.
    pub rate: Option<RateLimit>,
    /// The delays before failed attempts are retried.
    pub retry: Arc<RetrySchedule>,
    /// The maximum time that a delivery may wait before it expires. `None`: deliveries never expire.
    pub expires_after: Option<Duration>,
    /// Why nothing is sent to the endpoint. `None`: the endpoint is enabled, but its circuit may be disabled.
    pub disabled: Option<DisabledBecause>,
    /// The secrets that sign the endpoint's requests.
    pub secrets: Arc<SigningSecrets>,
}

impl EndpointEntry {
    pub(super) fn resolve(
        endpoint: Endpoint,
        tenant: Arc<TenantEntry>,
        defaults: &Defaults,
    ) -> Result<Self, RecordsError> {
        let settings = &endpoint.settings;
        let timeout = settings.timeout.unwrap_or(defaults.timeout);
        // The policy must be valid even where it does not apply now, because the tenant's `circuit_by` may change. An
        // endpoint with its own timeout also has its own probe timeout.
        let own = if settings.policy.is_some() || settings.timeout.is_some() {
            let layers = tenant.layers.clone().over(PolicyOrigin::Endpoint, settings.policy.as_ref());
            Some(Arc::new(layers.build(timeout)?.policy))
        } else {
            None
        };
        let own = own.filter(|_| tenant.circuit_by == CircuitBy::Endpoint);
        let retry = settings.retry.as_ref().map(|retry| Arc::new(retry.clone()));
        Ok(Self {
            id: endpoint.id,
            circuit: tenant.circuit_of(settings.url.as_str())?,
            url: settings.url.clone(),
            has_own_policy: own.is_some(),
            policy: own.unwrap_or_else(|| Arc::clone(&tenant.policy)),
            filter: settings.filter.clone(),
            headers: settings.headers.clone(),
            timeout,
            max_in_flight: settings.max_in_flight.unwrap_or(defaults.max_in_flight),
            rate: settings.rate,
            retry: retry.unwrap_or_else(|| Arc::clone(&tenant.retry)),
            expires_after: settings.expires_after.or(tenant.expires_after),
            disabled: endpoint.disabled,
            secrets: Arc::new(endpoint.secrets.clone()),
            source: endpoint,
            tenant,
        })
    }

    /// Returns the values of the policy that applies to the endpoint's circuit, each with its origin and the tenant's
    /// value. The tenant's policy applies if the endpoint has none, or if the tenant's `circuit_by` is not
    /// `endpoint`.
    ///
    /// # Errors
    /// Never returns an error for an entry in the directory, because its policy was already built once.
    pub fn explained_policy(&self) -> Result<Vec<ExplainedValue>, RecordsError> {
        let below = &self.tenant.layers;
        if !self.has_own_policy {
            return below.explained(below, self.tenant.timeout);
        }
        let own = self.source.settings.policy.as_ref();
        below.clone().over(PolicyOrigin::Endpoint, own).explained(below, self.timeout)
    }

    /// Returns the lane in which the endpoint's deliveries wait.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.id.into()
    }

    /// Returns whether both the tenant and the endpoint are enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.tenant.enabled && self.disabled.is_none()
    }
}
