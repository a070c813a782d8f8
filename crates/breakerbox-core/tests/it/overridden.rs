//! Overrides (forced open, forced closed, disabled): rows 0, 12 and 13.

use breakerbox_core::{Cause, CircuitStatus, Mode, OverrideCommand, Refusal, Settlement, State};

use crate::rig::{Rig, at, failed, ok, operator, simple};

const OVERRIDES: [(OverrideCommand, CircuitStatus); 3] = [
    (OverrideCommand::ForceOpen, CircuitStatus::Open),
    (OverrideCommand::ForceClosed, CircuitStatus::Closed),
    (OverrideCommand::Disable, CircuitStatus::Disabled),
];

/// Returns a rig for each state that a circuit can be in.
fn every_state() -> Vec<(&'static str, Rig)> {
    let mut states = vec![
        ("closed", Rig::new(simple())),
        ("open", Rig::open()),
        ("half-open", Rig::half_open(simple()).0),
        ("recovered", Rig::half_open(simple()).0),
    ];
    states[3].1.now = at(42_000);
    states[3].1.succeed(1);
    for (command, _) in OVERRIDES {
        let mut rig = Rig::open();
        rig.apply_override(command);
        states.push(("overridden", rig));
    }
    states.iter_mut().for_each(|(_, rig)| rig.changes.clear());
    states
}

#[test]
fn row_00_forced_closed_admits_and_its_outcomes_change_nothing() {
    let mut rig = Rig::new(simple());
    rig.apply_override(OverrideCommand::ForceClosed);
    let before = rig.record();
    for _ in 0..20 {
        assert_eq!(rig.call(&failed()), Settlement::Uncounted);
    }
    assert_eq!((rig.record(), rig.circuit.totals(rig.now).calls()), (before, 0));
}

#[test]
fn row_00_forced_open_and_disabled_refuse_without_a_time() {
    for (command, refusal) in
        [(OverrideCommand::ForceOpen, Refusal::ForcedOpen), (OverrideCommand::Disable, Refusal::Disabled)]
    {
        let mut rig = Rig::new(simple());
        rig.apply_override(command);
        rig.now = at(1_000_000_000);
        assert_eq!(rig.refusal(), refusal);
        assert_eq!(refusal.retry_at(), None);
    }
}

#[test]
fn row_12_an_override_holds_from_every_state() {
    for (command, status) in OVERRIDES {
        for (state, mut rig) in every_state() {
            let before = rig.record();
            assert!(rig.apply_override(command));
            let change = rig.only_change();
            assert_eq!((change.from, change.to), (before.status(), status), "{state}");
            assert_eq!(change.cause, Cause::Override { command, by: operator() });
            let after = rig.record();
            assert!(after.epoch > before.epoch && after.version != before.version);
            assert_eq!((after.lease, after.retry_at), (None, None));
            assert_eq!(after.trips, before.trips);
            assert_eq!(rig.circuit.totals(rig.now).calls(), 0);
        }
    }
}

#[test]
fn row_12_an_override_holds_against_a_running_probe() {
    for (command, status) in OVERRIDES {
        for outcome in [ok(), failed()] {
            let (mut rig, probe) = Rig::half_open(simple());
            rig.apply_override(command);
            let before = rig.record();
            assert_eq!(rig.settle(probe, &outcome), Settlement::Late);
            assert_eq!((rig.status(), rig.record()), (status, before));
        }
    }
}

#[test]
fn row_12_an_override_holds_against_calls_in_flight() {
    let mut rig = Rig::new(simple());
    let permits: Vec<_> = (0..10).map(|_| rig.permit()).collect();
    rig.apply_override(OverrideCommand::ForceClosed);
    for permit in permits {
        assert_eq!(rig.settle(permit, &failed()), Settlement::Late);
    }
    assert_eq!(rig.status(), CircuitStatus::Closed);
}

#[test]
fn row_12_the_record_says_who_and_why() {
    let mut rig = Rig::new(simple());
    rig.apply_override(OverrideCommand::ForceOpen);
    assert_eq!(rig.record().mode, Mode::ForcedOpen(operator()));
    assert!(!rig.record().is_forgettable(&rig.policy, at(u64::MAX)));
}

#[test]
fn row_13_release_and_enable_probe_at_once() {
    for (override_command, _) in OVERRIDES {
        for (command, trips) in [(OverrideCommand::Release, 1), (OverrideCommand::Enable, 0)] {
            let mut rig = Rig::open();
            rig.apply_override(override_command);
            rig.changes.clear();
            let epoch = rig.record().epoch;
            rig.now = at(5_000);
            assert!(rig.apply_override(command));
            assert_eq!(rig.only_change().to, CircuitStatus::Open);
            assert_eq!((rig.record().retry_at, rig.record().trips), (Some(at(5_000)), trips));
            assert!(rig.record().is_automatic() && rig.record().epoch > epoch);
            assert!(rig.permit().is_probe(), "the next ask");
        }
    }
}

#[test]
fn row_13_a_released_circuit_closes_when_the_destination_is_well() {
    let mut rig = Rig::new(simple());
    rig.apply_override(OverrideCommand::ForceOpen);
    rig.apply_override(OverrideCommand::Release);
    rig.succeed(1);
    assert_eq!(rig.status(), CircuitStatus::Closed);
}

#[test]
fn row_13_there_is_nothing_to_release_on_an_automatic_circuit() {
    for command in [OverrideCommand::Release, OverrideCommand::Enable] {
        for (state, mut rig) in every_state().into_iter().take(4) {
            let before = rig.record();
            assert!(!rig.apply_override(command), "{state}");
            assert_eq!(rig.record(), before, "{state}");
        }
    }
}

#[test]
fn row_13_reset_starts_anew_from_every_state() {
    for (state, mut rig) in every_state() {
        let before = rig.record();
        assert!(rig.apply_override(OverrideCommand::Reset));
        assert_eq!(rig.only_change().to, CircuitStatus::Closed, "{state}");
        let after = rig.record();
        assert_eq!((after.state, &after.mode, after.trips), (State::Closed, &Mode::Automatic, 0));
        assert!(after.epoch > before.epoch && after.version != before.version);
        assert!(rig.circuit.ramp().is_none(), "an operator said that all is well");
        assert!(!rig.record().closed_recently(&rig.policy, rig.now));
    }
}

#[test]
fn row_13_a_result_of_before_the_reset_is_late() {
    let (mut rig, probe) = Rig::half_open(simple());
    rig.apply_override(OverrideCommand::Reset);
    assert_eq!(rig.settle(probe, &failed()), Settlement::Late);
    assert_eq!(rig.status(), CircuitStatus::Closed);
}

#[test]
fn an_excuse_forgets_the_trips_of_an_open_circuit_and_lets_it_probe_at_once() {
    let mut rig = Rig::open();
    let before = rig.record();
    assert!(before.trips > 0 && before.failing_since.is_some() && before.retry_at > Some(rig.now));
    assert!(rig.apply_override(OverrideCommand::Excuse), "it is open");
    let (change, after) = (rig.changes[0].clone(), rig.record());
    assert_eq!(
        (change.from, change.to, change.retry_at),
        (CircuitStatus::Open, CircuitStatus::Open, Some(rig.now))
    );
    assert_eq!((after.trips, after.failing_since, after.lease), (0, None, None));
    assert!(after.epoch > before.epoch && after.version != before.version, "late results stay late");
    assert_eq!(after.opened_at, before.opened_at);
    rig.succeed(1);
    assert_eq!(rig.record().cause, Some(Cause::ProbesSucceeded), "a call probes at once");
}

#[test]
fn an_excuse_disturbs_neither_a_probe_nor_an_override_nor_a_closed_circuit() {
    for (state, mut rig) in every_state() {
        let before = rig.record();
        if state == "open" {
            continue;
        }
        assert!(!rig.apply_override(OverrideCommand::Excuse), "{state}");
        assert_eq!(rig.record(), before, "{state}");
    }
    // A lease that has expired is no probe.
    let mut rig = Rig::half_open(simple()).0;
    rig.now = at(1_000_000_000);
    assert!(rig.apply_override(OverrideCommand::Excuse));
    assert_eq!(rig.record().state, State::Open);
}
