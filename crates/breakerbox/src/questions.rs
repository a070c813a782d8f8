//! The questions that a middleware asks its owner: whose circuit is this, how important is it, and what does a result
//! mean? (What a result means for a throttle is [`throttle::Classify`](crate::throttle::Classify).)
//!
//! Any function can answer them. Ready answers for HTTP are in [`http`](crate::http).

use breakerbox_core::throttle::Priority;
use breakerbox_core::{Key, KeyError};

use crate::call::Classification;

/// Says whose circuit or throttle a request is for. Any function of a request will do, and a [`Key`] is the answer to
/// every request.
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
    /// The key of this request.
    ///
    /// # Errors
    /// If the request is not fit for a key. It is then not sent.
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

/// Says how important a request is. Any function of a request will do.
pub trait ExtractPriority<R> {
    /// The priority that this request carries; none if it carries none.
    fn priority(&self, request: &R) -> Option<Priority>;
}

impl<R, F: Fn(&R) -> Option<Priority>> ExtractPriority<R> for F {
    fn priority(&self, request: &R) -> Option<Priority> {
        self(request)
    }
}

/// Says what a result means for the circuit. Any function of a result will do, such as [`by_result`](crate::by_result).
///
/// It is not asked about calls that were never sent: a shed of a throttle, or a refusal of another circuit, inside this
/// one. Those count nowhere.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a `Result<{T}, {E}>` means for a circuit",
    label = "this is no classifier of such results",
    note = "give the layer or middleware a function `Fn(&Result<{T}, {E}>) -> Classification` with `.classify_by(..)`, such as `by_result`",
    note = "`HttpOutcomes` needs HTTP responses"
)]
pub trait ClassifyResponse<T, E> {
    /// What this result means.
    fn judge(&self, result: &Result<T, E>) -> Classification;
}

impl<T, E, F: Fn(&Result<T, E>) -> Classification> ClassifyResponse<T, E> for F {
    fn judge(&self, result: &Result<T, E>) -> Classification {
        self(result)
    }
}
