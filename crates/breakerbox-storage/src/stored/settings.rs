//! The stored form of tenants and endpoints: settings as JSON, with the secret parts sealed (encrypted).

use std::time::Duration;

use breakerbox_core::{CircuitBy, Timestamp};
use breakerbox_model::delivery::{CustomHeaders, ResponseRules, RetrySchedule};
use breakerbox_model::objects::{
    Backlog, DisabledBecause, Endpoint, EndpointSettings, Filter, RateLimit, ReminderRules, SigningSecret,
    SigningSecrets, Tenant, TenantSettings,
};
use breakerbox_model::reminder::{CatchUp, WhenFailed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LoadError;
use super::target::StoredTarget;
use crate::secrets::{Keyring, Owner, Sealed};

/// The word for a tenant in errors, and in the owner of its sealed secrets.
pub const TENANT: &str = "tenant";
/// The word for an endpoint in errors, and in the owner of its sealed secrets.
pub const ENDPOINT: &str = "endpoint";

#[derive(Serialize, Deserialize)]
struct StoredTenant {
    name: String,
    enabled: bool,
    policy: Option<Value>,
    circuit_by: String,
    retry: Option<RetrySchedule>,
    #[serde(default)]
    response_rules: ResponseRules,
    backlog: Option<Backlog>,
    ingest_rate: Option<RateLimit>,
    expires_after_us: Option<u64>,
    #[serde(default)]
    reminders: StoredReminderRules,
}

/// A tenant's reminder settings that differ from the defaults.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct StoredReminderRules {
    policy: Option<Value>,
    circuit_by: Option<String>,
    retry: Option<RetrySchedule>,
    response_rules: ResponseRules,
    when_failed: WhenFailed,
    catch_up: CatchUp,
    timeout_us: Option<u64>,
    max_in_flight: Option<u32>,
    limit: Option<Backlog>,
}

impl From<ReminderRules> for StoredReminderRules {
    fn from(rules: ReminderRules) -> Self {
        Self {
            policy: rules.policy,
            circuit_by: Some(circuit_by_name(rules.circuit_by).to_owned()),
            retry: rules.retry,
            response_rules: rules.response_rules,
            when_failed: rules.when_failed,
            catch_up: rules.catch_up,
            timeout_us: rules.timeout.map(micros),
            max_in_flight: rules.max_in_flight,
            limit: rules.limit,
        }
    }
}

impl StoredReminderRules {
    fn rules(self, owner: Owner<'_>) -> Result<ReminderRules, LoadError> {
        let defaults = ReminderRules::default();
        let by = self.circuit_by.map_or(Some(defaults.circuit_by), |name| circuit_by(&name));
        Ok(ReminderRules {
            policy: self.policy,
            circuit_by: by.ok_or_else(|| unreadable(owner, "reminders"))?,
            retry: self.retry,
            response_rules: self.response_rules,
            when_failed: self.when_failed,
            catch_up: self.catch_up,
            timeout: self.timeout_us.map(Duration::from_micros),
            max_in_flight: self.max_in_flight,
            limit: self.limit,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredEndpoint {
    url: String,
    description: String,
    filter: Vec<String>,
    timeout_us: Option<u64>,
    max_in_flight: Option<u32>,
    rate: Option<RateLimit>,
    retry: Option<RetrySchedule>,
    policy: Option<Value>,
    expires_after_us: Option<u64>,
}

/// The secret part of a tenant or an endpoint, which is stored sealed. Header values are often credentials.
#[derive(Serialize, Deserialize)]
struct StoredSecrets {
    secrets: Vec<StoredSecret>,
    #[serde(default)]
    headers: CustomHeaders,
    // Schema 10 renamed this field. A row that was not written since has the old name.
    #[serde(default, alias = "notices", skip_serializing_if = "Vec::is_empty")]
    notification_targets: Vec<StoredTarget>,
}

#[derive(Serialize, Deserialize)]
struct StoredSecret {
    secret: String,
    since: u64,
    until: Option<u64>,
}

/// The columns `settings` and `sealed` of a row.
pub struct Columns {
    /// The settings that are not secret, as JSON.
    pub settings: String,
    /// The secret settings and the signing secrets, encrypted.
    pub sealed: Sealed,
}

/// Encodes a tenant for the columns of its row.
#[must_use]
pub fn tenant(tenant: &Tenant, keyring: &Keyring) -> Columns {
    let settings = tenant.settings.clone();
    let stored = StoredTenant {
        name: settings.name,
        enabled: settings.enabled,
        policy: settings.policy,
        circuit_by: circuit_by_name(settings.circuit_by).to_owned(),
        retry: settings.retry,
        response_rules: settings.response_rules,
        backlog: settings.backlog,
        ingest_rate: settings.ingest_rate,
        expires_after_us: settings.expires_after.map(micros),
        reminders: settings.reminders.into(),
    };
    let owner = Owner { what: TENANT, name: tenant.id.as_str() };
    let notification_targets = settings.notification_targets.iter().map(StoredTarget::from).collect();
    let sealed = seal(&tenant.secrets, CustomHeaders::default(), notification_targets, keyring, owner);
    Columns { settings: json(&stored), sealed }
}

/// Encodes an endpoint for the columns of its row.
#[must_use]
pub fn endpoint(endpoint: &Endpoint, keyring: &Keyring) -> Columns {
    let settings = endpoint.settings.clone();
    let stored = StoredEndpoint {
        url: settings.url.into(),
        description: settings.description,
        filter: settings.filter.patterns().collect(),
        timeout_us: settings.timeout.map(micros),
        max_in_flight: settings.max_in_flight,
        rate: settings.rate,
        retry: settings.retry,
        policy: settings.policy,
        expires_after_us: settings.expires_after.map(micros),
    };
    let owner = Owner { what: ENDPOINT, name: &endpoint.id.to_string() };
    let sealed = seal(&endpoint.secrets, settings.headers, Vec::new(), keyring, owner);
    Columns { settings: json(&stored), sealed }
}

/// Decodes a tenant's settings and signing secrets.
///
/// # Errors
/// Returns an error if a master key is missing, or a column can't be read.
pub fn tenant_of(
    settings: &str,
    sealed: Vec<u8>,
    keyring: &Keyring,
    name: &str,
) -> Result<(TenantSettings, SigningSecrets), LoadError> {
    let owner = Owner { what: TENANT, name };
    let stored: StoredTenant = read(settings.as_bytes(), owner)?;
    let (secrets, _, notification_targets) = open(Sealed(sealed), keyring, owner)?;
    let notification_targets =
        notification_targets.into_iter().map(|stored| stored.target(owner)).collect::<Result<_, _>>()?;
    let settings = TenantSettings {
        name: stored.name,
        enabled: stored.enabled,
        policy: stored.policy,
        circuit_by: circuit_by(&stored.circuit_by).ok_or_else(|| unreadable(owner, "circuit_by"))?,
        retry: stored.retry,
        response_rules: stored.response_rules,
        backlog: stored.backlog,
        ingest_rate: stored.ingest_rate,
        expires_after: stored.expires_after_us.map(Duration::from_micros),
        reminders: stored.reminders.rules(owner)?,
        notification_targets,
    };
    Ok((settings, secrets))
}

/// Decodes an endpoint's settings and signing secrets.
///
/// # Errors
/// Returns an error if a master key is missing, or a column can't be read.
pub fn endpoint_of(
    settings: &str,
    sealed: Vec<u8>,
    keyring: &Keyring,
    name: &str,
) -> Result<(EndpointSettings, SigningSecrets), LoadError> {
    let owner = Owner { what: ENDPOINT, name };
    let stored: StoredEndpoint = read(settings.as_bytes(), owner)?;
    let (secrets, headers, _) = open(Sealed(sealed), keyring, owner)?;
    let settings = EndpointSettings {
        url: stored.url.parse().map_err(|_| unreadable(owner, "url"))?,
        description: stored.description,
        filter: Filter::any_of(stored.filter.iter().map(String::as_str))
            .map_err(|_| unreadable(owner, "filter"))?,
        headers,
        timeout: stored.timeout_us.map(Duration::from_micros),
        max_in_flight: stored.max_in_flight,
        rate: stored.rate,
        retry: stored.retry,
        policy: stored.policy,
        expires_after: stored.expires_after_us.map(Duration::from_micros),
    };
    Ok((settings, secrets))
}

/// Encodes a reason for the column `disabled`. A circuit's state is stored with the circuit, so
/// [`DisabledBecause::Circuit`] is stored as `owner`.
#[must_use]
pub const fn disabled_name(because: DisabledBecause) -> &'static str {
    match because {
        DisabledBecause::Owner | DisabledBecause::Circuit => "owner",
        DisabledBecause::Gone => "gone",
    }
}

/// Decodes the column `disabled`. Unknown values mean [`DisabledBecause::Owner`].
#[must_use]
pub fn disabled(name: &str) -> DisabledBecause {
    if name == "gone" { DisabledBecause::Gone } else { DisabledBecause::Owner }
}

fn seal(
    secrets: &SigningSecrets,
    headers: CustomHeaders,
    notification_targets: Vec<StoredTarget>,
    keyring: &Keyring,
    owner: Owner<'_>,
) -> Sealed {
    let stored = |one: &SigningSecret| StoredSecret {
        secret: one.secret.reveal(),
        since: one.since.as_micros(),
        until: one.until.map(Timestamp::as_micros),
    };
    let stored =
        StoredSecrets { secrets: secrets.iter().map(stored).collect(), headers, notification_targets };
    keyring.seal(json(&stored).as_bytes(), owner)
}

fn open(
    sealed: Sealed,
    keyring: &Keyring,
    owner: Owner<'_>,
) -> Result<(SigningSecrets, CustomHeaders, Vec<StoredTarget>), LoadError> {
    let stored: StoredSecrets = read(&keyring.open(&sealed, owner)?, owner)?;
    let secret = |stored: &StoredSecret| {
        Some(SigningSecret {
            secret: stored.secret.parse().ok()?,
            since: Timestamp::from_micros(stored.since),
            until: stored.until.map(Timestamp::from_micros),
        })
    };
    let secrets = stored.secrets.iter().map(secret).collect::<Option<Vec<_>>>();
    let secrets = secrets.and_then(SigningSecrets::from_newest_first);
    Ok((secrets.ok_or_else(|| unreadable(owner, "secrets"))?, stored.headers, stored.notification_targets))
}

fn read<T: DeserializeOwned>(text: &[u8], owner: Owner<'_>) -> Result<T, LoadError> {
    // The parser's error may contain a part of the text, which must stay secret.
    serde_json::from_slice(text).map_err(|_| unreadable(owner, "settings"))
}

pub(super) fn unreadable(owner: Owner<'_>, column: &'static str) -> LoadError {
    LoadError::Unreadable { what: owner.what, name: owner.name.to_owned(), column }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain structures with texts as keys have a JSON")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

const fn circuit_by_name(by: CircuitBy) -> &'static str {
    match by {
        CircuitBy::Host => "host",
        CircuitBy::Tenant => "tenant",
        _ => "endpoint",
    }
}

fn circuit_by(name: &str) -> Option<CircuitBy> {
    [CircuitBy::Endpoint, CircuitBy::Host, CircuitBy::Tenant]
        .into_iter()
        .find(|by| circuit_by_name(*by) == name)
}
