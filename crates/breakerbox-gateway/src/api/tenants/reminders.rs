//! The JSON representation of a tenant's settings for reminders, and changes to them.

use breakerbox_core::{CircuitBy, format_duration};
use breakerbox_model::delivery::{ResponseRules, RetrySchedule};
use breakerbox_model::objects::ReminderRules;
use breakerbox_model::reminder::{CatchUp, WhenFailed};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::view::{BacklogView, CircuitByName, checked_backlog, checked_policy};
use crate::api::endpoints::{checked_in_flight, checked_timeout};
use crate::api::problem::ApiResult;
use crate::api::reading::fields::{Change, Object, Span, Text};
use crate::api::reminders::CatchUpName;

/// Settings for all reminders of a tenant.
#[derive(Serialize, ToSchema)]
#[schema(as = ReminderSettings)]
pub(in crate::api) struct RemindersView {
    /// Circuit policy values that override the preset `reminders`; null if there are none. The tenant's own `policy`
    /// applies to deliveries.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
    /// The callbacks that share a circuit: those to one URL (`endpoint`), to one `host`, or all of the `tenant`.
    circuit_by: CircuitByName,
    /// The delays between attempts of a run; null means three delays of `1m`.
    #[schema(value_type = Option<Vec<String>>)]
    retry: Option<RetrySchedule>,
    /// Rules that override the default effect of responses, by status, status class or fault.
    #[schema(value_type = Object)]
    response_rules: ResponseRules,
    /// What a reminder does after all attempts of a run have failed: `stop`, or continue with the `next_run`.
    #[schema(value_type = WhenFailedName)]
    when_failed: &'static str,
    /// Which missed occurrences to fire, `all` or only the `latest`, unless a reminder overrides it.
    #[schema(value_type = CatchUpName)]
    catch_up: &'static str,
    /// The timeout of a callback; null means the gateway's default.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$")]
    timeout: Option<String>,
    /// The maximum number of concurrent callbacks per circuit; null means the gateway's default.
    #[schema(minimum = 1, maximum = 10_000)]
    max_in_flight: Option<u32>,
    /// The maximum number of unfinished reminders, and of bytes in their payloads; null means the gateway's default.
    limit: Option<BacklogView>,
}

/// What a reminder does after a failed run.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
#[schema(as = WhenFailed)]
enum WhenFailedName {
    Stop,
    NextRun,
}

impl From<ReminderRules> for RemindersView {
    fn from(rules: ReminderRules) -> Self {
        Self {
            policy: rules.policy,
            circuit_by: rules.circuit_by.into(),
            retry: rules.retry,
            response_rules: rules.response_rules,
            when_failed: rules.when_failed.name(),
            catch_up: rules.catch_up.name(),
            timeout: rules.timeout.map(format_duration),
            max_in_flight: rules.max_in_flight,
            limit: rules.limit.map(BacklogView::from),
        }
    }
}

/// A change to a tenant's settings for reminders. Omitted fields stay unchanged; null restores the default.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReminderSettingsChange, example = json!({"timeout": "15s", "when_failed": "next_run"}))]
pub(in crate::api) struct RemindersChange {
    /// Circuit policy values that override the preset `reminders`. Needs an admin key. Default: none.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    policy: Change<Value>,
    /// The callbacks that share a circuit. Default: `host`. Needs an admin key.
    #[schema(value_type = Option<CircuitByName>)]
    #[serde(default)]
    circuit_by: Change<CircuitByName>,
    /// The delays between attempts of a run, at most 50. Default: three delays of `1m`.
    #[schema(value_type = Option<Vec<String>>, max_items = 50, example = json!(["1m", "1m", "1m"]))]
    #[serde(default)]
    retry: Change<RetrySchedule>,
    /// Rules that override the default effect of responses, by status, status class or fault, such as `{"404":
    /// {"action": "fail"}}`. Needs an admin key. Default: none.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    response_rules: Change<ResponseRules>,
    /// What a reminder does after all attempts of a run have failed: `stop` (default), or continue with the `next_run`.
    #[schema(value_type = Option<WhenFailedName>)]
    #[serde(default)]
    when_failed: Change<Text<WhenFailed>>,
    /// Which missed occurrences to fire, `all` or only the `latest`, unless a reminder overrides it.
    #[schema(value_type = Option<CatchUpName>)]
    #[serde(default)]
    catch_up: Change<Text<CatchUp>>,
    /// The timeout of a callback, from `100ms` to `5m`. Default: the gateway's.
    #[schema(value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "15s")]
    #[serde(default)]
    timeout: Change<Span>,
    /// The maximum number of concurrent callbacks per circuit, 1 to 10,000. Default: the gateway's.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10_000)]
    #[serde(default)]
    max_in_flight: Change<u32>,
    /// The maximum number of unfinished reminders, and of bytes in their payloads. Needs an admin key for all tenants.
    /// Default: the gateway's.
    #[schema(value_type = Option<BacklogView>)]
    #[serde(default)]
    limit: Change<Object<BacklogView>>,
}

impl RemindersChange {
    /// Returns the first changed field that only an admin key may change, if there is one.
    pub(super) fn admins_field(&self) -> Option<&'static str> {
        [
            ("reminders.policy", !self.policy.is_keep()),
            ("reminders.circuit_by", !self.circuit_by.is_keep()),
            ("reminders.response_rules", !self.response_rules.is_keep()),
            ("reminders.limit", !self.limit.is_keep()),
        ]
        .into_iter()
        .find_map(|(field, is_changed)| is_changed.then_some(field))
    }

    /// Returns whether the request changes `limit`, the limit for the tenant's reminders.
    pub(super) const fn changes_limit(&self) -> bool {
        !self.limit.is_keep()
    }

    /// Returns the settings with the change applied. Errors name the field without the prefix `reminders`.
    pub(super) fn onto(self, rules: ReminderRules) -> ApiResult<ReminderRules> {
        let defaults = ReminderRules::default();
        let circuit_by = self.circuit_by.map(CircuitBy::from).onto(Some(rules.circuit_by));
        let when_failed = self.when_failed.map(|text| text.0).onto(Some(rules.when_failed));
        let catch_up = self.catch_up.map(|text| text.0).onto(Some(rules.catch_up));
        let limit = self.limit.try_map(|limit| checked_backlog("limit", limit.0))?;
        Ok(ReminderRules {
            policy: self.policy.try_map(checked_policy)?.onto(rules.policy),
            circuit_by: circuit_by.unwrap_or(defaults.circuit_by),
            retry: self.retry.onto(rules.retry),
            response_rules: self.response_rules.onto(Some(rules.response_rules)).unwrap_or_default(),
            when_failed: when_failed.unwrap_or_default(),
            catch_up: catch_up.unwrap_or_default(),
            timeout: self.timeout.try_map(checked_timeout)?.onto(rules.timeout),
            max_in_flight: self.max_in_flight.try_map(checked_in_flight)?.onto(rules.max_in_flight),
            limit: limit.onto(rules.limit),
        })
    }
}
