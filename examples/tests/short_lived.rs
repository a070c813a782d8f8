//! The examples of short-lived processes, run to their end: what they tell is what happens.

#[allow(dead_code, unreachable_pub)]
#[path = "../function.rs"]
mod function;
#[allow(dead_code, unreachable_pub)]
#[path = "../scheduled_job.rs"]
mod scheduled_job;

/// The fifth failure opens the circuit, and whoever comes later sends nothing.
fn story(of: &str) -> String {
    let sent = (1..=5).map(|n| format!("{of} {n}: sent, and failed\n"));
    sent.chain((6..=7).map(|n| format!("{of} {n}: not sent: the circuit is open\n"))).collect()
}

#[tokio::test]
async fn jobs_that_end_after_one_call_share_a_circuit() {
    let mut told = Vec::new();
    scheduled_job::run(&mut told).await.unwrap();
    assert_eq!(String::from_utf8(told).unwrap(), story("run"));
}

#[test]
fn instances_that_are_frozen_between_events_share_a_circuit() {
    let mut told = Vec::new();
    function::run(&mut told).unwrap();
    assert_eq!(String::from_utf8(told).unwrap(), story("event"));
}
