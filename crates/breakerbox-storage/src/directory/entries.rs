//! What holds for a tenant or an endpoint, with every default filled in.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{CircuitBy, KeyError, Policy};
use breakerbox_model::delivery::{CustomHeaders, RetrySchedule, Rulings};
use breakerbox_model::objects::{
    Backlog, CircuitOwner, DisabledBecause, Endpoint, EndpointId, Filter, LaneId, Purpose, RateLimit,
    SigningSecrets, Tenant, TenantId, TenantSettings,
};
use breakerbox_model::reminder::{CatchUp, WhenFailed};
use url::Url;

use super::defaults::Defaults;
use super::policy::{ExplainedValue, PolicyLayers, PolicyOrigin};
use crate::records::RecordsError;

/// What holds for a tenant.
#[derive(Debug)]
pub struct TenantEntry {
    /// Which.
    pub id: TenantId,
    /// As it is kept.
    pub source: Tenant,
    /// Its number in the database.
    pub row: i64,
    /// Whether anything is sent.
    pub enabled: bool,
    /// Who shares a circuit.
    pub circuit_by: CircuitBy,
    /// The policy of its circuits, unless an endpoint has its own.
    pub policy: Arc<Policy>,
    /// Whether that is its own, and not the gateway's.
    pub has_own_policy: bool,
    /// When failed attempts to dynamic URLs are tried again.
    pub retry: Arc<RetrySchedule>,
    /// How long a request to a dynamic URL may take.
    pub timeout: Duration,
    /// How many requests at once for each dynamic lane.
    pub max_in_flight: u32,
    /// How answers are read.
    pub rulings: Arc<Rulings>,
    /// How much may wait.
    pub backlog: Backlog,
    /// How many events it may submit.
    pub ingest_rate: Option<RateLimit>,
    /// After how long work for dynamic URLs is given up.
    pub expires_after: Option<Duration>,
    /// What deliveries to dynamic URLs are signed with.
    pub secrets: Arc<SigningSecrets>,
    /// What holds for its reminders.
    pub reminders: ReminderEntry,
    /// What its endpoints' policies lie over.
    layers: PolicyLayers,
}

/// What holds for the reminders of a tenant.
#[derive(Debug)]
pub struct ReminderEntry {
    /// The policy of their circuits.
    pub policy: Arc<Policy>,
    /// Who shares a circuit.
    pub circuit_by: CircuitBy,
    /// When a run that failed is tried again.
    pub retry: Arc<RetrySchedule>,
    /// How answers are read.
    pub rulings: Arc<Rulings>,
    /// What a run that failed for good means for its reminder.
    pub when_failed: WhenFailed,
    /// What is fired of that which was missed, unless a reminder says otherwise.
    pub catch_up: CatchUp,
    /// How long a callback may take.
    pub timeout: Duration,
    /// How many callbacks at once, for each circuit.
    pub max_in_flight: u32,
    /// How many there may be that have not ended, and bytes of their payloads.
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
            rulings: Arc::new(rules.rulings.laid_over(&Rulings::for_reminders())),
            when_failed: rules.when_failed,
            catch_up: rules.catch_up,
            timeout,
            max_in_flight: rules.max_in_flight.unwrap_or(defaults.max_in_flight),
            limit: rules.limit.unwrap_or_default(),
            layers,
        })
    }

    /// The policy of their circuits, each value with its origin and what would hold without the tenant beside it.
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
            rulings: Arc::new(settings.rulings.clone()),
            backlog: settings.backlog.unwrap_or(defaults.backlog),
            ingest_rate: settings.ingest_rate,
            expires_after: settings.expires_after.or(defaults.expires_after),
            secrets: Arc::new(tenant.secrets.clone()),
            reminders: ReminderEntry::resolve(settings, defaults)?,
            layers,
            source: tenant,
        })
    }

    /// The policy of its circuits, each value with its origin and the gateway's beside it.
    ///
    /// # Errors
    /// None for an entry of the directory: its policy was built before.
    pub fn explained_policy(&self, defaults: &Defaults) -> Result<Vec<ExplainedValue>, RecordsError> {
        self.layers.explained(&defaults.policy_layers(), self.timeout)
    }

    /// The key of the circuit that a URL of this tenant belongs to.
    ///
    /// # Errors
    /// If the URL can't be a destination.
    pub fn circuit_of(&self, url: &str) -> Result<Arc<str>, KeyError> {
        self.key_of(Purpose::Deliveries, url)
    }

    /// The key of the circuit that a URL of this tenant belongs to when it is called for this purpose.
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

/// What holds for an endpoint.
#[derive(Debug)]
pub struct EndpointEntry {
    /// Which.
    pub id: EndpointId,
    /// As it is kept.
    pub source: Endpoint,
    /// Whose.
    pub tenant: Arc<TenantEntry>,
    /// Where.
    pub url: Url,
    /// The key of its circuit.
    pub circuit: Arc<str>,
    /// The policy of its circuit.
    pub policy: Arc<Policy>,
    /// Whether that is its own, and not the tenant's. Where several endpoints share a circuit it can't be: the tenant's holds.
    pub has_own_policy: bool,
    /// Which events it gets.
    pub filter: Filter,
    /// Sent with each request.
    pub headers: CustomHeaders,
    /// How long a request may take.
    pub timeout: Duration,
    /// How many requests at once.
    pub max_in_flight: u32,
    /// How many requests in a second.
    pub rate: Option<RateLimit>,
    /// When failed attempts are tried again.
    pub retry: Arc<RetrySchedule>,
    /// After how long waiting work is given up.
    pub expires_after: Option<Duration>,
    /// Why nothing is sent; none: it is enabled. What the circuit says comes on top.
    pub disabled: Option<DisabledBecause>,
    /// What its requests are signed with.
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
        // It must be a good policy even where it does not count now: the tenant's circuit_by may change. A time limit of its
        // own makes for probes of its own.
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

    /// The policy of its circuit, each value with its origin and the tenant's beside it. If it has none of its own, or that does
    /// not count because others share the circuit, the tenant's.
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

    /// Where its deliveries wait.
    #[must_use]
    pub fn lane(&self) -> LaneId {
        self.id.into()
    }

    /// Whether tenant and endpoint let anything be sent.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.tenant.enabled && self.disabled.is_none()
    }
}
