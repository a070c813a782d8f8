//! A lane's limit on requests in flight. It grows with successes, and is halved when a request fails.
//!
//! The limit grows by one for each success until it reaches half of the load that was last too much. Above that, it
//! grows by one for each full round of successes, because an endpoint that rejects excess load rejects many requests
//! in a row, which would open its circuit. Failures of requests that were already in flight when the limit fell do
//! not lower it again.

/// The initial limit, which is also the minimum.
const FIRST: u32 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightLimit {
    limit: u32,
    max: u32,
    /// The value from which the limit grows slowly: its value after it was last halved, or `u32::MAX` if it
    /// was never halved.
    careful_from: u32,
    /// The number of successes since the limit last changed. While growth is slow, the limit grows by one
    /// when this number reaches the limit.
    round: u32,
    /// The number of requests that were in flight when the limit last fell and have not ended yet. If they
    /// fail, the limit does not fall again.
    excused: u32,
}

impl InFlightLimit {
    pub(super) fn new(max: u32) -> Self {
        let max = max.max(1);
        Self { limit: FIRST.min(max), max, careful_from: u32::MAX, round: 0, excused: 0 }
    }

    pub(super) fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.limit = self.limit.min(self.max);
    }

    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn success(&mut self) {
        self.excused = self.excused.saturating_sub(1);
        self.round += 1;
        if self.limit < self.careful_from || self.round >= self.limit {
            self.limit = (self.limit + 1).min(self.max);
            self.round = 0;
        }
    }

    /// Records that a request failed while `in_flight` others are in flight.
    pub(super) fn failure(&mut self, in_flight: u32) {
        if self.excused > 0 {
            self.excused -= 1;
            return;
        }
        self.limit = (self.limit / 2).max(FIRST).min(self.max);
        self.careful_from = self.limit;
        self.round = 0;
        self.excused = in_flight;
    }

    /// Records that a request ended with a result that says nothing about the endpoint.
    pub(super) fn neither(&mut self) {
        self.excused = self.excused.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates an endpoint that accepts `takes` requests at once: each round is sent together, and the excess is
    /// rejected.
    fn rounds(in_flight_limit: &mut InFlightLimit, takes: u32, count: u32) -> Vec<(u32, u32)> {
        let round = |_| {
            let sent = in_flight_limit.limit();
            let refused = sent.saturating_sub(takes);
            (0..refused).for_each(|n| in_flight_limit.failure(sent - 1 - n));
            (0..sent - refused).for_each(|_| in_flight_limit.success());
            (sent, refused)
        };
        (0..count).map(round).collect()
    }

    #[test]
    fn doubles_with_each_round_until_it_is_too_much() {
        let mut in_flight_limit = InFlightLimit::new(64);
        let sent: Vec<_> = rounds(&mut in_flight_limit, 1_000, 7).into_iter().map(|round| round.0).collect();
        assert_eq!(sent, [2, 4, 8, 16, 32, 64, 64]);
    }

    #[test]
    fn once_it_was_too_much_it_is_never_much_too_much_again() {
        let mut in_flight_limit = InFlightLimit::new(64);
        let rounds = rounds(&mut in_flight_limit, 10, 200);
        let refused: Vec<_> = rounds.iter().map(|round| round.1).collect();
        assert_eq!(refused.iter().max(), Some(&6), "16 were tried once");
        assert!(refused[4..].iter().all(|refused| *refused <= 1), "{refused:?}");
        let sent: u32 = rounds[20..].iter().map(|round| round.0 - round.1).sum();
        assert!(sent > 180 * 7, "most of what it takes is used: {sent}");
    }

    #[test]
    fn it_never_leaves_its_bounds() {
        let mut in_flight_limit = InFlightLimit::new(1);
        assert_eq!(in_flight_limit.limit(), 1);
        in_flight_limit.success();
        assert_eq!(in_flight_limit.limit(), 1);
        in_flight_limit.set_max(8);
        (0..20).for_each(|_| in_flight_limit.success());
        assert_eq!(in_flight_limit.limit(), 8);
        (0..20).for_each(|_| in_flight_limit.failure(0));
        assert_eq!(in_flight_limit.limit(), FIRST);
    }
}
