//! The gateway's settings: the list of settings, their sources, and the checked result.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Config`] | every setting, checked |
//! | [`Sources`] | one TOML file, the environment, flags: later ones override earlier ones |
//! | [`Loaded`] | a [`Config`], and the source of each value |
//! | [`SETTINGS`] | the list of settings: names, meaning, accepted values |
//! | [`PolicyDefaults`] | the `[policy]` table, which tenants and endpoints override |
//! | [`ConfigErrors`] | all errors, each with the key, the source and what is accepted |
//!
//! This module opens no socket and no database, and does not read the environment: the caller passes the variables.

mod environment;
mod error;
mod file;
mod format;
mod layers;
mod names;
mod notify;
mod policy;
mod policy_help;
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
pub use policy_help::policy_help;
pub use print::{example, reference};
pub use settings::{SETTINGS, Setting};
pub use size::{SizeError, format_size, parse_size};
pub use values::Hidden;

use crate::notifications::NotifierSettings;
pub use crate::telemetry::log::{Log, LogFormat};

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
    /// The address and port of the API. Default: loopback, so that the gateway is opened to the network
    /// on purpose.
    pub listen: SocketAddr,
    /// The folder of the database. Default: below the current folder, so that a first try needs no permissions and
    /// leaves nothing elsewhere; a service names a folder of its own.
    pub data: PathBuf,
    /// How long requests in flight may take after SIGTERM.
    pub grace: Duration,
    /// Settings of deliveries.
    pub delivery: Delivery,
    /// Limits of requests, tenants and disk space.
    pub limits: Limits,
    /// How long data is kept.
    pub retention: RetentionSettings,
    /// Settings of outgoing requests.
    pub egress: Egress,
    /// The keys that seal secrets, and the admin key of the first start.
    pub secrets: Secrets,
    /// Limits of circuits. Their policy is in `policy`.
    pub circuits: Circuits,
    /// Permits of the decision API.
    pub permits: PermitSettings,
    /// Notifications to the operator.
    pub notify: Notify,
    /// The level and format of the log.
    pub log: Log,
    /// Access to the metrics.
    pub metrics: MetricsAccess,
    /// The policy of circuits, unless the tenant or the endpoint overrides it.
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
            retention: RetentionSettings::default(),
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
    /// Returns the file with the master key: the configured one, or the default in the data folder.
    #[must_use]
    pub fn master_key_file(&self) -> PathBuf {
        self.secrets.master_key_file.clone().unwrap_or_else(|| self.data.join("keys").join("master.key"))
    }

    /// Returns how long a delivery with this timeout is leased.
    #[must_use]
    pub fn lease(&self, timeout: Duration) -> Duration {
        timeout + self.delivery.lease_margin
    }
}

/// Settings of deliveries. Endpoints and tenants can override some of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// The timeout of one request, from look-up to the end of the response.
    pub timeout: Duration,
    /// Maximum requests in flight in this process.
    pub slots: u32,
    /// Maximum requests in flight for one endpoint.
    pub max_in_flight: u32,
    /// Time by which the lease of a delivery outlasts its timeout.
    pub lease_margin: Duration,
    /// The delays between attempts.
    pub retry: RetrySchedule,
    /// Whether the throttle sheds calls that an overloaded endpoint can't take.
    pub throttle: bool,
    /// The age at which a waiting delivery expires. `None`: never.
    pub expires_after: Option<Duration>,
    /// How much of a response is stored with the attempt, in bytes.
    pub response_kept: u64,
    /// How much of a response is read at most, in bytes.
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

/// Limits of requests, tenants and disk space.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// The largest payload of an event, in bytes.
    pub payload: u64,
    /// Maximum events in one batch.
    pub batch_events: u32,
    /// The largest body of a batch request, in bytes.
    pub batch_bytes: u64,
    /// Maximum memory for request bodies, over all requests, in bytes.
    pub body_memory: u64,
    /// The time limit for the arrival of a request body.
    pub body_timeout: Duration,
    /// The share of one tenant in each limit that all tenants share, in percent.
    pub tenant_share: u32,
    /// The time limit for the headers of the first request on a new connection.
    pub first_request_timeout: Duration,
    /// The time limit for the arrival of request headers.
    pub header_timeout: Duration,
    /// Maximum connections to the API.
    pub connections: u32,
    /// The share of one client address in the connections, in percent.
    pub address_share: u32,
    /// Maximum requests per minute from one client address without a valid API key.
    pub auth_failures: u32,
    /// The backlog limits of one tenant.
    pub backlog: Backlog,
    /// Maximum endpoints of one tenant.
    pub endpoints: u32,
    /// Free disk space, in bytes, below which no event is accepted.
    pub disk_reserve: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload: 256 << 10,
            batch_events: 1_000,
            batch_bytes: 4 << 20,
            body_memory: 64 << 20,
            body_timeout: Duration::from_secs(30),
            tenant_share: DEFAULT_SHARE,
            first_request_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(30),
            connections: 4_096,
            address_share: DEFAULT_SHARE,
            auth_failures: 30,
            backlog: Backlog::default(),
            endpoints: 10_000,
            disk_reserve: 512 << 20,
        }
    }
}

/// How long data is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct RetentionSettings {
    /// Retention of finished deliveries and their events.
    pub work: Retention,
    /// Retention of circuit history.
    pub history: Duration,
    /// Retention of notifications.
    pub notifications: Duration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        let work = Retention::default();
        Self { work, history: work.failed, notifications: NotifierSettings::default().kept }
    }
}

/// Settings of outgoing requests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Egress {
    /// Networks that may be called although they are not public.
    pub allow: Vec<IpNet>,
    /// Networks that are never called, even if they are public or allowed.
    pub deny: Vec<IpNet>,
    /// The proxy for all outgoing requests. `None`: direct connections.
    pub proxy: Option<Url>,
    /// PEM files with certificate authorities to trust besides the system's.
    pub ca_files: Vec<PathBuf>,
}

impl Egress {
    /// Returns the policy of addresses that may be called.
    #[must_use]
    pub fn addresses(&self) -> AddressPolicy {
        AddressPolicy::allowing(self.allow.clone()).denying(self.deny.clone())
    }
}

/// The keys that seal secrets, and the admin key of the first start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Secrets {
    /// The master key itself. It is accepted only from the environment.
    pub master_key: Option<Hidden>,
    /// The file with the master key. `None`: `keys/master.key` in the data folder.
    pub master_key_file: Option<PathBuf>,
    /// The admin key that the first start stores, chosen by the owner.
    pub initial_admin_key: Option<Hidden>,
    /// The file with the initial admin key.
    pub initial_admin_key_file: Option<PathBuf>,
    /// The file to which the first start writes the admin key that it generates.
    pub admin_key_file: Option<PathBuf>,
    /// Whether the first start prints the generated key. `None`: only to a terminal.
    pub print_admin_key: Option<bool>,
}

/// Limits of circuits.
#[derive(Clone, PartialEq, Debug)]
pub struct Circuits {
    /// Maximum circuits in memory.
    pub max: u32,
    /// Maximum circuits of one tenant. `None`: a quarter of `max`.
    pub tenant_max: Option<u32>,
    /// Maximum memory of one tenant's circuits, in bytes.
    pub tenant_bytes: u64,
}

impl Default for Circuits {
    fn default() -> Self {
        Self { max: 1_000_000, tenant_max: None, tenant_bytes: 64 << 20 }
    }
}

impl Circuits {
    /// Returns the limits of one tenant.
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
    /// Maximum permits that are out at once.
    pub max: u32,
    /// The time limit of a call if its worker states none.
    pub timeout: Duration,
}

impl Default for PermitSettings {
    fn default() -> Self {
        Self { max: 100_000, timeout: Duration::from_secs(60) }
    }
}

/// Access to the metrics.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetricsAccess {
    /// Whether `/metrics` needs no API key.
    pub public: bool,
}
