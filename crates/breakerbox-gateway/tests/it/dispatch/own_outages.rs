//! Outages on the gateway's own side: most destinations can't be reached at once. In virtual time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::{CircuitStatus, Policy};
use breakerbox_core::own_outage::End;
use breakerbox_gateway::dispatch::{OutageReport, Settings};
use breakerbox_model::delivery::{Fault, Reply};
use breakerbox_model::objects::{Priority, TenantId};

use super::site::{MILLISECOND, Site, ok};

const SECOND: Duration = Duration::from_secs(1);
const SLOTS: u32 = 8;

/// A policy that disables a circuit at its second trip.
fn policy() -> Policy {
    let policy = Policy::builder().cool_off(SECOND).cool_off_factor(1.5).disable_after(2);
    policy.disable_min(Duration::ZERO).build().unwrap()
}

struct World {
    site: Site,
    tenants: Vec<(TenantId, Vec<String>)>,
    reports: Arc<Mutex<Vec<OutageReport>>>,
}

impl World {
    /// Starts tenants with 10 hosts each. The hosts of a tenant can't be reached while its flag is set.
    fn start(flags: &[Arc<AtomicBool>]) -> Self {
        let site = Site::new(policy(), Settings { slots: SLOTS, ..Settings::default() });
        let reports = Arc::<Mutex<Vec<OutageReport>>>::default();
        let reported = Arc::clone(&reports);
        let report = move |report| reported.lock().unwrap().push(report);
        tokio::spawn(Arc::clone(&site.dispatch).watch_own_outages(report));
        let tenants = flags.iter().enumerate().map(|(number, away)| {
            let tenant = site.tenant(&format!("tenant{number}"));
            let hosts: Vec<String> = (0..10).map(|host| format!("t{number}h{host}")).collect();
            for host in &hosts {
                let away = Arc::clone(away);
                site.endpoint(&tenant, host, move |_| {
                    let is_away = away.load(Ordering::Relaxed);
                    (MILLISECOND, if is_away { Reply::Failed(Fault::Connect) } else { ok() })
                });
            }
            (tenant, hosts)
        });
        let tenants = tenants.collect();
        Self { site, tenants, reports }
    }

    /// Sends an event to every endpoint, four times a second.
    async fn traffic(&self, time: Duration) {
        let until = self.site.elapsed() + time;
        while self.site.elapsed() < until {
            for (tenant, _) in &self.tenants {
                self.site.submit(tenant, "all", 1, Priority::Medium).await;
            }
            assert!(self.site.dispatch.snapshot().slots_in_use <= SLOTS);
            tokio::time::sleep(SECOND / 4).await;
        }
    }

    fn states(&self, tenant: usize) -> Vec<CircuitStatus> {
        let (tenant, hosts) = &self.tenants[tenant];
        let key = |host: &String| format!("{tenant} https://{host}.example");
        hosts.iter().map(|host| self.site.breakers.circuit(&key(host)).unwrap().status()).collect()
    }

    fn requests(&self) -> Vec<usize> {
        let hosts = self.tenants.iter().flat_map(|(_, hosts)| hosts);
        hosts.map(|host| self.site.requests(host)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_on_our_side_disables_nothing_and_all_lanes_flow_soon_after_it() {
    let away = Arc::new(AtomicBool::new(false));
    let world = World::start(&[(); 4].map(|()| Arc::clone(&away)));
    let own_outages = Arc::clone(world.site.dispatch.own_outages());
    world.traffic(10 * SECOND).await;
    away.store(true, Ordering::Relaxed);
    world.traffic(3 * SECOND).await;
    let outage = own_outages.ongoing().expect("it is detected");
    assert_eq!((outage.keys, outage.hosts), (40, 40));
    world.traffic(17 * SECOND).await;
    assert_eq!(own_outages.ongoing(), Some(outage));
    for tenant in 0..4 {
        let states = world.states(tenant);
        assert!(
            states.iter().all(|state| matches!(state, CircuitStatus::Open | CircuitStatus::HalfOpen)),
            "{states:?}"
        );
    }
    assert_eq!(*world.reports.lock().unwrap(), [OutageReport::Began(outage)]);

    away.store(false, Ordering::Relaxed);
    let before = world.requests();
    world.traffic(5 * SECOND).await;
    assert_eq!(own_outages.ongoing(), None);
    for (before, after) in before.iter().zip(world.requests()) {
        assert!(after > before + 3, "each lane flows: {before}, {after}");
    }
    for tenant in 0..4 {
        assert_eq!(world.states(tenant), [CircuitStatus::Closed; 10]);
    }
    let reports = world.reports.lock().unwrap().clone();
    let is_over = matches!(reports[1], OutageReport::Ended { end: End::Answered, was_reported: true, .. });
    assert!(is_over && reports.len() == 2, "{reports:?}");
    // Disabling works again, and what the outage did is forgotten.
    let circuit = world.site.breakers.circuit("tenant0 https://t0h0.example").unwrap();
    assert_eq!((circuit.policy().disable_after(), circuit.record().trips), (Some(2), 0));
}

#[tokio::test(start_paused = true)]
async fn no_delivery_uses_an_attempt_once_the_outage_is_known() {
    let away = Arc::new(AtomicBool::new(false));
    let world = World::start(&[(); 4].map(|()| Arc::clone(&away)));
    world.traffic(5 * SECOND).await;
    away.store(true, Ordering::Relaxed);
    world.traffic(3 * SECOND).await;
    assert!(world.site.dispatch.own_outages().ongoing().is_some());
    let retried = |world: &World| {
        world.site.metrics.deliveries.of(breakerbox_gateway::telemetry::labels::Outcome::Retried).get()
    };
    let before = (retried(&world), world.requests());
    world.traffic(15 * SECOND).await;
    assert_eq!(retried(&world), before.0);
    assert!(world.requests() > before.1, "circuits probe meanwhile");
}

#[tokio::test(start_paused = true)]
async fn one_tenant_whose_endpoints_die_at_once_is_treated_as_usual() {
    let flags = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let world = World::start(&flags);
    world.traffic(10 * SECOND).await;
    flags[0].store(true, Ordering::Relaxed);
    world.traffic(30 * SECOND).await;
    assert_eq!(world.site.dispatch.own_outages().ongoing(), None);
    assert_eq!(world.states(0), [CircuitStatus::Disabled; 10]);
    assert_eq!(world.states(1), [CircuitStatus::Closed; 10]);
    assert_eq!(*world.reports.lock().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn after_fifteen_minutes_the_ordinary_rules_apply() {
    let away = Arc::new(AtomicBool::new(false));
    let world = World::start(&[(); 2].map(|()| Arc::clone(&away)));
    world.traffic(5 * SECOND).await;
    away.store(true, Ordering::Relaxed);
    world.traffic(3 * SECOND).await;
    let outage = world.site.dispatch.own_outages().ongoing().expect("it is detected");
    tokio::time::sleep(15 * 60 * SECOND).await;
    let reports = world.reports.lock().unwrap().clone();
    let [OutageReport::Began(_), OutageReport::Ended { end: End::Expired, .. }] = reports[..] else {
        panic!("{outage:?} {reports:?}");
    };
    tokio::time::sleep(20 * 60 * SECOND).await;
    for tenant in 0..2 {
        assert_eq!(world.states(tenant), [CircuitStatus::Disabled; 10], "at the next failed probe");
    }
}
