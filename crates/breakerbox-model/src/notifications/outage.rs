//! Decides what a circuit's change means for its outage, of which people are notified once.
//!
//! An outage begins when a rule opens the circuit and ends when the circuit closes, however often failed probes open
//! it again in between. A `trip` is sent only if the circuit has not closed after a delay, so that a short outage
//! causes no message, and a `recovery` only if people were notified of its outage.
//!
//! | change | step |
//! | --- | --- |
//! | a rule opened the circuit | the outage begins |
//! | a failed probe opened it again, or a probe began | none |
//! | a rule or a failed probe disabled it | people are notified at once: the trip is not sent any more |
//! | an operator's override did not close it | a trip that was not sent yet is never sent: the operator knows |
//! | the gateway lets it probe at once, because of an outage on its side | none |
//! | it closed | the outage ends |

use std::time::Duration;

use breakerbox_core::{Cause, Change, CircuitStatus, OverrideCommand, Timestamp};

use super::decide::{CircuitContext, is_failure, trip};
use super::notification::{News, Notification};
use crate::delivery::LastAttempt;
use crate::values::Moment;

/// The effect of a circuit's change on its outage.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum OutageStep {
    /// The change does not affect the outage, if there is one.
    #[default]
    None,
    /// An outage begins.
    Begins(Box<BeganOutage>),
    /// People are notified of the outage by another notification.
    Notified,
    /// An operator took over. If people were not notified of the outage yet, they never are.
    TakenOver,
    /// The circuit closed.
    Ends,
}

/// An outage that began.
#[derive(Clone, PartialEq, Debug)]
pub struct BeganOutage {
    /// The notification to send if the outage lasts.
    pub trip: Notification,
    /// How long the outage must last before `trip` is sent. Zero: `trip` is sent at once.
    pub after: Duration,
    /// Whether the beginning was observed. If not, an outage that is already known continues.
    pub is_new: bool,
}

impl OutageStep {
    /// Returns the effect of a circuit's change. A trip is sent if the outage lasts for `after`.
    #[must_use]
    pub fn of(key: &str, change: &Change, known: &CircuitContext<'_>, after: Duration) -> Self {
        let begins =
            |is_new| Self::Begins(Box::new(BeganOutage { trip: trip(key, change, known), after, is_new }));
        match (change.to, &change.cause) {
            (CircuitStatus::Closed, _) => Self::Ends,
            (CircuitStatus::Disabled, cause) if is_failure(cause) => Self::Notified,
            (_, Cause::Override { command: OverrideCommand::Excuse, .. }) => Self::None,
            (_, Cause::Override { .. }) => Self::TakenOver,
            (CircuitStatus::Open | CircuitStatus::HalfOpen, Cause::Rule(_)) => begins(true),
            (CircuitStatus::Open | CircuitStatus::HalfOpen, _) if known.is_unreported_outage => begins(false),
            _ => Self::None,
        }
    }
}

impl Notification {
    /// Returns a trip with the circuit's present number of trips, time of the next probe and latest attempt. A trip that
    /// is sent later than the circuit opened would otherwise announce a probe in the past.
    #[must_use]
    pub fn at_present(mut self, trips: u32, retry_at: Option<Timestamp>, last: Option<&LastAttempt>) -> Self {
        if let News::Trip(news) = &mut self.news {
            news.trips = news.trips.max(trips);
            news.retry_at = retry_at.map(Moment);
            if let Some(last) = last {
                news.last = last.into();
            }
        }
        self
    }
}
