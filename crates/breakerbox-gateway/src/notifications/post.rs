//! Sends one message to one target, by webhook, Slack or mail, and returns the response. It uses no circuit and no
//! lane, since a broken destination must not prevent notifications about it. It does not retry; the caller does.
//!
//! Requests follow the same address policy as deliveries.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_egress::{HttpSender, Outgoing};
use breakerbox_model::delivery::{Fault, Reply, Signer, Target};
use breakerbox_model::notifications::{Message, Way};
use breakerbox_model::objects::TenantId;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use tokio::time::timeout;

use super::mail::Mailer;

/// The timeout for sending one message.
pub const LIMIT: Duration = Duration::from_secs(10);

const AGENT: HeaderValue = HeaderValue::from_static(concat!("Breakerbox/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The result of sending a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// Whether the target accepted the message.
    pub well: bool,
    /// A short form of the target's response, or the error.
    pub answer: String,
    /// Whether a local fault kept the gateway from sending, so that the target is not to blame.
    pub is_local_fault: bool,
}

impl Delivered {
    /// Creates a result from a target's response.
    pub fn new(well: bool, answer: impl Into<String>) -> Self {
        Self { well, answer: answer.into(), is_local_fault: false }
    }
}

/// Sends messages to notification targets.
#[derive(Clone)]
pub struct MessageSender {
    http_sender: Arc<dyn HttpSender>,
    mailer: Option<Mailer>,
}

impl MessageSender {
    /// Creates a sender with this HTTP client, and this mailer if there is one.
    #[must_use]
    pub fn new(http_sender: Arc<dyn HttpSender>, mailer: Option<Mailer>) -> Self {
        Self { http_sender, mailer }
    }

    /// Sends a message for a tenant or the operator, within ten seconds.
    pub async fn send(
        &self,
        tenant: Option<&TenantId>,
        way: &Way,
        message: &Message,
        now: Timestamp,
    ) -> Delivered {
        match way {
            Way::Webhook { url, secret } => {
                let body = message.webhook();
                let mut headers = headers();
                let seconds = now.as_micros() / 1_000_000;
                Signer::new(std::slice::from_ref(secret)).add_to(&mut headers, &message.id, seconds, &body);
                self.request(tenant, url, headers, body).await
            }
            Way::Slack { url } => self.request(tenant, url, headers(), message.slack()).await,
            Way::Email { to } => {
                let Some(mailer) = &self.mailer else {
                    return Delivered::new(false, "no mail server is configured; set notify.smtp_url");
                };
                match timeout(LIMIT, mailer.send(to, message)).await {
                    Ok(Ok(answer)) => Delivered::new(true, answer),
                    Ok(Err(answer)) => Delivered::new(false, answer),
                    Err(_) => Delivered::new(false, "timeout"),
                }
            }
        }
    }

    async fn request(
        &self,
        tenant: Option<&TenantId>,
        url: &url::Url,
        headers: HeaderMap,
        body: bytes::Bytes,
    ) -> Delivered {
        let Ok(target) = Target::new(url) else {
            return Delivered::new(false, "the URL is invalid");
        };
        let outgoing = Outgoing { target, headers, body, limit: LIMIT, tenant: tenant.cloned() };
        let incoming = self.http_sender.send(outgoing).await;
        match incoming.reply {
            Reply::Answered { status, .. } => {
                Delivered::new((200..300).contains(&status), status.to_string())
            }
            Reply::Failed(fault) => {
                let detail = incoming.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
                let answer = format!("{}{detail}", fault.name());
                let is_local_fault = matches!(fault, Fault::Local(_));
                Delivered { well: false, answer: answer.chars().take(300).collect(), is_local_fault }
            }
        }
    }
}

fn headers() -> HeaderMap {
    HeaderMap::from_iter([(USER_AGENT, AGENT), (CONTENT_TYPE, JSON)])
}
