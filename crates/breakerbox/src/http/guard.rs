//! The check before a classifier: calls that were never sent are not counted, whatever the classifier would return.
//!
//! Layers and middleware use it, so that users' classifiers need not handle this case.

use std::error::Error;

use breakerbox_core::throttle::LoadSignal;

use super::BoxError;
use crate::circuit::Classification;
use crate::extract::ClassifyResponse;
use crate::throttle::{Classify, was_never_sent};

/// Classifies a result for a circuit. A call that was never sent is ignored.
pub(crate) fn classify_for_circuit<T, E: Held>(
    classify: &impl ClassifyResponse<T, E>,
    result: &Result<T, E>,
) -> Classification {
    if is_never_sent(result) { Classification::IGNORED } else { classify.classify_response(result) }
}

/// Classifies a result for a throttle. A call that was never sent counts as neither accepted nor rejected.
pub(crate) fn classify_for_throttle<T, E: Held>(
    classify: &impl Classify<T, E>,
    result: &Result<T, E>,
) -> LoadSignal {
    if is_never_sent(result) { LoadSignal::Neither } else { classify.classify(result) }
}

fn is_never_sent<T, E: Held>(result: &Result<T, E>) -> bool {
    result.as_ref().is_err_and(|error| was_never_sent(error.held()))
}

/// An error as middleware receives it, either concrete or boxed. A boxed error does not implement [`Error`] itself, so
/// it needs this trait.
pub(crate) trait Held {
    fn held(&self) -> &(dyn Error + 'static);
}

impl Held for BoxError {
    fn held(&self) -> &(dyn Error + 'static) {
        &**self
    }
}

#[cfg(feature = "reqwest-middleware")]
impl Held for reqwest_middleware::Error {
    fn held(&self) -> &(dyn Error + 'static) {
        self
    }
}
