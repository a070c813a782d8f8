//! The examples that make HTTP calls, run to their end: what they tell is what happens.

use std::time::Duration;

#[allow(dead_code, unreachable_pub)]
#[path = "../many_endpoints.rs"]
mod many_endpoints;
#[allow(dead_code, unreachable_pub)]
#[path = "../shop_server.rs"]
mod shop_server;

/// No example takes longer.
const LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn the_shop_tells_of_a_trip_a_refusal_a_probe_and_an_overload() {
    let mut told = Vec::new();
    tokio::time::timeout(LIMIT, shop_server::run(&mut told)).await.unwrap().unwrap();
    let story = [
        "All is well:      10 x 200; 10 reached it",
        "It breaks:        3 x 500; 3 reached it",
        "Refused:          10 x 503 (retry after 1 s); 0 reached it",
        "It is mended:     of 20 at once 1 probed and was answered 200, 19 were refused",
        "All is well:      10 x 200; 10 reached it",
        "It drowns:        the throttle shed 100; the circuit is closed",
        "It breathes:      10 good answers in a row",
    ];
    assert_eq!(String::from_utf8(told).unwrap().lines().collect::<Vec<_>>(), story);
}

#[tokio::test]
async fn dead_endpoints_cost_little_and_the_others_notice_nothing() {
    let mut told = Vec::new();
    tokio::time::timeout(LIMIT, many_endpoints::run(&mut told)).await.unwrap().unwrap();
    let table = [
        "tenant    endpoint   delivered    failed  not sent  circuit",
        "acme      healthy           30         0         0  closed",
        "acme      flapping           5         5        20  open",
        "acme      busy               0         5        25  open",
        "umbrella  gone               0         5        25  open",
        "umbrella  healthy           30         0         0  closed",
    ];
    assert_eq!(String::from_utf8(told).unwrap().lines().collect::<Vec<_>>(), table);
}
