//! Notifications: messages to the operator or a tenant, for example when a circuit trips, recovers or is disabled, the
//! circuit store is lost, dead letters increase or a reminder stops.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`notifications`](breakerbox_model::notifications) | pure: decides content, recipients and rate |
//! | [`NotificationBuilder`] | builds notifications for circuit changes, with the policies and endpoints concerned |
//! | [`DelayedTrips`] | sends trips of circuits that have not closed after a delay |
//! | [`MessageSender`], [`Mailer`] | send one message to one target |
//! | [`Notifier`] | the loop that sends waiting notifications |
//!
//! **Exactly one notification.** For each kind, subject and epoch, the database holds one notification. It is written
//! in the same commit as the change that it reports
//! ([`WriteTransaction::notify`](breakerbox_storage_sqlite::WriteTransaction::notify)). So it does not matter which
//! process observes a change, or how often. A trip is written as an outage first, and becomes a notification later in
//! one commit, unless the circuit has closed.
//!
//! **Durable and bounded.** Waiting notifications are in the database. A message is tried six times. The number of
//! notifications that wait for a target is limited; those above the limit are counted, and the next message states
//! their number. The number of messages in flight is limited, too.
//!
//! **Independent.** Notifications do not use circuits, lanes or the delivery queue: a broken destination does not
//! prevent notifications about it, and a broken target does not delay deliveries. Requests follow the same address
//! policy as deliveries.
//!
//! **Not guaranteed:** that a message arrives only once. If the process ends after the target accepted a message but
//! before this is recorded, the message is sent again, with the same ID.

mod mail;
mod notification_builder;
mod notifier;
mod outages;
mod post;

pub use self::mail::{MailError, MailServer, Mailer, check_mail_url};
pub use self::notification_builder::{ChangeToReport, NotificationBuilder};
pub use self::notifier::{Notifier, NotifierSettings};
pub use self::outages::DelayedTrips;
pub use self::post::{Delivered, LIMIT, MessageSender};
