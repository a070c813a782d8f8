//! Takes one message to one target, by the way that leads there, and says what came of it. No circuit, no lane, no retry: that a
//! destination is broken must not keep anybody from hearing of it, and whoever retries is somebody else.
//!
//! Requests go by the same address policy as deliveries.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use tokio::time::timeout;

use super::mail::Mailer;
use super::message::Message;
use super::target::Way;
use crate::delivery::{Reply, Signer};
use crate::send::{Courier, Outgoing, Target};

/// How long one message may take.
pub const LIMIT: Duration = Duration::from_secs(10);

const AGENT: HeaderValue = HeaderValue::from_static(concat!("Breakerbox/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What came of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// Whether the target took it.
    pub well: bool,
    /// What it answered, in a few words.
    pub answer: String,
}

/// Takes messages to targets.
#[derive(Clone)]
pub struct Post {
    courier: Arc<dyn Courier>,
    mailer: Option<Mailer>,
}

impl Post {
    /// By this courier, and by this mailer if there is one.
    #[must_use]
    pub fn new(courier: Arc<dyn Courier>, mailer: Option<Mailer>) -> Self {
        Self { courier, mailer }
    }

    /// Sends a message, within its time.
    pub async fn send(&self, way: &Way, message: &Message, now: Timestamp) -> Delivered {
        match way {
            Way::Webhook { url, secret } => {
                let body = message.webhook();
                let mut headers = headers();
                let seconds = now.as_micros() / 1_000_000;
                Signer::new(std::slice::from_ref(secret)).add_to(&mut headers, &message.id, seconds, &body);
                self.request(url, headers, body).await
            }
            Way::Slack { url } => self.request(url, headers(), message.slack()).await,
            Way::Email { to } => {
                let Some(mailer) = &self.mailer else {
                    let answer = "there is no mail server; set notify.smtp_url".to_owned();
                    return Delivered { well: false, answer };
                };
                match timeout(LIMIT, mailer.send(to, message)).await {
                    Ok(Ok(answer)) => Delivered { well: true, answer },
                    Ok(Err(answer)) => Delivered { well: false, answer },
                    Err(_) => Delivered { well: false, answer: "timeout".into() },
                }
            }
        }
    }

    async fn request(&self, url: &url::Url, headers: HeaderMap, body: bytes::Bytes) -> Delivered {
        let Ok(target) = Target::new(url) else {
            return Delivered { well: false, answer: "the URL can't be read".into() };
        };
        let incoming = self.courier.send(Outgoing { target, headers, body, limit: LIMIT }).await;
        match incoming.reply {
            Reply::Answered { status, .. } => {
                Delivered { well: (200..300).contains(&status), answer: status.to_string() }
            }
            Reply::Failed(fault) => {
                let detail = incoming.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
                let answer = format!("{}{detail}", fault.name());
                Delivered { well: false, answer: answer.chars().take(300).collect() }
            }
        }
    }
}

fn headers() -> HeaderMap {
    HeaderMap::from_iter([(USER_AGENT, AGENT), (CONTENT_TYPE, JSON)])
}
