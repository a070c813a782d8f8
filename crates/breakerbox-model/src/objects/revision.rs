//! Revisions: how two people who edit the same thing notice each other.

/// Which change of a tenant or an endpoint it is, from 1 on. Whoever changes it may say which one they saw; if somebody else
/// was faster, nothing is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub i64);

impl Revision {
    /// Of what has just been created.
    pub const FIRST: Self = Self(1);

    /// After one more change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
