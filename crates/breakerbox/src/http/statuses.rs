//! Overrides for individual statuses.

use http::StatusCode;

/// The statuses whose classification differs from the default. There are only a few, so a linear search is enough.
#[derive(Clone, Debug)]
pub(super) struct Statuses<T>(Vec<(StatusCode, T)>);

impl<T: Copy> Statuses<T> {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Sets a status's classification, replacing an earlier override.
    pub(super) fn set(&mut self, status: StatusCode, means: T) {
        self.0.retain(|(other, _)| *other != status);
        self.0.push((status, means));
    }

    pub(super) fn of(&self, status: StatusCode) -> Option<T> {
        self.0.iter().find(|(other, _)| *other == status).map(|(_, means)| *means)
    }
}
