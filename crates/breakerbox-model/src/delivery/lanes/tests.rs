//! Turns in virtual time: a table for each rule, and a property test that no lane is ever forgotten.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use proptest::prelude::*;

use super::{Hold, IdleLaneLimits, LaneCounts, LaneSignal, LaneTurn, LaneWait, Lanes, Sleep};
use crate::delivery::{Wait, WaitsFor};
use crate::values::{Id, LaneId, Priority, TenantId};

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_000 + millis)
}

fn lane(number: i64) -> LaneId {
    LaneId(Id::from_number(number).unwrap())
}

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

/// Creates lanes with the given numbers of deliveries waiting at medium priority.
fn with(slots: u32, lanes_of: &[(&str, i64, u32)]) -> Lanes {
    let mut lanes = Lanes::new(slots);
    for (name, number, count) in lanes_of {
        lanes.register(lane(*number), &tenant(name), 64);
        lanes.arrived(lane(*number), Priority::Medium, *count, NOW, NOW);
    }
    lanes
}

fn turns(lanes: &mut Lanes) -> Vec<i64> {
    std::iter::from_fn(|| lanes.next(NOW)).map(|turn| turn.lane.number()).collect()
}

/// Records successes until the lane may have this many requests in flight.
fn prove(lanes: &mut Lanes, id: LaneId, count: u32) {
    for _ in 0..count {
        assert!(lanes.take(id, NOW));
        lanes.ended(id, LaneSignal::Success, NOW);
    }
}

#[test]
fn a_lane_starts_with_two_and_grows_with_success() {
    let mut lanes = with(512, &[("acme", 1, 100)]);
    assert_eq!(turns(&mut lanes), [1, 1]);
    lanes.ended(lane(1), LaneSignal::Success, NOW);
    assert_eq!(turns(&mut lanes), [1, 1]);
    lanes.ended(lane(1), LaneSignal::Failure, NOW);
    assert_eq!(turns(&mut lanes), [] as [i64; 0], "two are in flight, and it is back to two");
}

#[test]
fn never_more_turns_than_deliveries() {
    let mut lanes = with(512, &[("acme", 1, 1)]);
    assert_eq!(turns(&mut lanes), [1]);
}

#[test]
fn slots_go_round_tenants_and_then_round_lanes() {
    let mut lanes = with(512, &[("acme", 1, 9), ("acme", 2, 9), ("acme", 3, 9), ("bolt", 4, 9)]);
    assert_eq!(turns(&mut lanes), [1, 4, 2, 4, 3, 1, 2, 3]);
}

#[test]
fn a_free_slot_goes_to_the_tenant_that_uses_the_fewest() {
    let mut lanes = with(512, &[("acme", 1, 9), ("acme", 2, 9)]);
    assert_eq!(turns(&mut lanes).len(), 4);
    lanes.register(lane(3), &tenant("bolt"), 64);
    lanes.arrived(lane(3), Priority::Low, 9, NOW, NOW);
    lanes.ended(lane(1), LaneSignal::Neither, NOW);
    lanes.ended(lane(2), LaneSignal::Neither, NOW);
    assert_eq!(turns(&mut lanes), [3, 3, 1, 2]);
}

#[test]
fn lanes_without_success_share_half_of_the_slots() {
    let mut lanes = Lanes::new(64);
    lanes.register(lane(1), &tenant("acme"), 64);
    prove(&mut lanes, lane(1), 40);
    for number in 2..100 {
        lanes.register(lane(number), &tenant("acme"), 64);
        lanes.arrived(lane(number), Priority::High, 5, NOW, NOW);
    }
    assert_eq!(turns(&mut lanes).len(), 32, "half of them");
    lanes.arrived(lane(1), Priority::Low, 100, NOW, NOW);
    let proven = turns(&mut lanes);
    assert!(proven.iter().all(|number| *number == 1));
    assert_eq!(proven.len(), 28, "all but the last sixteenth, which is for tenants that use few");
    lanes.register(lane(200), &tenant("bolt"), 64);
    assert!(!lanes.take(lane(200), NOW), "it has no success to show either");
    lanes.ended(lane(2), LaneSignal::Failure, NOW);
    assert!(lanes.take(lane(200), NOW));
}

#[test]
fn the_last_slots_are_for_tenants_that_use_few() {
    let mut lanes = Lanes::new(64);
    lanes.register(lane(1), &tenant("acme"), 640);
    lanes.register(lane(2), &tenant("bolt"), 640);
    prove(&mut lanes, lane(1), 200);
    prove(&mut lanes, lane(2), 200);
    lanes.arrived(lane(1), Priority::High, 1_000, NOW, NOW);
    assert_eq!(turns(&mut lanes).len(), 60);
    lanes.arrived(lane(2), Priority::Low, 1_000, NOW, NOW);
    assert_eq!(turns(&mut lanes), [2, 2, 2, 2]);
}

#[test]
fn the_highest_priority_first_and_each_level_once_in_sixteen() {
    let mut lanes = Lanes::new(512);
    lanes.register(lane(1), &tenant("acme"), 64);
    prove(&mut lanes, lane(1), 62);
    for priority in Priority::ALL {
        lanes.arrived(lane(1), priority, 100, NOW, NOW);
    }
    let mut seen = HashMap::<_, usize>::new();
    for _ in 0..32 {
        *seen.entry(lanes.next(NOW).unwrap().priority.unwrap()).or_default() += 1;
    }
    assert_eq!(seen[&Priority::High], 26);
    for low in [Priority::Important, Priority::Medium, Priority::Low] {
        assert_eq!(seen[&low], 2, "{low}");
    }
}

#[test]
fn a_sleeping_lane_has_no_turn_until_its_time() {
    let mut lanes = with(512, &[("acme", 1, 9)]);
    let turn = lanes.next(NOW).unwrap();
    lanes.refused(turn.lane, turn.priority, Sleep::RateLimit(at(500)), NOW);
    assert_eq!(lanes.slots().used(), 0);
    assert_eq!(lanes.next(NOW), None);
    assert!(!lanes.take(lane(1), NOW), "nobody overtakes it either");
    assert_eq!(lanes.next_alarm(), Some(at(500)));
    lanes.tick(at(499));
    assert_eq!(lanes.next(at(499)), None);
    lanes.tick(at(500));
    assert!(lanes.next(at(500)).is_some());
}

#[test]
fn what_the_throttle_sheds_waits_and_what_is_more_important_does_not() {
    let mut lanes = Lanes::new(512);
    lanes.register(lane(1), &tenant("acme"), 64);
    lanes.arrived(lane(1), Priority::Medium, 3, NOW, NOW);
    let turn = lanes.next(NOW).unwrap();
    lanes.shed(turn.lane, turn.priority.unwrap(), hold("one", 100), NOW);
    assert_eq!((lanes.next(NOW), lanes.slots().used(), lanes.next_alarm()), (None, 0, Some(at(100))));
    lanes.arrived(lane(1), Priority::Low, 1, NOW, NOW);
    assert_eq!(lanes.next(NOW), None, "what is less important is shed as well");
    lanes.arrived(lane(1), Priority::High, 1, NOW, NOW);
    assert_eq!(lanes.next(NOW).unwrap().priority, Some(Priority::High));
    lanes.tick(at(100));
    assert_eq!(lanes.next(at(100)).unwrap().priority, Some(Priority::Medium));
}

fn hold(throttle: &str, millis: u64) -> Hold {
    Hold { throttle: Arc::from(throttle), until: at(millis) }
}

#[test]
fn what_a_throttle_holds_is_asked_again_as_soon_as_it_is_eased() {
    let mut lanes = with(512, &[("acme", 1, 9), ("acme", 2, 9), ("acme", 3, 9)]);
    for (number, throttle) in [(1, "one"), (2, "one"), (3, "other")] {
        lanes.hold(lane(number), Priority::Important, hold(throttle, 2_000), NOW);
        assert_eq!(held(&lanes, number, Priority::Medium, NOW), Some(WaitsFor::Throttle.until(at(2_000))));
        assert_eq!(held(&lanes, number, Priority::High, NOW), None, "what is more important is not held");
    }
    assert_eq!(turns(&mut lanes), [] as [i64; 0]);
    assert_eq!(lanes.count(NOW).parked, 27, "what is held is parked");
    assert_eq!(lanes.count(at(2_000)).parked, 0, "for its time");
    lanes.throttle_eased("one", NOW);
    assert_eq!(turns(&mut lanes), [1, 2, 1, 2]);
    assert_eq!(held(&lanes, 1, Priority::Medium, NOW), None);
    assert!(held(&lanes, 3, Priority::Medium, NOW).is_some());
    assert_eq!(held(&lanes, 3, Priority::Medium, at(2_000)), None);
}

fn held(lanes: &Lanes, number: i64, priority: Priority, now: Timestamp) -> Option<Wait> {
    lanes.wait(lane(number), Some(priority), now).hold
}

#[test]
fn a_lane_is_held_by_its_latest_throttle_alone() {
    let mut lanes = with(512, &[("acme", 1, 9), ("acme", 2, 9)]);
    lanes.hold(lane(1), Priority::High, hold("before", 2_000), NOW);
    lanes.hold(lane(1), Priority::High, hold("after", 2_000), NOW);
    lanes.throttle_eased("before", NOW);
    assert!(held(&lanes, 1, Priority::High, NOW).is_some());
    lanes.throttle_eased("after", NOW);
    assert_eq!(held(&lanes, 1, Priority::High, NOW), None);
    lanes.forget(lane(1));
    assert_eq!(lanes.wait(lane(1), None, NOW), LaneWait::UNKNOWN, "nothing is left of a lane that is gone");
}

#[test]
fn a_lane_that_sleeps_is_held_until_it_wakes() {
    let mut lanes = with(512, &[("acme", 1, 9)]);
    let circuit = |until| Sleep::Circuit { key: Arc::from("key"), until };
    for (sleep, waits_for, until) in [
        (Sleep::RateLimit(at(500)), WaitsFor::RateLimit, Some(at(500))),
        (Sleep::RetryAfter(at(500)), WaitsFor::RetryAfter, Some(at(500))),
        (Sleep::LocalFault(at(500)), WaitsFor::Slot, Some(at(500))),
        (circuit(Some(at(500))), WaitsFor::Circuit, Some(at(500))),
        (circuit(None), WaitsFor::Circuit, None),
        (Sleep::Disabled, WaitsFor::Disabled, None),
    ] {
        lanes.sleep(lane(1), sleep.clone(), NOW);
        let expected = Some(Wait { waits_for, until });
        assert_eq!(held(&lanes, 1, Priority::High, NOW), expected, "{sleep:?}");
        assert_eq!(lanes.wait(lane(1), None, NOW).hold, expected, "{sleep:?}");
        let later = expected.filter(|wait| wait.until.is_none());
        assert_eq!(held(&lanes, 1, Priority::High, at(500)), later, "{sleep:?}");
    }
    lanes.wake(lane(1), NOW);
    assert_eq!(held(&lanes, 1, Priority::High, NOW), None);
    assert_eq!(lanes.wait(lane(2), Some(Priority::High), NOW), LaneWait::UNKNOWN, "nobody knows that lane");
}

#[test]
fn a_lane_waits_for_what_its_next_delivery_waits_for() {
    let mut lanes = with(512, &[("acme", 1, 9)]);
    let wait = |lanes: &Lanes, now| lanes.wait(lane(1), None, now);
    assert_eq!((wait(&lanes, NOW).hold, wait(&lanes, NOW).place), (None, WaitsFor::Slot.open_ended()));
    lanes.hold(lane(1), Priority::Medium, hold("one", 100), NOW);
    assert_eq!(wait(&lanes, NOW).hold, Some(WaitsFor::Throttle.until(at(100))));
    lanes.arrived(lane(1), Priority::Important, 1, at(50), NOW);
    assert!(wait(&lanes, NOW).hold.is_some(), "the other one is not due yet");
    assert_eq!(wait(&lanes, at(50)).hold, None, "the other one may go");
    lanes.sleep(lane(1), Sleep::RetryAfter(at(900)), NOW);
    let longest = Some(WaitsFor::RetryAfter.until(at(900)));
    assert_eq!(held(&lanes, 1, Priority::Medium, NOW), longest, "what ends last");
}

#[test]
fn a_lane_at_its_limit_waits_for_one_of_its_requests() {
    let mut lanes = with(512, &[("acme", 1, 9)]);
    assert_eq!(turns(&mut lanes), [1, 1]);
    let full = LaneWait { hold: None, place: WaitsFor::InFlightLimit.open_ended(), in_flight: 2 };
    assert_eq!(lanes.wait(lane(1), Some(Priority::Medium), NOW), full);
    lanes.ended(lane(1), LaneSignal::Neither, NOW);
    let free = LaneWait { place: WaitsFor::Slot.open_ended(), in_flight: 1, ..full };
    assert_eq!(lanes.wait(lane(1), None, NOW), free);
}

#[test]
fn a_lane_that_watches_a_circuit_checks_it_when_it_changes() {
    let mut lanes = Lanes::new(512);
    lanes.register(lane(1), &tenant("acme"), 64);
    lanes.arrived(lane(1), Priority::Medium, 1, at(5_000), NOW);
    let check = Some(LaneTurn { lane: lane(1), priority: None });
    lanes.watch_circuit(lane(1), "before");
    lanes.watch_circuit(lane(1), "key");
    lanes.circuit_changed("before", NOW);
    assert_eq!(lanes.next(NOW), None, "it watches one circuit");
    lanes.circuit_changed("key", NOW);
    assert_eq!(lanes.next(NOW), check, "though nothing is due");
    lanes.release_slot(lane(1), None, NOW);
    lanes.circuit_changed("key", NOW);
    assert_eq!(lanes.next(NOW), None, "once");
    // A receiver's pause lasts although the circuit changes.
    lanes.watch_circuit(lane(1), "key");
    lanes.sleep(lane(1), Sleep::RetryAfter(at(900)), NOW);
    lanes.circuit_changed("key", NOW);
    assert_eq!(lanes.next(NOW), None);
    lanes.tick(at(900));
    assert_eq!(lanes.next(at(900)), check);
    lanes.watch_circuit(lane(1), "key");
    lanes.ended(lane(1), LaneSignal::Success, at(900));
    lanes.circuit_changed("key", at(900));
    assert_eq!(lanes.next(at(900)), None, "a success ends it");
    lanes.watch_circuit(lane(1), "key");
    lanes.forget(lane(1));
    assert!(lanes.watching.is_empty());
}

#[test]
fn two_claims_at_once_forget_nothing() {
    let mut lanes = with(512, &[("acme", 1, 2)]);
    assert_eq!(turns(&mut lanes), [1, 1]);
    lanes.claiming(lane(1));
    lanes.claiming(lane(1));
    lanes.claimed(lane(1), 1, [0, 0, 1, 0], [None, None, Some(NOW), None], NOW);
    assert_eq!(lanes.next(NOW), None, "the other one is under way");
    lanes.claimed(lane(1), 1, [0, 0, 1, 0], [None; 4], NOW);
    lanes.ended(lane(1), LaneSignal::Success, NOW);
    assert_eq!(turns(&mut lanes), [] as [i64; 0]);
}

#[test]
fn a_change_of_the_circuit_wakes_its_lanes_and_no_other() {
    let mut lanes = with(512, &[("acme", 1, 9), ("acme", 2, 9), ("acme", 3, 9)]);
    let sleep = |key: &str| Sleep::Circuit { key: Arc::from(key), until: None };
    lanes.sleep(lane(1), sleep("one"), NOW);
    lanes.sleep(lane(2), sleep("one"), NOW);
    lanes.sleep(lane(3), sleep("other"), NOW);
    assert_eq!(turns(&mut lanes), [] as [i64; 0]);
    lanes.circuit_settled("one", NOW);
    assert_eq!(turns(&mut lanes), [1, 1], "one at a time");
    lanes.circuit_changed("one", NOW);
    assert_eq!(turns(&mut lanes), [2, 2]);
    lanes.wake(lane(3), NOW);
    lanes.sleep(lane(3), Sleep::Disabled, NOW);
    lanes.circuit_changed("other", NOW);
    assert_eq!(turns(&mut lanes), [] as [i64; 0], "it sleeps for another reason now");
}

#[test]
fn a_circuit_that_wants_a_probe_gives_a_turn_though_all_are_backing_off() {
    let mut lanes = Lanes::new(512);
    lanes.register(lane(1), &tenant("acme"), 64);
    lanes.arrived(lane(1), Priority::Medium, 1, at(60_000), NOW);
    lanes.sleep(lane(1), Sleep::Circuit { key: Arc::from("key"), until: Some(at(100)) }, NOW);
    lanes.tick(at(100));
    assert_eq!(lanes.next(at(100)), Some(LaneTurn { lane: lane(1), priority: None }));
    lanes.release_slot(lane(1), None, at(100));
    assert_eq!(lanes.next(at(100)), None, "once");
    lanes.check_circuit(lane(1), at(100));
    assert!(lanes.next(at(100)).is_some());
}

#[test]
fn a_fresh_delivery_skips_no_line() {
    let mut lanes = with(512, &[("acme", 1, 1)]);
    assert!(!lanes.take(lane(1), NOW), "one is due");
    assert_eq!(turns(&mut lanes), [1]);
    lanes.claiming(lane(1));
    assert!(!lanes.take(lane(1), NOW), "a claim is under way");
    lanes.claimed(lane(1), 1, [0, 0, 1, 0], [None; 4], NOW);
    assert!(lanes.take(lane(1), NOW));
    assert!(!lanes.take(lane(1), NOW), "two are in flight");
    assert!(!lanes.take(lane(9), NOW), "nobody knows that lane");
    lanes.arrived(lane(1), Priority::High, 1, at(9_000), NOW);
    lanes.ended(lane(1), LaneSignal::Success, NOW);
    assert!(lanes.take(lane(1), NOW), "what is due much later is not overtaken");
}

#[test]
fn what_arrives_during_a_claim_is_not_forgotten() {
    let mut lanes = with(512, &[("acme", 1, 1)]);
    assert_eq!(turns(&mut lanes), [1]);
    lanes.claiming(lane(1));
    lanes.arrived(lane(1), Priority::Medium, 1, NOW, NOW);
    assert_eq!(lanes.next(NOW), None);
    lanes.claimed(lane(1), 1, [0, 0, 1, 0], [None; 4], NOW);
    assert_eq!(turns(&mut lanes), [1], "the answer was older than the arrival");
}

#[test]
fn slots_of_turns_that_found_nothing_are_free_again() {
    let mut lanes = with(512, &[("acme", 1, 2)]);
    assert_eq!(turns(&mut lanes), [1, 1]);
    lanes.claiming(lane(1));
    lanes.claimed(lane(1), 2, [0; 4], [None; 4], NOW);
    assert_eq!(lanes.slots().used(), 0);
    assert_eq!(lanes.next(NOW), None);
    lanes.forget(lane(1));
    assert_eq!(lanes.count(NOW), LaneCounts::default());
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(i64, u8, u32, u64),
    Take(i64),
    Plan,
    Answer(i64),
    End(i64, u8),
    Sleep(i64, u8),
    Wake(i64),
    Circuit(i64),
    Hold(i64, u8),
    Ease(i64),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let lane = 0..6_i64;
    prop_oneof![
        (lane.clone(), 0..4_u8, 1..4_u32, 0..3_u64).prop_map(|(l, p, n, d)| Step::Arrive(l, p, n, d * 700)),
        lane.clone().prop_map(Step::Take),
        Just(Step::Plan),
        lane.clone().prop_map(Step::Answer),
        (lane.clone(), 0..3_u8).prop_map(|(l, how)| Step::End(l, how)),
        (lane.clone(), 0..4_u8).prop_map(|(l, why)| Step::Sleep(l, why)),
        lane.clone().prop_map(Step::Wake),
        lane.clone().prop_map(Step::Circuit),
        (lane.clone(), 0..4_u8).prop_map(|(l, p)| Step::Hold(l, p)),
        lane.prop_map(Step::Ease),
        (0..2_000_u64).prop_map(Step::Pass),
    ]
}

/// The content of the database: the waiting deliveries of each lane, by priority and due time.
#[derive(Default)]
struct Truth {
    waiting: HashMap<(i64, usize), Vec<Timestamp>>,
    /// The turns of each lane that were not claimed yet.
    turns: HashMap<i64, Vec<Option<Priority>>>,
    in_flight: HashMap<i64, u32>,
}

impl Truth {
    fn next_due(&self, number: i64) -> [Option<Timestamp>; 4] {
        std::array::from_fn(|level| {
            self.waiting.get(&(number, level)).and_then(|all| all.iter().min().copied())
        })
    }

    fn claim(&mut self, number: i64, now: Timestamp) -> (u32, [u32; 4]) {
        let turns = self.turns.remove(&number).unwrap_or_default();
        let mut found = [0; 4];
        for turn in &turns {
            let levels = turn.map_or(0..4, |priority| priority.index()..priority.index() + 1);
            for level in levels {
                let all = self.waiting.entry((number, level)).or_default();
                if let Some(place) = all.iter().position(|due| turn.is_none() || *due <= now) {
                    all.swap_remove(place);
                    found[level] += 1;
                    *self.in_flight.entry(number).or_default() += 1;
                    break;
                }
            }
        }
        (u32::try_from(turns.len()).unwrap(), found)
    }
}

proptest! {
    /// For any sequence of steps: slots are never overdrawn and never leak, and once all lanes are awake and all
    /// claims are answered, every waiting delivery gets its turn.
    #[test]
    fn nothing_is_forgotten_and_no_slot_leaks(steps in prop::collection::vec(step(), 0..120)) {
        let mut lanes = Lanes::new(8);
        let mut truth = Truth::default();
        let mut now = NOW;
        let names = ["acme", "bolt"];
        for number in 0..6 {
            lanes.register(lane(number), &tenant(names[usize::try_from(number % 2).unwrap()]), 4);
        }
        for step in steps {
            match step {
                Step::Arrive(number, level, count, later) => {
                    let due = now + std::time::Duration::from_millis(later);
                    let waiting = truth.waiting.entry((number, level.into())).or_default();
                    waiting.extend(std::iter::repeat_n(due, usize::try_from(count).unwrap()));
                    lanes.arrived(lane(number), Priority::ALL[usize::from(level)], count, due, now);
                }
                Step::Take(number) => {
                    if lanes.take(lane(number), now) {
                        *truth.in_flight.entry(number).or_default() += 1;
                    }
                }
                Step::Plan => {
                    lanes.tick(now);
                    let mut planned = std::collections::BTreeSet::new();
                    while let Some(turn) = lanes.next(now) {
                        let number = turn.lane.number();
                        truth.turns.entry(number).or_default().push(turn.priority);
                        planned.insert(number);
                    }
                    planned.into_iter().for_each(|number| lanes.claiming(lane(number)));
                }
                Step::Answer(number) => {
                    if truth.turns.contains_key(&number) {
                        let (asked, found) = truth.claim(number, now);
                        lanes.claimed(lane(number), asked, found, truth.next_due(number), now);
                    }
                }
                Step::End(number, how) => {
                    let in_flight = truth.in_flight.entry(number).or_default();
                    if *in_flight > 0 {
                        *in_flight -= 1;
                        let how = [LaneSignal::Success, LaneSignal::Failure, LaneSignal::Neither][usize::from(how)];
                        lanes.ended(lane(number), how, now);
                    }
                }
                Step::Sleep(number, why) => {
                    let key = Arc::from(format!("circuit {}", number / 2));
                    let until = now + std::time::Duration::from_millis(900);
                    lanes.sleep(lane(number), match why {
                        0 => Sleep::RetryAfter(until),
                        1 => Sleep::Circuit { key, until: Some(until) },
                        2 => Sleep::Circuit { key, until: None },
                        _ => Sleep::Disabled,
                    }, now);
                }
                Step::Wake(number) => lanes.wake(lane(number), now),
                Step::Circuit(number) => lanes.circuit_changed(&format!("circuit {}", number / 2), now),
                Step::Hold(number, level) => {
                    let throttle = Arc::from(format!("throttle {}", number / 2));
                    let until = now + std::time::Duration::from_secs(2);
                    lanes.hold(lane(number), Priority::ALL[usize::from(level)], Hold { throttle, until }, now);
                }
                Step::Ease(number) => lanes.throttle_eased(&format!("throttle {}", number / 2), now),
                Step::Pass(millis) => now = now + std::time::Duration::from_millis(millis),
            }
            let planned: usize = truth.turns.values().map(Vec::len).sum();
            let in_flight: u32 = truth.in_flight.values().sum();
            prop_assert_eq!(lanes.slots().used(), u32::try_from(planned).unwrap() + in_flight);
            prop_assert!(lanes.slots().used() <= 8);
        }
        // All claims are answered and succeed, all lanes are awake and all deliveries are due: none may be left.
        now = now + std::time::Duration::from_secs(60);
        for number in 0..6 {
            lanes.wake(lane(number), now);
        }
        for _ in 0..2_000 {
            lanes.tick(now);
            for number in 0..6 {
                if truth.turns.contains_key(&number) {
                    let (asked, found) = truth.claim(number, now);
                    lanes.claimed(lane(number), asked, found, truth.next_due(number), now);
                }
                for _ in 0..truth.in_flight.remove(&number).unwrap_or(0) {
                    lanes.ended(lane(number), LaneSignal::Success, now);
                }
            }
            if let Some(turn) = lanes.next(now) {
                truth.turns.entry(turn.lane.number()).or_default().push(turn.priority);
                lanes.claiming(turn.lane);
            } else if truth.turns.is_empty() {
                break;
            }
        }
        prop_assert!(truth.waiting.values().all(Vec::is_empty), "{:?}", truth.waiting);
        prop_assert_eq!(lanes.slots().used(), 0);
        prop_assert_eq!(lanes.slots().unproven(), 0);
    }
}

#[test]
fn lanes_without_work_are_neither_awake_nor_asleep() {
    let mut lanes = with(512, &[("acme", 1, 1), ("acme", 2, 3), ("acme", 3, 1)]);
    lanes.register(lane(4), &tenant("acme"), 64);
    lanes.sleep(lane(2), Sleep::Disabled, NOW);
    lanes.sleep(lane(4), Sleep::Disabled, NOW);
    assert_eq!(lanes.count(NOW), LaneCounts { awake: 2, asleep: 1, idle: 1, parked: 3 });
    // One delivery is delivered: nothing waits in its lane any more.
    assert_eq!(turns(&mut lanes), [1, 3]);
    lanes.claiming(lane(1));
    lanes.claimed(lane(1), 1, [0, 0, 1, 0], [None; 4], NOW);
    lanes.ended(lane(1), LaneSignal::Success, NOW);
    assert_eq!(lanes.count(NOW), LaneCounts { awake: 1, asleep: 1, idle: 2, parked: 3 });
}

#[test]
fn idle_lanes_of_dynamic_urls_are_forgotten_after_a_while_or_beyond_so_many() {
    let keep = IdleLaneLimits { lanes: 100, dynamic_of_tenant: 3, dynamic_for: Duration::from_secs(60) };
    let mut lanes = with(512, &[("acme", 1, 1)]);
    // Lanes with even numbers belong to endpoints.
    let is_dynamic = |id: LaneId| id.number() % 2 == 1;
    for number in 2..8 {
        lanes.register(lane(number), &tenant("acme"), 64);
    }
    let known = |lanes: &Lanes| {
        let mut known: Vec<_> = lanes.known().into_iter().map(LaneId::number).collect();
        known.sort_unstable();
        known
    };
    lanes.tidy(&keep, is_dynamic, NOW);
    assert_eq!(known(&lanes), [1, 2, 3, 4, 5, 6, 7], "three idle ones of a tenant stay");
    prove(&mut lanes, lane(5), 1);
    lanes.register(lane(9), &tenant("acme"), 64);
    lanes.register(lane(11), &tenant("other"), 64);
    lanes.tidy(&keep, is_dynamic, at(30_000));
    assert_eq!(
        known(&lanes),
        [1, 2, 4, 5, 6, 7, 9, 11],
        "the longest idle one of the tenant that has too many goes"
    );
    lanes.tidy(&keep, is_dynamic, at(60_000));
    assert_eq!(known(&lanes), [1, 2, 4, 5, 6, 9, 11], "what was used lately stays");
    lanes.tidy(&keep, is_dynamic, at(200_000));
    assert_eq!(known(&lanes), [1, 2, 4, 6], "what waits stays, and so do endpoints'");
    lanes.tidy(&IdleLaneLimits { lanes: 1, ..keep }, is_dynamic, at(200_000));
    assert_eq!(known(&lanes), [1], "unless there are too many");
}
