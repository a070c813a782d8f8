//! Policies for all keys, for a tenant and for a key, including changes while circuits exist.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use breakerbox::{Circuit, CircuitBy, CircuitStatus, Key, Refusal};

use crate::service::{Service, fail, secs, simple, succeed};

#[test]
fn the_nearest_policy_governs() {
    let service = Service::new(&simple());
    service
        .breakers
        .set_tenant_policy("acme", Some(simple().consecutive_failures(2).build().unwrap()))
        .unwrap();
    service
        .breakers
        .set_key_policy("acme b", Some(simple().consecutive_failures(1).build().unwrap()))
        .unwrap();
    for (key, limit) in [("other a", 3), ("acme a", 2), ("acme b", 1), ("acmes c", 3), ("acme", 2)] {
        let circuit = service.circuit(key);
        assert_eq!(circuit.policy().consecutive_failures(), Some(limit), "{key}");
    }
    service.breakers.set_key_policy("acme b", None).unwrap();
    assert_eq!(service.circuit("acme b").policy().consecutive_failures(), Some(2));
}

#[test]
fn a_change_keeps_state_and_counts_and_moves_no_deadline() {
    let service = Service::new(&simple());
    let (open, closed) = (service.tripped("open"), service.circuit("closed"));
    fail(&closed, 1);
    succeed(&closed, 1);
    fail(&closed, 1);
    service.breakers.set_policy(simple().consecutive_failures(2).cool_off(secs(1)).build().unwrap());
    assert!(matches!(open.try_acquire(), Err(Refusal::Open { retry_in, .. }) if retry_in == secs(30)));
    assert_eq!((closed.status(), closed.totals().calls()), (CircuitStatus::Closed, 3));
    fail(&closed, 1);
    assert_eq!(closed.status(), CircuitStatus::Open, "from the next outcome on");
}

#[test]
fn a_rule_for_latency_can_come_later() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    let before = circuit.try_acquire().unwrap();
    service.breakers.set_policy(simple().min_calls(1).mean_latency(secs(1)).build().unwrap());
    let after = circuit.try_acquire().unwrap();
    service.clock.advance(secs(5));
    before.success();
    after.success();
    assert_eq!(circuit.status(), CircuitStatus::Open);
}

#[test]
fn keys_of_endpoints_share_their_tenants_policy() {
    let service = Service::new(&simple());
    service
        .breakers
        .set_tenant_policy("acme", Some(simple().consecutive_failures(7).build().unwrap()))
        .unwrap();
    let key = Key::of("acme", "https://hooks.acme.example/in", CircuitBy::Endpoint).unwrap();
    let circuit = service.breakers.circuit_of(&key);
    assert_eq!(circuit.policy().consecutive_failures(), Some(7));
    assert_eq!(circuit.record().tenant.as_deref(), Some("acme"));
}

/// Changes policies while new keys are added. A new key's policy is looked up while the registry adds the key, and a
/// policy change iterates over the registry. These must not deadlock, and no new circuit may miss a concurrent change.
#[test]
fn policies_change_while_new_keys_come() {
    const WORKERS: usize = 4;
    const KEYS: usize = 10_000;
    let service = Service::new(&simple());
    let limit_of = |circuit: &Circuit| circuit.policy().consecutive_failures().unwrap();
    let changed_to = Arc::new(AtomicU64::new(3));
    let (done, is_done) = mpsc::channel();
    for worker in 0..WORKERS {
        let (breakers, changed_to, done) = (service.breakers.clone(), Arc::clone(&changed_to), done.clone());
        thread::spawn(move || {
            let has_latest = |n| {
                let circuit = breakers.circuit(&format!("worker {worker} key {n}")).unwrap();
                let latest = changed_to.load(Ordering::SeqCst);
                limit_of(&circuit) >= latest
            };
            done.send((0..KEYS).all(has_latest)).unwrap();
        });
    }
    let breakers = service.breakers.clone();
    thread::spawn(move || {
        while breakers.len() < WORKERS * KEYS {
            let limit = changed_to.load(Ordering::SeqCst) + 1;
            breakers.set_policy(simple().consecutive_failures(limit).build().unwrap());
            changed_to.store(limit, Ordering::SeqCst);
        }
        done.send(true).unwrap();
    });
    for _ in 0..=WORKERS {
        let have_latest = is_done.recv_timeout(secs(60)).expect("nobody waits for somebody who waits");
        assert!(have_latest, "a new circuit missed a change");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_hears_of_a_change() {
    let service = Service::new(&simple().ramp_cap(8));
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    succeed(&circuit, 1);
    let _in_flight = circuit.try_acquire().unwrap();
    let waiting = {
        let circuit = circuit.clone();
        tokio::spawn(
            async move { circuit.acquire_owned_within(secs(60)).await.map(|permit| permit.is_probe()) },
        )
    };
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    service.breakers.set_policy(simple().ramp_cap(None).build().unwrap());
    assert_eq!(waiting.await.unwrap(), Ok(false));
    assert_eq!(start.elapsed(), secs(0));
}
