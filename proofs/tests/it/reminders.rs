//! Reminders on a running gateway, at about a twentieth of the full size. `cargo xtask prove` runs the same
//! tests in full.
//!
//! Durations are not checked here, because the machine may be busy. What must be true at any speed is.

use breakerbox_proofs::gateway::findings::Findings;
use breakerbox_proofs::gateway::reminders::{burst, counters, future, kills, limits};

use crate::program;

fn holds(findings: &Findings) {
    assert!(findings.faults().is_empty(), "{findings}");
}

#[test]
fn a_crowd_due_at_one_moment_stays_within_its_limits() {
    holds(&burst::prove(program(), burst::Size::SMALL).unwrap());
}

#[test]
fn what_is_not_due_costs_nothing() {
    holds(&future::prove(program(), future::Size::SMALL).unwrap());
}

#[test]
fn kill_9_loses_no_run_and_fires_none_twice() {
    holds(&kills::prove(program(), kills::Size::SMALL, 1).unwrap());
}

#[test]
fn a_slow_tenant_is_held_back_and_catches_up() {
    holds(&limits::prove(program(), limits::Size::SMALL[0]).unwrap());
}

#[test]
fn a_failing_tenant_is_held_back_and_catches_up() {
    holds(&limits::prove(program(), limits::Size::SMALL[1]).unwrap());
}

#[test]
fn every_callback_is_counted() {
    holds(&counters::prove(program(), counters::Size::SMALL).unwrap());
}
