//! What single statuses mean, where the owner says so.

use http::StatusCode;

/// Meanings that differ from the usual ones. There are few, so they are looked through.
#[derive(Clone, Debug)]
pub(super) struct Statuses<T>(Vec<(StatusCode, T)>);

impl<T: Copy> Statuses<T> {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// The latest word on a status counts.
    pub(super) fn set(&mut self, status: StatusCode, means: T) {
        self.0.retain(|(other, _)| *other != status);
        self.0.push((status, means));
    }

    pub(super) fn of(&self, status: StatusCode) -> Option<T> {
        self.0.iter().find(|(other, _)| *other == status).map(|(_, means)| *means)
    }
}
