//! The stored form of a tenant's notification targets. All of it is sealed (encrypted), since the URLs are often
//! credentials.

use breakerbox_model::notifications::{Kind, Kinds, NotificationTarget, Way};
use serde::{Deserialize, Serialize};

use super::LoadError;
use super::settings::unreadable;
use crate::secrets::Owner;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredTarget {
    name: String,
    way: String,
    url: Option<String>,
    secret: Option<String>,
    #[serde(default)]
    to: Vec<String>,
    /// The names of the notification kinds that the target receives. An empty list means all kinds.
    #[serde(default)]
    on: Vec<String>,
}

impl From<&NotificationTarget> for StoredTarget {
    fn from(target: &NotificationTarget) -> Self {
        let (url, secret, to) = match &target.way {
            Way::Webhook { url, secret } => (Some(url.to_string()), Some(secret.reveal()), vec![]),
            Way::Slack { url } => (Some(url.to_string()), None, vec![]),
            Way::Email { to } => (None, None, to.iter().map(ToString::to_string).collect()),
        };
        let on =
            if target.on.is_all() { vec![] } else { target.on.iter().map(|kind| kind.to_string()).collect() };
        Self { name: target.name.to_string(), way: target.way.name().to_owned(), url, secret, to, on }
    }
}

impl StoredTarget {
    pub(super) fn target(self, owner: Owner<'_>) -> Result<NotificationTarget, LoadError> {
        let name = self.name.as_str().into();
        let on = Kinds::of(&self.on.iter().filter_map(|name| name.parse::<Kind>().ok()).collect::<Vec<_>>());
        let way = self.way().ok_or_else(|| unreadable(owner, "notification_targets"))?;
        Ok(NotificationTarget { name, way, on })
    }

    fn way(self) -> Option<Way> {
        let url = || self.url.as_ref()?.parse().ok();
        match self.way.as_str() {
            "webhook" => Some(Way::Webhook { url: url()?, secret: self.secret.as_ref()?.parse().ok()? }),
            "slack" => Some(Way::Slack { url: url()? }),
            "email" => {
                let to = self.to.iter().map(|to| to.parse().ok()).collect::<Option<Vec<_>>>()?;
                (!to.is_empty()).then_some(Way::Email { to })
            }
            _ => None,
        }
    }
}
