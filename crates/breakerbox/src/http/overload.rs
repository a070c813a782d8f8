//! Classifies responses and errors for a throttle.

use std::error::Error;

use breakerbox_core::StatusMeaning;
use breakerbox_core::throttle::LoadSignal;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

use super::statuses::Statuses;
use super::{BoxError, signs};
use crate::throttle::{Classify, Overload, chain, was_never_sent};

/// The default HTTP classifier for throttles.
///
/// | result | signal |
/// | --- | --- |
/// | 429, 504; 503 with a `Retry-After` | reject: the destination was overloaded |
/// | any other status | accept: the destination took the request, whatever the response |
/// | a timeout | reject |
/// | a call that was [never sent](super::NotSent); any other error: a connection that was refused, reset or lost, a broken response, a name that is not found, TLS | neither: fewer requests would not prevent it |
///
/// ```
/// use breakerbox::http::HttpOverload;
/// use breakerbox::throttle::LoadSignal;
/// use http::{HeaderMap, StatusCode};
///
/// let overload = HttpOverload::new().status(StatusCode::INTERNAL_SERVER_ERROR, LoadSignal::Reject);
/// let signal = |status| overload.of(status, &HeaderMap::new());
/// assert_eq!(signal(StatusCode::INTERNAL_SERVER_ERROR), LoadSignal::Reject);
/// assert_eq!(signal(StatusCode::NOT_FOUND), LoadSignal::Accept);
/// ```
#[derive(Clone, Debug)]
pub struct HttpOverload {
    statuses: Statuses<LoadSignal>,
    errors: Overload,
}

impl HttpOverload {
    /// Creates the classifier with the default rules.
    #[must_use]
    pub fn new() -> Self {
        Self { statuses: Statuses::none(), errors: Overload::default() }
    }

    /// Overrides how a status is classified.
    #[must_use]
    pub fn status(mut self, status: StatusCode, signal: LoadSignal) -> Self {
        self.statuses.set(status, signal);
        self
    }

    /// Adds a check for errors, which runs before the built-in checks. The check must return `None` for errors that it
    /// does not recognise.
    #[must_use]
    pub fn or(
        mut self,
        sign: impl Fn(&(dyn Error + 'static)) -> Option<LoadSignal> + Send + Sync + 'static,
    ) -> Self {
        self.errors = self.errors.or(sign);
        self
    }

    /// Classifies a response with this status and these headers.
    #[must_use]
    pub fn of(&self, status: StatusCode, headers: &HeaderMap) -> LoadSignal {
        let has_retry_after = headers.contains_key(RETRY_AFTER);
        self.statuses
            .of(status)
            .unwrap_or_else(|| StatusMeaning::of(status.as_u16(), has_retry_after).throttle)
    }

    /// Classifies an error.
    #[must_use]
    pub fn of_error(&self, error: &(dyn Error + 'static)) -> LoadSignal {
        let never_sent = || was_never_sent(error).then_some(LoadSignal::Neither);
        let of_http = || chain(error).find_map(signs::capacity);
        (self.errors.added_checks(error).or_else(never_sent).or_else(of_http))
            .or_else(|| Overload::built_in_checks(error))
            .unwrap_or(LoadSignal::Neither)
    }
}

impl Default for HttpOverload {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Classify<http::Response<B>, BoxError> for HttpOverload {
    fn classify(&self, result: &Result<http::Response<B>, BoxError>) -> LoadSignal {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(&**error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use breakerbox_core::{KeyError, Refusal};
    use http::header::HeaderValue;

    use super::*;
    use crate::throttle::Rejected;

    fn status(code: u16) -> StatusCode {
        StatusCode::from_u16(code).unwrap()
    }

    #[test]
    fn every_status_has_a_verdict() {
        let plain = HeaderMap::new();
        let come_back = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("30"))]);
        for code in 100..=999 {
            for (headers, rejected) in [(&plain, &[429, 504][..]), (&come_back, &[429, 503, 504])] {
                let expected = if rejected.contains(&code) { LoadSignal::Reject } else { LoadSignal::Accept };
                assert_eq!(HttpOverload::new().of(status(code), headers), expected, "{code}");
            }
        }
        let changed = HttpOverload::new().status(status(503), LoadSignal::Accept);
        assert_eq!(changed.of(status(503), &come_back), LoadSignal::Accept);
        assert_eq!(changed.of(status(429), &plain), LoadSignal::Reject);
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the client's error")]
    struct Hiding(#[source] BoxError);

    #[test]
    fn errors_are_looked_through() {
        let io = |kind| BoxError::from(io::Error::from(kind));
        let table = [
            (io(io::ErrorKind::TimedOut), LoadSignal::Reject),
            (io(io::ErrorKind::ConnectionRefused), LoadSignal::Neither),
            (io(io::ErrorKind::ConnectionReset), LoadSignal::Neither),
            (io(io::ErrorKind::BrokenPipe), LoadSignal::Neither),
            (io(io::ErrorKind::UnexpectedEof), LoadSignal::Neither),
            (io(io::ErrorKind::InvalidData), LoadSignal::Neither),
            (io(io::ErrorKind::HostUnreachable), LoadSignal::Neither),
            (io(io::ErrorKind::AddrNotAvailable), LoadSignal::Neither),
            (io::Error::other(Refusal::Disabled).into(), LoadSignal::Neither),
            (Rejected::because("busy").into(), LoadSignal::Reject),
            (Refusal::Disabled.into(), LoadSignal::Neither),
            (KeyError::NoHost.into(), LoadSignal::Neither),
            ("what this is nobody knows".into(), LoadSignal::Neither),
        ];
        for (error, expected) in table {
            let text = error.to_string();
            assert_eq!(HttpOverload::new().of_error(&*error), expected, "{text}");
            assert_eq!(HttpOverload::new().of_error(&Hiding(error)), expected, "behind another: {text}");
        }
    }

    #[test]
    fn the_owners_signs_come_first() {
        let overload = HttpOverload::new().or(|error| error.is::<io::Error>().then_some(LoadSignal::Accept));
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(overload.of_error(&reset), LoadSignal::Accept);
        assert_eq!(overload.of_error(&Refusal::Disabled), LoadSignal::Neither);
    }
}
