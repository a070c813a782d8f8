//! Sampled fleets: polls that fail, are slow or find nothing.

use std::sync::atomic::Ordering;

use breakerbox::sampling::SamplingEvent;
use breakerbox::{CircuitStatus, Policy, Preset};
use tokio::time::sleep;

use super::rig::{Bench, Choices, NetworkFault, secs};

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
    assert_eq!(bench.agents[leader].observed("e1")[0], CircuitStatus::Open, "late, but whole");
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
        assert_eq!(bench.status("e1").await, CircuitStatus::Open);
        assert_eq!(bench.status("e2").await, CircuitStatus::Closed);
        bench.table.fault(NetworkFault::None);
        bench.tick().await;
        assert_eq!(report().poll_error, None);
        assert_eq!(bench.status("e2").await, CircuitStatus::Open);
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
    assert_eq!(bench.status("e1").await, CircuitStatus::Open, "perhaps the table is not there");
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
    assert_eq!(bench.status("e1").await, CircuitStatus::Closed);
    *bench.table.without_latency.lock().unwrap() = false;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Open);
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
    assert_eq!(bench.status("e1").await, CircuitStatus::Open);
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
    // A lease is acquired and released: the record is a different one with the same contents.
    bench.agents[1].sampling.check("e1").await.unwrap().unwrap().settle();
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Closed);
}
