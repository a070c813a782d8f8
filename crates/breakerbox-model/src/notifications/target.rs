//! Targets: the destinations of notifications.
//!
//! The operator's targets are part of the configuration; tenants set their own. The URLs and secrets of targets are
//! credentials: they are encrypted at rest, and never shown in full.

use std::sync::Arc;

use lettre::Address;
use url::Url;

use super::kind::Kinds;
use crate::delivery::Target;
use crate::values::Secret;

/// The prefix of the names of the operator's targets.
pub const OPERATOR: &str = "operator/";

/// The maximum number of targets per tenant.
pub const MOST_TARGETS: usize = 10;

/// A destination for notifications.
#[derive(Clone, PartialEq, Debug)]
pub struct NotificationTarget {
    /// The target's name: `tgt_...` for a tenant's, `operator/...` for one in the configuration.
    pub name: Arc<str>,
    /// The kind of target, with its address.
    pub way: Way,
    /// The kinds of notifications that the target receives.
    pub on: Kinds,
}

/// A kind of target, with its address.
#[derive(Clone, PartialEq)]
pub enum Way {
    /// A signed webhook request.
    Webhook {
        /// The URL of the webhook.
        url: Url,
        /// The secret that requests are signed with.
        secret: Secret,
    },
    /// A request in the format of Slack and compatible services. Anyone who knows the URL can post to it.
    Slack {
        /// The URL of the incoming webhook.
        url: Url,
    },
    /// An e-mail message.
    Email {
        /// The recipients; at least one.
        to: Vec<Address>,
    },
}

impl NotificationTarget {
    /// Returns whether the target is part of the configuration rather than a tenant's.
    #[must_use]
    pub fn is_operators(&self) -> bool {
        self.name.starts_with(OPERATOR)
    }
}

impl Way {
    /// Returns the kind's name: `webhook`, `slack` or `email`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::Email { .. } => "email",
        }
    }

    /// Returns the destination in human-readable form. For a URL, only the host is returned.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Webhook { url, .. } | Self::Slack { url } => {
                format!("{}/...", url.origin().ascii_serialization())
            }
            Self::Email { to } => to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Hides URLs and addresses, so that they do not appear in logs.
impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(hidden)", self.name())
    }
}

/// Parses the URL of a target.
///
/// # Errors
/// Returns an error if requests can't be sent to the URL. The message does not repeat the URL.
pub fn target_url(text: &str) -> Result<Url, String> {
    let without_name = |why: String| why.strip_prefix("url: ").map(str::to_owned).unwrap_or(why);
    text.parse::<Target>().map_err(|error| without_name(error.to_string()))?;
    Url::parse(text).map_err(|error| error.to_string())
}

/// Parses an e-mail address.
///
/// # Errors
/// Returns an error if the string is not an e-mail address.
pub fn address(text: &str) -> Result<Address, String> {
    let wrong = || "must be an address such as \"ops@example.com\"".to_owned();
    // The maximum length of an address according to RFC 5321.
    if text.len() > 254 {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_not_shown() {
        let url = target_url("https://hooks.slack.example/services/T0/B0/token?x=y").unwrap();
        let slack = Way::Slack { url: url.clone() };
        assert_eq!(slack.shown(), "https://hooks.slack.example/...");
        let webhook = Way::Webhook { url, secret: Secret::random() };
        assert!(!format!("{webhook:?}{slack:?}").contains("token"));
        let mail =
            Way::Email { to: vec![address("a@example.com").unwrap(), address("b@example.com").unwrap()] };
        assert_eq!(mail.shown(), "a@example.com, b@example.com");
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for (url, why) in [
            ("ftp://a.example/", "must begin with http:// or https://"),
            (
                "https://user@a.example/",
                "must not contain a user name or password; send credentials in a header",
            ),
            ("nonsense", "has no scheme; add https:// in front of it"),
        ] {
            assert_eq!(target_url(url).unwrap_err(), why, "{url}");
        }
        for text in ["", "a", "a@", "a b@c.example", "a@b.example\r\nbcc: c@d.example", &"a".repeat(300)] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
