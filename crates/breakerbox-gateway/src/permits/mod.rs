//! The permits of the decision API: given to workers that make their calls themselves, and settled by the workers'
//! reports.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Permits`] | gives out permits ([`acquire`](Permits::acquire)) and takes outcomes ([`settle`](Permits::settle)) |
//! | [`Token`] | a permit as its worker holds it: a sealed ticket |
//! | `table` | what this process holds for permits that are out: places on ramps, passes of throttles |
//! | `expiry` | expires permits that are not settled |
//!
//! A worker's token holds all that is needed to settle it: any process with the master key and the database can settle
//! it, also after a restart. The process that gave it out holds only its own place on the ramp and its throttle's pass.
//!
//! **Guarantees.** A permit counts at most once: it is [claimed](breakerbox_storage::records::SettledPermits) in the
//! database before its outcome counts. The first settlement wins; a repetition gets the same response. A token can't be
//! forged or changed. The permits held, and the time that each is held, are bounded.
//!
//! **Not guaranteed.** After a crash between claim and count, the outcome is lost. A permit from a process that has
//! ended, and that no worker settles, is not counted. A throttle counts a call only in the process that acquired its
//! pass.

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

/// The longest time for which a permit can be settled after it was given out.
pub const LONGEST_PERMIT: Duration = Duration::from_secs(3_600);

/// The number of locks for settlements: so many settlements can be in flight without one waiting for another.
const SETTLE_LOCKS: usize = 1_024;

/// The dependencies of [`Permits`].
pub struct PermitParts {
    /// All circuits.
    pub breakers: Breakerbox,
    /// All throttles. `None` disables throttling: no call is shed.
    pub throttles: Option<Throttles>,
    /// The keys that seal tokens.
    pub keyring: Arc<Keyring>,
    /// The record of settled permits.
    pub settled: Arc<dyn SettledPermits>,
    /// The metrics to update.
    pub metrics: Arc<Metrics>,
    /// The queue's clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Maximum permits that are out at once.
    pub max: usize,
    /// The share of them that one tenant may have, in percent.
    pub tenant_share: u32,
}

/// Gives out and settles the permits of workers.
pub struct Permits {
    breakers: Breakerbox,
    throttles: Option<Throttles>,
    keyring: Arc<Keyring>,
    settled: Arc<dyn SettledPermits>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    table: Table,
    /// The locks of settlements. Each is held while a permit that maps to it is settled, so that a repetition gets the
    /// result.
    settle_locks: Box<[Mutex<()>]>,
}

impl Permits {
    /// Starts with no permits out.
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

    /// Opens a token. Returns `None` if it was not sealed by this gateway's keys, or was changed.
    #[must_use]
    pub fn open(&self, token: &str) -> Option<Token> {
        Token::open(token, &self.keyring)
    }

    /// Releases all that this process holds for permits, and counts nothing: the process ends. Another process can
    /// still settle the permits.
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
