//! Calls that were never sent: how to distinguish them from failed calls, and how to respond to them.

use std::error::Error;
use std::time::Duration;

use breakerbox_core::throttle::Shed;
use breakerbox_core::{KeyError, Refusal};
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

use crate::throttle::chain;

/// The reason why a call was not sent: a circuit refused it, a throttle shed it, or its key is not valid.
///
/// [`find`](Self::find) finds the reason however deeply it is nested in other errors. Servers and proxies can respond
/// with [`response`](Self::response).
///
/// ```
/// use breakerbox::http::NotSent;
/// use breakerbox::{Breakerbox, ManualClock, Policy};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let policy = Policy::builder().consecutive_failures(1).jitter(0).build()?;
/// let breakers = Breakerbox::builder().policy(policy).clock(ManualClock::new()).build();
/// let circuit = breakers.circuit("https://api.example.com/orders")?;
/// let down = || async { Err::<(), _>(std::io::Error::other("down")) };
///
/// let error = circuit.call(down()).await.unwrap_err();
/// assert_eq!(NotSent::find(&error), None, "it was sent, and failed");
///
/// let error = circuit.call(down()).await.unwrap_err();
/// let answer: http::Response<String> = NotSent::find(&error).expect("it was refused").response();
/// assert_eq!(answer.status(), 503);
/// assert_eq!(answer.headers()["retry-after"], "1");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum NotSent {
    /// A circuit refused the call.
    Refused(Refusal),
    /// A throttle shed the call.
    Shed(Shed),
    /// The call has no valid key, so it has no circuit or throttle.
    NoKey(KeyError),
}

impl NotSent {
    /// Returns the reason why the call that returned this error was never sent; `None` if the call was sent, or another
    /// cause prevented it.
    #[must_use]
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        chain(error).find_map(|error| {
            let refused = error.downcast_ref().copied().map(Self::Refused);
            let shed = || error.downcast_ref().copied().map(Self::Shed);
            let no_key = || error.downcast_ref().copied().map(Self::NoKey);
            refused.or_else(shed).or_else(no_key)
        })
    }

    /// Returns the time after which to try again; `None` if that time is not known.
    #[must_use]
    pub const fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_in(),
            Self::Shed(shed) => Some(shed.retry_in()),
            Self::NoKey(_) => None,
        }
    }

    /// Returns the response for a server or proxy: an empty 503, with a `Retry-After` in whole seconds if the time is
    /// known.
    ///
    /// Without a valid key the status is 500. A 4xx would blame the caller, although this service sets the URL and the
    /// tenant. A 503 would ask the caller to try again, although the same request will never be sent.
    #[must_use]
    pub fn response<B: Default>(&self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = match self {
            Self::Refused(_) | Self::Shed(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoKey(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if let Some(retry_in) = self.retry_in() {
            // Rounded up, so that a caller that waits this long does not return too early.
            let seconds = retry_in.as_secs() + u64::from(retry_in.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::Timestamp;

    use super::*;

    #[test]
    fn the_response_says_when_to_come_back_if_that_is_known() {
        let open = |millis| Refusal::Open {
            retry_at: Timestamp::from_millis(millis),
            retry_in: Duration::from_millis(millis),
        };
        let probing = Refusal::Probing { retry_at: Timestamp::ZERO, retry_in: Duration::from_secs(9) };
        let table = [
            (open(0), Some("1")),
            (open(200), Some("1")),
            (open(1_000), Some("1")),
            (open(1_001), Some("2")),
            (probing, Some("9")),
            (Refusal::OpenLocally { retry_at: Timestamp::ZERO, retry_in: Duration::from_secs(7) }, Some("7")),
            (Refusal::Ramping { in_flight: 1, limit: 1 }, None),
            (Refusal::ForcedOpen, None),
            (Refusal::Disabled, None),
        ];
        for (refusal, expected) in table {
            let response: Response<()> = NotSent::Refused(refusal).response();
            assert_eq!(response.status(), 503, "{refusal:?}");
            let header = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!(header, expected, "{refusal:?}");
        }
    }

    #[test]
    fn without_a_key_it_is_this_services_mistake_and_trying_again_does_not_help() {
        let error = crate::throttle::Rejected::because(KeyError::NoHost);
        let not_sent = NotSent::find(&error).unwrap();
        assert_eq!((not_sent, not_sent.retry_in()), (NotSent::NoKey(KeyError::NoHost), None));
        let response: Response<()> = not_sent.response();
        assert_eq!((response.status().as_u16(), response.headers().len()), (500, 0));
    }
}
