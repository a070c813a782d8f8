//! Classifies HTTP clients' errors for a throttle, wherever they are in a chain of sources.
//!
//! Errors from tower, hyper and reqwest are recognised here by their types; errors that any call can return are in
//! the throttle's own table. Error messages are never used.

use std::error::Error;

use breakerbox_core::throttle::LoadSignal;

/// Classifies an HTTP client's error, without examining its sources. `None` if the error's type is unknown, so that its
/// sources must be examined.
pub(super) fn capacity(error: &(dyn Error + 'static)) -> Option<LoadSignal> {
    of_tower(error).or_else(|| of_reqwest(error)).or_else(|| of_hyper(error.downcast_ref()?))
}

/// Classifies a hyper error by what happened to the connection; `None` if the error's sources must be examined. A hyper
/// error is "canceled" if the connection closed before the request was written. It never means that the caller
/// cancelled the call, because that drops the future, which then returns no error.
fn of_hyper(error: &hyper::Error) -> Option<LoadSignal> {
    if error.is_user() {
        return Some(LoadSignal::Neither);
    }
    if error.is_timeout() {
        return Some(LoadSignal::Reject);
    }
    let lost = error.is_incomplete_message() || error.is_closed() || error.is_canceled() || error.is_parse();
    lost.then_some(LoadSignal::Neither)
}

#[cfg(feature = "tower")]
fn of_tower(error: &(dyn Error + 'static)) -> Option<LoadSignal> {
    error.is::<tower::timeout::error::Elapsed>().then_some(LoadSignal::Reject)
}

#[cfg(not(feature = "tower"))]
fn of_tower(_: &(dyn Error + 'static)) -> Option<LoadSignal> {
    None
}

/// Classifies a reqwest error, whether or not a middleware error wraps it.
#[cfg(feature = "reqwest")]
fn of_reqwest(error: &(dyn Error + 'static)) -> Option<LoadSignal> {
    match error.downcast_ref::<reqwest::Error>()? {
        client if client.is_timeout() => Some(LoadSignal::Reject),
        client if client.is_builder() || client.is_redirect() || client.is_dns() => Some(LoadSignal::Neither),
        _ => None,
    }
}

#[cfg(not(feature = "reqwest"))]
fn of_reqwest(_: &(dyn Error + 'static)) -> Option<LoadSignal> {
    None
}
