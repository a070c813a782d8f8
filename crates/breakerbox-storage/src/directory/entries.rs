//! The effective settings of a tenant or an endpoint, with every default filled in.

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

/// The effective settings of a tenant.
#[derive(Debug)]
pub struct TenantEntry {
    /// The name of the tenant.
    pub id: TenantId,
    /// The tenant as it is stored.
    pub source: Tenant,
    /// The number of the tenant in the database.
    pub row: i64,
    /// Whether anything is sent.
    pub enabled: bool,
    /// Which destinations share a circuit.
    pub circuit_by: CircuitBy,
    /// The policy of its circuits, unless an endpoint has its own.
    pub policy: Arc<Policy>,
    /// Whether that is its own policy, and not the gateway's.
    pub has_own_policy: bool,
    /// The waits before failed attempts to dynamic URLs are retried.
    pub retry: Arc<RetrySchedule>,
    /// The timeout of a request to a dynamic URL.
    pub timeout: Duration,
    /// The maximum number of requests in flight for each dynamic lane.
    pub max_in_flight: u32,
    /// The response rules.
    pub response_rules: Arc<ResponseRules>,
    /// The maximum backlog.
    pub backlog: Backlog,
    /// The limit on events that it may submit per second. `None`: no limit.
    pub ingest_rate: Option<RateLimit>,
    /// How long deliveries to dynamic URLs may wait before they expire. `None`: they never expire.
    pub expires_after: Option<Duration>,
    /// The secrets with which deliveries to dynamic URLs are signed.
    pub secrets: Arc<SigningSecrets>,
    /// The effective settings for its reminders.
    pub reminders: ReminderEntry,
    /// The layers below the policies of its endpoints.
    layers: PolicyLayers,
}

/// The effective settings for the reminders of a tenant.
#[derive(Debug)]
pub struct ReminderEntry {
    /// The policy of their circuits.
    pub policy: Arc<Policy>,
    /// Which URLs share a circuit.
    pub circuit_by: CircuitBy,
    /// The waits before a failed attempt of a run is retried.
    pub retry: Arc<RetrySchedule>,
    /// The response rules.
    pub response_rules: Arc<ResponseRules>,
    /// The effect of a run that failed for good on its reminder.
    pub when_failed: WhenFailed,
    /// Which missed occurrences are fired, unless the reminder sets it.
    pub catch_up: CatchUp,
    /// The timeout of a callback.
    pub timeout: Duration,
    /// The maximum number of callbacks in flight, for each circuit.
    pub max_in_flight: u32,
    /// The maximum number of reminders that have not ended, and of bytes of their payloads.
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

    /// Returns the policy of their circuits: each value with its origin and the value without the tenant's settings.
    ///
    /// # Errors
    /// None for an entry of the directory: its policy was built before.
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

    /// Returns the policy of its circuits: each value with its origin and the gateway's value.
    ///
    /// # Errors
    /// None for an entry of the directory: its policy was built before.
    pub fn explained_policy(&self, defaults: &Defaults) -> Result<Vec<ExplainedValue>, RecordsError> {
        self.layers.explained(&defaults.policy_layers(), self.timeout)
    }

    /// Returns the key of the circuit that a URL of this tenant belongs to.
    ///
    /// # Errors
    /// If the URL can't be a destination.
    pub fn circuit_of(&self, url: &str) -> Result<Arc<str>, KeyError> {
        self.key_of(Purpose::Deliveries, url)
    }

    /// Returns the key of the circuit that a URL of this tenant belongs to, for this purpose.
    ///
    /// # Errors
    /// If the URL can't be a destination.
    pub fn key_of(&self, purpose: Purpose, url: &str) -> Result<Arc<str>, KeyError> {
        let by = match purpose {
            Purpose::Deliveries => self.circuit_by,
            Purpose::Reminders => self.reminders.circuit_by,
        };
        let owner = CircuitOwner { tenant: self.id.clone(), purpose };
        owner.circuit_of(url, by).map(|key| key.text().into())
    }
}

/// The effective settings of an endpoint.
#[derive(Debug)]
pub struct EndpointEntry {
    /// The id of the endpoint.
    pub id: EndpointId,
    /// The endpoint as it is stored.
    pub source: Endpoint,
    /// The tenant that it belongs to.
    pub tenant: Arc<TenantEntry>,
    /// The destination of its requests.
    pub url: Url,
    /// The key of its circuit.
    pub circuit: Arc<str>,
    /// The policy of its circuit.
    pub policy: Arc<Policy>,
    /// Whether that is its own policy, and not the tenant's. An own policy applies only where the tenant's `circuit_by`
    /// is `endpoint`; otherwise the tenant's applies.
    pub has_own_policy: bool,
    /// The events that it receives.
    pub filter: Filter,
    /// Headers that are sent with each request.
    pub headers: CustomHeaders,
    /// The timeout of a whole request.
    pub timeout: Duration,
    /// The maximum number of requests in flight.
    pub max_in_flight: u32,
    /// The limit on requests per second. `None`: no limit.
    pub rate: Option<RateLimit>,
    /// The waits before failed attempts are retried.
    pub retry: Arc<RetrySchedule>,
    /// How long a delivery may wait before it expires. `None`: it never expires.
    pub expires_after: Option<Duration>,
    /// Why nothing is sent. `None`: it is enabled. The state of the circuit comes on top.
    pub disabled: Option<DisabledBecause>,
    /// The secrets with which its requests are signed.
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
        // The policy must be valid even where it does not apply now: the tenant's circuit_by may change. An own timeout
        // implies an own probe timeout.
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

    /// Returns the policy of its circuit: each value with its origin and the tenant's value. If it has no own policy,
    /// or that does not apply because of the tenant's `circuit_by`, returns the tenant's.
    ///
    /// # Errors
    /// None for an entry of the directory: its policy was built before.
    pub fn explained_policy(&self) -> Result<Vec<ExplainedValue>, RecordsError> {
        let below = &self.tenant.layers;
        if !self.has_own_policy {
            return below.explained(below, self.tenant.timeout);
        }
        let own = self.source.settings.policy.as_ref();
        below.clone().over(PolicyOrigin::Endpoint, own).explained(below, self.timeout)
    }

    /// Returns the lane in which its deliveries wait.
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
