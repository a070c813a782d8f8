//! The extractors and classifiers that middleware calls, for a request's key, its priority, and the outcome of a
//! result. (Throttles classify results with [`throttle::Classify`](crate::throttle::Classify).)
//!
//! Any function can implement them. [`http`](crate::http) has implementations for HTTP.

use breakerbox_core::throttle::Priority;
use breakerbox_core::{Key, KeyError};

use crate::circuit::Classification;

/// Extracts a request's key, which selects its circuit or throttle. Any function that takes a request implements this
/// trait. A [`Key`] is an extractor that returns itself for all requests.
///
/// ```
/// use breakerbox::{ExtractKey, Key, KeyError};
///
/// struct Order {
///     shop: String,
/// }
///
/// fn key_for<R>(extract: &impl ExtractKey<R>, request: &R) -> Result<Key, KeyError> {
///     extract.key(request)
/// }
///
/// let order = Order { shop: "north".into() };
/// let by_shop = |order: &Order| Key::new(&order.shop);
/// assert_eq!(key_for(&by_shop, &order)?.text(), "north");
/// assert_eq!(key_for(&Key::new("warehouse")?, &order)?.text(), "warehouse");
/// # Ok::<(), KeyError>(())
/// ```
pub trait ExtractKey<R> {
    /// Returns the key for this request.
    ///
    /// # Errors
    /// If the request has no valid key. The request is then not sent.
    fn key(&self, request: &R) -> Result<Key, KeyError>;
}

impl<R, F: Fn(&R) -> Result<Key, KeyError>> ExtractKey<R> for F {
    fn key(&self, request: &R) -> Result<Key, KeyError> {
        self(request)
    }
}

impl<R> ExtractKey<R> for Key {
    fn key(&self, _request: &R) -> Result<Key, KeyError> {
        Ok(self.clone())
    }
}

/// Extracts a request's priority. Any function that takes a request implements this trait.
pub trait ExtractPriority<R> {
    /// Returns the request's priority; `None` if the request has none, so that the default applies.
    fn priority(&self, request: &R) -> Option<Priority>;
}

impl<R, F: Fn(&R) -> Option<Priority>> ExtractPriority<R> for F {
    fn priority(&self, request: &R) -> Option<Priority> {
        self(request)
    }
}

/// Classifies a result for the circuit. Any function that takes a result implements this trait, such as
/// [`by_result`](crate::by_result).
///
/// The classifier is not called for calls that were never sent, because a throttle shed them or another circuit, inside
/// this one, refused them. Such calls are not counted.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a `Result<{T}, {E}>` means for a circuit",
    label = "this is no classifier of such results",
    note = "give the layer or middleware a function `Fn(&Result<{T}, {E}>) -> Classification` with `.classify_by(..)`, such as `by_result`",
    note = "`HttpOutcomes` needs HTTP responses"
)]
pub trait ClassifyResponse<T, E> {
    /// Returns whether this result is a success, a failure or ignored.
    fn classify_response(&self, result: &Result<T, E>) -> Classification;
}

impl<T, E, F: Fn(&Result<T, E>) -> Classification> ClassifyResponse<T, E> for F {
    fn classify_response(&self, result: &Result<T, E>) -> Classification {
        self(result)
    }
}
