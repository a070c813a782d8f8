//! Maps errors from other libraries to a fault and a short, human-readable detail. Details never contain a URL, a
//! header or a payload, since tenants can read them.

use std::error::Error;
use std::io;

use breakerbox_model::delivery::{Fault, LocalFault};
use rustls::InvalidMessage;

use super::connection::Wire;
use crate::host::local_fault;

/// The maximum length of a fault's description, in characters.
const MAX_DETAIL: usize = 200;

/// The reason why a connection failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{detail}")]
pub(super) struct ConnectError {
    pub(super) fault: Fault,
    pub(super) detail: String,
}

impl ConnectError {
    pub(super) fn new(fault: Fault, detail: impl Into<String>) -> Self {
        Self { fault, detail: detail.into() }
    }

    /// Maps an I/O error on a connection.
    pub(super) fn of_io(fault: Fault, error: &io::Error) -> Self {
        let fault = local_fault(error).map_or(fault, Fault::Local);
        Self::new(fault, plain(error))
    }

    /// Maps a TLS handshake error: an untrusted certificate, a receiver without TLS, or a broken connection.
    pub(super) fn of_handshake(error: &io::Error) -> Self {
        match find::<rustls::Error>(error) {
            // The receiver's first bytes are not TLS. Most likely, they are a response in plain HTTP.
            Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Self::new(
                Fault::Tls,
                "the server does not speak TLS on this port; for plain HTTP, use http://",
            ),
            Some(error) => Self::new(Fault::Tls, error.to_string()),
            None => {
                let Self { fault, detail } = Self::of_io(Fault::Reset, error);
                Self::new(fault, format!("connection lost during the TLS handshake: {detail}"))
            }
        }
    }

    /// Maps an error in connecting to the proxy to a local fault, because such an error reveals nothing about the
    /// receiver.
    pub(super) fn at_proxy(self) -> Self {
        let fault = match self.fault {
            Fault::Local(cause) => Fault::Local(cause),
            _ => Fault::Local(LocalFault::Proxy),
        };
        Self { fault, detail: format!("the proxy can't be reached: {}", self.detail) }
    }

    /// Maps an error from the proxy. The proxy either refused the request or could not reach the receiver, and its
    /// error does not tell which.
    pub(super) fn of_proxy(error: &(dyn Error + 'static)) -> Self {
        match find::<Self>(error) {
            Some(error) => error.clone(),
            None => Self::new(Fault::Connect, format!("the proxy did not connect: {error}")),
        }
    }
}

/// Returns an I/O error in words, without the number of the operating system's error: `connection refused`.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut chars = text.chars();
    // A word in capitals, such as a protocol's name, stays as it is.
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain([second]).chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// Maps the error of a failed request to a fault and its detail, and detects a receiver that answers in TLS.
pub(super) fn of_exchange(error: &hyper_util::client::legacy::Error) -> (Fault, String) {
    let speaks_tls = error.connect_info().and_then(Wire::of).is_some_and(|wire| wire.got_tls());
    match of_request(error) {
        (Fault::Protocol | Fault::Reset, _) if speaks_tls => {
            (Fault::Protocol, "the server speaks TLS on this port; use https://".to_owned())
        }
        other => other,
    }
}

/// Maps the error of a failed request to a fault and its detail.
pub(super) fn of_request(error: &(dyn Error + 'static)) -> (Fault, String) {
    if let Some(error) = find::<ConnectError>(error) {
        return (error.fault, shortened(&error.detail));
    }
    if let Some(error) = find::<rustls::Error>(error) {
        return (Fault::Tls, shortened(&error.to_string()));
    }
    if let Some(error) = find::<h2::Error>(error) {
        let fault = if error.is_io() || error.is_remote() { Fault::Reset } else { Fault::Protocol };
        return (fault, shortened(&error.to_string()));
    }
    if let Some(error) = find::<io::Error>(error) {
        // The response was malformed, for example by an invalid chunk length, or the connection ended.
        if let Some(cause) = local_fault(error) {
            return (Fault::Local(cause), shortened(&error.to_string()));
        }
        return match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                (Fault::Protocol, shortened(&error.to_string()))
            }
            _ => (Fault::Reset, shortened(&format!("connection lost: {}", plain(error)))),
        };
    }
    match find::<hyper::Error>(error) {
        Some(error) if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {
            (Fault::Reset, "connection closed before the response was complete".to_owned())
        }
        Some(error) if error.is_parse_too_large() => {
            (Fault::Protocol, "the headers of the response are too long".to_owned())
        }
        Some(error) => (Fault::Protocol, shortened(&error.to_string())),
        // An error in the client itself: a shared connection was closed.
        None => (Fault::Reset, shortened(&error.to_string())),
    }
}

/// Returns whether a failed request may be retried on a new connection. This is the case if one of these is true:
///
/// - HTTP/2 guarantees that the receiver did not process the request.
/// - A reused connection ended before any byte of a response arrived. Most likely, the receiver closed the idle
///   connection at the moment when the request was sent.
pub(super) fn may_repeat(error: &hyper_util::client::legacy::Error) -> bool {
    let http2 = find::<h2::Error>(error);
    if http2.is_some_and(|error| error.is_remote() && is_unprocessed(error)) {
        return true;
    }
    let wire = error.connect_info().and_then(Wire::of);
    let Some(wire) = wire.filter(|_| !error.is_connect()) else { return false };
    let got_nothing = if wire.is_http2() {
        // Other HTTP/2 errors concern this request, not the connection.
        http2.is_none_or(h2::Error::is_io)
    } else {
        !wire.is_answering()
    };
    wire.is_used() && got_nothing
}

/// Returns whether the receiver reported over HTTP/2 that it did not process the request.
fn is_unprocessed(error: &h2::Error) -> bool {
    // GOAWAY ends a stream only if its number is above the last one that the receiver processes.
    error.is_go_away() || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// Returns the first error of type `E` among this error and its sources.
fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An I/O error does not list its inner error among its causes.
        let inner = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
        if let Some(found) = inner.and_then(|inner| find::<E>(inner)) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Formats a string as one line with a limited length.
fn shortened(text: &str) -> String {
    text.chars().take(MAX_DETAIL).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_an_io_error_was_made_of() {
        let error = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::DecryptError);
        assert_eq!(ConnectError::of_handshake(&error).fault, Fault::Tls);
        assert_eq!(of_request(&error).0, Fault::Tls);
        let error = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(ConnectError::of_handshake(&error).fault, Fault::Reset);
        assert_eq!(of_request(&io::Error::other(error)).0, Fault::Reset);
    }

    #[test]
    fn io_errors_are_in_plain_words() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(ConnectError::of_io(Fault::Connect, &refused).detail, "connection refused");
        assert_eq!(plain(&io::Error::other("TLS is missing")), "TLS is missing");
    }

    #[test]
    fn details_are_short_and_on_one_line() {
        let long = ConnectError::new(Fault::Connect, format!("a\nb{}", "c".repeat(1_000)));
        let (fault, detail) = of_request(&long);
        assert_eq!(fault, Fault::Connect);
        assert!(detail.starts_with("a bccc") && detail.len() == MAX_DETAIL, "{detail}");
    }
}
