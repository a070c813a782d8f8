//! The whole gateway: assembles its parts, starts and stops them.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Gateway`] | a running gateway: API, dispatch and maintenance on one data directory |
//! | [`FirstStart`] | the admin key and the tenant created in an empty data directory |
//! | [`StartError`] | the reason why a gateway did not start |
//! | `clock_watch` | the drift between the wall clock and the store clock |
//! | `foundation` | the database and the circuits, which the other parts need |
//! | `settings` | converts the settings for each part |
//! | `health` | the reasons why the gateway is degraded, and the gauges that are updated periodically |
//! | `history` | writes circuit history and its notifications |
//! | `notifications` | the targets, the mail server and the limits for notifications |
//! | `own_outage` | reports outages on the gateway's own side |
//! | `test_send` | sends one test request to an endpoint |
//! | `writes` | checks whether the database accepts writes, and notifies the operator if not |
//! | `transitions` | reports circuit transitions in log and metrics |
//!
//! **Shutdown order.** The API accepts no more requests. Dispatch starts no more requests, and waits for those in
//! flight and for their settlements, within the grace period. Then the database writes the rest and is closed. Requests
//! that got no response in time are sent again after a restart, with the same `webhook-id`.

mod clock_watch;
mod first_start;
mod foundation;
mod health;
mod history;
#[cfg(test)]
mod history_tests;
mod notifications;
mod own_outage;
mod settings;
mod start_error;
mod test_send;
mod transitions;
mod writes;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use breakerbox::Breakerbox;
use breakerbox::throttle::Throttle;
use breakerbox_core::Timestamp;
use breakerbox_egress::host::Pauses;
use breakerbox_egress::{HttpSender, Resolve, Sender, SystemResolver};
use breakerbox_model::delivery::LocalFault;
use breakerbox_model::objects::ApiKeyText;
use breakerbox_storage::Queue;
use breakerbox_storage::clock::Clocks;
use breakerbox_storage::records::{ApiKeys, PageOf};
use breakerbox_storage_sqlite::{Database, FreeSpace, SqliteCircuits, SqliteRecords};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tracing::{info, warn};

use self::clock_watch::ClockWatch;
pub use self::first_start::{FirstStart, HandedOver, Show};
use self::foundation::{ChangeReceivers, Foundation};
pub use self::start_error::StartError;
use self::writes::WriteWatcher;
use crate::api::{self, Front, Services};
use crate::config::Config;
use crate::dispatch::{Dispatch, LaneWaits, Parts, Scheduler, Watch};
use crate::notifications::{DelayedTrips, NotificationBuilder, Notifier};
use crate::permits::{PermitParts, Permits};
use crate::telemetry::Metrics;

/// The minimum time for the last API requests to finish at shutdown. Deliveries have the grace period instead.
const API_GRACE: Duration = Duration::from_secs(5);

/// The maximum time to write the circuits' runs of failures when the gateway stops.
const RUNS_GRACE: Duration = Duration::from_secs(5);

/// A function that shows the admin key of a first start to the operator, before the key is stored.
type ShowKey = Box<dyn FnOnce(&ApiKeyText) -> io::Result<Show> + Send>;

/// A running gateway.
pub struct Gateway {
    address: SocketAddr,
    first_start: Option<FirstStart>,
    has_keys: bool,
    dispatch: Arc<Dispatch>,
    permits: Arc<Permits>,
    breakers: Breakerbox,
    circuits: Arc<SqliteCircuits>,
    database: Database,
    grace: Duration,
    health: Arc<health::Report>,
    stop: watch::Sender<bool>,
    api: JoinHandle<()>,
    /// The background tasks, which end at the stop signal or when aborted.
    tasks: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Opens the data directory, and starts listening and delivering. Until the gateway is ready, requests get 503.
    ///
    /// # Errors
    /// Returns an error if a resource is missing or in use. No event was accepted or sent.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_with(config, &Clocks::system()).await
    }

    /// Like [`start`](Self::start), with other clocks. For tests.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub async fn start_with(config: &Config, clocks: &Clocks) -> Result<Self, StartError> {
        Self::start_showing(config, clocks, |_| Ok(Show::Seen)).await
    }

    /// Like [`start_with`](Self::start_with), but calls `show` with the admin key of a first start before the key is
    /// stored.
    ///
    /// # Errors
    /// Same as [`start`](Self::start), or an error if the key can't be shown.
    pub async fn start_showing(
        config: &Config,
        clocks: &Clocks,
        show: impl FnOnce(&ApiKeyText) -> io::Result<Show> + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::launch(config, clocks, Arc::new(SystemResolver), Box::new(show)).await
    }

    /// Like [`start_with`](Self::start_with), with a custom resolver. For tests.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub async fn start_resolving(
        config: &Config,
        clocks: &Clocks,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, StartError> {
        Self::launch(config, clocks, resolver, Box::new(|_| Ok(Show::Seen))).await
    }

    /// Starts the gateway on a separate thread. The future is boxed and this method has no type parameters; otherwise
    /// every crate that starts a gateway would compile all of it again.
    fn launch(
        config: &Config,
        clocks: &Clocks,
        resolver: Arc<dyn Resolve>,
        show: ShowKey,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send>> {
        Box::pin(Self::start_on_thread(config.clone(), clocks.clone(), resolver, show))
    }

    async fn start_on_thread(
        config: Config,
        clocks: Clocks,
        resolver: Arc<dyn Resolve>,
        show: ShowKey,
    ) -> Result<Self, StartError> {
        let runtime = Handle::current();
        // On a separate thread: opening a database blocks, and requests are answered in the meantime.
        let started =
            spawn_blocking(move || runtime.block_on(Self::assemble(&config, &clocks, resolver, show)));
        match started.await.map_err(JoinError::try_into_panic) {
            Ok(started) => started,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    /// Assembles all parts, and starts them.
    async fn assemble(
        config: &Config,
        clocks: &Clocks,
        resolver: Arc<dyn Resolve>,
        show: ShowKey,
    ) -> Result<Self, StartError> {
        let folder = |error| StartError::Folder { path: config.data.clone(), error };
        std::fs::create_dir_all(&config.data).map_err(folder)?;
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|error| StartError::Listen { address: config.listen, error })?;
        let address =
            listener.local_addr().map_err(|error| StartError::Listen { address: config.listen, error })?;
        let metrics = Arc::new(Metrics::new());
        let pauses = Pauses::default();
        let mut sending = settings::send(config)?;
        let mut limits = settings::limits(config);
        let shortfall = settings::fit_descriptors(config, &mut limits, &mut sending);
        let (stop, mut stopped) = watch::channel(false);
        let stopping = async move {
            // A dropped sender also stops the gateway, for example after a failed start.
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let front = Front::starting();
        let (served, connections, counted) = (front.clone(), limits.connections, Arc::clone(&metrics));
        let api = tokio::spawn(async move {
            api::serve_front(listener, served, connections, &counted, stopping).await;
        });
        info!(%address, "starting; /readyz responds with 503 until the gateway is ready");
        let sender = Sender::with_resolver(&sending, resolver)?.with_pauses(pauses.clone());
        let http_sender: Arc<dyn HttpSender> = Arc::new(sender.counting_repeated(metrics.repeated.clone()));
        let post = notifications::post(config, Arc::clone(&http_sender))?;

        let Foundation {
            database,
            clock: store_clock,
            records,
            queue,
            circuits,
            direct_dispatch,
            is_rotating,
        } = Foundation::open(config, clocks, &metrics).await?;
        let directory = Arc::clone(records.directory());
        let (history_writer, history_task) = history::channel(&metrics, store_clock.clone());
        let dispatch_slot: Arc<OnceLock<Weak<Dispatch>>> = Arc::default();
        let receivers = ChangeReceivers {
            history_writer: history_writer.clone(),
            dispatch_slot: Arc::clone(&dispatch_slot),
            metrics: Arc::clone(&metrics),
        };
        let breakers = foundation::breakers(config, &circuits, receivers, &database)?;
        for (circuit, policy) in directory.circuit_policies() {
            breakers.set_key_policy(&circuit, Some((*policy).clone()))?;
        }
        let throttles = config.delivery.throttle.then(|| {
            let limit = config.circuits.tenant_limit();
            Throttle::builder().tenant_limit(limit).build_keyed(config.circuits.max as usize)
        });
        let clock: Arc<dyn Fn() -> Timestamp + Send + Sync> = {
            let queue = Arc::clone(&queue);
            Arc::new(move || queue.now())
        };
        let permits = Permits::new(PermitParts {
            breakers: breakers.clone(),
            throttles: throttles.clone(),
            keyring: Arc::clone(records.keyring()),
            settled: records.clone(),
            metrics: Arc::clone(&metrics),
            clock: Arc::clone(&clock),
            max: config.permits.max as usize,
            tenant_share: config.limits.tenant_share,
        });
        let parts = Parts {
            queue: queue.clone(),
            maintenance_records: records.clone(),
            directory: directory.clone(),
            breakers: breakers.clone(),
            throttles,
            http_sender,
            metrics: Arc::clone(&metrics),
            wall: Arc::clone(clocks.wall()),
        };
        let dispatch = Dispatch::new(parts, settings::dispatch(config));
        for tenant in directory.tenants() {
            dispatch.set_policies(&tenant)?;
        }
        // This is the only place that sets both.
        let _ = dispatch_slot.set(Arc::downgrade(&dispatch));
        directory.watch(Watch::over(&dispatch));
        direct_dispatch.set_dispatch(&dispatch);

        let notification_builder =
            NotificationBuilder::new(breakers.clone(), directory.clone(), config.notify.after);
        history::catch_up(&*circuits, &*records, &notification_builder, database.now()).await?;
        history::store_is_here(&*records, database.wall()).await?;
        let notifier = Notifier::new(
            records.clone(),
            directory.clone(),
            post,
            Arc::clone(&clock),
            Arc::clone(clocks.wall()),
            Arc::clone(&metrics),
            notifications::settings(config),
        );

        let first_start = match first_start::prepare(&*records, config, show).await {
            Ok(first_start) => first_start,
            Err(error) => {
                // So that the directory can be opened again immediately.
                database.close().await;
                return Err(error);
            }
        };
        dispatch.find_waiting().await?;
        let watcher = health::Watcher {
            database: database.clone(),
            clock: ClockWatch::new(store_clock.clone(), database.clock_step()),
            breakers: breakers.clone(),
            circuits: Arc::clone(&circuits),
            dispatch: Arc::clone(&dispatch),
            metrics: Arc::clone(&metrics),
            records: records.clone(),
            free_space: FreeSpace::of(&config.data).map_err(folder)?,
            reserve: config.limits.disk_reserve,
            notifier: Arc::clone(&notifier),
            uncontrolled: AtomicU64::new(0),
            shortfall,
            is_trial: config.dev,
        };
        let health = Arc::new(health::Report::default());
        let writes = WriteWatcher {
            database: database.clone(),
            records: records.clone(),
            notifier: Arc::clone(&notifier),
            report: Arc::clone(&health),
        };
        let own_outages = Arc::clone(dispatch.own_outages());
        let delayed_trips = DelayedTrips::new(
            records.clone(),
            circuits.clone(),
            own_outages,
            directory.clone(),
            store_clock.clone(),
        );
        let mut tasks = vec![
            tokio::spawn(Arc::clone(&dispatch).run()),
            tokio::spawn(
                Arc::clone(&dispatch).run_maintenance(config.retention.work, config.retention.history),
            ),
            tokio::spawn(Arc::clone(&permits).run_expiry(pauses.clone())),
            tokio::spawn(watch_pauses(pauses, Arc::clone(&metrics))),
            tokio::spawn(own_outage::watch(Arc::clone(&dispatch), history_writer, store_clock.clone())),
            tokio::spawn(history_task.run(records.clone(), notification_builder)),
            tokio::spawn(Arc::clone(&notifier).run()),
            tokio::spawn(delayed_trips.run()),
            tokio::spawn(watcher.run(Arc::clone(&health))),
            tokio::spawn(writes.run()),
        ];
        let scheduler = Scheduler::new(
            queue.clone(),
            directory.clone(),
            Arc::clone(&dispatch),
            Arc::clone(&metrics),
            Arc::clone(clocks.wall()),
        );
        tasks.push(tokio::spawn(scheduler.run()));
        if is_rotating {
            tasks.push(tokio::spawn(reseal(Arc::clone(&records))));
        }
        let services = Services {
            records: records.clone(),
            directory,
            submitter: Arc::new(Arc::clone(&dispatch)),
            waits: Arc::clone(&dispatch) as Arc<dyn LaneWaits>,
            circuits: breakers.clone(),
            circuit_store: circuits.clone(),
            permits: Arc::clone(&permits),
            tests: Arc::new(test_send::Tests(Arc::clone(&dispatch))),
            notification_tests: Arc::new(notifications::Tests(notifier)),
            health: health.clone(),
            metrics,
            clock,
            wall: Arc::clone(clocks.wall()),
            addresses: Arc::new(config.egress.addresses()),
            limits,
        };
        let api_keys = records.api_keys(None, &PageOf::first(1)).await?;
        front.open(api::router(services));
        let (has_keys, grace) = (!api_keys.items.is_empty(), config.grace);
        Ok(Self {
            address,
            first_start,
            has_keys,
            dispatch,
            permits,
            breakers,
            circuits,
            database,
            grace,
            health,
            stop,
            api,
            tasks,
        })
    }

    /// Returns the address on which the API listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the admin key and the tenant that the first start created. `None` if the data directory was not empty.
    #[must_use]
    pub const fn first_start(&self) -> Option<&FirstStart> {
        self.first_start.as_ref()
    }

    /// Returns whether there was an API key at startup. Without a key, all requests are rejected.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Stops the gateway, waiting for requests in flight within the grace period. Returns whether all of them ended.
    /// Requests that did not end are sent again after a restart.
    pub async fn stop(self) -> bool {
        self.health.stopping();
        self.stop.send_replace(true);
        // The writes of the last API requests must be durable before the database is closed.
        let (api, all_ended) =
            tokio::join!(timeout(self.grace.max(API_GRACE), self.api), self.dispatch.stop(self.grace));
        if api.is_err() {
            warn!("some API requests did not finish in time");
        }
        self.tasks.iter().for_each(JoinHandle::abort);
        self.permits.release_all();
        write_runs(&self.breakers, &self.circuits).await;
        self.database.close().await;
        all_ended
    }
}

/// Writes the runs of failures that are not on disk yet, so that they survive the restart.
async fn write_runs(breakers: &Breakerbox, circuits: &SqliteCircuits) {
    let write = async {
        if let Err(error) = breakers.flush().await {
            warn!(%error, "some outcomes were not counted before the end");
        }
        circuits.write_rest().await
    };
    match timeout(RUNS_GRACE, write).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => warn!(%error, "can't write the circuits' latest failures"),
        Err(_) => warn!("the circuits' latest failures were not written in time"),
    }
}

/// Encrypts all secrets with the newest master key, and logs when older keys are no longer needed.
async fn reseal(records: Arc<SqliteRecords>) {
    match records.reseal().await {
        Ok(done) => info!(
            rows = done.looked_at,
            sealed_anew = done.resealed,
            "all secrets are encrypted with the newest master key; older keys can be removed"
        ),
        Err(error) => {
            warn!(%error, "some secrets can't be encrypted with the newest master key; older keys are still needed");
        }
    }
}

/// Counts and reports each pause of this process as a local fault.
async fn watch_pauses(pauses: Pauses, metrics: Arc<Metrics>) {
    let report = |pause: Duration| {
        let detail = format!("the process was paused for {} ms", pause.as_millis());
        metrics.local_faults.note(LocalFault::Pause, &detail);
    };
    pauses.watch(report).await;
}
