//! The example of two agents, run to its end: what it tells is what happens.

use std::time::Duration;

#[allow(dead_code, unreachable_pub)]
#[path = "../two_agents.rs"]
mod two_agents;

/// It takes a few seconds.
const LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn two_agents_tell_of_a_trip_a_recovery_and_the_loss_of_the_leader() {
    let mut told = Vec::new();
    tokio::time::timeout(LIMIT, two_agents::run(&mut told)).await.unwrap().unwrap();
    let story = [
        "Ada leads, Ben follows.",
        "All is well:  of 20 events 20 are sent.",
        "It is down:   of 60 events 60 are sent, and fail.",
        "Open:         of 20 events 0 are sent.",
        "Half-open:    of 20 events at once 1 is sent.",
        "Closed:       of 20 events 20 are sent.",
        "Ada goes home, and Ben leads.",
    ];
    assert_eq!(String::from_utf8(told).unwrap().lines().collect::<Vec<_>>(), story);
}
