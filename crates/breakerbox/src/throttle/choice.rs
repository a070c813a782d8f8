//! The throttle that a middleware uses: the same one for every request, or one per key.

use breakerbox_core::throttle::{Priority, Shed};
use breakerbox_core::{Key, KeyError};

use super::context::with_priority_blocking;
use super::handle::Throttle;
use super::keyed::Throttles;
use super::pass::Pass;
use crate::extract::ExtractKey;

/// The priority for requests without one. It is in the middle, so that other requests can be more or less important.
pub(crate) const DEFAULT_PRIORITY: Priority = Priority::MEDIUM;

/// The key extractor's type if one throttle handles all requests. It has no values, because no key is ever extracted.
#[derive(Clone, Copy, Debug)]
pub enum OneForAll {}

impl<R> ExtractKey<R> for OneForAll {
    fn key(&self, _request: &R) -> Result<Key, KeyError> {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum Choice<K, C> {
    One(Throttle<C>),
    Keyed(Throttles<C>, K),
}

impl<K: Clone, C> Clone for Choice<K, C> {
    fn clone(&self) -> Self {
        match self {
            Self::One(throttle) => Self::One(throttle.clone()),
            Self::Keyed(throttles, key) => Self::Keyed(throttles.clone(), key.clone()),
        }
    }
}

/// The reason why the throttle gave no pass.
pub(crate) enum NotAdmitted {
    Shed(Shed),
    Key(KeyError),
}

impl<K, C> Choice<K, C> {
    /// Acquires a pass with the first priority that is set: the request's, the task's, the default.
    pub(crate) fn try_acquire<R>(
        &self,
        request: &R,
        own: Option<Priority>,
        default: Priority,
    ) -> Result<Pass<'static, C>, NotAdmitted>
    where
        K: ExtractKey<R>,
    {
        let of_key;
        let throttle = match self {
            Self::One(throttle) => throttle,
            Self::Keyed(throttles, key) => {
                let key = key.key(request).map_err(NotAdmitted::Key)?;
                of_key = throttles.throttle(key.text()).map_err(NotAdmitted::Key)?;
                &of_key
            }
        };
        let acquired = match own {
            // Set as the task's priority, because that would override an argument.
            Some(priority) => with_priority_blocking(priority, || throttle.try_acquire_owned(priority)),
            None => throttle.try_acquire_owned(default),
        };
        acquired.map_err(NotAdmitted::Shed)
    }
}
