//! The `[notify]` table: the operator's targets, and the rate limit for notifications.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_egress::AddressPolicy;
use breakerbox_model::notifications::{Kind, Kinds, NotificationTarget, OPERATOR, Way, target_url};
use breakerbox_model::objects::Secret;
use lettre::Address;
use lettre::message::Mailbox;
use url::Url;

use super::values::Hidden;
use crate::notifications::{MailServer, NotifierSettings};

/// Notifications to the operator.
#[derive(Clone, PartialEq, Debug)]
pub struct Notify {
    /// The URL of the webhook target, which gets signed requests.
    pub webhook_url: Option<Url>,
    /// The secret that signs requests to the webhook target.
    pub webhook_secret: Option<Hidden>,
    /// The URL of the Slack target. It is a secret, since anyone who knows it can post messages.
    pub slack_url: Option<Hidden>,
    /// The e-mail addresses that receive notifications.
    pub email: Vec<Address>,
    /// The URL of the mail server.
    pub smtp_url: Option<Url>,
    /// The password for the user in `smtp_url`.
    pub smtp_password: Option<Hidden>,
    /// The sender address of e-mails.
    pub smtp_from: Option<Mailbox>,
    /// The notification types sent to the operator.
    pub kinds: Vec<Kind>,
    /// How long a circuit must not have been closed before its trip is notified.
    pub after: Duration,
    /// The maximum number of messages to one target in a burst.
    pub burst: u32,
    /// The time between messages to one target after the burst.
    pub interval: Duration,
    /// The number of failed deliveries of one tenant within an hour that triggers a notification. `None` means never.
    pub dead_letters: Option<u64>,
}

impl Default for Notify {
    fn default() -> Self {
        let NotifierSettings { burst, interval, dead_letters, .. } = NotifierSettings::default();
        Self {
            webhook_url: None,
            webhook_secret: None,
            slack_url: None,
            email: Vec::new(),
            smtp_url: None,
            smtp_password: None,
            smtp_from: None,
            kinds: Kind::chosen().collect(),
            after: Duration::from_secs(60),
            burst,
            interval,
            dead_letters,
        }
    }
}

impl Notify {
    /// Returns the operator's targets, without incomplete ones. Loaded settings have no incomplete targets, because
    /// loading rejects them.
    #[must_use]
    pub fn targets(&self) -> Arc<[NotificationTarget]> {
        let webhook = self.webhook_url.clone().zip(self.secret().ok().flatten());
        let webhook = webhook.map(|(url, secret)| Way::Webhook { url, secret });
        let slack = self.slack().ok().flatten().map(|url| Way::Slack { url });
        let email = (!self.email.is_empty()).then(|| Way::Email { to: self.email.clone() });
        let ways = [webhook, slack, email].into_iter().flatten();
        let on = Kinds::of(&self.kinds);
        ways.map(|way| NotificationTarget { name: format!("{OPERATOR}{}", way.name()).into(), way, on })
            .collect()
    }

    /// Returns the mail server, if one is configured.
    #[must_use]
    pub fn mail_server(&self, ca_files: &[PathBuf]) -> Option<MailServer> {
        Some(MailServer {
            url: self.smtp_url.clone()?,
            password: self.smtp_password.as_ref().map(|password| password.reveal().to_owned()),
            from: self.smtp_from.clone()?,
            ca_files: ca_files.to_vec(),
        })
    }

    /// Returns settings that are valid on their own but not together, each with its key and the reason.
    pub(super) fn misfits(&self, addresses: &AddressPolicy) -> Vec<(&'static str, String)> {
        let mut wrong = Vec::new();
        let slack_url = self.slack().ok().flatten();
        for (key, url) in [("notify.webhook_url", &self.webhook_url), ("notify.slack_url", &slack_url)] {
            if let Some(Err(denied)) = url.as_ref().map(|url| addresses.check_url(url)) {
                wrong.push((key, denied.to_string()));
            }
        }
        if let Err(why) = self.secret() {
            wrong.push(("notify.webhook_secret", why));
        }
        if self.webhook_url.is_some() && self.webhook_secret.is_none() {
            let why = "needs a signing secret; set BREAKERBOX_NOTIFY_WEBHOOK_SECRET";
            wrong.push(("notify.webhook_url", why.to_owned()));
        }
        if let Err(why) = self.slack() {
            wrong.push(("notify.slack_url", why));
        }
        if !self.email.is_empty() && self.smtp_url.is_none() {
            wrong.push(("notify.email", "needs a mail server; set notify.smtp_url".to_owned()));
        }
        if self.smtp_url.is_some() && self.smtp_from.is_none() {
            wrong.push(("notify.smtp_url", "needs a sender; set notify.smtp_from".to_owned()));
        }
        wrong
    }

    fn secret(&self) -> Result<Option<Secret>, String> {
        let secret = self.webhook_secret.as_ref().map(|secret| secret.reveal().parse::<Secret>());
        secret.transpose().map_err(|error| error.to_string())
    }

    fn slack(&self) -> Result<Option<Url>, String> {
        self.slack_url.as_ref().map(|url| target_url(url.reveal())).transpose()
    }
}
