//! Targets: where notices go. Pure; sending is [`Post`](super::Post)'s.
//!
//! An operator's targets are in the configuration, a tenant's are its own affair. Their URLs and secrets are credentials: they
//! are sealed at rest, and never shown whole.

use std::sync::Arc;

use lettre::Address;
use url::Url;

use super::kind::Kinds;
use crate::delivery::Target;
use crate::objects::Secret;

/// How the names of an operator's targets begin.
pub const OPERATOR: &str = "operator/";

/// The most targets that one tenant may have.
pub const MOST_TARGETS: usize = 10;

/// Where notices go.
#[derive(Clone, PartialEq, Debug)]
pub struct NoticeTarget {
    /// Its name: `tgt_...`, or `operator/...` for one of the configuration.
    pub name: Arc<str>,
    /// How to get there.
    pub way: Way,
    /// Of what it is told.
    pub on: Kinds,
}

/// How to get to a target.
#[derive(Clone, PartialEq)]
pub enum Way {
    /// A signed request.
    Webhook {
        /// Where.
        url: Url,
        /// What it is signed with.
        secret: Secret,
    },
    /// A request as Slack takes it, and whoever is like Slack. Who knows the URL may write there.
    Slack {
        /// Where.
        url: Url,
    },
    /// A mail.
    Email {
        /// To whom; never none.
        to: Vec<Address>,
    },
}

impl NoticeTarget {
    /// Whether it is in the configuration, and no tenant's.
    #[must_use]
    pub fn is_operators(&self) -> bool {
        self.name.starts_with(OPERATOR)
    }
}

impl Way {
    /// Its name: `webhook`, `slack` or `email`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::Email { .. } => "email",
        }
    }

    /// Where it leads, for people: of a URL no more than the host.
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

/// A URL or an address that is shown is shown to everybody who reads the log.
impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(hidden)", self.name())
    }
}

/// Reads the URL of a target.
///
/// # Errors
/// If nothing can be sent there. The URL is not repeated.
pub fn target_url(text: &str) -> Result<Url, String> {
    let without_name = |why: String| why.strip_prefix("url: ").map(str::to_owned).unwrap_or(why);
    text.parse::<Target>().map_err(|error| without_name(error.to_string()))?;
    Url::parse(text).map_err(|error| error.to_string())
}

/// Reads the address of a mail.
///
/// # Errors
/// If it is none.
pub fn address(text: &str) -> Result<Address, String> {
    let wrong = || "must be an address such as \"ops@example.com\"".to_owned();
    // What is longer is no address, by RFC 5321.
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
            ("nonsense", "relative URL without a base"),
        ] {
            assert_eq!(target_url(url).unwrap_err(), why, "{url}");
        }
        for text in ["", "a", "a@", "a b@c.example", "a@b.example\r\nbcc: c@d.example", &"a".repeat(300)] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
