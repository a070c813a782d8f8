//! Permits of the decision API: workers acquire them, make their calls themselves, and settle them with the outcome.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Permits`] | gives out permits ([`acquire`](Permits::acquire)) and accepts outcomes ([`settle`](Permits::settle)) |
//! | [`Token`] | a permit in the form that a worker holds: a sealed ticket |
//! | `table` | what this process holds for unsettled permits: slots on ramps, passes of throttles |
//! | `expiry` | expires permits that are not settled |
//!
//! A worker's token contains everything needed to settle it: any process with the master key and the database can do
//! so, even after a restart. The process that gave it out holds only its slot on the ramp and its throttle's pass.
//!
//! **Guarantees.** A permit counts at most once: it is [claimed](breakerbox_storage::records::SettledPermits) in the
//! database before its outcome counts. The first settlement wins; a retry gets the same response. A token can't be
//! forged or altered. The number of permits held, and the time that each is held, are bounded.
//!
//! **Not guaranteed.** After a crash between claim and count, the outcome is lost. If the process that gave out a
//! permit has ended and no worker settles the permit, it is not counted. A throttle counts a call only in the process
//! that acquired its pass.

mod acquire;
mod expiry;
mod settle;
mod table;
mod token;

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Breakerbox;
use breakerbox::throttle::Throttles;
use breakerbox_core::Timestamp;
use breakerbox_storage::records::SettledPermits;
use breakerbox_storage::secrets::Keyring;
use tokio::sync::Mutex;

pub use self::acquire::{AcquireError, AcquireRequest, Acquired, GrantedPermit, PermitRefusal, Reason};
pub use self::settle::{CallResult, Report, SettleResponse};
use self::table::Table;
pub use self::token::{LONGEST_TOKEN, Token};
use crate::telemetry::Metrics;

/// The maximum time between giving out a permit and settling it.
pub const LONGEST_PERMIT: Duration = Duration::from_secs(3_600);

/// The number of settlement locks. The more there are, the fewer concurrent settlements wait for each other.
const SETTLE_LOCKS: usize = 1_024;

/// The dependencies of [`Permits`].
pub struct PermitParts {
    /// The circuits of all tenants.
    pub breakers: Breakerbox,
    /// The throttles of all destinations. `None` disables throttling, so no call is shed.
    pub throttles: Option<Throttles>,
    /// The keys that seal tokens.
    pub keyring: Arc<Keyring>,
    /// The stored record of settled permits.
    pub settled: Arc<dyn SettledPermits>,
    /// The metrics that acquires and settlements update.
    pub metrics: Arc<Metrics>,
    /// The store clock, which the queue uses. Unlike the wall clock, it never steps.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The maximum number of unsettled permits.
    pub max: usize,
    /// The share of unsettled permits that one tenant may have, in percent.
    pub tenant_share: u32,
}

/// Gives out and settles workers' permits.
pub struct Permits {
    breakers: Breakerbox,
    throttles: Option<Throttles>,
    keyring: Arc<Keyring>,
    settled: Arc<dyn SettledPermits>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    table: Table,
    /// Locks for settlements. A permit's lock is held while the permit is settled, so that a concurrent retry waits and
    /// gets the result.
    settle_locks: Box<[Mutex<()>]>,
}

impl Permits {
    /// Creates the service, with no permits given out.
    #[must_use]
    pub fn new(parts: PermitParts) -> Arc<Self> {
        let PermitParts { breakers, throttles, keyring, settled, metrics, clock, max, tenant_share } = parts;
        Arc::new(Self {
            breakers,
            throttles,
            keyring,
            settled,
            metrics,
            clock,
            table: Table::new(max, tenant_share),
            settle_locks: (0..SETTLE_LOCKS).map(|_| Mutex::new(())).collect(),
        })
    }

    /// Decrypts a worker's token. Returns `None` if the token was not sealed with one of this gateway's keys, or was
    /// altered.
    #[must_use]
    pub fn open(&self, token: &str) -> Option<Token> {
        Token::open(token, &self.keyring)
    }

    /// Releases everything that this process holds for permits without counting an outcome, because the process ends.
    /// Another process can still settle the permits.
    pub fn release_all(&self) {
        self.table.release_all();
        self.metrics.permits_out.set(0);
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn update_gauge(&self) {
        self.metrics.permits_out.set(i64::try_from(self.table.len()).unwrap_or(i64::MAX));
    }
}
