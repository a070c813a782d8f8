//! Notifications, as far as they are decided: which change of a circuit is one, in which words, for which targets, at which
//! pace. Sending is the gateway's.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`notices`] | which change of a circuit is news, and as what |
//! | [`Notice`], [`News`] | what is told, as facts |
//! | [`Text`], [`Message`] | its words, and its form for each kind of target; the digest of many |
//! | [`Kind`], [`Kinds`], [`NoticeTarget`] | who is told of what, and where |
//! | [`Pacing`], [`after_failure`] | whose turn it is, what goes together, what is tried again and what is given up |
//! | [`TestPace`] | how fast test notices go out |
//! | [`Growth`] | whether dead letters grow |

mod decide;
mod digest;
mod growth;
mod kind;
mod message;
mod notice;
mod pacing;
mod target;
mod test_pace;
#[cfg(test)]
mod tests;
mod text;

pub use self::decide::{Known, is_old, notices};
pub use self::digest::Headline;
pub use self::growth::{Grown, Growth};
pub use self::kind::{Kind, KindError, Kinds};
pub use self::message::Message;
pub use self::notice::{
    CircuitFacts, Counted, Disabled, GivesUp, News, Notice, Recovered, STORE, Stopped, Tripped, Warned, Why,
};
pub use self::pacing::{
    AfterFailure, BACK_OFF, COUNTED, Due, MOST_WAITING, PLACES, Pacing, Turn, after_failure,
};
pub use self::target::{MOST_TARGETS, NoticeTarget, OPERATOR, Way, address, target_url};
pub use self::test_pace::TestPace;
pub use self::text::Text;
