//! Notices: what people are told when a circuit trips, comes back or is given up, when the store of circuits goes away, when dead
//! letters grow, when a reminder stops.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`notices`] | pure: which change of a circuit is news, and as what |
//! | [`Notice`], [`News`] | what is told, as facts |
//! | [`Text`], [`Message`] | pure: its words, and its form for each kind of target; the digest of many |
//! | [`Kind`], [`Kinds`], [`NoticeTarget`] | who is told of what, and where |
//! | [`Pacing`], [`after_failure`] | pure: whose turn it is, what goes together, what is tried again and what is given up |
//! | [`TestPace`] | pure: how fast test notices go out |
//! | [`Growth`] | pure: whether dead letters grow |
//! | [`Teller`] | finds the words for changes, with the policies and endpoints that they concern |
//! | [`Post`], [`Mailer`] | takes one message to one target |
//! | [`Notifier`] | the loop that sends what waits |
//!
//! **Once.** Of each kind, subject and epoch there is one notice, in the database, written in the commit of what it is about
//! ([`Writing::tell`](crate::queue::sqlite::Writing::tell)). So it does not matter who notices a change, nor how often.
//!
//! **Not lost, and bounded.** What waits is in the database. A message is tried six times; so many notices wait for a target, and
//! those beyond are counted and said; so many messages are under way.
//!
//! **Apart.** Nothing here goes through circuits, lanes or the queue of deliveries: that a destination is broken keeps nobody
//! from hearing of it, and a broken target delays no delivery. Requests go by the same address policy as deliveries.
//!
//! What is not promised: that a message comes only once. One that was taken when the process ended comes again, with its id.

mod decide;
mod digest;
mod growth;
mod kind;
mod mail;
mod message;
mod notice;
mod notifier;
mod pacing;
mod post;
mod target;
mod teller;
mod test_pace;
#[cfg(test)]
mod tests;
mod text;

pub use self::decide::{Known, is_old, notices};
pub use self::digest::Headline;
pub use self::growth::{Grown, Growth};
pub use self::kind::{Kind, KindError, Kinds};
pub use self::mail::{MailError, MailServer, Mailer, check_mail_url};
pub use self::message::Message;
pub(crate) use self::notice::STORE;
pub use self::notice::{
    CircuitFacts, Counted, Disabled, GivesUp, News, Notice, Recovered, Stopped, Tripped, Warned, Why,
};
pub use self::notifier::{Notifier, NotifierSettings};
pub use self::pacing::{
    AfterFailure, BACK_OFF, COUNTED, Due, MOST_WAITING, PLACES, Pacing, Turn, after_failure,
};
pub use self::post::{Delivered, LIMIT, Post};
pub use self::target::{MOST_TARGETS, NoticeTarget, OPERATOR, Way, address, target_url};
pub use self::teller::{Teller, ToTell};
pub use self::test_pace::TestPace;
pub use self::text::Text;
