//! Tests which change causes a notification, and of which kind.

use std::time::Duration;

use breakerbox_core::{Attribution, Cause, Change, CircuitStatus, Mode, OverrideCommand, Policy, TripRule};

use super::{at, change};
use crate::notifications::{CircuitContext, Notification, OutageStep, notifications};

const KEY: &str = "acme https://hooks.example.com/in";
const MINUTE: Duration = Duration::from_secs(60);
const RULE: Cause = Cause::Rule(TripRule::FailureRate);

fn by() -> Attribution {
    Attribution::new("breakerbox", "10 trips, and no success for 72h").unwrap()
}

fn command(command: OverrideCommand) -> Cause {
    Cause::Override { command, by: by() }
}

fn policy() -> Policy {
    Policy::builder().disable_after(10).disable_min(Duration::from_secs(72 * 3_600)).build().unwrap()
}

fn notifications_of(change: &Change, policy: &Policy) -> Vec<Notification> {
    notifications(
        KEY,
        change,
        &CircuitContext { policy, endpoints: &[], last: None, is_unreported_outage: false },
    )
}

/// Returns the effect of a change on the circuit's outage, as one word.
fn step(change: &Change, is_unreported_outage: bool) -> &'static str {
    let known = CircuitContext { policy: &policy(), endpoints: &[], last: None, is_unreported_outage };
    match OutageStep::of(KEY, change, &known, MINUTE) {
        OutageStep::None => "",
        OutageStep::Begins(began) => {
            assert_eq!((began.after, began.trip.kind().name()), (MINUTE, "trip"));
            assert_eq!((&*began.trip.subject, began.trip.epoch, began.trip.at), (KEY, 7, at(0)));
            if began.is_new { "begins" } else { "found" }
        }
        OutageStep::Notified => "notified",
        OutageStep::TakenOver => "taken over",
        OutageStep::Ends => "ends",
    }
}

fn kinds(notifications: &[Notification]) -> Vec<&'static str> {
    notifications.iter().map(|notification| notification.kind().name()).collect()
}

#[test]
fn which_change_gives_which_notification() {
    use CircuitStatus::{Closed, Disabled, HalfOpen, Open};
    let table: [(Cause, CircuitStatus, &[&str], &str); 17] = [
        (RULE, Open, &[], "begins"),
        (Cause::Rule(TripRule::MeanLatency), Open, &[], "begins"),
        (RULE, Disabled, &["disabled"], "notified"),
        (Cause::ProbeFailed, Open, &[], ""),
        (Cause::ProbeFailed, Disabled, &["disabled"], "notified"),
        (Cause::RecoveryRateMissed, Open, &[], ""),
        (Cause::RecoveryRateMissed, Disabled, &["disabled"], "notified"),
        (Cause::CoolOffOver, HalfOpen, &[], ""),
        (Cause::ProbesSucceeded, Closed, &["recovery"], "ends"),
        (Cause::RecoveryRateMet, Closed, &["recovery"], "ends"),
        (command(OverrideCommand::ForceOpen), Open, &[], "taken over"),
        (command(OverrideCommand::ForceClosed), Closed, &[], "ends"),
        (command(OverrideCommand::Disable), Disabled, &[], "taken over"),
        (command(OverrideCommand::Enable), Open, &[], "taken over"),
        (command(OverrideCommand::Release), Open, &[], "taken over"),
        (command(OverrideCommand::Excuse), Open, &[], ""),
        (command(OverrideCommand::Reset), Closed, &[], "ends"),
    ];
    for (cause, to, expected, outage) in table {
        for from in [Closed, Open, HalfOpen, Disabled] {
            let mode = if to == Disabled { Mode::Disabled(by()) } else { Mode::Automatic };
            let change = {
                let mut changed = change(cause.clone(), to);
                changed.from = from;
                changed.mode = mode;
                changed
            };
            assert_eq!(step(&change, false), outage, "{cause:?} to {to}");
            let notifications_of = notifications_of(&change, &policy());
            assert_eq!(kinds(&notifications_of), expected, "{cause:?} to {to}");
            for notification in notifications_of {
                assert_eq!((&*notification.subject, notification.epoch, notification.at), (KEY, 7, at(0)));
                assert_eq!(notification.tenant.unwrap().as_str(), "acme");
            }
        }
    }
}

#[test]
fn there_is_a_warning_once_for_each_time_it_fails() {
    let silent = |seconds: u64, cause: Cause| {
        let mut changed = change(cause, CircuitStatus::Open);
        changed.failing_since = Some(at(0).before(Duration::from_secs(seconds)));
        changed
    };
    let half = 36 * 3_600;
    let at_once = Policy::builder().disable_after(10).disable_min(Duration::ZERO);
    let table: [(Change, Policy, &[&str]); 8] = [
        (silent(half, RULE), policy(), &["disable_warning"]),
        (silent(half, Cause::ProbeFailed), policy(), &["disable_warning"]),
        (silent(half, Cause::RecoveryRateMissed), policy(), &["disable_warning"]),
        (silent(half - 1, Cause::ProbeFailed), policy(), &[]),
        (silent(half, Cause::CoolOffOver), policy(), &[]),
        (silent(half, command(OverrideCommand::ForceOpen)), policy(), &[]),
        // A policy that never disables, and one that disables without a minimum time.
        (silent(half, Cause::ProbeFailed), Policy::default(), &[]),
        (silent(half, Cause::ProbeFailed), at_once.build().unwrap(), &[]),
    ];
    for (change, policy, expected) in table {
        assert_eq!(kinds(&notifications_of(&change, &policy)), expected, "{:?}", change.cause);
    }
    let epoch = |change: &Change| notifications_of(change, &policy()).pop().unwrap().epoch;
    let first = silent(half, Cause::ProbeFailed);
    let later = {
        let mut changed = first.clone();
        changed.at = at(600);
        changed.epoch = breakerbox_core::Epoch(9);
        changed
    };
    assert_eq!(epoch(&first), epoch(&later), "it is the same");
    let another = {
        let mut changed = first.clone();
        changed.failing_since = Some(at(0));
        changed.at = at(half);
        changed
    };
    assert_ne!(epoch(&first), epoch(&another), "after a success, another one");
}

#[test]
fn an_outage_that_nobody_was_told_of_is_told_by_what_is_left_of_it() {
    for (cause, to, expected) in [
        (RULE, CircuitStatus::Open, "begins"),
        (Cause::ProbeFailed, CircuitStatus::Open, "found"),
        (Cause::CoolOffOver, CircuitStatus::HalfOpen, "found"),
        (Cause::ProbesSucceeded, CircuitStatus::Closed, "ends"),
    ] {
        assert_eq!(step(&change(cause.clone(), to), true), expected, "{cause:?}");
    }
}

#[test]
fn a_trip_that_is_told_later_says_what_happens_next() {
    use crate::notifications::News;
    let known = CircuitContext { policy: &policy(), endpoints: &[], last: None, is_unreported_outage: false };
    let OutageStep::Begins(began) = OutageStep::of(KEY, &change(RULE, CircuitStatus::Open), &known, MINUTE)
    else {
        panic!("it begins")
    };
    let News::Trip(news) = began.trip.at_present(9, Some(at(99)), None).news else { panic!("it is a trip") };
    assert_eq!((news.since.0, news.retry_at.unwrap().0, news.trips), (at(0), at(99), 9));
}

#[test]
fn a_circuit_that_is_nobodys_is_the_operators() {
    let known = CircuitContext { policy: &policy(), endpoints: &[], last: None, is_unreported_outage: false };
    let notifications_of = notifications("a/b c", &change(RULE, CircuitStatus::Disabled), &known);
    assert_eq!((notifications_of.len(), &notifications_of[0].tenant), (1, &None));
    let OutageStep::Begins(began) =
        OutageStep::of("a/b c", &change(RULE, CircuitStatus::Open), &known, MINUTE)
    else {
        panic!("it begins")
    };
    assert_eq!(began.trip.tenant, None);
}
