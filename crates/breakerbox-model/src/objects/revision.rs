//! Revisions, which detect concurrent edits of one object.

/// The revision of a tenant, an endpoint or a reminder. It starts at 1, and each change increments it. A client can
/// pass the revision that it read together with its change; if the object has changed in the meantime, the client's
/// change is rejected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub i64);

impl Revision {
    /// The revision of a newly created object.
    pub const FIRST: Self = Self(1);

    /// Returns the revision after the next change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
