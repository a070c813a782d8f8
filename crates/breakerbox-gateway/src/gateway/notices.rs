//! The notifications of this gateway: its targets, its mail server, its limits.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox::StoreHealth;
use breakerbox_core::Timestamp;
use breakerbox_egress::HttpSender;
use breakerbox_model::notifications::Notice;
use breakerbox_model::objects::TenantId;
use tracing::{info, warn};

use super::start_error::StartError;
use crate::api::{NoticeTest, TestedTarget};
use crate::config::Config;
use crate::notifications::{LIMIT, Mailer, Notifier, NotifierSettings, Post};

/// Builds the sender of messages to targets.
pub(super) fn post(config: &Config, http_sender: Arc<dyn HttpSender>) -> Result<Post, StartError> {
    let server = config.notify.mail_server(&config.egress.ca_files);
    let mailer = server.map(|server| Mailer::new(&server, LIMIT)).transpose();
    Ok(Post::new(http_sender, mailer?))
}

pub(super) fn settings(config: &Config) -> NotifierSettings {
    let notify = &config.notify;
    NotifierSettings {
        burst: notify.burst,
        interval: notify.interval,
        dead_letters: notify.dead_letters,
        kept: config.retention.notices,
    }
}

/// Builds, and logs, the notification about a lost or recovered circuit store.
pub(super) fn of_store(health: &StoreHealth, now: Timestamp) -> Notice {
    match health {
        StoreHealth::Connected => {
            info!("the store of circuits answers again");
            Notice::store_back(now)
        }
        away => {
            warn!(%away, "the store of circuits does not answer");
            let error = match away {
                StoreHealth::Degraded { error } => error.clone(),
                other => other.to_string(),
            };
            Notice::store_lost(error, now)
        }
    }
}

/// Sends test messages to a tenant's targets.
pub(super) struct Tests(pub(super) Arc<Notifier>);

#[async_trait]
impl NoticeTest for Tests {
    async fn test(&self, tenant: &TenantId) -> Result<Vec<TestedTarget>, Timestamp> {
        let tested = self.0.test(tenant).await?.into_iter();
        Ok(tested.map(|(target, delivered)| TestedTarget { target, delivered }).collect())
    }
}
