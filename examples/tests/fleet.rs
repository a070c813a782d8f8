//! The example of a fleet, run to its end: what it tells is what happens.

use std::time::Duration;

#[allow(dead_code, unreachable_pub)]
#[path = "../fleet.rs"]
mod fleet;

#[tokio::test]
async fn a_fleet_lives_through_a_trip_a_recovery_and_an_outage() {
    let mut told = Vec::new();
    tokio::time::timeout(Duration::from_secs(120), fleet::run(&mut told)).await.unwrap().unwrap();
    let story = [
        "All is well:        A answered, B answered, C answered",
        "It breaks:          A failed, B failed, A failed",
        "All know:           C, who saw no failure, is refused: open",
        "The cool-off ends:  of 3 that ask, 1 may probe",
        "The probe is well:  closed, for all of them",
        "A is cut off:       A refused: open, B answered",
        "A is back:          A and B agree",
    ];
    assert_eq!(String::from_utf8(told).unwrap().lines().collect::<Vec<_>>(), story);
}
