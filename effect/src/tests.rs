//! The comparison at a twentieth of its size. The rare kinds (down for the night, flapping) have one endpoint each, which
//! is more than their part: the limit on delayed deliveries is checked at full size.

use std::time::Duration;

use crate::breakers::{NO_BREAKER, OURS, PUBLISHED};
use crate::measures::{Measures, share};
use crate::report::{self, Result, Size};
use crate::{compare, day, scenario};

const SIZE: Size = Size { endpoints: 100, events: 250_000, seeds: 1 };

fn measures<'a>(results: &'a [Result], name: &str) -> &'a Measures {
    &results.iter().find(|result| result.row.name == name).unwrap().measures
}

#[test]
fn a_twentieth_of_the_comparison() {
    let results = compare(&SIZE);
    let (ours, none) = (measures(&results, OURS), measures(&results, NO_BREAKER));
    for Result { row, measures, .. } in &results {
        assert_eq!(measures.events, none.events, "{}: the same events for every row", row.name);
        assert!(
            !measures.beats(ours),
            "{}: {} failed, {:?} delay",
            row.name,
            measures.failed,
            measures.delay
        );
    }
    assert!((240_000..260_000).contains(&none.events), "{}", none.events);
    assert_eq!((none.delay, none.delayed), (Duration::ZERO, [0; 3]), "without a breaker, no delay by it");
    let saved = 1.0 - share(ours.while_down, none.while_down);
    assert!(saved >= 0.97, "{saved}");
    assert_eq!(ours.wrongly_disabled, 0);
    // The published weaknesses show.
    assert!(measures(&results, PUBLISHED[0]).wrongly_disabled > 0, "an hour of outage disables");
    assert!(
        measures(&results, PUBLISHED[1]).while_down > ours.while_down * 10,
        "a flood after each cool-off"
    );
    assert!(measures(&results, PUBLISHED[2]).at_dead > ours.at_dead * 4, "the cool-off does not grow");
    // The report has every row, and says the same as the checks.
    let page = report::day(&results, &SIZE);
    assert!(results.iter().all(|result| page.contains(&result.row.name)));
    assert!(report::day_plot(&results, &SIZE).contains(">Breakerbox<"));
}

#[test]
fn the_same_seed_gives_the_same_measures() {
    let size = Size { endpoints: 40, events: 20_000, seeds: 1 };
    for row in crate::breakers::rows() {
        let run = || day::run(&scenario(&size, 7), &row);
        assert_eq!(run(), run(), "{}", row.name);
    }
}

#[test]
fn every_accepted_event_is_delivered_or_waits() {
    let size = Size { endpoints: 40, events: 20_000, seeds: 1 };
    for row in crate::breakers::rows() {
        let measures = day::run(&scenario(&size, 3), &row);
        let succeeded = measures.attempts - measures.failed;
        assert!(measures.delivered <= measures.events, "{}", row.name);
        // A few calls are in flight at midnight.
        assert!(succeeded - measures.delivered < 20, "{}: {succeeded}, {}", row.name, measures.delivered);
    }
}
