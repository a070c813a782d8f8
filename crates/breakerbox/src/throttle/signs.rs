//! What errors say about a destination's capacity, wherever in a chain of sources they are.
//!
//! One table, for calls of any kind and for HTTP alike. Errors are known by their types; nothing is guessed from texts. What
//! the errors of HTTP clients say is added in [`http`](crate::http).

use std::error::Error;
use std::io;

use breakerbox_core::throttle::{LoadSignal, Shed};
use breakerbox_core::{KeyError, Refusal};

use super::classify::Rejected;
use crate::probe_timeout::ProbeTimeout;

/// An error and all that is behind it.
pub(crate) fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| behind(error))
}

/// Mostly the source. Some errors hide the one that they hold: their source is that one's source.
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

/// Whether the call never left this process, so that nothing can be said about its destination.
pub(crate) fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(is_never_sent)
}

fn is_never_sent(error: &(dyn Error + 'static)) -> bool {
    error.is::<Refusal>() || error.is::<Shed>() || error.is::<KeyError>() || is_local_overload(error)
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

/// What one error says. `None`: nothing, but what is behind it may.
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
        // So a blocking socket says that its time limit ran out, on Unix.
        | io::ErrorKind::WouldBlock => Some(LoadSignal::Reject),
        // The call got nowhere, or its connection broke. To send less would not change that: it is for a circuit.
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
