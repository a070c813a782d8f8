//! Sets up notifications: targets, mail server, limits.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox::StoreHealth;
use breakerbox_core::Timestamp;
use breakerbox_egress::HttpSender;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::TenantId;
use tracing::{info, warn};

use super::start_error::StartError;
use crate::api::{NotificationTest, TestedTarget};
use crate::config::Config;
use crate::notifications::{LIMIT, Mailer, MessageSender, Notifier, NotifierSettings};

/// Creates the sender for messages to targets.
pub(super) fn post(config: &Config, http_sender: Arc<dyn HttpSender>) -> Result<MessageSender, StartError> {
    let server = config.notify.mail_server(&config.egress.ca_files);
    let mailer = server.map(|server| Mailer::new(&server, LIMIT)).transpose();
    Ok(MessageSender::new(http_sender, mailer?))
}

pub(super) fn settings(config: &Config) -> NotifierSettings {
    let notify = &config.notify;
    NotifierSettings {
        burst: notify.burst,
        interval: notify.interval,
        dead_letters: notify.dead_letters,
        kept: config.retention.notifications,
    }
}

/// Builds and logs the notification that the circuit store was lost or recovered.
pub(super) fn of_store(health: &StoreHealth, now: Timestamp) -> Notification {
    match health {
        StoreHealth::Connected => {
            info!("the circuit store responds again");
            Notification::store_back(now)
        }
        away => {
            warn!(%away, "the circuit store does not respond");
            let error = match away {
                StoreHealth::Degraded { error } => error.clone(),
                other => other.to_string(),
            };
            Notification::store_lost(error, now)
        }
    }
}

/// Sends test messages to a tenant's targets.
pub(super) struct Tests(pub(super) Arc<Notifier>);

#[async_trait]
impl NotificationTest for Tests {
    async fn test(&self, tenant: &TenantId) -> Result<Vec<TestedTarget>, Timestamp> {
        let tested = self.0.test(tenant).await?.into_iter();
        Ok(tested.map(|(target, delivered)| TestedTarget { target, delivered }).collect())
    }
}
