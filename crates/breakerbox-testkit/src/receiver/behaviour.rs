//! How an endpoint responds: with any status, late, never, with limited concurrency, or in violation of HTTP.

use std::time::Duration;

/// How an endpoint responds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Behaviour {
    /// Responds with a status, after a delay.
    Answer(Answer),
    /// Does not respond until the endpoint gets another behaviour.
    Hang,
    /// Responds with 200 after a delay, up to a maximum number of concurrent requests. Further requests get a
    /// 503 immediately.
    Limited {
        /// The maximum number of concurrent requests.
        at_most: u32,
        /// The duration of each request.
        takes: Duration,
    },
    /// The first requests are slow, each faster than the one before, as on a server with cold caches.
    WarmUp {
        /// The duration of the first request.
        first: Duration,
        /// The number of requests after which the caches are warm.
        over: u32,
        /// The duration of each request once the caches are warm.
        then: Duration,
    },
    /// Responds with 200 immediately, and closes the connection after a delay, even if another request has
    /// arrived.
    Closes {
        /// The delay before the connection is closed.
        after: Duration,
    },
    /// Responds in violation of HTTP.
    Hostile(Hostile),
}

/// A response without a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The response's HTTP status.
    pub status: u16,
    /// The delay before the response.
    pub takes: Duration,
    /// The `Retry-After` header, in seconds, or `None` to omit the header.
    pub retry_after: Option<u32>,
}

/// Responses that no server should send.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Hostile {
    /// A valid response, at one byte per second.
    Drip,
    /// A body of 10 GB.
    Flood,
    /// A small gzip body that decompresses to gigabytes.
    GzipBomb,
    /// An endless series of headers.
    HeaderFlood,
    /// Bytes that are not HTTP.
    Garbage,
    /// Half of a response, after which the connection is closed.
    HalfClose,
    /// A connection reset instead of a response.
    Reset,
}

impl Hostile {
    /// Every hostile response, for tests that try them all.
    pub const ALL: [Self; 7] = [
        Self::Drip,
        Self::Flood,
        Self::GzipBomb,
        Self::HeaderFlood,
        Self::Garbage,
        Self::HalfClose,
        Self::Reset,
    ];

    /// Returns the response's name, for output and paths.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drip => "drip",
            Self::Flood => "flood",
            Self::GzipBomb => "gzip-bomb",
            Self::HeaderFlood => "header-flood",
            Self::Garbage => "garbage",
            Self::HalfClose => "half-close",
            Self::Reset => "reset",
        }
    }
}

impl Behaviour {
    /// Responds with 200 immediately.
    pub const HEALTHY: Self = Self::status(200);
    /// Responds with 503 immediately.
    pub const FAILING: Self = Self::status(503);
    /// Responds with 410 immediately.
    pub const GONE: Self = Self::status(410);

    /// Responds with this status immediately.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self::Answer(Answer { status, takes: Duration::ZERO, retry_after: None })
    }

    /// Responds with this status after a delay.
    #[must_use]
    pub const fn after(status: u16, takes: Duration) -> Self {
        Self::Answer(Answer { status, takes, retry_after: None })
    }

    /// Responds with this status immediately, with `Retry-After` in seconds.
    #[must_use]
    pub const fn come_back(status: u16, seconds: u32) -> Self {
        Self::Answer(Answer { status, takes: Duration::ZERO, retry_after: Some(seconds) })
    }

    /// Returns the response to a request, or `None` if the request gets no response. `number` is the number of
    /// earlier requests, and `beside` the number of other requests in flight.
    pub(super) fn answer(&self, number: u64, beside: u32) -> Option<Answer> {
        let ok = |takes| Some(Answer { status: 200, takes, retry_after: None });
        match *self {
            Self::Answer(answer) => Some(answer),
            Self::Limited { at_most, takes } if beside < at_most => ok(takes),
            Self::Limited { .. } => Some(Answer { status: 503, takes: Duration::ZERO, retry_after: None }),
            Self::WarmUp { first, over, then } => {
                let left = u64::from(over).saturating_sub(number);
                let share = u32::try_from(left).unwrap_or(over);
                ok(then + first.saturating_sub(then) * share / over.max(1))
            }
            Self::Closes { .. } => ok(Duration::ZERO),
            Self::Hang | Self::Hostile(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn limits_and_warm_ups() {
        let limited = Behaviour::Limited { at_most: 2, takes: MS };
        let status = |beside| limited.answer(0, beside).map(|answer| answer.status);
        assert_eq!([status(0), status(1), status(2)], [Some(200), Some(200), Some(503)]);
        let warm_up = Behaviour::WarmUp { first: 11 * MS, over: 10, then: MS };
        let takes = |number| warm_up.answer(number, 0).map(|answer| answer.takes);
        assert_eq!(
            [takes(0), takes(5), takes(10), takes(99)],
            [Some(11 * MS), Some(6 * MS), Some(MS), Some(MS)]
        );
        assert_eq!(Behaviour::Hang.answer(0, 0), None);
    }
}
