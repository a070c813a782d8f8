//! The JSON representation of a tenant's targets, and changes to them. URLs are never shown in full; secrets are shown
//! only when new or requested.

use std::sync::Arc;

use breakerbox_model::notifications::{Kinds, MOST_TARGETS, NotificationTarget, Way, address, target_url};
use breakerbox_model::objects::{Id, Secret, TargetId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::view::KindName;
use crate::api::Services;
use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::fields::{Object, Text};

/// The kind of notification target.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TargetKind)]
pub(in crate::api) enum WayName {
    Webhook,
    Slack,
    Email,
}

impl From<&Way> for WayName {
    fn from(way: &Way) -> Self {
        match way {
            Way::Webhook { .. } => Self::Webhook,
            Way::Slack { .. } => Self::Slack,
            Way::Email { .. } => Self::Email,
        }
    }
}

/// A notification target.
#[derive(Serialize, ToSchema)]
#[schema(as = NotificationTarget)]
pub(in crate::api) struct TargetView {
    /// Target ID.
    #[schema(example = "tgt_01h5k2m8w4c7e")]
    id: String,
    /// The kind of target: `webhook` (signed requests), `slack` (requests in Slack's format) or `email`.
    kind: WayName,
    /// The target's address. For a URL, only the origin is shown.
    #[schema(example = "https://hooks.example.com/...")]
    to: String,
    /// The notification types sent to the target.
    on: Vec<KindName>,
    /// The signing secret. Present only in the response to the request that created or changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    secret: Option<String>,
}

impl TargetView {
    /// Builds the view of a target. The view includes the secret unless a target in `before` already has this secret.
    pub(in crate::api) fn new(target: &NotificationTarget, before: &[NotificationTarget]) -> Self {
        let secret =
            secret_of(target).filter(|secret| !before.iter().any(|old| secret_of(old) == Some(*secret)));
        Self {
            id: target.name.to_string(),
            kind: (&target.way).into(),
            to: target.way.shown(),
            on: target.on.iter().map(KindName::from).collect(),
            secret: secret.map(Secret::reveal),
        }
    }
}

impl TargetView {
    /// Returns whether the view contains the secret.
    pub(in crate::api) const fn has_secret(&self) -> bool {
        self.secret.is_some()
    }
}

fn secret_of(target: &NotificationTarget) -> Option<&Secret> {
    match &target.way {
        Way::Webhook { secret, .. } => Some(secret),
        _ => None,
    }
}

/// The signing secret of a webhook target.
#[derive(Serialize, ToSchema)]
#[schema(as = NotificationTargetSecret)]
pub(super) struct TargetSecret {
    /// Target ID.
    target: String,
    /// The secret that signs notifications to the target.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: String,
}

impl TargetSecret {
    pub(super) fn of(target: &NotificationTarget) -> Option<Self> {
        Some(Self { target: target.name.to_string(), secret: secret_of(target)?.reveal() })
    }
}

/// A notification target to create; or, with `id`, an existing target to keep, with the given fields changed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewNotificationTarget)]
pub(in crate::api) struct TargetBody {
    /// The ID of an existing target to keep. Omit it to create a target.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^tgt_[0-7][0-9a-hjkmnp-tv-z]{12}$")]
    id: Option<Text<TargetId>>,
    /// The kind of target: `webhook`, `slack` or `email`. Default with an `id`: the existing kind.
    #[serde(default)]
    kind: Option<WayName>,
    /// The URL of a webhook or Slack target, at most 8,192 bytes. Default with an `id`: the existing one. It is stored encrypted, and never shown in full.
    #[serde(default)]
    #[schema(format = "uri", max_length = 8192, example = "https://hooks.example.com/notifications")]
    url: Option<String>,
    /// The signing secret of a webhook target. Default: the existing one, or a generated one.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
    secret: Option<Text<Secret>>,
    /// The address of an e-mail target. Default with an `id`: the existing one.
    #[serde(default)]
    #[schema(max_length = 254, example = "ops@example.com")]
    to: Option<String>,
    /// The notification types to send to the target. Default: the existing ones, or all.
    #[serde(default)]
    #[schema(max_items = 20)]
    on: Option<Vec<KindName>>,
}

/// Returns a tenant's targets with the change applied.
pub(in crate::api) fn checked(
    bodies: Vec<Object<TargetBody>>,
    before: &[NotificationTarget],
    services: &Services,
) -> ApiResult<Vec<NotificationTarget>> {
    if bodies.len() > MOST_TARGETS {
        let why = format!("must be at most {MOST_TARGETS}, but are {}", bodies.len());
        return Err(Problem::invalid("notification_targets", why));
    }
    let mut targets: Vec<NotificationTarget> = Vec::with_capacity(bodies.len());
    for (index, body) in bodies.into_iter().enumerate() {
        let within = |problem: Problem| problem.within(&format!("notification_targets[{index}]"));
        let target = body.0.target(before, services).map_err(within)?;
        if targets.iter().any(|other| other.name == target.name) {
            return Err(within(Problem::invalid("id", "is listed twice")));
        }
        targets.push(target);
    }
    Ok(targets)
}

impl TargetBody {
    fn target(self, before: &[NotificationTarget], services: &Services) -> ApiResult<NotificationTarget> {
        let old = match &self.id {
            None => None,
            Some(id) => {
                let name = id.0.to_string();
                let found = before.iter().find(|target| *target.name == *name);
                Some(found.ok_or_else(|| Problem::invalid("id", "is not a target of this tenant"))?)
            }
        };
        let kind = match (self.kind, old) {
            (Some(kind), Some(old)) if WayName::from(&old.way) != kind => {
                return Err(Problem::invalid(
                    "kind",
                    "can't be changed; omit the id to create another target",
                ));
            }
            (Some(kind), _) => kind,
            (None, Some(old)) => WayName::from(&old.way),
            (None, None) => return Err(Problem::invalid("kind", "must be `webhook`, `slack` or `email`")),
        };
        let on = match (&self.on, old) {
            (Some(on), _) => Kinds::of(&on.iter().map(|kind| (*kind).into()).collect::<Vec<_>>()),
            (None, old) => old.map_or(Kinds::ALL, |old| old.on),
        };
        let name = old.map_or_else(new_name, |old| Arc::clone(&old.name));
        let way = self.way(kind, old.map(|old| &old.way), services)?;
        Ok(NotificationTarget { name, way, on })
    }

    fn way(self, kind: WayName, old: Option<&Way>, services: &Services) -> ApiResult<Way> {
        let misplaced = |field: &str, is_there: bool| match is_there {
            true => Err(Problem::invalid(field, format!("is not allowed for {}", name(kind)))),
            false => Ok(()),
        };
        let url = match (&self.url, old) {
            (Some(text), _) => {
                let url = target_url(text).map_err(|why| Problem::invalid("url", why))?;
                services.addresses.check_url(&url).map_err(|denied| Problem::invalid("url", denied))?;
                Some(url)
            }
            (None, Some(Way::Webhook { url, .. } | Way::Slack { url })) => Some(url.clone()),
            (None, _) => None,
        };
        let needs_url = || Problem::invalid("url", format!("is required for {}", name(kind)));
        match kind {
            WayName::Webhook => {
                misplaced("to", self.to.is_some())?;
                let secret = match (self.secret, old) {
                    (Some(secret), _) => secret.0,
                    (None, Some(Way::Webhook { secret, .. })) => secret.clone(),
                    (None, _) => Secret::random(),
                };
                Ok(Way::Webhook { url: url.ok_or_else(needs_url)?, secret })
            }
            WayName::Slack => {
                misplaced("to", self.to.is_some())?;
                misplaced("secret", self.secret.is_some())?;
                Ok(Way::Slack { url: url.ok_or_else(needs_url)? })
            }
            WayName::Email => {
                misplaced("url", self.url.is_some())?;
                misplaced("secret", self.secret.is_some())?;
                if !services.limits.mail {
                    let why = "this gateway has no mail server; the operator can set notify.smtp_url";
                    return Err(Problem::invalid("kind", why));
                }
                match (self.to, old) {
                    (Some(to), _) => {
                        Ok(Way::Email { to: vec![address(&to).map_err(|why| Problem::invalid("to", why))?] })
                    }
                    (None, Some(Way::Email { to })) => Ok(Way::Email { to: to.clone() }),
                    (None, _) => Err(Problem::invalid("to", "is required for email")),
                }
            }
        }
    }
}

const fn name(kind: WayName) -> &'static str {
    match kind {
        WayName::Webhook => "webhook",
        WayName::Slack => "slack",
        WayName::Email => "email",
    }
}

/// Returns a new unique target name.
fn new_name() -> Arc<str> {
    let number = i64::try_from(rand::random::<u64>() >> 1).unwrap_or(i64::MAX);
    let id = Id::from_number(number).unwrap_or(Id::first_at(breakerbox_core::Timestamp::ZERO));
    TargetId(id).to_string().into()
}
