//! Notices: what people are told when a circuit trips, comes back or is given up, when the store of circuits goes away, when dead
//! letters grow, when a reminder stops.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`notifications`](breakerbox_model::notifications) | pure: what is news, in which words, for whom, at which pace |
//! | [`Teller`] | finds the words for changes, with the policies and endpoints that they concern |
//! | [`Post`], [`Mailer`] | takes one message to one target |
//! | [`Notifier`] | the loop that sends what waits |
//!
//! **Once.** Of each kind, subject and epoch there is one notice, in the database, written in the commit of what it is about
//! ([`Writing::tell`](breakerbox_storage_sqlite::Writing::tell)). So it does not matter who notices a change, nor how often.
//!
//! **Not lost, and bounded.** What waits is in the database. A message is tried six times; so many notices wait for a target, and
//! those beyond are counted and said; so many messages are under way.
//!
//! **Apart.** Nothing here goes through circuits, lanes or the queue of deliveries: that a destination is broken keeps nobody
//! from hearing of it, and a broken target delays no delivery. Requests go by the same address policy as deliveries.
//!
//! What is not promised: that a message comes only once. One that was taken when the process ended comes again, with its id.

mod mail;
mod notifier;
mod post;
mod teller;

pub use self::mail::{MailError, MailServer, Mailer, check_mail_url};
pub use self::notifier::{Notifier, NotifierSettings};
pub use self::post::{Delivered, LIMIT, Post};
pub use self::teller::{Teller, ToTell};
