//! Notifications: messages to the operator or a tenant when a circuit trips, recovers or is disabled, when the store of
//! circuits is lost, when dead letters grow, when a reminder stops.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`notifications`](breakerbox_model::notifications) | pure: decides content, recipients and pace |
//! | [`NotificationBuilder`] | builds the notifications of circuit changes, with the policies and endpoints concerned |
//! | [`MessageSender`], [`Mailer`] | send one message to one target |
//! | [`Notifier`] | the loop that sends waiting notifications |
//!
//! **Exactly one notification.** For each kind, subject and epoch the database holds one notification, written in the
//! commit of the change that it reports ([`WriteTransaction::notify`](breakerbox_storage_sqlite::WriteTransaction::notify)). So it does not
//! matter which process observes a change, nor how often.
//!
//! **Durable and bounded.** Waiting notifications are in the database. A message is tried six times. The number of
//! notifications that wait for a target is bounded; those above are counted, and the next message states the count. The
//! number of messages in flight is bounded, too.
//!
//! **Independent.** Notifications use no circuit, no lane and no delivery queue: a broken destination does not keep
//! people from being notified of it, and a broken target delays no delivery. Requests follow the same address policy as
//! deliveries.
//!
//! **Not guaranteed:** that a message arrives only once. If the process ends after the target took a message and before
//! that is written, the message is sent again, with the same id.

mod mail;
mod notification_builder;
mod notifier;
mod post;

pub use self::mail::{MailError, MailServer, Mailer, check_mail_url};
pub use self::notification_builder::{ChangeToReport, NotificationBuilder};
pub use self::notifier::{Notifier, NotifierSettings};
pub use self::post::{Delivered, LIMIT, MessageSender};
