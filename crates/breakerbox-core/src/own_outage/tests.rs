//! The detector in virtual time.

use std::collections::BTreeSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::from_millis(1_000_000_000);

fn at(millis: u64) -> Timestamp {
    START + Duration::from_millis(millis)
}

/// A world of keys with their own latest outcomes, as circuits have them.
#[derive(Default)]
struct World {
    detector: OutageDetector,
    latest: BTreeMap<u64, LatestOutcomes>,
    changes: Vec<OutageChange>,
}

impl World {
    fn call(&mut self, source: Source, reach: Reach, now: Timestamp) {
        let latest = self.latest.entry(source.key).or_default();
        match reach {
            Reach::Reached => latest.succeeded(now),
            Reach::Unreached => latest.failed(now),
        }
        self.changes.extend(self.detector.record(source, reach, *latest, now));
    }

    /// Calls each of these keys once a second, from `from` until `until` (in seconds), spread over the second.
    fn calls(&mut self, keys: &[Source], reach: Reach, from: u64, until: u64) {
        let gap = 1_000 / (keys.len() as u64).max(1);
        for second in from..until {
            for (place, source) in keys.iter().enumerate() {
                self.call(*source, reach, at(second * 1_000 + place as u64 * gap));
            }
        }
    }

    fn started(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, OutageChange::Started(_)))
    }
}

/// `count` keys of a tenant, each on a host of its own.
fn keys(tenant: u64, count: u64) -> Vec<Source> {
    (0..count).map(|n| Source { key: tenant << 32 | n, tenant, host: tenant << 32 | n }).collect()
}

fn of_tenants(tenants: u64, each: u64) -> Vec<Source> {
    (1..=tenants).flat_map(|tenant| keys(tenant, each)).collect()
}

#[test]
fn an_outage_of_everything_is_detected_within_two_seconds_and_ends_with_three_answers() {
    for (tenants, each) in [(1, 20), (4, 10), (50, 20)] {
        let all = of_tenants(tenants, each);
        let mut world = World::default();
        world.calls(&all, Reach::Reached, 0, 90);
        assert_eq!(world.changes, []);
        world.calls(&all, Reach::Unreached, 90, 92);
        let [OutageChange::Started(outage)] = world.changes[..] else { panic!("{:?}", world.changes) };
        assert_eq!(outage.since, at(90_000));
        assert!(outage.detected_at <= at(92_000), "{outage:?}");
        world.calls(&all, Reach::Unreached, 92, 150);
        assert_eq!(world.changes.len(), 1, "reported once");
        assert_eq!(world.detector.ongoing(), Some(outage));
        let one_each = all.iter().step_by(usize::try_from(each).unwrap());
        let back: Vec<_> = one_each.chain(&all).take(3).copied().collect();
        let back: Vec<_> = if tenants == 1 { all[..3].to_vec() } else { back };
        world.calls(&back, Reach::Reached, 150, 151);
        assert_eq!(world.changes.last(), Some(&OutageChange::Ended(outage, End::Answered)));
        assert_eq!(world.detector.ongoing(), None);
    }
}

#[test]
fn what_is_lost_before_the_end_begins_no_other_outage() {
    let all = of_tenants(5, 20);
    let mut world = World::default();
    world.calls(&all, Reach::Reached, 0, 60);
    world.calls(&all, Reach::Unreached, 60, 70);
    for tenant in 0..3 {
        world.call(all[tenant * 20], Reach::Reached, at(70_000));
    }
    assert_eq!(world.changes.len(), 2);
    world.calls(&all, Reach::Reached, 71, 200);
    assert_eq!(world.changes.len(), 2, "{:?}", world.changes);
}

#[test]
fn the_limits() {
    // (keys, hosts, lost keys, failing before), and whether that is an outage.
    let cases = [
        (20, 20, 20, 0, true),
        (19, 19, 19, 0, false),
        (20, 10, 20, 0, true),
        (20, 9, 20, 0, false),
        (100, 100, 80, 0, true),
        (100, 100, 79, 0, false),
        (100, 100, 100, 20, true),
        (100, 100, 100, 21, false),
    ];
    for (count, hosts, lost, before, expected) in cases {
        let all: Vec<_> = (0..count).map(|n| Source { key: n, tenant: 1, host: n % hosts }).collect();
        let mut world = World::default();
        let (dead, well) = all.split_at(usize::try_from(before).unwrap());
        for second in 0..120 {
            world.calls(well, Reach::Reached, second, second + 1);
            world.calls(dead, Reach::Unreached, second, second + 1);
        }
        assert_eq!(world.changes, []);
        let (lost, well) = all.split_at(usize::try_from(lost).unwrap());
        // Those that answer do so before the others are lost, and stay within the window.
        world.calls(well, Reach::Reached, 120, 121);
        world.calls(lost, Reach::Unreached, 121, 124);
        world.changes.extend(world.detector.check(at(125_000)));
        assert_eq!(world.started(), expected, "{count} {hosts} {} {before}", lost.len());
    }
}

#[test]
fn keys_that_failed_for_hours_and_are_called_rarely_are_no_outage() {
    // Dead endpoints, of which each is probed once in ten minutes, and nothing else: all results are failures.
    let dead = of_tenants(10, 60);
    let mut world = World::default();
    world.calls(&dead, Reach::Unreached, 0, 1);
    world.changes.clear();
    world.detector = OutageDetector::default();
    for second in 1..7_200 {
        for source in dead.iter().skip(second % 600).step_by(600) {
            world.call(*source, Reach::Unreached, at(second as u64 * 1_000));
        }
    }
    assert_eq!(world.changes, []);
}

#[test]
fn one_host_is_no_outage_however_many_keys_it_has() {
    let shared: Vec<_> = (0..1_000).map(|n| Source { key: n, tenant: n % 50, host: 7 }).collect();
    let others = of_tenants(50, 1);
    let mut world = World::default();
    world.calls(&shared, Reach::Reached, 0, 30);
    world.calls(&others, Reach::Reached, 0, 30);
    for second in 30..60 {
        world.calls(&others, Reach::Reached, second, second + 1);
        world.calls(&shared, Reach::Unreached, second, second + 1);
    }
    assert_eq!(world.changes, []);
}

#[test]
fn it_ends_after_fifteen_minutes_and_does_not_begin_again() {
    let all = of_tenants(5, 20);
    let mut world = World::default();
    world.calls(&all, Reach::Reached, 0, 60);
    world.calls(&all, Reach::Unreached, 60, 62);
    let [OutageChange::Started(outage)] = world.changes[..] else { panic!("{:?}", world.changes) };
    assert_eq!(
        world.detector.check(outage.detected_at + LONGEST.saturating_sub(Duration::from_millis(1))),
        None
    );
    let over = Some(OutageChange::Ended(outage, End::Expired));
    assert_eq!(world.detector.check(outage.detected_at + LONGEST), over);
    world.calls(&all, Reach::Unreached, 963, 1_200);
    assert_eq!(world.changes.len(), 1, "they have failed for long");
}

#[test]
fn two_hosts_or_a_single_tenant_do_not_end_it() {
    let all = of_tenants(4, 20);
    let mut world = World::default();
    world.calls(&all, Reach::Reached, 0, 60);
    world.calls(&all, Reach::Unreached, 60, 70);
    let outage = world.detector.ongoing().unwrap();
    // The first tenant's endpoints fail and answer in turn.
    for second in 70..100 {
        let reach = if second % 2 == 0 { Reach::Reached } else { Reach::Unreached };
        world.calls(&all[..20], reach, second, second + 1);
    }
    assert_eq!(world.detector.ongoing(), Some(outage));
    world.call(all[20], Reach::Reached, at(100_000));
    assert_eq!(world.detector.ongoing(), Some(outage), "two tenants");
    world.call(all[40], Reach::Reached, at(100_001));
    assert_eq!(world.detector.ongoing(), None);
}

#[test]
fn a_tenant_that_was_alone_is_refuted_by_the_others() {
    let mut world = World::default();
    world.calls(&keys(1, 500), Reach::Unreached, 0, 3);
    let outage = world.detector.ongoing().expect("nobody else has results");
    world.calls(&keys(2, 3), Reach::Reached, 4, 6);
    assert_eq!(world.changes.last(), Some(&OutageChange::Ended(outage, End::Refuted)));
    world.calls(&keys(1, 500), Reach::Unreached, 20, 60);
    assert_eq!(world.changes.len(), 2, "its keys have failed for longer than the window");
}

#[test]
fn a_tenant_may_not_have_all_the_memory() {
    let mut world = World::default();
    for source in keys(1, u64::from(MAX_KEYS_OF_TENANT) + 1_000) {
        world.call(source, Reach::Unreached, at(0));
    }
    assert_eq!(world.detector.keys.len(), MAX_KEYS_OF_TENANT as usize);
    for tenant in 2..8 {
        for source in keys(tenant, u64::from(MAX_KEYS_OF_TENANT)) {
            world.call(source, Reach::Reached, at(1));
        }
    }
    assert_eq!(world.detector.keys.len(), MAX_KEYS);
    assert!(world.detector.tenants.len() <= 4, "a tenant without a key is not kept");
    world.detector.check(at(20_000));
    world.detector.check(at(20_000) + LONGEST);
    world.detector.check(at(30_000) + LONGEST);
    assert!(world.detector.keys.is_empty() && world.detector.tenants.is_empty());
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let all = of_tenants(5, 20);
    let mut world = World::default();
    world.calls(&all, Reach::Reached, 5_000, 5_060);
    world.calls(&all, Reach::Reached, 0, 60);
    world.calls(&all, Reach::Unreached, 60, 64);
    assert!(world.started());
}

/// One call: the key's number, whether it was reached, and the time since the call before, in milliseconds.
type Call = (u64, bool, u64);

fn calls(keys: u64, gap: u64) -> impl Strategy<Value = Vec<Call>> {
    proptest::collection::vec((0..keys, any::<bool>(), 0..gap), 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever one tenant's endpoints do, there is no outage while another tenant's answer.
    #[test]
    fn one_tenant_never_starts_an_outage_for_others(calls in calls(300, 100), others in 1_u64..8) {
        let (hostile, well) = (keys(0, 300), of_tenants(others, 2));
        let (mut world, mut now) = (World::default(), START);
        for (key, reached, gap) in calls {
            now = now + Duration::from_millis(gap);
            for source in &well {
                world.call(*source, Reach::Reached, now);
            }
            let reach = if reached { Reach::Reached } else { Reach::Unreached };
            world.call(hostile[usize::try_from(key).unwrap()], reach, now);
        }
        prop_assert_eq!(world.changes, []);
    }

    /// Endpoints that are always dead do not hide an outage of all the others.
    #[test]
    fn dead_endpoints_of_one_tenant_hide_no_outage(dead in 0_u64..200, tenants in 5_u64..12) {
        let (dead, others) = (keys(0, dead), of_tenants(tenants, 4));
        let mut world = World::default();
        for second in 0..90 {
            world.calls(&dead, Reach::Unreached, second, second + 1);
            world.calls(&others, Reach::Reached, second, second + 1);
        }
        prop_assert_eq!(&world.changes, &[]);
        for second in 90..93 {
            world.calls(&dead, Reach::Unreached, second, second + 1);
            world.calls(&others, Reach::Unreached, second, second + 1);
        }
        prop_assert!(world.started());
    }

    /// For any results: outages begin and end in turn, none lasts longer than its limit, each begins with enough keys,
    /// and the number of lost keys of each tenant stays right.
    #[test]
    fn outages_take_turns_and_are_bounded(calls in calls(60, 3_000), tenants in 1_u64..6) {
        let (mut world, mut now) = (World::default(), START);
        let mut ongoing: Option<Outage> = None;
        for (key, reached, gap) in calls {
            now = now + Duration::from_millis(gap);
            let source = Source { key, tenant: key % tenants, host: key / 2 };
            // Most results fail, so that there are outages to look at.
            let reach = if reached && key % 5 == 0 { Reach::Reached } else { Reach::Unreached };
            world.changes.clear();
            world.changes.extend(world.detector.check(now));
            world.call(source, reach, now);
            for change in &world.changes {
                match (change, ongoing) {
                    (OutageChange::Started(outage), None) => {
                        prop_assert!(outage.keys >= 20 && outage.hosts >= 10);
                        prop_assert!(outage.lost * 100 >= outage.keys * 80);
                        prop_assert!(outage.since <= outage.detected_at && outage.detected_at <= now);
                        ongoing = Some(*outage);
                    }
                    (OutageChange::Ended(ended, _), Some(outage)) => {
                        prop_assert_eq!(*ended, outage);
                        ongoing = None;
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert_eq!(world.detector.ongoing(), ongoing);
            if let Some(outage) = ongoing {
                prop_assert!(now.since(outage.detected_at) < LONGEST);
            }
            let lost: u32 = world.detector.tenants.values().map(|tenant| tenant.lost).sum();
            let keys: u32 = world.detector.tenants.values().map(|tenant| tenant.keys).sum();
            prop_assert_eq!(lost as usize, world.detector.keys.values().filter(|key| key.is_lost).count());
            prop_assert_eq!(keys as usize, world.detector.keys.len());
            let tenants: BTreeSet<_> = world.detector.keys.values().map(|key| key.tenant).collect();
            prop_assert_eq!(tenants.len(), world.detector.tenants.len());
        }
    }
}
