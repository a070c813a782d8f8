//! Classifies responses and errors for a circuit.

use std::error::Error;
use std::time::SystemTime;

use breakerbox_core::{OutcomeKind, StatusMeaning};
use http::{HeaderMap, StatusCode};

use super::BoxError;
use super::retry_after::retry_after;
use super::statuses::Statuses;
use crate::circuit::Classification;
use crate::extract::ClassifyResponse;
use crate::throttle::was_never_sent;

/// The default HTTP classifier for circuits.
///
/// | result | classification |
/// | --- | --- |
/// | 408, 429, 500 and above | failure, with the time from `Retry-After` |
/// | any other status, including 404 | success: the destination works, even if it rejects the request |
/// | the error for a call that was [never sent](super::NotSent) | ignored |
/// | any other error | failure |
///
/// The statuses are those of [`StatusMeaning`], column `call`. The gateway uses its column `delivery`, because a webhook
/// endpoint that returns a 404 is not there, and because it answers a 429 by pausing the endpoint instead of tripping.
///
/// If there is a throttle around the circuit, leave 429 to the throttle: it reduces the rate, whereas the circuit
/// would stop all calls.
///
/// ```
/// use breakerbox::http::HttpOutcomes;
/// use breakerbox::{Classification, OutcomeKind};
/// use http::{HeaderMap, StatusCode};
///
/// let behind_a_throttle = HttpOutcomes::new().status(StatusCode::TOO_MANY_REQUESTS, OutcomeKind::Ignored);
/// let classify = |status| behind_a_throttle.of(status, &HeaderMap::new());
/// assert_eq!(classify(StatusCode::TOO_MANY_REQUESTS), Classification::IGNORED);
/// assert_eq!(classify(StatusCode::BAD_GATEWAY), Classification::FAILURE);
/// assert_eq!(classify(StatusCode::NOT_FOUND), Classification::SUCCESS);
/// ```
#[derive(Clone, Debug)]
pub struct HttpOutcomes {
    statuses: Statuses<OutcomeKind>,
}

impl HttpOutcomes {
    /// Creates the classifier with the default rules.
    #[must_use]
    pub const fn new() -> Self {
        Self { statuses: Statuses::none() }
    }

    /// Overrides how a status is classified.
    #[must_use]
    pub fn status(mut self, status: StatusCode, means: OutcomeKind) -> Self {
        self.statuses.set(status, means);
        self
    }

    /// Classifies a response with this status and these headers.
    #[must_use]
    pub fn of(&self, status: StatusCode, headers: &HeaderMap) -> Classification {
        match self.statuses.of(status).unwrap_or_else(|| StatusMeaning::of(status.as_u16(), false).call) {
            OutcomeKind::Success => Classification::SUCCESS,
            OutcomeKind::Ignored => Classification::IGNORED,
            OutcomeKind::Failure => retry_after(headers, SystemTime::now())
                .map_or(Classification::FAILURE, Classification::failure_with_retry_after),
        }
    }

    /// Classifies an error.
    #[must_use]
    pub fn of_error(&self, error: &(dyn Error + 'static)) -> Classification {
        if was_never_sent(error) { Classification::IGNORED } else { Classification::FAILURE }
    }
}

/// Classifies a result by the status of its response, as [`HttpOutcomes`] does with the default rules: a 500 is a
/// failure, although the client returned `Ok`.
///
/// ```
/// # #[cfg(feature = "reqwest")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use breakerbox::http::by_status;
/// use breakerbox::{Breakerbox, CircuitBy, Key};
///
/// # let (client, url) = (reqwest::Client::new(), "http://127.0.0.1:1/orders");
/// let breakers = Breakerbox::builder().build();
/// let circuit = breakers.circuit_of(&Key::of_url(url, CircuitBy::Host)?);
/// let response = circuit.call_classified(by_status, client.get(url).send()).await;
/// # assert!(response.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn by_status<T, E>(result: &Result<T, E>) -> Classification
where
    HttpOutcomes: ClassifyResponse<T, E>,
{
    HttpOutcomes::new().classify_response(result)
}

impl Default for HttpOutcomes {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> ClassifyResponse<http::Response<B>, BoxError> for HttpOutcomes {
    fn classify_response(&self, result: &Result<http::Response<B>, BoxError>) -> Classification {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(&**error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breakerbox_core::{KeyError, Refusal};
    use http::header::{HeaderValue, RETRY_AFTER};

    use super::*;

    fn status(code: u16) -> StatusCode {
        StatusCode::from_u16(code).unwrap()
    }

    #[test]
    fn every_status_has_a_meaning() {
        for code in 100..=999 {
            let expected = if code >= 500 || [408, 429].contains(&code) {
                Classification::FAILURE
            } else {
                Classification::SUCCESS
            };
            assert_eq!(HttpOutcomes::new().of(status(code), &HeaderMap::new()), expected, "{code}");
        }
    }

    #[test]
    fn a_failure_says_when_to_come_back() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("90"));
        let busy = Classification::failure_with_retry_after(Duration::from_secs(90));
        for (code, expected) in [
            (503, busy),
            (429, busy),
            (408, busy),
            (500, busy),
            (202, Classification::SUCCESS),
            (301, Classification::SUCCESS),
        ] {
            assert_eq!(HttpOutcomes::new().of(status(code), &headers), expected, "{code}");
        }
    }

    #[test]
    fn an_error_is_a_failure_unless_the_call_was_never_sent() {
        let table = [
            (BoxError::from("connection reset"), Classification::FAILURE),
            (Refusal::Disabled.into(), Classification::IGNORED),
            (KeyError::NoHost.into(), Classification::IGNORED),
        ];
        for (error, expected) in table {
            let result = Err::<http::Response<()>, _>(error);
            assert_eq!(HttpOutcomes::new().classify_response(&result), expected, "{result:?}");
        }
    }

    #[test]
    fn the_owners_word_counts_and_the_latest_of_two() {
        let outcomes = HttpOutcomes::new()
            .status(status(404), OutcomeKind::Ignored)
            .status(status(404), OutcomeKind::Failure)
            .status(status(503), OutcomeKind::Success);
        for (code, expected) in
            [(404, Classification::FAILURE), (503, Classification::SUCCESS), (400, Classification::SUCCESS)]
        {
            assert_eq!(outcomes.of(status(code), &HeaderMap::new()), expected, "{code}");
        }
    }
}
