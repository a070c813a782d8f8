//! The latest attempt of a delivery, an endpoint or a circuit: the receiver's status, or why it did not respond.

use std::sync::Arc;

use breakerbox_core::Timestamp;

use super::Fault;

/// The result of the latest attempt, without the response itself.
///
/// ```
/// use breakerbox_core::Timestamp;
/// use breakerbox_model::delivery::Fault;
/// use breakerbox_model::objects::LastAttempt;
///
/// let refused = LastAttempt {
///     started_at: Timestamp::ZERO,
///     status: None,
///     fault: Some(Fault::Connect),
///     detail: Some("connection refused".into()),
/// };
/// assert_eq!(refused.error().as_deref(), Some("connect: connection refused"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastAttempt {
    /// When the request began.
    pub started_at: Timestamp,
    /// The response's HTTP status. `None`: there was no response.
    pub status: Option<u16>,
    /// Why there was no response. `None`: there was a response.
    pub fault: Option<Fault>,
    /// Human-readable details of the fault, if any.
    pub detail: Option<Arc<str>>,
}

impl LastAttempt {
    /// Returns why there was no response: the name of the fault and its details. `None` if there was a response.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        let class = self.fault?.name();
        Some(match self.detail.as_deref() {
            Some(detail) if !detail.is_empty() => format!("{class}: {detail}"),
            _ => class.to_owned(),
        })
    }

    /// Returns whether another attempt had the same status or fault.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.status, self.fault) == (other.status, other.fault)
    }
}
