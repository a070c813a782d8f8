//! Revisions, by which concurrent edits of one object are detected.

/// The number of a change of a tenant or an endpoint, from 1 on. A client may pass the revision that it read; if
/// another client was faster, nothing is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub i64);

impl Revision {
    /// The revision of an object that was just created.
    pub const FIRST: Self = Self(1);

    /// Returns the revision after one more change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
