//! Sampled fleets: the rules through the real loop, one leader, polls that go wrong, checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::sampling::SamplingEvent;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store, StoreError,
    Swap, Swapped, Term,
};
use breakerbox::{
    Attribution, Nonce, OnStoreLoss, OverrideCommand, Policy, Preset, Record, State, Status, TripRule,
};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

use crate::sampling_rig::{Bench, Choices, NetworkFault, convoy, ms, secs};

#[tokio::test(start_paused = true)]
async fn every_rule_once_for_each_key_and_tick() {
    let bench = Bench::new(2);
    bench.leader().await;
    let at = |failures, successes| move |key: &str| (key.to_owned(), failures, successes);
    let closed = [
        (at(7, 3)("at the rate"), Status::Open),
        (at(6, 4)("below the rate"), Status::Closed),
        (at(9, 0)("too few"), Status::Closed),
        (at(10, 0)("all fail"), Status::Open),
        (at(0, 50)("all is well"), Status::Closed),
    ];
    for ((key, failures, successes), _) in &closed {
        bench.table.fail(key, *failures);
        bench.table.succeed(key, *successes);
    }
    bench.tick().await;
    for ((key, ..), status) in &closed {
        assert_eq!(bench.status(key).await, *status, "closed, {key}");
    }
    // Open: nothing before the cool-off is over; then half-open, whatever the totals say.
    bench.table.succeed("all fail", 100);
    bench.tick().await;
    assert_eq!(bench.status("all fail").await, Status::Open);
    sleep(secs(30)).await;
    bench.tick().await;
    assert_eq!(bench.status("all fail").await, Status::HalfOpen);
    assert_eq!(bench.status("at the rate").await, Status::HalfOpen);
    // Half-open: fewer than `probes`, however long; then one way or the other.
    for _ in 0..20 {
        bench.tick().await;
    }
    assert_eq!(bench.status("all fail").await, Status::HalfOpen);
    bench.table.succeed("all fail", 1);
    bench.table.fail("at the rate", 1);
    bench.tick().await;
    assert_eq!(bench.status("all fail").await, Status::Closed);
    assert_eq!(bench.status("at the rate").await, Status::Open);
    let answer = bench.store.read(&["at the rate".into()]).await.unwrap().all().unwrap();
    assert_eq!(answer.value[0].as_ref().unwrap().trips, 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_counts_from_before_a_transition_and_the_window_keeps_sliding() {
    let bench = Bench::new(1);
    bench.leader().await;
    bench.trip("e1").await;
    sleep(secs(30)).await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::HalfOpen);
    // It started before the transition, though it ends now.
    bench.table.add("e1", 5, secs(20), false);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::HalfOpen, "it says nothing about the recovery");
    bench.table.succeed("e1", 1);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Closed);
    // Ten failures of before are still in the window.
    bench.table.fail("e1", 9);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Closed, "nine calls since the transition are too few");
    sleep(secs(299)).await;
    bench.table.fail("e1", 9);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Closed, "the window has slid past the first nine");
    bench.table.fail("e1", 1);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Open);
}

#[tokio::test(start_paused = true)]
async fn few_keys_are_asked_for_in_their_own_way() {
    let bench = Bench::new(1);
    bench.leader().await;
    bench.table.succeed("well", 20);
    for key in ["stays open", "half-open", "closed again"] {
        bench.table.fail(key, 10);
    }
    bench.tick().await;
    let by = Attribution::new("ops", "a drill").unwrap();
    bench.agents[0]
        .sampling
        .circuit("stays open")
        .unwrap()
        .try_override(OverrideCommand::ForceOpen, &by)
        .await
        .unwrap();
    sleep(secs(31)).await;
    bench.tick().await;
    bench.table.succeed("closed again", 1);
    bench.tick().await;
    bench.tick().await;
    let answer = bench.store.read(&["closed again".into(), "half-open".into()]).await.unwrap().all().unwrap();
    let age = |n: usize| answer.now.since(answer.value[n].as_ref().unwrap().changed_at).as_secs();
    let polls = bench.table.polls.lock().unwrap();
    let mut since: Vec<_> =
        polls.last().unwrap().since.iter().map(|s| (&*s.key, s.started, s.age.as_secs())).collect();
    since.sort_unstable();
    assert_eq!(since, [("closed again", false, age(0)), ("half-open", true, age(1))]);
    assert!(age(1) > age(0));
    assert_eq!(polls.last().unwrap().window, secs(300));
}

#[tokio::test(start_paused = true)]
async fn a_zombie_is_disabled_and_its_owner_hears_once() {
    let choices = Choices { policy: convoy().disable_after(3), ..Choices::default() };
    let bench = Bench::with(2, choices);
    let leader = bench.leader().await;
    for _ in 0..40 {
        bench.table.fail("zombie", 10);
        bench.tick().await;
    }
    assert_eq!(bench.status("zombie").await, Status::Disabled);
    let observed = bench.agents[leader].observed("zombie");
    let story = [Status::Open, Status::HalfOpen, Status::Open, Status::HalfOpen, Status::Disabled];
    assert_eq!(observed, story);
    assert_eq!(bench.agents[leader].check("zombie").await, "disabled");
    assert_eq!(bench.agents[1 - leader].check("zombie").await, "disabled", "everywhere");
}

#[tokio::test(start_paused = true)]
async fn all_agents_hear_of_every_change_once() {
    let bench = Bench::new(3);
    bench.leader().await;
    for agent in &bench.agents {
        assert_eq!(agent.check("e1").await, "free");
    }
    bench.trip("e1").await;
    sleep(secs(31)).await;
    bench.tick().await;
    bench.table.succeed("e1", 1);
    bench.tick().await;
    sleep(secs(5)).await;
    for agent in &bench.agents {
        assert_eq!(agent.observed("e1"), [Status::Open, Status::HalfOpen, Status::Closed]);
        assert_eq!(agent.check("e1").await, "free", "without a ramp");
        assert_eq!(agent.sampling.counts().late_results, 0);
    }
    let changes = bench.agents[0].changes.lock().unwrap();
    assert_eq!(changes[0].change.cause, breakerbox::Cause::Rule(TripRule::FailureRate));
}

#[tokio::test(start_paused = true)]
async fn there_is_one_leader_and_when_it_dies_another_within_its_term_and_a_second() {
    let bench = Bench::new(5);
    let mut dead = Vec::new();
    // A term is three periods of 5 s.
    for _ in 0..3 {
        bench.until("a leader", || bench.leaders().len() == 1).await;
        let leader = bench.leaders()[0];
        for _ in 0..3 {
            bench.tick().await;
            assert_eq!(bench.leaders(), [leader], "as long as it lives");
        }
        bench.agents[leader].way.set(Fault::BlackHole);
        dead.push(leader);
        let died_at = Instant::now();
        let successor = || bench.leaders().into_iter().find(|n| !dead.contains(n));
        bench.until("a successor", || successor().is_some()).await;
        assert!(died_at.elapsed() <= secs(16), "{:?}", died_at.elapsed());
        bench.until("the dead one knows", || !bench.agents[leader].leads()).await;
    }
    let elected = |n: usize| {
        let events = bench.agents[n].events.lock().unwrap();
        events.iter().filter(|event| **event == SamplingEvent::Elected).count()
    };
    assert_eq!((0..5).map(elected).sum::<usize>(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_goes_home_gives_its_term_back() {
    let mut bench = Bench::new(1);
    bench.leader().await;
    let before = Instant::now();
    bench.agents.clear();
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    sleep(ms(100)).await;
    let next = bench.agent(1, Arc::clone(&way), way);
    bench.until("a successor", || next.leads()).await;
    assert!(before.elapsed() < secs(1));
}

/// A store whose swaps by the hundred wait, as they do if a process is paused between deciding and writing; and whose answers to
/// them take their time.
struct PausedBeforeSwap {
    inner: Arc<dyn Store>,
    paused: AtomicBool,
    waiting: AtomicU32,
    answers_after: Duration,
}

#[async_trait]
impl Store for PausedBeforeSwap {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.inner.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.inner.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.inner.swap_if(swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.paused.load(Ordering::SeqCst) {
            sleep(ms(10)).await;
        }
        let answer = self.inner.swap_all(swaps).await;
        sleep(self.answers_after).await;
        answer
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.inner.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.inner.list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.inner.ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        // A paused process prolongs nothing.
        while self.paused.load(Ordering::SeqCst) && self.waiting.load(Ordering::SeqCst) > 0 {
            sleep(ms(10)).await;
        }
        self.inner.lead(name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.inner.check_write().await
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_paused_leader_writes_when_it_is_back_is_refused() {
    let mut bench = Bench::with(0, Choices { store_timeout: secs(3_600), ..Choices::default() });
    let paused = Arc::new(PausedBeforeSwap {
        inner: Arc::clone(&bench.store) as Arc<dyn Store>,
        paused: AtomicBool::new(true),
        waiting: AtomicU32::new(0),
        answers_after: Duration::ZERO,
    });
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    let agent = bench.agent(0, Arc::clone(&paused), Arc::clone(&way));
    bench.until("the first leads", || agent.leads()).await;
    bench.agents.push(agent);
    let successor = bench.agent(1, Arc::clone(&way), way);
    bench.agents.push(successor);
    bench.table.fail("e1", 10);
    bench.until("it has decided", || paused.waiting.load(Ordering::SeqCst) > 0).await;
    bench.table.clear();
    bench.table.succeed("e1", 100);
    bench.until("a successor", || bench.agents[1].leads()).await;
    bench.tick().await;
    paused.paused.store(false, Ordering::SeqCst);
    bench.until("it knows", || !bench.agents[0].leads()).await;
    sleep(secs(60)).await;
    assert_eq!(bench.agents[0].sampling.report().refused_writes, 1);
    assert_eq!(bench.status("e1").await, Status::Closed);
    assert_eq!(bench.leaders(), [1]);
}

/// The announcement of its own tick may be quicker than the answer, and so may that of somebody's lease.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_tick_is_answered_after_a_lease_tells_observers_once() {
    let mut bench = Bench::new(0);
    let slow = Arc::new(PausedBeforeSwap {
        inner: Arc::clone(&bench.store) as Arc<dyn Store>,
        paused: AtomicBool::new(false),
        waiting: AtomicU32::new(0),
        answers_after: ms(200),
    });
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    let leader = bench.agent(0, slow, Arc::clone(&way));
    bench.agents.push(leader);
    bench.leader().await;
    let other = bench.agent(1, Arc::clone(&way), way);
    bench.agents.push(other);
    assert_eq!(bench.agents[1].check("e1").await, "free");
    bench.trip("e1").await;
    let opened_at = Instant::now();
    while bench.status("e1").await != Status::HalfOpen {
        assert!(opened_at.elapsed() < secs(60));
        sleep(ms(5)).await;
    }
    assert_eq!(bench.agents[1].check("e1").await, "probe");
    bench.tick().await;
    assert_eq!(bench.agents[0].observed("e1"), [Status::Open, Status::HalfOpen]);
    assert_eq!(bench.agents[0].check("e1").await, "probing", "and it knows of the lease");
}

#[tokio::test(start_paused = true)]
async fn who_was_away_longer_than_its_term_forgets_what_it_polled() {
    let choices = Choices { poll_timeout: secs(3_600), ..Choices::default() };
    let bench = Bench::with(1, choices);
    bench.leader().await;
    bench.tick().await;
    bench.table.fail("e1", 10);
    bench.table.fault(NetworkFault::Slow(secs(120)));
    let polls = bench.table.polls.lock().unwrap().len();
    bench.until("a poll", || bench.table.polls.lock().unwrap().len() > polls).await;
    bench.table.fault(NetworkFault::None);
    // Nobody hears of it for longer than its term. Meanwhile the table has changed.
    bench.agents[0].way.set(Fault::Refuses);
    sleep(secs(60)).await;
    bench.table.clear();
    bench.table.succeed("e1", 100);
    bench.agents[0].way.set(Fault::None);
    bench.tick().await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Closed, "what it knew is older than its term");
    assert_eq!(bench.agents[0].sampling.report().refused_writes, 0, "it did not even try");
}

#[tokio::test(start_paused = true)]
async fn a_slow_poll_makes_no_second_leader_and_no_second_poll() {
    let choices = Choices { poll_timeout: secs(3_600), ..Choices::default() };
    let bench = Bench::with(3, choices);
    let leader = bench.leader().await;
    bench.table.fault(NetworkFault::Slow(secs(100)));
    bench.table.fail("e1", 10);
    for _ in 0..3 {
        bench.tick().await;
        assert_eq!(bench.leaders(), [leader], "it prolongs its term meanwhile");
    }
    assert_eq!(bench.table.most_at_once.load(Ordering::SeqCst), 1);
    assert_eq!(bench.agents[leader].observed("e1")[0], Status::Open, "late, but whole");
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_fails_is_reported_and_changes_nothing() {
    for (fault, says) in [
        (NetworkFault::Fails, "the sampler failed: no such table"),
        (NetworkFault::Panics, "a sampler that panics"),
        (NetworkFault::Slow(secs(60)), "did not answer within 10s"),
    ] {
        let bench = Bench::new(1);
        bench.leader().await;
        bench.trip("e1").await;
        bench.table.fail("e2", 10);
        bench.table.fault(fault);
        let report = || bench.agents[0].sampling.report();
        bench.until("failed polls", || report().failed_polls >= 2).await;
        sleep(secs(35)).await;
        let error = report().poll_error.unwrap();
        assert!(error.contains(says), "{error}");
        let was_reported =
            bench.agents[0].events.lock().unwrap().contains(&SamplingEvent::PollFailed { error });
        assert!(was_reported);
        assert_eq!(bench.status("e1").await, Status::Open);
        assert_eq!(bench.status("e2").await, Status::Closed);
        bench.table.fault(NetworkFault::None);
        bench.tick().await;
        assert_eq!(report().poll_error, None);
        assert_eq!(bench.status("e2").await, Status::Open);
    }
}

#[tokio::test(start_paused = true)]
async fn who_can_not_poll_lets_somebody_else_try() {
    let bench = Bench::new(2);
    let leader = bench.leader().await;
    bench.tick().await;
    bench.table.fault(NetworkFault::Fails);
    bench.until("it gives up", || !bench.agents[leader].leads()).await;
    assert_eq!(bench.agents[leader].sampling.report().failed_polls, 3);
    bench.until("another", || bench.agents[1 - leader].leads()).await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_finds_nothing_at_all_changes_nothing() {
    let bench = Bench::new(1);
    bench.leader().await;
    bench.trip("e1").await;
    bench.table.clear();
    sleep(secs(60)).await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Open, "perhaps the table is not there");
    assert_eq!(bench.agents[0].check("e1").await, "probe", "and nobody has to wait for a tick");
}

#[tokio::test(start_paused = true)]
async fn one_sample_without_latencies_spoils_the_poll_if_they_are_needed() {
    let policy = Policy::builder().preset(Preset::Reminders).jitter(0);
    let bench = Bench::with(1, Choices { policy, ..Choices::default() });
    bench.leader().await;
    *bench.table.without_latency.lock().unwrap() = true;
    bench.table.fail("e1", 20);
    bench.until("a failed poll", || bench.agents[0].sampling.report().failed_polls > 0).await;
    let error = bench.agents[0].sampling.report().poll_error.unwrap();
    assert_eq!(error, "latency_sum: is required, because the policy sets mean_latency for e1");
    assert_eq!(bench.status("e1").await, Status::Closed);
    *bench.table.without_latency.lock().unwrap() = false;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Open);
}

#[tokio::test(start_paused = true)]
async fn keys_that_can_not_be_are_counted_and_left_out() {
    let bench = Bench::new(1);
    bench.leader().await;
    bench.table.fail("", 10);
    bench.table.fail(&"x".repeat(2_000), 10);
    bench.table.fail("e1", 10);
    bench.tick().await;
    assert_eq!(bench.agents[0].sampling.report().last_tick.unwrap().unusable_keys, 2);
    assert_eq!(bench.status("e1").await, Status::Open);
}

#[tokio::test(start_paused = true)]
async fn while_half_open_one_at_a_time_gets_through() {
    let bench = Bench::with(4, Choices { policy: convoy().probes(3), ..Choices::default() });
    bench.leader().await;
    for agent in &bench.agents {
        assert_eq!(agent.check("e1").await, "free");
    }
    bench.trip("e1").await;
    sleep(ms(10)).await;
    for agent in &bench.agents {
        assert_eq!(agent.check("e1").await, "open");
    }
    sleep(secs(30)).await;
    // Nobody waits for a tick.
    let mut lease = None;
    for round in 0..20 {
        let agent = &bench.agents[round % 4];
        match agent.sampling.check("e1").await.unwrap() {
            Ok(checked) => {
                assert!(checked.is_probe() && checked.time_left().unwrap() > secs(9));
                assert!(lease.replace(checked).is_none(), "round {round}");
            }
            Err(refusal) => assert_eq!(refusal.name(), "probing"),
        }
    }
    lease.take().unwrap().settle();
    sleep(ms(10)).await;
    let next = bench.agents[3].sampling.check("e1").await.unwrap().unwrap();
    assert!(next.is_probe(), "settling releases the lease early");
    let taken_at = Instant::now();
    drop(next);
    assert_eq!(bench.agents[2].check("e1").await, "probing", "dropping does not: the call may still run");
    while bench.agents[1].check("e1").await != "probe" {
        assert!(taken_at.elapsed() < secs(13));
        sleep(ms(100)).await;
    }
    assert!(taken_at.elapsed() >= secs(12), "probe_timeout and 2 s");
    assert_eq!(bench.status("e1").await, Status::HalfOpen, "no check counts for anything");
}

#[tokio::test(start_paused = true)]
async fn between_two_ticks_no_more_than_the_probes_get_through() {
    let choices = Choices { policy: convoy().probes(3), sample_every: secs(15), ..Choices::default() };
    let bench = Bench::with(3, choices);
    bench.leader().await;
    bench.trip("e1").await;
    sleep(secs(31)).await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::HalfOpen);
    for round in 0..3 {
        // Nothing of this is in the table: neither a missing row nor an empty poll may end the probing for good.
        let mut calls = 0;
        for _ in 0..200 {
            for agent in &bench.agents {
                if let Ok(checked) = agent.sampling.check("e1").await.unwrap() {
                    calls += 1;
                    checked.settle();
                }
            }
            sleep(ms(10)).await;
        }
        assert_eq!(calls, 3, "round {round}");
        assert_eq!(bench.agents[1].check("e1").await, "probing");
        bench.table.clear();
        bench.tick().await;
        sleep(ms(100)).await;
    }
    bench.table.fail("e1", 3);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Open);
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_dies_is_spared_though_its_past_was_healthy() {
    for (recent, opens_within) in [(Some(3), secs(15)), (None, secs(250))] {
        let choices = Choices { policy: convoy().sample_recent(recent), ..Choices::default() };
        let bench = Bench::with(1, choices);
        bench.leader().await;
        for _ in 0..280 {
            bench.table.succeed("e1", 1);
            sleep(secs(1)).await;
        }
        let died_at = Instant::now();
        while bench.status("e1").await == Status::Closed {
            bench.table.fail("e1", 1);
            sleep(secs(1)).await;
        }
        let took = died_at.elapsed();
        assert!(took <= opens_within, "with {recent:?} ticks: {took:?}");
        assert!(recent.is_some() || took > secs(100), "the window alone takes long: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_open_circuit_of_the_leaders_making_has_a_lease_to_give() {
    let bench = Bench::new(2);
    bench.leader().await;
    bench.trip("e1").await;
    sleep(secs(30)).await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::HalfOpen);
    let first = bench.agents[0].sampling.check("e1").await.unwrap().unwrap();
    assert!(first.is_probe());
    assert_eq!(bench.agents[1].check("e1").await, "probing");
    bench.table.succeed("e1", 1);
    bench.tick().await;
    first.settle();
    sleep(ms(100)).await;
    assert_eq!(bench.status("e1").await, Status::Closed);
    assert_eq!(bench.agents[0].sampling.counts().late_results, 0, "a check is no result");
}

#[tokio::test(start_paused = true)]
async fn checks_in_the_middle_of_a_poll_do_not_keep_the_leader_from_deciding() {
    let bench = Bench::new(2);
    bench.leader().await;
    bench.trip("e1").await;
    sleep(secs(30)).await;
    bench.tick().await;
    bench.table.succeed("e1", 1);
    bench.table.fault(NetworkFault::Slow(secs(2)));
    let polls = || bench.table.polls.lock().unwrap().len();
    let before = polls();
    bench.until("a poll", || polls() > before).await;
    // A lease is taken and given back: the record is another, and says the same.
    bench.agents[1].sampling.check("e1").await.unwrap().unwrap().settle();
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_a_leader_missed_it_finds_out() {
    let bench = Bench::new(1);
    bench.leader().await;
    bench.tick().await;
    // More changes than a store announces before some are missed, of which none was the leader's.
    for n in 0..1_500 {
        let key: Arc<str> = format!("e{n}").into();
        let record = Record {
            state: State::HalfOpen,
            ..Record::new(None, breakerbox_core::RandomBits(n), bench.now().await)
        };
        let not_after = bench.now().await + secs(1);
        let swap = Swap { key, expected: None, record, not_after, keep_for: None };
        assert_eq!(bench.store.swap_if(&swap).await.unwrap().value, Swapped::Won);
    }
    bench.table.succeed("e0", 1);
    bench.table.fail("e1499", 1);
    bench.tick().await;
    assert_eq!(bench.agents[0].sampling.report().last_tick.unwrap().circuits, 1_500);
    assert_eq!((bench.status("e0").await, bench.status("e1499").await), (Status::Closed, Status::Open));
}

#[tokio::test(start_paused = true)]
async fn checks_of_a_closed_circuit_cost_the_store_nothing() {
    let bench = Bench::new(1);
    bench.leader().await;
    let agent = &bench.agents[0];
    assert_eq!(agent.check("e1").await, "free");
    let before = agent.way.requests();
    for _ in 0..1_000 {
        assert_eq!(agent.check("e1").await, "free");
    }
    assert_eq!(agent.way.requests(), before);
    assert_eq!(bench.store.len(), 0, "and leave no trace");
}

#[tokio::test(start_paused = true)]
async fn without_the_store_each_does_as_it_was_told_and_nothing_ticks() {
    for (on_loss, closed, open) in [
        (OnStoreLoss::Local, "free", "open"),
        (OnStoreLoss::Admit, "free", "free"),
        (OnStoreLoss::Refuse, "store_lost", "store_lost"),
    ] {
        let bench = Bench::with(1, Choices { on_loss, ..Choices::default() });
        bench.leader().await;
        let agent = &bench.agents[0];
        assert_eq!(agent.check("well").await, "free");
        bench.trip("e1").await;
        agent.way.set(Fault::Refuses);
        let lost = || agent.sampling.store_health() != Some(breakerbox::StoreHealth::Connected);
        bench.until("the loss is noticed", lost).await;
        assert_eq!((agent.check("well").await, agent.check("e1").await), (closed, open), "{on_loss:?}");
        sleep(secs(30)).await;
        bench.until("its term ends", || !agent.leads()).await;
        if on_loss == OnStoreLoss::Local {
            assert_eq!(agent.check("e1").await, "probe", "one for each circuit and process");
            assert_eq!(agent.check("e1").await, "probing");
        }
        agent.way.set(Fault::None);
        bench.table.succeed("well", 1);
        bench.tick().await;
        sleep(secs(3)).await;
        assert_eq!(bench.status("e1").await, Status::HalfOpen, "{on_loss:?}");
        bench.table.succeed("e1", 1);
        bench.tick().await;
        assert_eq!(agent.status("e1"), Status::Closed, "{on_loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_only_watches_keeps_its_own_circuits() {
    let mut bench = Bench::new(1);
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    let refused = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&refused);
    let watching = bench.agent_with(1, Arc::clone(&way), way, move |builder| {
        builder.dry_run(move |_, _| _ = count.fetch_add(1, Ordering::SeqCst))
    });
    bench.agents.push(watching);
    bench.until("both lead, for different fleets", || bench.leaders().len() == 2).await;
    bench.table.fail("e1", 10);
    bench.until("both ticked", || bench.agents.iter().all(|agent| agent.status("e1") == Status::Open)).await;
    assert_eq!(bench.agents[1].check("e1").await, "free");
    assert_eq!(refused.load(Ordering::SeqCst), 1);
    assert_eq!(bench.agents[0].check("e1").await, "open");
    sleep(secs(31)).await;
    bench.tick().await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, Status::HalfOpen);
    assert_eq!(bench.status("dry-run e1").await, Status::HalfOpen);
    assert_eq!(bench.store.len(), 2, "neither takes the other's circuits for its own");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_can_have_numbers_of_its_own() {
    let bench = Bench::new(1);
    bench.leader().await;
    let sampling = &bench.agents[0].sampling;
    sampling.set_tenant_policy("acme", Some(&convoy().failure_rate(None).failures(2))).unwrap();
    bench.table.fail("acme a", 2);
    bench.table.fail("other a", 9);
    bench.tick().await;
    assert_eq!(bench.status("acme a").await, Status::Open);
    assert_eq!(bench.status("other a").await, Status::Closed);
    let refused = sampling.set_tenant_policy("acme", Some(&convoy().window(secs(60)))).unwrap_err();
    assert!(refused.to_string().starts_with("window: must be 5m, as it was"), "{refused}");
    let refused = sampling.set_policy(&convoy().consecutive_failures(3)).unwrap_err();
    assert!(refused.to_string().starts_with("consecutive_failures: has no input"), "{refused}");
}
