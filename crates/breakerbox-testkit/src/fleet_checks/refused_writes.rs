//! A server that answers reads and refuses writes: the fleet reports the loss with its cause, circuits recover
//! without the store, and decisions made meanwhile are written when the server accepts writes again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakerbox::store::Store;
use breakerbox::{Breakerbox, Circuit, CircuitStatus, Policy, StoreHealth};
use tokio::time::Instant;

use super::{KEY, until};

/// The number of consecutive failures that open the circuit.
const FAILURES: usize = 3;

/// One process in a fleet, and the changes in its store's health.
pub struct Process {
    _breakers: Breakerbox,
    /// The circuit for [`KEY`].
    pub circuit: Circuit,
    health: Arc<Mutex<Vec<StoreHealth>>>,
}

impl Process {
    /// Starts a process that uses this store.
    ///
    /// # Panics
    /// Panics if the process can't be set up.
    #[must_use]
    pub fn start(store: impl Store) -> Self {
        let policy = Policy::builder().failure_rate(None).consecutive_failures(FAILURES as u64);
        let policy = policy.cool_off(Duration::from_secs(1)).probes(1);
        let health = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&health);
        let breakers = Breakerbox::builder()
            .policy(policy.build().expect("within the bounds"))
            .store(store)
            // Only the server's responses matter, however busy the machine is.
            .store_timeout(Duration::from_secs(30))
            .store_observer(move |health| {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(health.clone());
            })
            .build();
        let circuit = breakers.circuit(KEY).expect("a short key");
        Self { _breakers: breakers, circuit, health }
    }

    /// Returns the changes in the store's health, in order.
    #[must_use]
    pub fn health(&self) -> Vec<StoreHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens a fleet's circuit with failing calls, and waits until every process sees it open.
    pub async fn open(fleet: &[Self]) {
        for n in 0..FAILURES {
            let _ = fleet[n % fleet.len()].circuit.call(async { Err::<(), _>("down") }).await;
        }
        until("all are open", async || Self::all_are(fleet, CircuitStatus::Open)).await;
    }

    fn all_are(fleet: &[Self], status: CircuitStatus) -> bool {
        fleet.iter().all(|process| process.circuit.status() == status)
    }
}

/// Opens a circuit, makes the server reject writes, and checks that:
///
/// - each process reports the loss of the store once, with every string in `cause`;
/// - the circuit closes nevertheless when its destination recovers;
/// - when the server accepts writes again, the processes reconnect to the store and write their decisions.
///
/// # Panics
/// Panics if one of these checks fails.
pub async fn outlasts_refused_writes<S: Store>(
    connect: impl AsyncFn() -> S,
    cause: &[&str],
    refuse: impl FnOnce(),
    allow: impl FnOnce(),
) {
    let store = connect().await;
    let fleet = [Process::start(connect().await), Process::start(connect().await)];
    Process::open(&fleet).await;

    refuse();
    let refused_at = Instant::now();
    until("the loss is reported, with its cause", async || {
        fleet.iter().all(|process| match &process.health()[..] {
            [StoreHealth::Degraded { error }] => {
                assert!(cause.iter().all(|part| error.contains(part)), "{error}");
                true
            }
            other => {
                assert!(other.is_empty(), "{other:?}");
                false
            }
        })
    })
    .await;
    println!("{cause:?}: reported after {:?}", refused_at.elapsed());
    until("the circuits of the recovered destination close", async || {
        for process in &fleet {
            let _ = process.circuit.call(async { Ok::<_, ()>(()) }).await;
        }
        Process::all_are(&fleet, CircuitStatus::Closed)
    })
    .await;
    let stored = async || {
        let answer = store.read(&[KEY.into()]).await.ok()?.all().ok()?;
        Some(answer.value[0].as_ref()?.status())
    };
    assert_eq!(stored().await, Some(CircuitStatus::Open), "nothing could be written");
    for process in &fleet {
        assert_eq!(process.health().len(), 1, "lost once, and not back and forth");
    }

    allow();
    until("the store is back", async || {
        fleet.iter().all(|process| process.health().last() == Some(&StoreHealth::Connected))
    })
    .await;
    until("the store has the decisions", async || stored().await == Some(CircuitStatus::Closed)).await;
    assert!(Process::all_are(&fleet, CircuitStatus::Closed));
    assert!(fleet.iter().all(|process| process.health().len() == 2));
}
