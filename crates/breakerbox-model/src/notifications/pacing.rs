//! Pacing of notifications: which target is next, and whether a notification is sent alone or in a digest. The time
//! is an argument.
//!
//! Each target has a token bucket, and each message takes a token. While there are enough tokens, each waiting
//! notification is sent as a message of its own. Notifications above the limit wait for the next token, and are then
//! sent together as one digest. Targets whose latest message failed come last, and share at most half of the slots,
//! because each may take a full timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;

use crate::delivery::TokenBucket;
use crate::values::RateLimit;

/// The maximum number of messages in flight.
pub const MAX_IN_FLIGHT: usize = 4;

/// The delays before a failed message is retried. If the last retry fails, the notification is given up.
pub const BACK_OFF: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(60 * 60),
];

/// The maximum for the count of a target's due notifications. Above it, the exact number is not needed.
pub const COUNTED: u64 = 100;

/// The maximum number of notifications that wait for one target. Further ones are not stored; the next digest
/// states their number.
pub const MOST_WAITING: u64 = 10_000;

/// The maximum number of targets whose buckets are kept. A forgotten target starts with a full bucket.
const BUCKETS: usize = 20_000;

/// A target that has due notifications.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    /// The name of the target: `tgt_...` or `operator/...`.
    pub target: Arc<str>,
    /// The number of due notifications, up to [`COUNTED`].
    pub count: u64,
}

/// A message that may be sent now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedMessage {
    /// The name of the target that the message goes to.
    pub target: Arc<str>,
    /// Whether all due notifications are sent as one digest. Otherwise the oldest notification is sent alone.
    pub together: bool,
}

/// The next step for a notification whose message failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterFailure {
    /// The notification is retried at this time.
    Again(Timestamp),
    /// The notification is given up, because all tries were used.
    GivenUp,
}

/// Returns the next step for a notification whose message has failed this number of times.
#[must_use]
pub fn after_failure(tries: u32, now: Timestamp) -> AfterFailure {
    let waited = usize::try_from(tries.saturating_sub(1)).unwrap_or(usize::MAX);
    BACK_OFF.get(waited).map_or(AfterFailure::GivenUp, |wait| AfterFailure::Again(now + *wait))
}

/// Decides which messages may be sent now.
#[derive(Debug)]
pub struct Pacing {
    limit: RateLimit,
    buckets: BTreeMap<Arc<str>, TokenBucket>,
    busy: BTreeSet<Arc<str>>,
    /// Targets whose latest message failed, each with the time of the first of its consecutive failures.
    failing: BTreeMap<Arc<str>, Timestamp>,
}

impl Pacing {
    /// Creates a `Pacing` that allows each target `burst` messages at once, and then one per interval.
    #[must_use]
    pub fn new(burst: u32, interval: Duration) -> Self {
        let limit = RateLimit { per_second: 1.0 / interval.as_secs_f64(), burst };
        Self { limit, buckets: BTreeMap::new(), busy: BTreeSet::new(), failing: BTreeMap::new() }
    }

    /// Returns the messages that may be sent now. Each uses a slot until [`ended`](Self::ended) is called.
    pub fn plan(&mut self, mut due: Vec<Due>, now: Timestamp) -> Vec<PlannedMessage> {
        // Working targets come first. The sort is stable, so that targets otherwise keep their order.
        due.sort_by_key(|due| self.failing.contains_key(&due.target));
        let mut plan = Vec::new();
        for Due { target, count } in due {
            if self.busy.len() >= MAX_IN_FLIGHT {
                break;
            }
            let is_failing = self.failing.contains_key(&target);
            let failing_busy = self.busy.iter().filter(|busy| self.failing.contains_key(*busy)).count();
            if count == 0 || self.busy.contains(&target) || (is_failing && failing_busy >= MAX_IN_FLIGHT / 2)
            {
                continue;
            }
            if self.buckets.len() >= BUCKETS && !self.buckets.contains_key(&target) {
                self.buckets.clear();
            }
            let bucket =
                self.buckets.entry(Arc::clone(&target)).or_insert_with(|| TokenBucket::new(self.limit));
            let tokens = tokens(*bucket, count, now);
            if bucket.take(now).is_err() {
                continue;
            }
            self.busy.insert(Arc::clone(&target));
            plan.push(PlannedMessage { target, together: tokens < count });
        }
        plan
    }

    /// Records that a try to send a message has ended. `well` is whether the target accepted the message.
    pub fn ended(&mut self, target: &Arc<str>, well: bool, now: Timestamp) {
        self.busy.remove(target);
        if well {
            self.failing.remove(target);
        } else if self.failing.len() < BUCKETS {
            self.failing.entry(Arc::clone(target)).or_insert(now);
        }
    }

    /// Records that a planned message was not sent. Its slot is freed, and its token is returned.
    pub fn gave_back(&mut self, target: &Arc<str>) {
        self.busy.remove(target);
        if let Some(bucket) = self.buckets.get_mut(target) {
            bucket.give_back();
        }
    }

    /// Returns the number of messages in flight.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.busy.len()
    }

    /// Iterates over the targets whose latest message failed, each with the time of the first of its consecutive
    /// failures.
    pub fn failing(&self) -> impl Iterator<Item = (&Arc<str>, Timestamp)> {
        self.failing.iter().map(|(target, since)| (target, *since))
    }
}

/// Returns the number of tokens in the bucket, up to a maximum.
fn tokens(mut bucket: TokenBucket, most: u64, now: Timestamp) -> u64 {
    (0..most).take_while(|_| bucket.take(now).is_ok()).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000 + seconds * 1_000)
    }

    fn due(target: &str, count: u64) -> Due {
        Due { target: target.into(), count }
    }

    fn pacing() -> Pacing {
        Pacing::new(5, Duration::from_secs(60))
    }

    /// Simulates notifications at these seconds. Returns the messages, each as the second in which it is sent and its
    /// number of notifications.
    fn sent(notifications: &[u64]) -> Vec<(u64, u64)> {
        let mut pacing = pacing();
        let (mut waiting, mut sent) = (0, Vec::new());
        for second in 0..=300 {
            waiting += notifications.iter().filter(|at| **at == second).count() as u64;
            loop {
                let plan = pacing.plan(vec![due("t", waiting.min(COUNTED))], at(second));
                let Some(planned) = plan.first() else { break };
                let went = if planned.together { waiting } else { 1 };
                waiting -= went;
                sent.push((second, went));
                pacing.ended(&planned.target, true, at(second));
            }
        }
        assert_eq!(waiting, 0, "all of it went out");
        sent
    }

    #[test]
    fn fifty_in_a_minute_are_at_most_seven_messages_and_all_are_told() {
        let spread: Vec<u64> = (0..50).collect();
        let messages = sent(&spread);
        assert_eq!(messages.iter().map(|(_, count)| count).sum::<u64>(), 50);
        assert!(messages.len() <= 7, "{messages:?}");
        assert_eq!(messages[..4], [(0, 1), (1, 1), (2, 1), (3, 1)], "the first ones at once, each alone");

        let with_recoveries: Vec<u64> = (0..60).flat_map(|second| [second, second]).collect();
        let messages = sent(&with_recoveries);
        assert!(messages.len() <= 7, "{messages:?}");
        assert_eq!(sent(&[0; 50]), [(0, 50)], "all at once: one digest");
        assert_eq!(sent(&[0, 0, 0]), [(0, 1), (0, 1), (0, 1)], "a few: each alone");
    }

    #[test]
    fn a_target_has_one_message_at_a_time_and_there_are_places_for_a_few() {
        let mut pacing = pacing();
        let all = || (0..10).map(|n| due(&format!("t{n}"), 1)).collect::<Vec<_>>();
        assert_eq!(pacing.plan(all(), at(0)).len(), MAX_IN_FLIGHT);
        assert_eq!(pacing.plan(all(), at(0)), []);
        pacing.ended(&"t2".into(), true, at(1));
        let next = pacing.plan(all(), at(1));
        assert_eq!(next.iter().map(|planned| &*planned.target).collect::<Vec<_>>(), ["t2"]);
    }

    #[test]
    fn those_that_fail_leave_places_for_the_others() {
        let mut pacing = pacing();
        for n in 0..6 {
            let target: Arc<str> = format!("dead{n}").into();
            assert_eq!(pacing.plan(vec![due(&target, 1)], at(0)).len(), 1);
            pacing.ended(&target, false, at(0));
        }
        let mut all: Vec<Due> = (0..6).map(|n| due(&format!("dead{n}"), 1)).collect();
        assert_eq!(pacing.plan(all.clone(), at(1)).len(), MAX_IN_FLIGHT / 2);
        all.push(due("well", 1));
        let next = pacing.plan(all, at(1));
        assert_eq!(next.iter().map(|planned| &*planned.target).collect::<Vec<_>>(), ["well"]);
        assert_eq!(pacing.failing().count(), 6);
        pacing.ended(&"dead0".into(), true, at(2));
        assert_eq!(pacing.failing().count(), 5, "one that answers well is well");
    }

    #[test]
    fn what_fails_is_tried_again_ever_later_and_then_given_up() {
        let waits: Vec<_> = (1..=6).map(|tries| after_failure(tries, at(0))).collect();
        let again = |seconds| AfterFailure::Again(at(seconds));
        assert_eq!(waits, [again(5), again(30), again(120), again(600), again(3_600), AfterFailure::GivenUp]);
    }

    #[test]
    fn a_token_that_was_not_used_is_there_again() {
        let mut pacing = Pacing::new(1, Duration::from_secs(60));
        assert_eq!(pacing.plan(vec![due("t", 1)], at(0)).len(), 1);
        pacing.gave_back(&"t".into());
        assert_eq!(pacing.plan(vec![due("t", 1)], at(0)).len(), 1);
        pacing.ended(&"t".into(), true, at(0));
        assert_eq!(pacing.plan(vec![due("t", 1)], at(59)), []);
        assert_eq!(pacing.plan(vec![due("t", 1)], at(60)).len(), 1);
    }
}
