//! What errors tell, wherever in a chain of sources they are.
//!
//! Errors of circuits, throttles, tower, hyper and reqwest are known here by their types. Nothing is guessed from texts.

use std::error::Error;
use std::io;

use breakerbox_core::throttle::{Shed, Verdict};
use breakerbox_core::{KeyError, Refusal};

pub(super) use crate::throttle::chain;

/// Whether the call never left this process, so that nothing can be said about its destination.
pub(crate) fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|error| {
        error.is::<Refusal>() || error.is::<Shed>() || error.is::<KeyError>() || is_local_overload(error)
    })
}

/// Tower's own load shedding: the service inside had no room.
#[cfg(feature = "tower")]
fn is_local_overload(error: &(dyn Error + 'static)) -> bool {
    error.is::<tower::load_shed::error::Overloaded>()
}

#[cfg(not(feature = "tower"))]
fn is_local_overload(_: &(dyn Error + 'static)) -> bool {
    false
}

/// What an error of an HTTP client tells a throttle. `None`: nothing, but its sources may.
pub(super) fn capacity(error: &(dyn Error + 'static)) -> Option<Verdict> {
    of_tower(error).or_else(|| of_reqwest(error)).or_else(|| {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return of_hyper(error);
        }
        match error.downcast_ref::<io::Error>()?.kind() {
            // A connection that went away while the request was written, or before the answer was whole.
            io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => Some(Verdict::Reject),
            _ => None,
        }
    })
}

/// Without a source of its own, hyper's error says what became of the connection. A canceled request is one whose
/// connection closed before it was written: a canceled call shows as a dropped future, not as an error.
fn of_hyper(error: &hyper::Error) -> Option<Verdict> {
    if error.is_user() {
        return Some(Verdict::Neither);
    }
    let lost = error.is_timeout()
        || error.is_incomplete_message()
        || error.is_closed()
        || error.is_canceled()
        || error.is_parse();
    lost.then_some(Verdict::Reject)
}

#[cfg(feature = "tower")]
fn of_tower(error: &(dyn Error + 'static)) -> Option<Verdict> {
    let given_up = matches!(error.downcast_ref(), Some(crate::tower::circuit::Error::ProbeTimedOut));
    (given_up || error.is::<tower::timeout::error::Elapsed>()).then_some(Verdict::Reject)
}

#[cfg(not(feature = "tower"))]
fn of_tower(_: &(dyn Error + 'static)) -> Option<Verdict> {
    None
}

#[cfg(feature = "reqwest-middleware")]
fn of_reqwest(error: &(dyn Error + 'static)) -> Option<Verdict> {
    // Its own error hides the one of the middleware or of the client: their sources come next in the chain, not they.
    let client = match error.downcast_ref()? {
        reqwest_middleware::Error::Reqwest(client) => client,
        reqwest_middleware::Error::Middleware(hidden) => {
            let given_up = matches!(hidden.downcast_ref(), Some(crate::reqwest::Error::ProbeTimedOut));
            return given_up.then_some(Verdict::Reject);
        }
    };
    match client {
        client if client.is_timeout() => Some(Verdict::Reject),
        client if client.is_builder() || client.is_redirect() || client.is_dns() => Some(Verdict::Neither),
        _ => None,
    }
}

#[cfg(not(feature = "reqwest-middleware"))]
fn of_reqwest(_: &(dyn Error + 'static)) -> Option<Verdict> {
    None
}
