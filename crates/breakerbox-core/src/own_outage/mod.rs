//! Outages on this side: when most destinations can't be reached at the same moment, the fault is here (the network,
//! DNS, a proxy), not at the destinations. Works above single circuits, on the results of all calls of one process.
//!
//! | | when |
//! | --- | --- |
//! | start | Of the keys with results in the last [10 s](WINDOW), at least 20 on at least 10 hosts, at least 80 % have not answered since their first failure to connect; and at most 20 % were failing already in the minute before. |
//! | end | 3 of the keys that could not be reached answer again, on 3 hosts; or at most half are still lost, and some have answered ([`End::Answered`]). |
//! | | At most half are lost, because others have results now, which answer ([`End::Refuted`]). |
//! | | 15 minutes have passed ([`End::Expired`]). |
//!
//! A result counts as [`Reach::Unreached`] if DNS failed, or if no connection was established. Any response, and any
//! failure on an established connection, counts as [`Reach::Reached`].
//!
//! **Tenants.** A tenant can make any number of its own endpoints fail, or answer, at will. So each tenant weighs at
//! most a fifth in all shares, or an equal part if fewer than five tenants have results; and so does each host.
//!
//! - A tenant that loses all its endpoints at once, however many, starts no outage while another tenant's answer. If no
//!   other tenant has results, an outage begins; the first results of others refute it.
//! - A tenant can't prevent the detection with endpoints that are dead all the time: they weigh a fifth at most. It can
//!   with more than 20 % of all keys, or hosts, that still answer: then not everything is lost, and the ordinary rules
//!   apply.
//! - A tenant can't end an outage by itself: that takes answers of three tenants, or of all with lost keys if they are
//!   fewer.
//!
//! **Memory** is bounded: at most 65,536 keys, of which one tenant has at most a quarter. Further keys are not
//! observed. A result costs one look-up in a map of that size, and all keys are visited at most once a second.

mod shares;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use self::shares::{Group, capped_percent};
use crate::record::LatestOutcomes;
use crate::time::Timestamp;

/// The time over which results are considered.
pub const WINDOW: Duration = Duration::from_secs(10);

/// The time before the window. A key that has failed since then, without a success, was failing before.
const BEFORE: Duration = Duration::from_secs(60);

/// The maximum duration of an outage on this side.
pub const LONGEST: Duration = Duration::from_secs(15 * 60);

/// The minimum time between two visits of all keys.
const VISIT_EVERY: Duration = Duration::from_secs(1);

const MIN_KEYS: u32 = 20;
const MIN_HOSTS: usize = 10;
const LOST_PERCENT: f64 = 80.0;
const FAILING_BEFORE_PERCENT: f64 = 20.0;
const OVER_PERCENT: f64 = 50.0;

/// How many keys, hosts and tenants must answer again.
const ANSWERS_TO_END: usize = 3;

/// The maximum number of keys that are observed.
const MAX_KEYS: usize = 65_536;

/// The maximum number of keys of one tenant that are observed.
const MAX_KEYS_OF_TENANT: u32 = 16_384;

/// The maximum number of hosts whose answers are remembered until the outage ends.
const MAX_ANSWERS: usize = 64;

/// Whether a call reached its destination.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// The destination responded, or failed after the connection was established.
    Reached,
    /// DNS failed, or no connection was established.
    Unreached,
}

/// What a result is about, as hashes of the names. The hash function must be keyed with random bits, so that no tenant
/// can choose names that collide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Source {
    /// The destination: the circuit's key. For a circuit with several hosts, the key and the host.
    pub key: u64,
    /// The owner of the destination.
    pub tenant: u64,
    /// The destination's host, without its port.
    pub host: u64,
}

/// The beginning or the end of an outage on this side.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OutageChange {
    /// An outage has been detected.
    Started(Outage),
    /// The outage is over.
    Ended(Outage, End),
}

/// An outage on this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// The time of the first failure. Circuits that opened since then belong to the outage.
    pub since: Timestamp,
    /// The time at which the outage was detected.
    pub detected_at: Timestamp,
    /// The number of keys that could not be reached when it was detected.
    pub lost: u32,
    /// The number of keys with results when it was detected.
    pub keys: u32,
    /// The number of hosts with results when it was detected.
    pub hosts: u32,
}

impl Outage {
    /// Whether a destination that has failed since `failing_since` failed because of this outage. Its first failure may
    /// be a little earlier than the first failure to connect: an established connection may have been silent before.
    #[must_use]
    pub fn covers(&self, failing_since: Option<Timestamp>) -> bool {
        failing_since.is_some_and(|since| since >= self.since.before(WINDOW))
    }
}

/// Why an outage on this side is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// Destinations that could not be reached answer again.
    Answered,
    /// Most destinations answer, and none of them was lost, so the fault was not on this side.
    Refuted,
    /// It has lasted for [`LONGEST`], so it is no longer treated as a fault on this side.
    Expired,
}

impl End {
    /// Returns the name that reports and APIs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refuted => "refuted",
            Self::Expired => "expired",
        }
    }
}

/// Detects outages on this side from the results of calls.
///
/// ```
/// use breakerbox_core::own_outage::{End, OutageChange, OutageDetector, Reach, Source};
/// use breakerbox_core::{LatestOutcomes, Timestamp};
/// use core::time::Duration;
///
/// let mut detector = OutageDetector::default();
/// let now = Timestamp::from_millis(1_000_000);
/// let source = |n: u64| Source { key: n, tenant: n % 7, host: n };
/// let failing = LatestOutcomes { last_success: None, failing_since: Some(now) };
/// let changes: Vec<_> =
///     (0..25).filter_map(|n| detector.record(source(n), Reach::Unreached, failing, now + Duration::from_millis(50 * n))).collect();
/// assert!(matches!(changes[..], [OutageChange::Started(outage)] if outage.since == now));
///
/// let later = now + Duration::from_secs(60);
/// let well = LatestOutcomes { last_success: Some(later), failing_since: None };
/// let changes: Vec<_> = (0..3).filter_map(|n| detector.record(source(n), Reach::Reached, well, later)).collect();
/// assert!(matches!(changes[..], [OutageChange::Ended(_, End::Answered)]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct OutageDetector {
    keys: BTreeMap<u64, KeyState>,
    tenants: BTreeMap<u64, TenantState>,
    ongoing: Option<Ongoing>,
    visited_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct KeyState {
    tenant: u64,
    host: u64,
    /// The time of the latest result.
    seen_at: Timestamp,
    /// The time of the first failure to connect after the latest answer; `None` after an answer.
    unreached_since: Option<Timestamp>,
    latest: LatestOutcomes,
    /// Whether the key could not be reached during the current outage, and has not answered since.
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct TenantState {
    keys: u32,
    lost: u32,
}

#[derive(Clone, Debug)]
struct Ongoing {
    outage: Outage,
    /// The tenants and hosts of keys that were lost and have answered.
    answered: BTreeSet<(u64, u64)>,
}

impl OutageDetector {
    /// Records the result of a call. `latest` are the circuit's latest outcomes, including this one. Returns the
    /// change, if an outage begins or ends with this result.
    pub fn record(
        &mut self,
        source: Source,
        reach: Reach,
        latest: LatestOutcomes,
        now: Timestamp,
    ) -> Option<OutageChange> {
        let is_ongoing = self.ongoing.is_some();
        let key = self.observe(source, now)?;
        (key.seen_at, key.latest) = (now, latest);
        match reach {
            Reach::Unreached => {
                key.unreached_since.get_or_insert(now);
                let was_lost = core::mem::replace(&mut key.is_lost, is_ongoing);
                if is_ongoing && !was_lost {
                    self.tenants.entry(source.tenant).or_default().lost += 1;
                }
            }
            Reach::Reached => {
                key.unreached_since = None;
                if core::mem::take(&mut key.is_lost) {
                    return self.answered(source, now);
                }
            }
        }
        match reach {
            Reach::Unreached => self.check(now),
            // Answers begin no outage.
            Reach::Reached if is_ongoing => self.check(now),
            Reach::Reached => None,
        }
    }

    /// Checks whether an outage has begun or ended. Call this every few seconds: an outage also ends with time.
    pub fn check(&mut self, now: Timestamp) -> Option<OutageChange> {
        if let Some(outage) = self.ongoing()
            && now.since(outage.detected_at) >= LONGEST
        {
            return self.end(End::Expired);
        }
        // The second difference is large after the clock was set back.
        if now.since(self.visited_at) < VISIT_EVERY && self.visited_at.since(now) < VISIT_EVERY {
            return None;
        }
        self.visited_at = now;
        if let Some(ongoing) = &self.ongoing {
            let end = if ongoing.answered.is_empty() { End::Refuted } else { End::Answered };
            return if self.is_mostly_over(now) { self.end(end) } else { None };
        }
        self.forget_old(now);
        let outage = self.detect(now)?;
        self.start(outage, now);
        Some(OutageChange::Started(outage))
    }

    /// Returns the current outage.
    #[must_use]
    pub fn ongoing(&self) -> Option<Outage> {
        self.ongoing.as_ref().map(|ongoing| ongoing.outage)
    }

    /// Returns the key's state, new if necessary. `None` if there is no room for another key.
    fn observe(&mut self, source: Source, now: Timestamp) -> Option<&mut KeyState> {
        let Self { keys, tenants, .. } = self;
        let is_full = keys.len() >= MAX_KEYS;
        if let alloc::collections::btree_map::Entry::Vacant(vacant) = keys.entry(source.key) {
            let tenant = tenants.entry(source.tenant).or_default();
            if is_full || tenant.keys >= MAX_KEYS_OF_TENANT {
                if tenant.keys == 0 {
                    tenants.remove(&source.tenant);
                }
                return None;
            }
            tenant.keys += 1;
            vacant.insert(KeyState {
                tenant: source.tenant,
                host: source.host,
                seen_at: now,
                unreached_since: None,
                latest: LatestOutcomes::default(),
                is_lost: false,
            });
        }
        keys.get_mut(&source.key)
    }

    /// Returns the outage that the current results show, if any.
    fn detect(&self, now: Timestamp) -> Option<Outage> {
        let mut by_tenant: BTreeMap<u64, Group> = BTreeMap::new();
        let mut by_host: BTreeMap<u64, Group> = BTreeMap::new();
        let mut failing_before: BTreeMap<u64, Group> = BTreeMap::new();
        let (mut all, mut since) = (Group::default(), now);
        for key in self.keys.values().filter(|key| key.is_recent(now)) {
            let (lost, was_failing) = (key.unreached_since, key.was_failing(now));
            since = lost.filter(|_| !was_failing).map_or(since, |lost| lost.min(since));
            for group in
                [&mut all, by_tenant.entry(key.tenant).or_default(), by_host.entry(key.host).or_default()]
            {
                group.add(lost.is_some());
            }
            failing_before.entry(key.tenant).or_default().add(was_failing);
        }
        let hosts = by_host.len();
        let is_outage = all.keys >= MIN_KEYS
            && hosts >= MIN_HOSTS
            && f64::from(all.part) * 100.0 >= LOST_PERCENT * f64::from(all.keys)
            && percent(by_tenant) >= LOST_PERCENT
            && percent(by_host) >= LOST_PERCENT
            && percent(failing_before) <= FAILING_BEFORE_PERCENT;
        let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
        is_outage.then_some(Outage { since, detected_at: now, lost: all.part, keys: all.keys, hosts })
    }

    fn start(&mut self, outage: Outage, now: Timestamp) {
        self.ongoing = Some(Ongoing { outage, answered: BTreeSet::new() });
        for key in self.keys.values_mut().filter(|key| key.is_recent(now)) {
            key.is_lost = key.unreached_since.is_some();
            self.tenants.entry(key.tenant).or_default().lost += u32::from(key.is_lost);
        }
    }

    /// Whether at most half of the keys are still lost. Keys that answer count only with recent results.
    fn is_mostly_over(&self, now: Timestamp) -> bool {
        let mut by_tenant: BTreeMap<u64, Group> = BTreeMap::new();
        for key in self.keys.values().filter(|key| key.is_lost || key.is_recent(now)) {
            by_tenant.entry(key.tenant).or_default().add(key.is_lost);
        }
        percent(by_tenant) <= OVER_PERCENT
    }

    /// Records that a lost key has answered. Ends the outage if enough have.
    fn answered(&mut self, source: Source, now: Timestamp) -> Option<OutageChange> {
        // Counted before this answer, so that the last lost key of a tenant stands for its tenant.
        let tenants = self.tenants.values().filter(|tenant| tenant.lost > 0).count();
        if let Some(tenant) = self.tenants.get_mut(&source.tenant) {
            tenant.lost = tenant.lost.saturating_sub(1);
        }
        let ongoing = self.ongoing.as_mut()?;
        if ongoing.answered.len() < MAX_ANSWERS {
            ongoing.answered.insert((source.tenant, source.host));
        }
        let hosts: BTreeSet<u64> = ongoing.answered.iter().map(|(_, host)| *host).collect();
        let answering: BTreeSet<u64> = ongoing.answered.iter().map(|(tenant, _)| *tenant).collect();
        let is_over = hosts.len() >= ANSWERS_TO_END && answering.len() >= tenants.min(ANSWERS_TO_END);
        if is_over { self.end(End::Answered) } else { self.check(now) }
    }

    /// Ends the outage. All results so far are forgotten: those that were lost would begin the next outage at once.
    fn end(&mut self, end: End) -> Option<OutageChange> {
        let Ongoing { outage, .. } = self.ongoing.take()?;
        self.keys.clear();
        self.tenants.clear();
        Some(OutageChange::Ended(outage, end))
    }

    /// Drops the keys without a recent result.
    fn forget_old(&mut self, now: Timestamp) {
        let tenants = &mut self.tenants;
        self.keys.retain(|_, key| {
            // The second difference is large after the clock was set back.
            let is_kept = key.is_recent(now) && key.seen_at.since(now) < WINDOW;
            if !is_kept && let Some(tenant) = tenants.get_mut(&key.tenant) {
                tenant.keys = tenant.keys.saturating_sub(1);
                if tenant.keys == 0 {
                    tenants.remove(&key.tenant);
                }
            }
            is_kept
        });
    }
}

impl KeyState {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.since(self.seen_at) < WINDOW
    }

    /// Whether the key was failing in the minute before the window.
    fn was_failing(&self, now: Timestamp) -> bool {
        let LatestOutcomes { last_success, failing_since } = self.latest;
        failing_since.is_some_and(|since| now.since(since) >= WINDOW)
            && last_success.is_none_or(|at| now.since(at) >= WINDOW + BEFORE)
    }
}

impl Group {
    fn add(&mut self, counts: bool) {
        self.keys += 1;
        self.part += u32::from(counts);
    }
}

fn percent(groups: BTreeMap<u64, Group>) -> f64 {
    let mut groups: Vec<Group> = groups.into_values().collect();
    capped_percent(&mut groups)
}
