//! Classifies results by the destination's capacity: it accepted the call, it was overloaded, or neither.
//!
//! A classifier belongs to a throttle or to one call. There is no global classifier.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use breakerbox_core::throttle::LoadSignal;

use super::signs::{capacity, chain};

/// Classifies a call's result by what it says about the destination's capacity. Any function that takes a result
/// implements this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a `Result<{T}, {E}>` means for a throttle",
    label = "this is no classifier of such results",
    note = "for one call, use `call_classified` with a function `FnOnce(&Result<{T}, {E}>) -> LoadSignal`",
    note = "for all calls of a throttle, give its builder one with `.classify(..)`; a layer or middleware, with `.classify_by(..)`",
    note = "`Overload` needs an error type that implements `std::error::Error`; `HttpOverload` needs HTTP responses"
)]
pub trait Classify<T, E> {
    /// Returns whether the destination accepted or rejected the call, or neither.
    fn classify(&self, result: &Result<T, E>) -> LoadSignal;
}

impl<T, E, F: Fn(&Result<T, E>) -> LoadSignal> Classify<T, E> for F {
    fn classify(&self, result: &Result<T, E>) -> LoadSignal {
        self(result)
    }
}

/// The default classifier, which searches an error and its sources for signs of overload.
///
/// | found | signal |
/// | --- | --- |
/// | [`Rejected`]; a timeout | reject |
/// | a [`Shed`], a [`Refusal`] or a [`KeyError`]: the call was never sent | neither |
/// | a connection that was refused, reset, aborted or lost; a host, network or address that cannot be reached | neither |
/// | a task that was cancelled or panicked | neither |
/// | any other error, and `Ok` | accept: the destination took the call, whatever the response |
///
/// It recognises errors from the standard library, tokio and this crate. For HTTP clients' errors use `HttpOverload`
/// in the module `http`, which requires the feature `http`.
///
/// [`KeyError`]: crate::KeyError
/// [`Refusal`]: crate::Refusal
/// [`Shed`]: super::Shed
///
/// ```
/// use breakerbox::throttle::{Overload, LoadSignal};
/// use std::io;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("the user pressed stop")]
/// struct Stopped;
///
/// let overload = Overload::default().or(|error| error.is::<Stopped>().then_some(LoadSignal::Neither));
/// assert_eq!(overload.of(&Stopped), LoadSignal::Neither);
/// assert_eq!(overload.of(&io::Error::from(io::ErrorKind::TimedOut)), LoadSignal::Reject);
/// assert_eq!(overload.of(&io::Error::from(io::ErrorKind::InvalidData)), LoadSignal::Accept);
/// ```
#[derive(Clone, Default)]
pub struct Overload {
    signs: Vec<Sign>,
}

type Sign = Arc<dyn Fn(&(dyn Error + 'static)) -> Option<LoadSignal> + Send + Sync>;

impl Overload {
    /// Adds a check for errors, which runs before the built-in checks. The check must return `None` for errors that it
    /// does not recognise.
    #[must_use]
    pub fn or(
        mut self,
        sign: impl Fn(&(dyn Error + 'static)) -> Option<LoadSignal> + Send + Sync + 'static,
    ) -> Self {
        self.signs.push(Arc::new(sign));
        self
    }

    /// Classifies an error that is not in a `Result`, for example one in a box.
    #[must_use]
    pub fn of(&self, error: &(dyn Error + 'static)) -> LoadSignal {
        self.added_checks(error).or_else(|| Self::built_in_checks(error)).unwrap_or(LoadSignal::Accept)
    }

    /// Returns the first result of the checks that the user added; `None` if no check recognises the error.
    pub(crate) fn added_checks(&self, error: &(dyn Error + 'static)) -> Option<LoadSignal> {
        chain(error).find_map(|error| self.signs.iter().find_map(|sign| sign(error)))
    }

    /// Returns the result of the built-in checks; `None` if they do not recognise the error.
    pub(crate) fn built_in_checks(error: &(dyn Error + 'static)) -> Option<LoadSignal> {
        chain(error).find_map(capacity)
    }
}

impl<T, E: Error + 'static> Classify<T, E> for Overload {
    fn classify(&self, result: &Result<T, E>) -> LoadSignal {
        result.as_ref().map_or_else(|error| self.of(error), |_| LoadSignal::Accept)
    }
}

impl fmt::Debug for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overload").field("more_signs", &self.signs.len()).finish()
    }
}

/// An error by which the caller declares that the destination is overloaded.
///
/// ```
/// use breakerbox::throttle::{Overload, Rejected, LoadSignal};
/// use std::error::Error;
///
/// let busy = Rejected::because("queue full");
/// assert_eq!(busy.to_string(), "rejected by the destination");
/// assert_eq!(busy.source().expect("what was wrapped").to_string(), "queue full");
/// assert_eq!(Overload::default().of(&busy), LoadSignal::Reject);
/// ```
#[derive(Debug, thiserror::Error)]
#[error("rejected by the destination")]
pub struct Rejected(#[source] Box<dyn Error + Send + Sync>);

impl Rejected {
    /// Creates the error from another error or a string.
    pub fn because(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// Returns the wrapped error.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}
