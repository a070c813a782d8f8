//! The reasons for which a delivery fails.

/// The reason why a delivery failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailReason {
    /// The receiver rejected the payload.
    Rejected,
    /// All attempts were used up.
    Exhausted,
    /// The endpoint responded with status 410 (Gone).
    Gone,
    /// The delivery expired while it waited.
    Expired,
    /// The stored delivery can't be read from the database.
    Unreadable,
}
