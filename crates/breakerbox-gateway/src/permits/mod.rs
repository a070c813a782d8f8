//! The decision API's permits: given to workers who make their calls themselves, and settled by what they report.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Permits`] | gives permits out ([`acquire`](Permits::acquire)) and takes outcomes ([`settle`](Permits::settle)) |
//! | [`Token`] | what a worker is given: a ticket, sealed |
//! | `table` | what this process holds for permits that are out: places on ramps, passes of throttles |
//! | `expiry` | what becomes of those that nobody settles |
//!
//! A worker's token holds all that is needed to settle it: any process with the master key and the database can, also after a
//! restart. What the process that gave it out holds besides is only what is its own.
//!
//! **What is guaranteed.** A permit counts at most once: it is [claimed](breakerbox_storage::records::SettledPermits) in the database
//! before its outcome counts. The first settlement wins; whoever repeats it hears the same. Nobody can make or change a token.
//! What is held is bounded, and so is the time for which it is.
//!
//! **What is not.** After a crash between claim and count, the outcome is lost. A permit that was given out by a process that
//! has ended since and that nobody settles counts nowhere. A throttle hears of a call only in the process that asked it.

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

pub use self::acquire::{AcquireError, Acquired, Given, Reason, Refused, Wanted};
pub use self::settle::{Answered, Report, Said};
use self::table::Table;
pub use self::token::{LONGEST_TOKEN, Token};
use crate::telemetry::Metrics;

/// The longest that a permit can be settled after it was given out.
pub const LONGEST_PERMIT: Duration = Duration::from_secs(3_600);

/// How many settlements can be under way without one waiting for another.
const TURNS: usize = 1_024;

/// What permits are given out with.
pub struct PermitParts {
    /// All circuits.
    pub breakers: Breakerbox,
    /// All throttles; none: nothing is shed.
    pub throttles: Option<Throttles>,
    /// What seals tokens.
    pub keyring: Arc<Keyring>,
    /// Which were settled.
    pub settled: Arc<dyn SettledPermits>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The queue's time.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// How many may be out at once.
    pub max: usize,
    /// One tenant's share of them, in percent.
    pub tenant_share: u32,
}

/// Permits of workers.
pub struct Permits {
    breakers: Breakerbox,
    throttles: Option<Throttles>,
    keyring: Arc<Keyring>,
    settled: Arc<dyn SettledPermits>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    table: Table,
    /// Held while one of the permits that share it is settled, so that whoever repeats it hears what came of it.
    turns: Box<[Mutex<()>]>,
}

impl Permits {
    /// None is out yet.
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
            turns: (0..TURNS).map(|_| Mutex::new(())).collect(),
        })
    }

    /// What a token says; none if it is none of ours, or was changed.
    #[must_use]
    pub fn open(&self, token: &str) -> Option<Token> {
        Token::open(token, &self.keyring)
    }

    /// The process ends: what it holds is let go of, and nothing counts. Its permits can still be settled elsewhere.
    pub fn let_go(&self) {
        self.table.let_go();
        self.metrics.permits_out.set(0);
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn note_how_many(&self) {
        self.metrics.permits_out.set(i64::try_from(self.table.len()).unwrap_or(i64::MAX));
    }
}
