//! The probe timeout error: a separate type, so that it can be found behind any other error.

/// A probe exceeded the policy's `probe_timeout` and was aborted.
///
/// This error is the source of every error that it causes, whatever the call's error type. A throttle around the
/// circuit classifies it as a timeout.
///
/// ```
/// use breakerbox::throttle::{Overload, LoadSignal};
/// use breakerbox::{CallError, ProbeTimeout};
///
/// let given_up = CallError::<std::io::Error>::ProbeTimedOut(ProbeTimeout);
/// assert_eq!(Overload::default().of(&given_up), LoadSignal::Reject);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the probe took longer than probe_timeout")]
pub struct ProbeTimeout;
