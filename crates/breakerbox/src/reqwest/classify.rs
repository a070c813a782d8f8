//! Classifies the results of reqwest clients, with the classifiers for HTTP.

use breakerbox_core::throttle::LoadSignal;
use reqwest::{Error, Response, Result};

use crate::circuit::Classification;
use crate::extract::ClassifyResponse;
use crate::http::{HttpOutcomes, HttpOverload};
use crate::throttle::Classify;

/// Classifies the results of a plain client. See [`by_status`](crate::http::by_status) for an example.
impl ClassifyResponse<Response, Error> for HttpOutcomes {
    fn classify_response(&self, result: &Result<Response>) -> Classification {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}

/// Classifies the results of a plain client, as in `Throttle::builder().classify(HttpOverload::new())`.
impl Classify<Response, Error> for HttpOverload {
    fn classify(&self, result: &Result<Response>) -> LoadSignal {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}

#[cfg(feature = "reqwest-middleware")]
impl ClassifyResponse<Response, reqwest_middleware::Error> for HttpOutcomes {
    fn classify_response(&self, result: &reqwest_middleware::Result<Response>) -> Classification {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}

#[cfg(feature = "reqwest-middleware")]
impl Classify<Response, reqwest_middleware::Error> for HttpOverload {
    fn classify(&self, result: &reqwest_middleware::Result<Response>) -> LoadSignal {
        match result {
            Ok(response) => self.of(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}
