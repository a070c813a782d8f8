//! Revisions, which detect concurrent edits of one object.

/// The revision of a tenant, an endpoint or a reminder. It starts at 1, and each change increments it. If a client
/// passes the revision that it read and another client has changed the object since, nothing is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub i64);

impl Revision {
    /// The revision of a newly created object.
    pub const FIRST: Self = Self(1);

    /// Returns the revision that follows the next change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
