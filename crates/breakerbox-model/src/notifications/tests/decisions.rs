//! Tests which change causes a notification, and of which kind.

use std::time::Duration;

use breakerbox_core::{Attribution, Cause, Change, Mode, OverrideCommand, Policy, Status, TripRule};

use super::{at, change};
use crate::notifications::{CircuitContext, Notification, notifications};

const KEY: &str = "acme https://hooks.example.com/in";
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
    notifications(KEY, change, &CircuitContext { policy, endpoints: &[], is_unreported_outage: false })
}

fn kinds(notifications: &[Notification]) -> Vec<&'static str> {
    notifications.iter().map(|notification| notification.kind().name()).collect()
}

#[test]
fn which_change_gives_which_notification() {
    use Status::{Closed, Disabled, HalfOpen, Open};
    let table: [(Cause, Status, &[&str]); 16] = [
        (RULE, Open, &["trip"]),
        (Cause::Rule(TripRule::MeanLatency), Open, &["trip"]),
        (RULE, Disabled, &["disabled"]),
        (Cause::ProbeFailed, Open, &[]),
        (Cause::ProbeFailed, Disabled, &["disabled"]),
        (Cause::RecoveryRateMissed, Open, &[]),
        (Cause::RecoveryRateMissed, Disabled, &["disabled"]),
        (Cause::CoolOffOver, HalfOpen, &[]),
        (Cause::ProbesSucceeded, Closed, &["recovery"]),
        (Cause::RecoveryRateMet, Closed, &["recovery"]),
        (command(OverrideCommand::ForceOpen), Open, &[]),
        (command(OverrideCommand::ForceClosed), Closed, &[]),
        (command(OverrideCommand::Disable), Disabled, &[]),
        (command(OverrideCommand::Enable), Open, &[]),
        (command(OverrideCommand::Release), Open, &[]),
        (command(OverrideCommand::Reset), Closed, &[]),
    ];
    for (cause, to, expected) in table {
        for from in [Closed, Open, HalfOpen, Disabled] {
            let mode = if to == Disabled { Mode::Disabled(by()) } else { Mode::Automatic };
            let change = Change { from, mode, ..change(cause.clone(), to) };
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
    let silent = |seconds: u64, cause: Cause| Change {
        failing_since: Some(at(0).before(Duration::from_secs(seconds))),
        ..change(cause, Status::Open)
    };
    let half = 36 * 3_600;
    let table: [(Change, Policy, &[&str]); 8] = [
        (silent(half, RULE), policy(), &["trip", "disable_warning"]),
        (silent(half, Cause::ProbeFailed), policy(), &["disable_warning"]),
        (silent(half, Cause::RecoveryRateMissed), policy(), &["disable_warning"]),
        (silent(half - 1, Cause::ProbeFailed), policy(), &[]),
        (silent(half, Cause::CoolOffOver), policy(), &[]),
        (silent(half, command(OverrideCommand::ForceOpen)), policy(), &[]),
        // A policy that never disables, and one that disables without a minimum time.
        (silent(half, Cause::ProbeFailed), Policy::default(), &[]),
        (silent(half, Cause::ProbeFailed), Policy::builder().disable_after(10).build().unwrap(), &[]),
    ];
    for (change, policy, expected) in table {
        assert_eq!(kinds(&notifications_of(&change, &policy)), expected, "{:?}", change.cause);
    }
    let epoch = |change: &Change| notifications_of(change, &policy()).pop().unwrap().epoch;
    let first = silent(half, Cause::ProbeFailed);
    let later = Change { at: at(600), epoch: breakerbox_core::Epoch(9), ..first.clone() };
    assert_eq!(epoch(&first), epoch(&later), "it is the same");
    let another = Change { failing_since: Some(at(0)), at: at(half), ..first.clone() };
    assert_ne!(epoch(&first), epoch(&another), "after a success, another one");
}

#[test]
fn an_outage_that_nobody_was_told_of_is_told_by_what_is_left_of_it() {
    for (cause, to, expected) in [
        (Cause::ProbeFailed, Status::Open, vec!["trip"]),
        (Cause::CoolOffOver, Status::HalfOpen, vec!["trip"]),
        (Cause::ProbesSucceeded, Status::Closed, vec!["recovery"]),
    ] {
        let known = CircuitContext { policy: &policy(), endpoints: &[], is_unreported_outage: true };
        assert_eq!(kinds(&notifications(KEY, &change(cause, to), &known)), expected);
    }
}

#[test]
fn a_circuit_that_is_nobodys_is_the_operators() {
    let known = CircuitContext { policy: &policy(), endpoints: &[], is_unreported_outage: false };
    let notifications_of = notifications("no tenant/has this", &change(RULE, Status::Open), &known);
    assert_eq!(notifications_of.len(), 1);
    assert_eq!(notifications("a/b c", &change(RULE, Status::Open), &known)[0].tenant, None);
}
