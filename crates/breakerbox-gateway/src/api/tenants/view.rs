//! The JSON representation of tenants, and changes to them.

use breakerbox_core::{CircuitBy, format_duration};
use breakerbox_model::delivery::{ResponseRules, RetrySchedule};
use breakerbox_model::notifications::NotificationTarget;
use breakerbox_model::objects::{
    Backlog, RateLimit, ReminderRules, Secret, Tenant, TenantId, TenantSettings,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::reminders::{RemindersChange, RemindersView};
use crate::api::Services;
use crate::api::notifications::{TargetBody, TargetView, checked_targets};
use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::bodies::bodies;
use crate::api::reading::fields::{Change, Moment, Object, Span, Text, fault_of_line};

/// The maximum length of a name, in characters.
const LONGEST_NAME: usize = 200;

/// A tenant: a client with its own endpoints, keys and limits.
#[derive(Serialize, ToSchema)]
#[schema(as = Tenant)]
pub(in crate::api) struct TenantView {
    /// Tenant ID.
    id: String,
    /// A human-readable name.
    name: String,
    /// Whether the tenant is enabled. Deliveries of a disabled tenant are parked.
    enabled: bool,
    /// The requests that share a circuit: those to one `endpoint`, to one `host`, or all of the `tenant`.
    #[schema(value_type = CircuitByName)]
    circuit_by: CircuitByName,
    /// Policy values for the tenant's circuits, with the names used in policy files; null means the gateway's policy.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
    /// The delays between the attempts of a delivery; null means the gateway's.
    #[schema(value_type = Option<Vec<String>>, example = json!(["5s", "5m", "30m"]))]
    retry: Option<RetrySchedule>,
    /// Rules that override the default effect of responses, by status, status class or fault.
    #[schema(value_type = Object)]
    response_rules: ResponseRules,
    /// The limit for unfinished deliveries; null means the gateway's.
    backlog: Option<BacklogView>,
    /// The rate limit for submitted events; null means no limit.
    ingest_rate: Option<RateView>,
    /// The maximum time that a delivery waits before it expires; null means the gateway's.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$")]
    expires_after: Option<String>,
    /// Settings for the tenant's reminders.
    reminders: RemindersView,
    /// The targets for the tenant's notifications.
    notification_targets: Vec<TargetView>,
    /// The time of creation.
    #[schema(value_type = String, format = "date-time")]
    created_at: Moment,
    /// The time of the last change.
    #[schema(value_type = String, format = "date-time")]
    changed_at: Moment,
}

/// The requests that share a circuit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CircuitBy)]
pub(in crate::api) enum CircuitByName {
    Endpoint,
    Host,
    Tenant,
}

/// A limit on a number of items and their size in bytes.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BacklogLimit)]
pub(in crate::api) struct BacklogView {
    /// The maximum number of deliveries or reminders.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    count: u64,
    /// The maximum total size of the deliveries' or reminders' payloads, in bytes. An event's payload counts once for
    /// each delivery.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_000_u64)]
    bytes: u64,
}

/// A rate limit: a mean rate and a burst.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RateLimit)]
pub(in crate::api) struct RateView {
    /// The mean number of events or requests per second.
    #[schema(minimum = 0.0000116, maximum = 1_000_000)]
    per_second: f64,
    /// The maximum number of events or requests in a burst.
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    burst: u32,
}

impl RateView {
    /// Checks the values of a rate limit.
    pub(in crate::api) fn checked(self, field: &str) -> ApiResult<RateLimit> {
        let limit = RateLimit { per_second: self.per_second, burst: self.burst };
        limit.check().map_err(|error| {
            let text = error.to_string();
            // The error names every limit `rate`.
            let (path, why) = text.split_once(": ").unwrap_or(("rate", &text));
            Problem::invalid(&path.replacen("rate", field, 1), why)
        })?;
        Ok(limit)
    }
}

impl From<RateLimit> for RateView {
    fn from(limit: RateLimit) -> Self {
        Self { per_second: limit.per_second, burst: limit.burst }
    }
}

impl From<Backlog> for BacklogView {
    fn from(backlog: Backlog) -> Self {
        Self { count: backlog.count, bytes: backlog.bytes }
    }
}

impl From<CircuitBy> for CircuitByName {
    fn from(by: CircuitBy) -> Self {
        match by {
            CircuitBy::Host => Self::Host,
            CircuitBy::Tenant => Self::Tenant,
            _ => Self::Endpoint,
        }
    }
}

impl From<CircuitByName> for CircuitBy {
    fn from(by: CircuitByName) -> Self {
        match by {
            CircuitByName::Endpoint => Self::Endpoint,
            CircuitByName::Host => Self::Host,
            CircuitByName::Tenant => Self::Tenant,
        }
    }
}

impl From<Tenant> for TenantView {
    fn from(tenant: Tenant) -> Self {
        let before = tenant.settings.notification_targets.clone();
        Self::changed(tenant, &before)
    }
}

impl TenantView {
    /// Returns whether the view contains the secret of at least one notification target.
    pub(super) fn has_secret(&self) -> bool {
        self.notification_targets.iter().any(TargetView::has_secret)
    }

    /// Builds the view after a change, including the secrets of new targets.
    pub(super) fn changed(tenant: Tenant, before: &[NotificationTarget]) -> Self {
        let settings = tenant.settings;
        Self {
            notification_targets: settings
                .notification_targets
                .iter()
                .map(|target| TargetView::new(target, before))
                .collect(),
            id: tenant.id.to_string(),
            name: settings.name,
            enabled: settings.enabled,
            circuit_by: settings.circuit_by.into(),
            policy: settings.policy,
            retry: settings.retry,
            response_rules: settings.response_rules,
            backlog: settings.backlog.map(BacklogView::from),
            ingest_rate: settings.ingest_rate.map(RateView::from),
            expires_after: settings.expires_after.map(format_duration),
            reminders: settings.reminders.into(),
            created_at: Moment(tenant.created_at),
            changed_at: Moment(tenant.changed_at),
        }
    }
}

bodies! {
    /// A tenant to create.
    #[schema(as = NewTenant, example = json!({"id": "acme", "name": "Acme Inc."}))]
    create TenantBody {
        /// Tenant ID: letters, digits, `.`, `_` and `-`, but not only dots. It can't be changed.
        #[schema(value_type = String, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", example = "acme")]
        id: [Text<TenantId>],
        /// The secret that signs reminders and deliveries to dynamic URLs. Default: a generated one.
        #[serde(default)]
        #[schema(value_type = Option<String>, pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
        secret: [Option<Text<Secret>>],
    }
    /// A change to a tenant. Omitted fields stay unchanged; null restores the default.
    #[schema(example = json!({"name": "Acme Inc.", "retry": ["5s", "5m", "30m"]}))]
    change TenantChange {}
    both {
        /// A human-readable name, at most 200 characters. Default: the ID.
        #[schema(max_length = 200)]
        name: [Option<String>],
        /// Whether the tenant is enabled. Deliveries of a disabled tenant are parked. Default: `true`.
        enabled: [Option<bool>],
        /// The requests that share a circuit: those to one `endpoint`, to one `host`, or all of the `tenant`. Needs an admin key.
        /// Default: `endpoint`.
        circuit_by: [Option<CircuitByName>],
        /// Policy values for the tenant's circuits, with the names used in policy files. Needs an admin key. Default:
        /// none; the gateway's values apply.
        #[schema(value_type = Option<Object>)]
        policy: [Change<Value>],
        /// The delays between the attempts of a delivery, at most 50. Default: the gateway's `delivery.retry`.
        #[schema(value_type = Option<Vec<String>>, max_items = 50, example = json!(["5s", "5m", "30m"]))]
        retry: [Change<RetrySchedule>],
        /// Rules that override the default effect of responses, by status, status class or fault, such as `{"404":
        /// {"action": "fail"}}`. Needs an admin key. Default: none.
        #[schema(value_type = Option<Object>)]
        response_rules: [Change<ResponseRules>],
        /// The limit for unfinished deliveries. Needs an admin key for all tenants. Default: the gateway's
        /// `limits.backlog_count` and `limits.backlog_bytes`.
        #[schema(value_type = Option<BacklogView>)]
        backlog: [Change<Object<BacklogView>>],
        /// The rate limit for submitted events. Needs an admin key for all tenants. Default: no limit.
        #[schema(value_type = Option<RateView>)]
        ingest_rate: [Change<Object<RateView>>],
        /// The maximum time that a delivery waits before it expires, such as `72h`. Default: the gateway's
        /// `delivery.expires_after`.
        #[schema(value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "72h")]
        expires_after: [Change<Span>],
        /// Settings for the tenant's reminders. Default: the default of each setting.
        #[schema(value_type = Option<RemindersChange>)]
        reminders: [Change<Object<RemindersChange>>],
        /// The targets for the tenant's notifications, at most 10. The list replaces the previous one; to keep a
        /// target, pass its `id` alone. Default: none.
        #[schema(value_type = Option<Vec<TargetBody>>, max_items = 10)]
        notification_targets: [Change<Vec<Object<TargetBody>>>],
    }
}

impl TenantChange {
    /// Returns the first changed field that only an admin key may change, if there is one.
    pub(super) fn admins_field(&self) -> Option<&'static str> {
        let of_reminders = match &self.reminders {
            Change::Keep => None,
            Change::Clear => Some("reminders"),
            Change::Set(change) => change.0.admins_field(),
        };
        let own = [
            ("policy", !self.policy.is_keep()),
            ("circuit_by", self.circuit_by.is_some()),
            ("response_rules", !self.response_rules.is_keep()),
            ("backlog", !self.backlog.is_keep()),
            ("ingest_rate", !self.ingest_rate.is_keep()),
        ]
        .into_iter()
        .find_map(|(field, is_changed)| is_changed.then_some(field));
        own.or(of_reminders)
    }

    /// Returns the first changed limit, if there is one. Limits protect other tenants, so only an admin key for all
    /// tenants may change them.
    pub(super) fn limits_field(&self) -> Option<&'static str> {
        let of_reminders = match &self.reminders {
            Change::Keep => false,
            // Clearing would restore the gateway's default limit.
            Change::Clear => return Some("reminders"),
            Change::Set(change) => change.0.changes_limit(),
        };
        [
            ("backlog", !self.backlog.is_keep()),
            ("ingest_rate", !self.ingest_rate.is_keep()),
            ("reminders.limit", of_reminders),
        ]
        .into_iter()
        .find_map(|(field, is_changed)| is_changed.then_some(field))
    }

    /// Returns the settings with the change applied.
    pub(super) fn onto(self, mut settings: TenantSettings, services: &Services) -> ApiResult<TenantSettings> {
        if let Some(name) = self.name {
            settings.name = checked_name("name", name, LONGEST_NAME)?;
        }
        settings.enabled = self.enabled.unwrap_or(settings.enabled);
        settings.circuit_by = self.circuit_by.map_or(settings.circuit_by, CircuitBy::from);
        settings.policy = self.policy.try_map(checked_policy)?.onto(settings.policy);
        settings.retry = self.retry.onto(settings.retry);
        settings.response_rules = self.response_rules.onto(Some(settings.response_rules)).unwrap_or_default();
        let backlog = self.backlog.try_map(|backlog| checked_backlog("backlog", backlog.0))?;
        settings.backlog = backlog.onto(settings.backlog);
        let rate = self.ingest_rate.try_map(|rate| rate.0.checked("ingest_rate"))?;
        settings.ingest_rate = rate.onto(settings.ingest_rate);
        settings.expires_after = self.expires_after.map(|span| span.0).onto(settings.expires_after);
        settings.reminders = match self.reminders {
            Change::Keep => settings.reminders,
            Change::Clear => ReminderRules::default(),
            Change::Set(change) => {
                change.0.onto(settings.reminders).map_err(|problem| problem.within("reminders"))?
            }
        };
        let targets = self
            .notification_targets
            .try_map(|bodies| checked_targets(bodies, &settings.notification_targets, services))?;
        settings.notification_targets = targets.onto(Some(settings.notification_targets)).unwrap_or_default();
        Ok(settings)
    }
}

/// Checks the values of a backlog limit. `name` is the field, for errors.
pub(super) fn checked_backlog(name: &str, backlog: BacklogView) -> ApiResult<Backlog> {
    for (field, found, most) in
        [("count", backlog.count, 1_000_000_000_000), ("bytes", backlog.bytes, 1_000_000_000_000_000)]
    {
        if !(1..=most).contains(&found) {
            let why = format!("must be 1 to {most}, but is {found}");
            return Err(Problem::invalid(&format!("{name}.{field}"), why));
        }
    }
    Ok(Backlog { count: backlog.count, bytes: backlog.bytes })
}

/// Checks the format of a policy. Its values are validated later, together with the inherited ones.
pub(in crate::api) fn checked_policy(policy: Value) -> ApiResult<Value> {
    if policy.is_object() {
        return Ok(policy);
    }
    Err(Problem::invalid("policy", "must be an object with the names of the policy file"))
}

/// Checks that a name or description is one line of at most `most` characters.
pub(in crate::api) fn checked_name(field: &str, text: String, most: usize) -> ApiResult<String> {
    if let Some(why) = fault_of_line(&text, 0..=most) {
        return Err(Problem::invalid(field, why));
    }
    Ok(text)
}
