//! Notices: what people are told.
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
pub use self::text::Text;
