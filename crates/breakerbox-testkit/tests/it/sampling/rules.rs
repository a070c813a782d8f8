//! Sampled fleets: the rules, evaluated once for each key and tick.

use breakerbox::store::Store;
use breakerbox::{Attribution, CircuitStatus, OverrideCommand, TripRule};
use tokio::time::{Instant, sleep};

use super::rig::{Bench, Choices, convoy, secs};

#[tokio::test(start_paused = true)]
async fn every_rule_once_for_each_key_and_tick() {
    let bench = Bench::new(2);
    bench.leader().await;
    let at = |failures, successes| move |key: &str| (key.to_owned(), failures, successes);
    let closed = [
        (at(7, 3)("at the rate"), CircuitStatus::Open),
        (at(6, 4)("below the rate"), CircuitStatus::Closed),
        (at(9, 0)("too few"), CircuitStatus::Closed),
        (at(10, 0)("all fail"), CircuitStatus::Open),
        (at(0, 50)("all is well"), CircuitStatus::Closed),
    ];
    for ((key, failures, successes), _) in &closed {
        bench.table.fail(key, *failures);
        bench.table.succeed(key, *successes);
    }
    bench.tick().await;
    for ((key, ..), status) in &closed {
        assert_eq!(bench.status(key).await, *status, "closed, {key}");
    }
    // Open: no change before the cool-off is over; then half-open, whatever the totals are.
    bench.table.succeed("all fail", 100);
    bench.tick().await;
    assert_eq!(bench.status("all fail").await, CircuitStatus::Open);
    sleep(secs(30)).await;
    bench.tick().await;
    assert_eq!(bench.status("all fail").await, CircuitStatus::HalfOpen);
    assert_eq!(bench.status("at the rate").await, CircuitStatus::HalfOpen);
    // Half-open: no change with fewer than `probes` results, however long it takes; then open or closed.
    for _ in 0..20 {
        bench.tick().await;
    }
    assert_eq!(bench.status("all fail").await, CircuitStatus::HalfOpen);
    bench.table.succeed("all fail", 1);
    bench.table.fail("at the rate", 1);
    bench.tick().await;
    assert_eq!(bench.status("all fail").await, CircuitStatus::Closed);
    assert_eq!(bench.status("at the rate").await, CircuitStatus::Open);
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
    assert_eq!(bench.status("e1").await, CircuitStatus::HalfOpen);
    // The attempt started before the transition, although it ends now.
    bench.table.add("e1", 5, secs(20), false);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::HalfOpen, "it says nothing about the recovery");
    bench.table.succeed("e1", 1);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Closed);
    // Ten failures from before are still in the window.
    bench.table.fail("e1", 9);
    bench.tick().await;
    assert_eq!(
        bench.status("e1").await,
        CircuitStatus::Closed,
        "nine calls since the transition are too few"
    );
    sleep(secs(299)).await;
    bench.table.fail("e1", 9);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Closed, "the window has slid past the first nine");
    bench.table.fail("e1", 1);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Open);
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
    assert_eq!(bench.status("zombie").await, CircuitStatus::Disabled);
    let observed = bench.agents[leader].observed("zombie");
    let story = [
        CircuitStatus::Open,
        CircuitStatus::HalfOpen,
        CircuitStatus::Open,
        CircuitStatus::HalfOpen,
        CircuitStatus::Disabled,
    ];
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
        assert_eq!(
            agent.observed("e1"),
            [CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Closed]
        );
        assert_eq!(agent.check("e1").await, "free", "without a ramp");
        assert_eq!(agent.sampling.counts().late_results, 0);
    }
    let changes = bench.agents[0].changes.lock().unwrap();
    assert_eq!(changes[0].change.cause, breakerbox::Cause::Rule(TripRule::FailureRate));
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
        while bench.status("e1").await == CircuitStatus::Closed {
            bench.table.fail("e1", 1);
            sleep(secs(1)).await;
        }
        let took = died_at.elapsed();
        assert!(took <= opens_within, "with {recent:?} ticks: {took:?}");
        assert!(recent.is_some() || took > secs(100), "the window alone takes long: {took:?}");
    }
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
    assert_eq!(bench.status("acme a").await, CircuitStatus::Open);
    assert_eq!(bench.status("other a").await, CircuitStatus::Closed);
    let refused = sampling.set_tenant_policy("acme", Some(&convoy().window(secs(60)))).unwrap_err();
    assert!(refused.to_string().starts_with("window: must be 5m, as it was"), "{refused}");
    let refused = sampling.set_policy(&convoy().consecutive_failures(3)).unwrap_err();
    assert!(refused.to_string().starts_with("consecutive_failures: has no input"), "{refused}");
}
