//! The gateway's settings: what can be said, where it can be said, and what it comes to.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Config`] | every setting, checked |
//! | [`Sources`] | one TOML file, the environment, flags: the later of these wins |
//! | [`Loaded`] | a [`Config`], and where each value is from |
//! | [`SETTINGS`] | the list of settings: names, meaning, what each accepts |
//! | [`PolicyDefaults`] | the `[policy]` table, and how a tenant's and an endpoint's policy go over it |
//! | [`ConfigErrors`] | all that is wrong, each with the key, the place and what would be right |
//!
//! Nothing here opens a socket or a database, and nothing reads the environment by itself: it is told.

mod environment;
mod error;
mod file;
mod format;
mod layers;
mod names;
mod notify;
mod policy;
mod print;
mod settings;
mod size;
mod values;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use breakerbox::TenantLimit;
use breakerbox_egress::AddressPolicy;
use breakerbox_model::delivery::RetrySchedule;
use breakerbox_model::objects::Backlog;
use breakerbox_model::shares::DEFAULT_SHARE;
use breakerbox_storage::Retention;
use ipnet::IpNet;
use url::Url;

pub use error::{ConfigError, ConfigErrors, Wrong};
pub use layers::{FILE_NAME, Loaded, Origin, Sources};
pub use notify::Notify;
pub use policy::PolicyDefaults;
pub use print::{example, reference};
pub use settings::{SETTINGS, Setting};
pub use size::{SizeError, format_size, parse_size};
pub use values::{Hidden, LogFormat};

use crate::notifications::NotifierSettings;

/// Every setting of the gateway, checked.
///
/// ```
/// use breakerbox_gateway::config::Config;
///
/// let config = Config::default();
/// assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
/// assert_eq!(config.delivery.slots, 512);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Where the API and the dashboard listen. Loopback: what is open to the world is opened on purpose.
    pub listen: SocketAddr,
    /// The folder of the database. Beside where it was started, so that a first try needs no rights and leaves nothing
    /// elsewhere; a service names a folder of its own.
    pub data: PathBuf,
    /// How long requests that are under way may still take after SIGTERM.
    pub grace: Duration,
    /// How deliveries are made.
    pub delivery: Delivery,
    /// What a request, a tenant and the disk may bear.
    pub limits: Limits,
    /// How long things are kept.
    pub retention: Kept,
    /// How the gateway reaches the world.
    pub egress: Egress,
    /// With what secrets are sealed.
    pub secrets: Secrets,
    /// Circuits, apart from their policy.
    pub circuits: Circuits,
    /// Permits of the decision API.
    pub permits: PermitSettings,
    /// Who is told of what.
    pub notify: Notify,
    /// What is logged.
    pub log: Log,
    /// What is counted.
    pub metrics: MetricsAccess,
    /// The policy of circuits, where neither tenant nor endpoint say otherwise.
    pub policy: PolicyDefaults,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data: "breakerbox-data".into(),
            grace: Duration::from_secs(30),
            delivery: Delivery::default(),
            limits: Limits::default(),
            retention: Kept::default(),
            egress: Egress::default(),
            secrets: Secrets::default(),
            circuits: Circuits::default(),
            permits: PermitSettings::default(),
            notify: Notify::default(),
            log: Log::default(),
            metrics: MetricsAccess::default(),
            policy: PolicyDefaults::default(),
        }
    }
}

impl Config {
    /// The file with the master key: the one that was named, or one in the data folder.
    #[must_use]
    pub fn master_key_file(&self) -> PathBuf {
        self.secrets.master_key_file.clone().unwrap_or_else(|| self.data.join("keys").join("master.key"))
    }

    /// How long a delivery with this time limit is leased.
    #[must_use]
    pub fn lease(&self, timeout: Duration) -> Duration {
        timeout + self.delivery.lease_margin
    }
}

/// How deliveries are made. An endpoint or a tenant may say otherwise for some of these.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// How long one request may take, all in all.
    pub timeout: Duration,
    /// Requests in flight for the whole process.
    pub slots: u32,
    /// Requests in flight for one endpoint.
    pub max_in_flight: u32,
    /// How much longer than its time limit a delivery is leased.
    pub lease_margin: Duration,
    /// The waits between attempts.
    pub retry: RetrySchedule,
    /// Whether the throttle sheds what a drowning endpoint can't take.
    pub throttle: bool,
    /// After how long waiting work is given up.
    pub expires_after: Option<Duration>,
    /// How much of an answer is kept with the attempt, in bytes.
    pub response_kept: u64,
    /// How much of an answer is read at most, in bytes.
    pub response_read: u64,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(15),
            slots: 512,
            max_in_flight: 64,
            lease_margin: Duration::from_secs(30),
            retry: RetrySchedule::default(),
            throttle: true,
            expires_after: None,
            response_kept: 4 << 10,
            response_read: 64 << 10,
        }
    }
}

/// What a request, a tenant and the disk may bear.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// The largest payload of an event, in bytes.
    pub payload: u64,
    /// The most events in one batch.
    pub batch_events: u32,
    /// The largest body of a batch, in bytes.
    pub batch_bytes: u64,
    /// How many bytes of requests are in memory at once.
    pub bodies: u64,
    /// How long the body of a request may take to arrive.
    pub body_timeout: Duration,
    /// What one tenant may take of each limit that all tenants share, in percent.
    pub tenant_share: u32,
    /// How long a new connection may take to send the headers of its first request.
    pub first_request_timeout: Duration,
    /// How long the headers of a request may take to arrive.
    pub header_timeout: Duration,
    /// Connections to the API at once.
    pub connections: u32,
    /// What one address may take of the connections, in percent.
    pub address_share: u32,
    /// Requests in a minute from one address without a valid API key.
    pub auth_failures: u32,
    /// How much of one tenant's work may wait.
    pub backlog: Backlog,
    /// How many endpoints one tenant may have.
    pub endpoints: u32,
    /// Free disk space below which nothing more is accepted, in bytes.
    pub reserve: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload: 256 << 10,
            batch_events: 1_000,
            batch_bytes: 4 << 20,
            bodies: 64 << 20,
            body_timeout: Duration::from_secs(30),
            tenant_share: DEFAULT_SHARE,
            first_request_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(30),
            connections: 4_096,
            address_share: DEFAULT_SHARE,
            auth_failures: 30,
            backlog: Backlog::default(),
            endpoints: 10_000,
            reserve: 512 << 20,
        }
    }
}

/// How long things are kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Finished work.
    pub work: Retention,
    /// What happened to circuits.
    pub history: Duration,
    /// What people were told.
    pub notices: Duration,
}

impl Default for Kept {
    fn default() -> Self {
        let work = Retention::default();
        Self { work, history: work.failed, notices: NotifierSettings::default().kept }
    }
}

/// How the gateway reaches the world.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Egress {
    /// Networks that may be called although they are not public.
    pub allow: Vec<IpNet>,
    /// Networks that are never called, even if they are public or allowed.
    pub deny: Vec<IpNet>,
    /// The proxy through which everything goes.
    pub proxy: Option<Url>,
    /// Files (PEM) with authorities that are trusted besides the system's.
    pub ca_files: Vec<PathBuf>,
}

impl Egress {
    /// Which addresses may be called.
    #[must_use]
    pub fn addresses(&self) -> AddressPolicy {
        AddressPolicy::allowing(self.allow.clone()).denying(self.deny.clone())
    }
}

/// With what secrets are sealed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Secrets {
    /// The master key itself, from the environment and from nowhere else.
    pub master_key: Option<Hidden>,
    /// The file with the master key; none: `keys/master.key` in the data folder.
    pub master_key_file: Option<PathBuf>,
    /// The admin key of the first start, chosen by the owner.
    pub initial_admin_key: Option<Hidden>,
    /// The file with it.
    pub initial_admin_key_file: Option<PathBuf>,
    /// The file to which the first start writes the admin key that it makes.
    pub admin_key_file: Option<PathBuf>,
    /// Whether the first start prints that key; none: only to a terminal.
    pub print_admin_key: Option<bool>,
}

/// Circuits, apart from their policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Circuits {
    /// How many are held in memory.
    pub max: u32,
    /// How many of them one tenant may have; none: a quarter.
    pub tenant_max: Option<u32>,
    /// How many bytes those of one tenant may take.
    pub tenant_bytes: u64,
}

impl Default for Circuits {
    fn default() -> Self {
        Self { max: 1_000_000, tenant_max: None, tenant_bytes: 64 << 20 }
    }
}

impl Circuits {
    /// What one tenant may have.
    #[must_use]
    pub fn tenant_limit(&self) -> TenantLimit {
        let circuits = self.tenant_max.unwrap_or(self.max.div_ceil(4));
        TenantLimit {
            circuits: circuits as usize,
            bytes: usize::try_from(self.tenant_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// Permits of the decision API.
#[derive(Clone, PartialEq, Debug)]
pub struct PermitSettings {
    /// How many may be out at once.
    pub max: u32,
    /// How long a call may take if its worker says nothing.
    pub timeout: Duration,
}

impl Default for PermitSettings {
    fn default() -> Self {
        Self { max: 100_000, timeout: Duration::from_secs(60) }
    }
}

/// What is logged.
#[derive(Clone, PartialEq, Debug)]
pub struct Log {
    /// From which level on, by part of the program if need be.
    pub level: String,
    /// How a line is written.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::default() }
    }
}

/// Who may see what is counted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetricsAccess {
    /// `/metrics` needs no key.
    pub public: bool,
}
