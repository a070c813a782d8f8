//! The JSON of the rules for a tenant's reminders, and their changes.

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

/// What holds for all reminders of a tenant.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct RemindersView {
    /// The policy of their circuits, over the preset `reminders`; null: that alone. The tenant's other policy is for deliveries.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
    /// Who shares a circuit: all callbacks of the tenant, to one host, or to one URL.
    #[schema(inline)]
    circuit_by: CircuitByName,
    /// The waits between attempts of a run; null: a minute, three times.
    #[schema(value_type = Option<Vec<String>>)]
    retry: Option<RetrySchedule>,
    /// How answers are read where this tenant differs.
    #[schema(value_type = Object)]
    rulings: ResponseRules,
    /// What becomes of a reminder when all attempts of a run have failed.
    #[schema(value_type = WhenFailedName, inline)]
    when_failed: &'static str,
    /// Of what was missed, all fires or only the latest, unless a reminder says otherwise.
    #[schema(value_type = CatchUpName, inline)]
    catch_up: &'static str,
    /// How long a callback may take; null: the gateway's default.
    timeout: Option<String>,
    /// How many callbacks at once for each circuit; null: the gateway's default.
    max_in_flight: Option<u32>,
    /// How many reminders there may be that have not ended, and bytes of their payloads; null: the gateway's default.
    #[schema(inline)]
    limit: Option<BacklogView>,
}

/// What becomes of a reminder when a run has failed.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
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
            rulings: rules.rulings,
            when_failed: rules.when_failed.name(),
            catch_up: rules.catch_up.name(),
            timeout: rules.timeout.map(format_duration),
            max_in_flight: rules.max_in_flight,
            limit: rules.limit.map(BacklogView::from),
        }
    }
}

/// What to change of what holds for a tenant's reminders. What is left out stays; null: the default again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct RemindersChange {
    /// The policy of their circuits, over the preset `reminders`. Needs an admin key.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    policy: Change<Value>,
    /// Who shares a circuit; the whole tenant if nothing is said. Needs an admin key.
    #[schema(value_type = Option<CircuitByName>, inline)]
    #[serde(default)]
    circuit_by: Change<CircuitByName>,
    /// The waits between attempts of a run.
    #[schema(value_type = Option<Vec<String>>, max_items = 50, example = json!(["1m", "1m", "1m"]))]
    #[serde(default)]
    retry: Change<RetrySchedule>,
    /// How answers are read where this tenant differs. Needs an admin key.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    rulings: Change<ResponseRules>,
    /// What becomes of a reminder when all attempts of a run have failed: it stops, or goes on with the next run.
    #[schema(value_type = Option<WhenFailedName>, inline)]
    #[serde(default)]
    when_failed: Change<Text<WhenFailed>>,
    /// Of what was missed, all fires or only the latest, unless a reminder says otherwise.
    #[schema(value_type = Option<CatchUpName>, inline)]
    #[serde(default)]
    catch_up: Change<Text<CatchUp>>,
    /// How long a callback may take, from `100ms` to `5m`.
    #[schema(value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "15s")]
    #[serde(default)]
    timeout: Change<Span>,
    /// How many callbacks at once for each circuit.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10_000)]
    #[serde(default)]
    max_in_flight: Change<u32>,
    /// How many reminders there may be that have not ended, and bytes of their payloads. Needs an admin key for all tenants.
    #[schema(value_type = Option<BacklogView>, inline)]
    #[serde(default)]
    limit: Change<Object<BacklogView>>,
}

impl RemindersChange {
    /// Returns a changed field that only an admin may change, if there is one.
    pub(super) fn admins_field(&self) -> Option<&'static str> {
        [
            ("reminders.policy", !self.policy.is_keep()),
            ("reminders.circuit_by", !self.circuit_by.is_keep()),
            ("reminders.rulings", !self.rulings.is_keep()),
            ("reminders.limit", !self.limit.is_keep()),
        ]
        .into_iter()
        .find_map(|(field, is_changed)| is_changed.then_some(field))
    }

    /// Returns whether the limit changes.
    pub(super) const fn changes_limit(&self) -> bool {
        !self.limit.is_keep()
    }

    /// Returns the rules after the change. Errors name their field without `reminders`.
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
            rulings: self.rulings.onto(Some(rules.rulings)).unwrap_or_default(),
            when_failed: when_failed.unwrap_or_default(),
            catch_up: catch_up.unwrap_or_default(),
            timeout: self.timeout.try_map(checked_timeout)?.onto(rules.timeout),
            max_in_flight: self.max_in_flight.try_map(checked_in_flight)?.onto(rules.max_in_flight),
            limit: limit.onto(rules.limit),
        })
    }
}
