//! The `[notify]` table: the operator's targets, and how fast notices go out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_egress::AddressPolicy;
use breakerbox_model::notifications::{Kind, Kinds, NoticeTarget, OPERATOR, Way, target_url};
use breakerbox_model::objects::Secret;
use lettre::Address;
use lettre::message::Mailbox;
use url::Url;

use super::values::Hidden;
use crate::notifications::{MailServer, NotifierSettings};

/// Who is told of what.
#[derive(Clone, PartialEq, Debug)]
pub struct Notify {
    /// Where signed requests go.
    pub webhook_url: Option<Url>,
    /// What they are signed with.
    pub webhook_secret: Option<Hidden>,
    /// Where requests go as Slack takes them. Who knows the URL may write there, so it is a secret.
    pub slack_url: Option<Hidden>,
    /// To whom mails go.
    pub email: Vec<Address>,
    /// The server that takes them.
    pub smtp_url: Option<Url>,
    /// The password for it.
    pub smtp_password: Option<Hidden>,
    /// Who they are from.
    pub smtp_from: Option<Mailbox>,
    /// Of what the operator is told.
    pub kinds: Vec<Kind>,
    /// How many messages may go to one target at once.
    pub burst: u32,
    /// And then one in each of these.
    pub interval: Duration,
    /// How many failed deliveries of a tenant in an hour are told of.
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
            burst,
            interval,
            dead_letters,
        }
    }
}

impl Notify {
    /// The operator's targets. What is not whole is left out: it is refused when the settings are loaded.
    #[must_use]
    pub fn targets(&self) -> Arc<[NoticeTarget]> {
        let webhook = self.webhook_url.clone().zip(self.secret().ok().flatten());
        let webhook = webhook.map(|(url, secret)| Way::Webhook { url, secret });
        let slack = self.slack().ok().flatten().map(|url| Way::Slack { url });
        let email = (!self.email.is_empty()).then(|| Way::Email { to: self.email.clone() });
        let ways = [webhook, slack, email].into_iter().flatten();
        let on = Kinds::of(&self.kinds);
        ways.map(|way| NoticeTarget { name: format!("{OPERATOR}{}", way.name()).into(), way, on }).collect()
    }

    /// The mail server, if there is one.
    #[must_use]
    pub fn mail_server(&self, ca_files: &[PathBuf]) -> Option<MailServer> {
        Some(MailServer {
            url: self.smtp_url.clone()?,
            password: self.smtp_password.as_ref().map(|password| password.reveal().to_owned()),
            from: self.smtp_from.clone()?,
            ca_files: ca_files.to_vec(),
        })
    }

    /// Settings that are right by themselves and wrong together: the key, and why.
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
            let why = "needs a secret to sign with; say it with BREAKERBOX_NOTIFY_WEBHOOK_SECRET";
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
