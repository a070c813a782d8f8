//! Acts on outages on the gateway's own side: while one lasts, no circuit is disabled, and a few circuits probe every
//! second, so that its end is found soon, however long the cool-offs are; when it is over, the circuits that opened in it
//! probe at once, at a limited pace. [`own_outages`](super::own_outages) detects them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use breakerbox::{Breakerbox, Circuit, CircuitStatus, State};
use breakerbox_core::own_outage::{End, Outage};
use breakerbox_core::{Attribution, OverrideCommand, Timestamp};
use breakerbox_model::delivery::lanes::Sleep;
use breakerbox_model::objects::{CircuitOwner, Moment};
use futures_util::future::join_all;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::destination::Destination;
use super::dispatcher::Dispatch;
use super::own_outages::OwnOutages;

/// The interval between checks whether an outage is over.
const EVERY: Duration = Duration::from_secs(1);

/// How long an outage must have lasted before it is reported, so that a blip is not.
const REPORT_AFTER: Duration = Duration::from_secs(5);

/// The interval at which circuits get their probes after an outage, and the part of the slots that get one at a time:
/// in each second, twice as many as there are slots. The slots limit how many probe at the same time.
const PACE: Duration = Duration::from_millis(25);
const PART_OF_SLOTS: u32 = 20;

/// The number of circuits that probe every second during an outage, and how many of them one tenant may have if there
/// are others: the end needs answers of three tenants.
const SCOUTS: usize = 8;
const SCOUTS_OF_TENANT: usize = 2;

/// After this many seconds, other circuits probe: those chosen before may have no deliveries, or be dead.
const SCOUTS_CHANGE_AFTER: u32 = 10;

/// The reasons for which circuits probe at once, in their history.
const OVER: &str = "the outage was on the gateway's side, and is over";
const SCOUT: &str = "an outage is on the gateway's side; checks whether it is over";

/// News about an outage on the gateway's side, for the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutageReport {
    /// An outage has lasted for a few seconds.
    Began(Outage),
    /// The outage is over. It was reported before if `was_reported`.
    Ended {
        /// The outage that is over.
        outage: Outage,
        /// Why it is over.
        end: End,
        /// The time of its end.
        at: Timestamp,
        /// Whether its beginning was reported.
        was_reported: bool,
    },
}

impl Dispatch {
    /// Returns the outages on the gateway's side.
    #[must_use]
    pub const fn own_outages(&self) -> &Arc<OwnOutages> {
        &self.own_outages
    }

    /// Acts on outages on the gateway's side until the future is dropped, and reports them.
    pub async fn watch_own_outages(self: Arc<Self>, report: impl Fn(OutageReport) + Send + Sync) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The outage that this task acts on, and whether it was reported.
        let mut current: Option<(Outage, bool)> = None;
        let mut scouts = Scouts::default();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    self.own_outages.check(self.now());
                    if let Some(outage) = self.own_outages.ongoing() {
                        scouts.probe(&self.breakers, outage).await;
                    }
                }
                () = self.own_outages.changed.notified() => {}
            }
            let ongoing = self.own_outages.ongoing();
            if let Some((outage, was_reported)) = current
                && ongoing != Some(outage)
            {
                (current, scouts) = (None, Scouts::default());
                self.outage_ended(outage, was_reported, &report).await;
            }
            if let Some((outage, was_reported)) = &mut current {
                if !*was_reported && self.now().since(outage.since) >= REPORT_AFTER {
                    *was_reported = true;
                    report(OutageReport::Began(*outage));
                }
            } else if let Some(outage) = self.own_outages.ongoing() {
                self.outage_began(&outage).await;
                current = Some((outage, false));
            }
        }
    }

    async fn outage_began(&self, outage: &Outage) {
        self.metrics.own_outage.set(1);
        self.metrics.own_outages.inc();
        warn!(
            since = %Moment(outage.since), lost = outage.lost, destinations = outage.keys, hosts = outage.hosts,
            "most destinations can't be reached; the fault is on the gateway's side"
        );
        suspend_disabling(&self.breakers, true).await;
    }

    async fn outage_ended(&self, outage: Outage, was_reported: bool, report: &impl Fn(OutageReport)) {
        let latest = self.own_outages.latest().filter(|latest| latest.outage == outage);
        let (end, at) = latest.map_or((End::Answered, self.now()), |latest| (latest.end, latest.at));
        self.metrics.own_outage.set(0);
        info!(since = %Moment(outage.since), reason = end.name(), "the outage on the gateway's side is over");
        report(OutageReport::Ended { outage, end, at, was_reported });
        if end == End::Answered {
            let excused = self.excuse_all(outage).await;
            info!(excused, "circuits that opened in the outage probe at once");
        }
        suspend_disabling(&self.breakers, false).await;
    }

    /// Lets the circuits that opened in the outage probe, at a limited pace. Stops if another outage begins. Returns the
    /// number of circuits.
    async fn excuse_all(&self, outage: Outage) -> usize {
        let breakers = self.breakers.clone();
        let found = spawn_blocking(move || opened_in(&breakers, &outage)).await.unwrap_or_default();
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The pace does not depend on how long the store takes.
        let (mut excused, mut under_way) = (0, JoinSet::new());
        let slots = usize::try_from(self.settings.slots).unwrap_or(usize::MAX);
        let at_once = (self.settings.slots / PART_OF_SLOTS).max(1);
        for some in found.chunks(usize::try_from(at_once).unwrap_or(1)) {
            pace.tick().await;
            if self.own_outages.ongoing().is_some() || self.is_stopping() {
                break;
            }
            for circuit in some {
                let circuit = circuit.clone();
                under_way.spawn(async move { excuse(&circuit, OVER).await });
            }
            while under_way.len() > slots {
                under_way.join_next().await;
            }
            excused += some.len();
        }
        under_way.join_all().await;
        excused
    }

    /// Returns how long a lane sleeps after a request that failed because of an outage on the gateway's side.
    pub(super) fn after_excused(&self, destination: &Destination, now: Timestamp) -> Option<Sleep> {
        // If the circuit does not hold the lane back, the delivery would be sent again at once.
        let is_closed = destination.circuit.status() == CircuitStatus::Closed;
        is_closed.then(|| {
            let mut pace = self.local_faults.lock().unwrap_or_else(PoisonError::into_inner);
            Sleep::LocalFault(pace.next(now))
        })
    }

    /// Lets a circuit probe at once, if a request that began in an outage on the gateway's side at `began` has failed
    /// after its end.
    pub(super) fn excuse_late(self: &Arc<Self>, destination: &Destination, began: Timestamp) {
        if self.own_outages.began_in_latest(began) && destination.circuit.status() != CircuitStatus::Closed {
            let circuit = destination.circuit.clone();
            self.spawn(async move { excuse(&circuit, OVER).await });
        }
    }
}

/// The circuits that probe every second during an outage.
#[derive(Default)]
struct Scouts {
    circuits: Vec<Circuit>,
    seconds_left: u32,
}

impl Scouts {
    /// Lets the scouts probe, and chooses others after a while.
    async fn probe(&mut self, breakers: &Breakerbox, outage: Outage) {
        if self.seconds_left == 0 || self.circuits.is_empty() {
            let breakers = breakers.clone();
            let found = spawn_blocking(move || opened_in(&breakers, &outage)).await.unwrap_or_default();
            (self.circuits, self.seconds_left) = (choose(found), SCOUTS_CHANGE_AFTER);
        }
        self.seconds_left -= 1;
        join_all(self.circuits.iter().map(|circuit| excuse(circuit, SCOUT))).await;
    }
}

/// Chooses scouts at random, of several tenants if possible.
fn choose(mut found: Vec<Circuit>) -> Vec<Circuit> {
    if !found.is_empty() {
        let first = rand::random_range(0..found.len());
        found.rotate_left(first);
    }
    let mut by_tenant: HashMap<String, usize> = HashMap::new();
    let (mut chosen, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|circuit| {
        let tenant = CircuitOwner::of_key(circuit.key()).map(|owner| owner.tenant.to_string());
        let count = by_tenant.entry(tenant.unwrap_or_default()).or_default();
        *count += 1;
        *count <= SCOUTS_OF_TENANT
    });
    chosen.extend(rest);
    chosen.truncate(SCOUTS);
    chosen
}

/// Returns the circuits that are not closed, and began to fail in this outage.
fn opened_in(breakers: &Breakerbox, outage: &Outage) -> Vec<Circuit> {
    let mut found = Vec::new();
    breakers.for_each(|circuit| {
        if !matches!(circuit.status(), CircuitStatus::Open | CircuitStatus::HalfOpen) {
            return;
        }
        let record = circuit.record();
        if record.is_automatic() && record.state != State::Closed && outage.covers(record.failing_since) {
            found.push(circuit.clone());
        }
    });
    found
}

async fn excuse(circuit: &Circuit, reason: &str) {
    let by = Attribution::new("breakerbox", reason).expect("within the limit");
    if let Err(error) = circuit.apply_override(OverrideCommand::Excuse, &by).await {
        warn!(%error, "can't let a circuit probe after an outage; it probes after its cool-off");
    }
}

/// Suspends or resumes disabling. Visits all circuits, so it runs on a thread of its own.
async fn suspend_disabling(breakers: &Breakerbox, is_suspended: bool) {
    let breakers = breakers.clone();
    let _ = spawn_blocking(move || breakers.suspend_disabling(is_suspended)).await;
}
