//! What became of a probe that was given up: a type of its own, so that it is found behind any other error.

/// A probe did not end within the policy's `probe_timeout` and was given up.
///
/// It is the source of every error that comes of it, whatever the call's own error is. A throttle around the circuit takes
/// it for what it is, a time limit that ran out.
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
