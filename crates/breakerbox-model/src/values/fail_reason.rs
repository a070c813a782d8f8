//! Why a delivery failed.

/// The reason why a delivery failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailReason {
    /// The receiver rejected this payload.
    Rejected,
    /// All attempts were used up.
    Exhausted,
    /// The endpoint reported that it is gone.
    Gone,
    /// The delivery expired while it waited.
    Expired,
    /// The stored delivery can't be read.
    Unreadable,
}
