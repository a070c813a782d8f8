//! Classifies errors by the destination's capacity, wherever they are in a chain of sources.
//!
//! One table serves calls of any kind, including HTTP. Errors are recognised by their types, never by their messages.
//! [`http`](crate::http) adds the errors of HTTP clients.

use std::error::Error;
use std::io;

use breakerbox_core::throttle::{LoadSignal, Shed};
use breakerbox_core::{KeyError, Refusal};

use super::classify::Rejected;
use crate::probe_timeout::ProbeTimeout;

/// Iterates over an error and all its sources.
pub(crate) fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| behind(error))
}

/// Returns the next error in the chain, which is usually the source. Some error types wrap an error but skip it in
/// `source`, which returns the wrapped error's source, so the wrapped error must be obtained in another way.
fn behind<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    #[cfg(feature = "reqwest-middleware")]
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            reqwest_middleware::Error::Middleware(hidden) => &**hidden,
            reqwest_middleware::Error::Reqwest(hidden) => hidden,
        });
    }
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(hidden) => Some(hidden),
        None => error.source(),
    }
}

/// Returns whether the call never left this process, so that its error says nothing about the destination.
pub(crate) fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(is_never_sent)
}

fn is_never_sent(error: &(dyn Error + 'static)) -> bool {
    error.is::<Refusal>()
        || error.is::<Shed>()
        || error.is::<KeyError>()
        || is_local_overload(error)
        || is_unbuilt(error)
}

/// Returns whether tower's own load shedding refused the call, because the inner service was not ready.
#[cfg(feature = "tower")]
fn is_local_overload(error: &(dyn Error + 'static)) -> bool {
    error.is::<tower::load_shed::error::Overloaded>()
}

#[cfg(not(feature = "tower"))]
fn is_local_overload(_: &(dyn Error + 'static)) -> bool {
    false
}

/// Returns whether a request could not be built, for example because its URL is not valid.
#[cfg(feature = "reqwest")]
fn is_unbuilt(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref().is_some_and(reqwest::Error::is_builder)
}

#[cfg(not(feature = "reqwest"))]
fn is_unbuilt(_: &(dyn Error + 'static)) -> bool {
    false
}

/// Classifies one error, without examining its sources. `None` if the error's type is unknown, so that its sources must
/// be examined.
pub(crate) fn capacity(error: &(dyn Error + 'static)) -> Option<LoadSignal> {
    if is_never_sent(error) || error.is::<tokio::task::JoinError>() {
        return Some(LoadSignal::Neither);
    }
    if error.is::<Rejected>() || error.is::<ProbeTimeout>() || error.is::<tokio::time::error::Elapsed>() {
        return Some(LoadSignal::Reject);
    }
    of_io(error.downcast_ref::<io::Error>()?.kind())
}

fn of_io(kind: io::ErrorKind) -> Option<LoadSignal> {
    match kind {
        io::ErrorKind::TimedOut
        // On Unix, a blocking socket reports a timeout like this.
        | io::ErrorKind::WouldBlock => Some(LoadSignal::Reject),
        // The call did not arrive, or its connection broke. Fewer calls would not prevent that, so it is left to the
        // circuit.
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrInUse
        | io::ErrorKind::AddrNotAvailable => Some(LoadSignal::Neither),
        _ => None,
    }
}
