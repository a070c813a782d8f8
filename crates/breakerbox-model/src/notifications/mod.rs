//! Notifications: which circuit changes cause one, its text, its targets and how often it may be sent. The gateway
//! sends them.
//!
//! | part | task |
//! | --- | --- |
//! | [`notifications`] | decides which circuit changes cause notifications, and of which kind |
//! | [`OutageStep`] | decides when an outage begins and ends; a trip is sent if it lasts |
//! | [`Notification`], [`News`] | the content of a notification, as facts |
//! | [`Text`], [`Message`] | the text, and the message for each kind of target; digests |
//! | [`Kind`], [`Kinds`], [`NotificationTarget`] | the targets, and the kinds that each receives |
//! | [`Pacing`], [`after_failure`] | which target is next, what goes into a digest, when to retry and when to stop |
//! | [`TestPace`] | the rate limit for test notifications |
//! | [`Growth`] | detects a growing number of dead letters |

mod decide;
mod digest;
mod growth;
mod kind;
mod message;
mod notification;
mod outage;
mod pacing;
mod target;
mod test_pace;
#[cfg(test)]
mod tests;
mod text;

pub use self::decide::{CircuitContext, is_old, notifications};
pub use self::digest::Headline;
pub use self::growth::{Grown, Growth};
pub use self::kind::{Kind, KindError, Kinds};
pub use self::message::Message;
pub use self::notification::{
    CircuitFacts, Counted, DisableConditions, Disabled, LastResult, News, Notification, Recovered, STORE,
    Stopped, Tripped, Warned, Why,
};
pub use self::outage::{BeganOutage, OutageStep};
pub use self::pacing::{
    AfterFailure, BACK_OFF, COUNTED, Due, MAX_IN_FLIGHT, MOST_WAITING, Pacing, PlannedMessage, after_failure,
};
pub use self::target::{MOST_TARGETS, NotificationTarget, OPERATOR, Way, address, target_url};
pub use self::test_pace::TestPace;
pub use self::text::Text;
