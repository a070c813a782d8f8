//! Classifies the errors of HTTP clients for a throttle, wherever they are in a chain of sources.
//!
//! The errors of tower, hyper and reqwest are recognised here by their types; errors that any call can have are in the
//! throttle's own table. Texts of errors are never used.

use std::error::Error;

use breakerbox_core::throttle::LoadSignal;

/// Classifies an error of an HTTP client, without its sources. `None`: not known here, so the sources decide.
pub(super) fn capacity(error: &(dyn Error + 'static)) -> Option<LoadSignal> {
    of_tower(error).or_else(|| of_reqwest(error)).or_else(|| of_hyper(error.downcast_ref()?))
}

/// Classifies an error of hyper. Without a source, it states what happened to the connection. A canceled request is one
/// whose connection closed before it was written: a canceled call shows as a dropped future, not as an error.
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

/// Classifies an error of reqwest, with or without the error of a middleware around it.
#[cfg(feature = "reqwest-middleware")]
fn of_reqwest(error: &(dyn Error + 'static)) -> Option<LoadSignal> {
    match error.downcast_ref::<reqwest::Error>()? {
        client if client.is_timeout() => Some(LoadSignal::Reject),
        client if client.is_builder() || client.is_redirect() || client.is_dns() => Some(LoadSignal::Neither),
        _ => None,
    }
}

#[cfg(not(feature = "reqwest-middleware"))]
fn of_reqwest(_: &(dyn Error + 'static)) -> Option<LoadSignal> {
    None
}
