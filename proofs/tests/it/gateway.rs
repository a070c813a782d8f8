//! The gateway as it runs in production, at about a twentieth of the full size. `cargo xtask prove` runs the
//! same tests in full.
//!
//! Durations are not checked here, because the machine may be busy. What must be true at any speed is.

use std::time::Duration;

use breakerbox_proofs::gateway::findings::Findings;
use breakerbox_proofs::gateway::{
    backlog, clients, crowd, decisions, disk, drain, first_failures, hostile, isolation, kills, large_tenant,
    neighbours, notifications, own_faults, own_network, powercut, quota, recovery_lag, sigterm,
};
use breakerbox_testkit::gateway::Settings;

use crate::program;

fn holds(findings: &Findings) {
    assert!(findings.faults().is_empty(), "{findings}");
}

#[test]
fn a_gateway_that_keeps_nothing_does_not_pass() {
    let lossy_gateway = Settings::new(program()).command("lossy-gateway");
    let size = kills::Size { patience: Duration::from_secs(2), ..kills::Size::SMALL };
    let findings = kills::prove(&lossy_gateway, size, 1).unwrap();
    assert!(findings.faults().iter().any(|fault| fault.contains(": lost: ")), "{findings}");
}

#[test]
fn kill_9_loses_nothing() {
    holds(&kills::prove(&Settings::new(program()), kills::Size::SMALL, 1).unwrap());
}

#[test]
fn a_power_cut_loses_nothing() {
    holds(&powercut::prove(&Settings::new(program()), powercut::Size::SMALL, 1).unwrap());
}

#[test]
fn sigterm_ends_well() {
    holds(&sigterm::prove(&Settings::new(program()), sigterm::Size::SMALL, 1).unwrap());
}

#[test]
fn a_dead_endpoint_is_left_alone() {
    holds(&isolation::prove(program(), isolation::Size::SMALL).unwrap());
}

#[test]
fn a_crowd_of_dead_endpoints_is_not_noticed() {
    holds(&crowd::prove(program(), crowd::Size::SMALL).unwrap());
}

#[test]
fn a_large_neighbour_is_not_noticed() {
    holds(&large_tenant::prove(program(), large_tenant::Size::SMALL).unwrap());
}

#[test]
fn a_hostile_neighbour_is_not_noticed() {
    holds(&neighbours::prove(program(), &neighbours::AttackKind::ALL, neighbours::Size::SMALL).unwrap());
}

#[test]
fn permits_are_given_and_settled_and_one_worker_probes() {
    holds(&decisions::prove(program(), decisions::Size::SMALL).unwrap());
}

#[test]
fn an_endpoint_that_fails_from_the_start_opens_its_circuit() {
    holds(&first_failures::events(program(), first_failures::Size::SMALL).unwrap());
}

#[test]
fn reminders_that_fail_from_the_start_open_their_circuit() {
    holds(&first_failures::reminders(program(), first_failures::Size::SMALL).unwrap());
}

#[test]
fn what_is_parked_costs_nothing() {
    holds(&backlog::prove(program(), backlog::Size::SMALL).unwrap());
}

#[test]
fn an_endpoint_that_recovers_is_not_drowned() {
    holds(&drain::prove(program(), drain::Size::SMALL).unwrap());
}

#[test]
fn hostile_receivers_are_survived() {
    holds(&hostile::prove(program(), hostile::Size::SMALL).unwrap());
}

#[test]
fn hostile_clients_are_told_what_is_wrong() {
    holds(&clients::prove(program()).unwrap());
}

#[test]
fn no_receiver_is_blamed_for_a_fault_on_our_side() {
    for case in own_faults::Case::ALL {
        holds(&own_faults::prove(program(), case, own_faults::Size::SMALL).unwrap());
    }
}

#[test]
fn deliveries_flow_again_soon_after_a_blip() {
    for outage in recovery_lag::Size::SMALL.outages {
        holds(&recovery_lag::prove(program(), *outage, recovery_lag::Size::SMALL).unwrap());
    }
}

#[test]
fn deliveries_flow_again_soon_after_a_recovery_in_a_crowd() {
    holds(&recovery_lag::crowd::prove(program(), recovery_lag::crowd::Size::SMALL).unwrap());
}

#[test]
fn no_tenant_hears_of_an_outage_of_our_own_network() {
    for case in own_network::Case::ALL {
        holds(&own_network::prove(program(), case, own_network::Size::SMALL).unwrap());
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on() {
    for size in disk::Size::SMALL {
        holds(&disk::prove(program(), size).unwrap());
    }
}

#[test]
fn a_tenant_with_too_much_waiting_is_told_so() {
    holds(&quota::prove(program()).unwrap());
}

#[test]
fn an_endpoint_that_flaps_is_told_in_a_few_messages() {
    holds(&notifications::prove(program(), notifications::Size::SMALL[0]).unwrap());
}
