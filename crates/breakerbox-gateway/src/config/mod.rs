//! The gateway's settings: their list, their sources, and the validated result.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Config`] | every setting, validated |
//! | [`Sources`] | a TOML file, the environment and flags; later ones override earlier ones |
//! | [`Loaded`] | a [`Config`], and the source of each value |
//! | [`SETTINGS`] | the list of settings: names, descriptions, accepted values |
//! | [`PolicyDefaults`] | the `[policy]` table, which tenants and endpoints override |
//! | [`ConfigErrors`] | all errors, each with the key, the source and what is accepted |
//!
//! This module does not open sockets or databases, and does not read the environment: the caller passes the variables.

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

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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
pub use policy_help::{policy_form, policy_help};
pub use print::{example, reference};
pub use settings::{SETTINGS, Setting};
pub use size::{SizeError, format_size, parse_size};
pub use values::Hidden;

use crate::notifications::NotifierSettings;
pub use crate::telemetry::log::{Log, LogFormat};

/// Every setting of the gateway, validated.
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
    /// The address and port of the API. The default is on loopback, so that the gateway is not exposed to the network
    /// by accident.
    pub listen: SocketAddr,
    /// The directory of the database. The default is a subdirectory of the current directory, for trials without
    /// special permissions. A service should use a directory of its own.
    pub data: PathBuf,
    /// The grace period for requests in flight after SIGTERM.
    pub grace: Duration,
    /// Whether the gateway runs for a trial: it may call loopback addresses, prints the admin key, and says so.
    pub dev: bool,
    /// Settings for deliveries, such as timeouts, retries and limits.
    pub delivery: Delivery,
    /// Limits for requests, tenants and disk space.
    pub limits: Limits,
    /// How long finished deliveries, circuit history and notifications are kept.
    pub retention: RetentionSettings,
    /// Settings for outgoing requests.
    pub egress: Egress,
    /// The master key, and the initial admin key.
    pub secrets: Secrets,
    /// Circuit limits. The circuits' policy is in `policy`.
    pub circuits: Circuits,
    /// Settings for permits in the decision API.
    pub permits: PermitSettings,
    /// Notifications to the operator.
    pub notify: Notify,
    /// The level and format of the log.
    pub log: Log,
    /// Whether reading `/metrics` needs an API key.
    pub metrics: MetricsAccess,
    /// The default circuit policy, which tenants and endpoints can override.
    pub policy: PolicyDefaults,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data: "breakerbox-data".into(),
            grace: Duration::from_secs(30),
            dev: false,
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
    /// Returns the path of the master key file: the configured one, or the default in the data directory.
    #[must_use]
    pub fn master_key_file(&self) -> PathBuf {
        self.secrets.master_key_file.clone().unwrap_or_else(|| self.data.join("keys").join("master.key"))
    }

    /// Allows loopback addresses, as a trial needs them.
    pub(crate) fn allow_loopback(&mut self) {
        const LOOPBACK: [IpNet; 2] = [
            IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
            IpNet::new_assert(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
        ];
        for network in LOOPBACK {
            if !self.egress.allow.contains(&network) {
                self.egress.allow.push(network);
            }
        }
    }

    /// Returns how long the lease of a delivery with this request timeout lasts.
    #[must_use]
    pub fn lease(&self, timeout: Duration) -> Duration {
        timeout + self.delivery.lease_margin
    }
}

/// Delivery settings. Endpoints and tenants can override some of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// The timeout of one request, from DNS look-up to the end of the response.
    pub timeout: Duration,
    /// The maximum number of requests in flight in this process.
    pub slots: u32,
    /// The maximum number of requests in flight to one endpoint.
    pub max_in_flight: u32,
    /// How much longer a delivery's lease lasts than its request timeout.
    pub lease_margin: Duration,
    /// The delays between the attempts of a delivery.
    pub retry: RetrySchedule,
    /// Whether the throttle sheds calls that an overloaded endpoint can't handle.
    pub throttle: bool,
    /// How long a delivery may wait before it expires. `None` means that it never expires.
    pub expires_after: Option<Duration>,
    /// The maximum size of a response that is stored with the attempt, in bytes.
    pub response_kept: u64,
    /// The maximum size of a response that is read, in bytes.
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

/// Limits for requests, tenants and disk space.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// The maximum size of an event's payload, in bytes.
    pub payload: u64,
    /// The maximum number of events in one batch.
    pub batch_events: u32,
    /// The maximum size of a batch request's body, in bytes.
    pub batch_bytes: u64,
    /// The maximum memory for the bodies of all requests, in bytes.
    pub body_memory: u64,
    /// The timeout for receiving a request body.
    pub body_timeout: Duration,
    /// The percentage of each shared limit, such as `body_memory`, that one tenant may use.
    pub tenant_share: u32,
    /// The timeout for receiving the headers of the first request on a new connection.
    pub first_request_timeout: Duration,
    /// The timeout for receiving request headers.
    pub header_timeout: Duration,
    /// The maximum number of connections to the API.
    pub connections: u32,
    /// The share of the connections that one client address may have, in percent.
    pub address_share: u32,
    /// The maximum number of requests with an invalid API key per minute and client address. Requests without a key do
    /// not count.
    pub auth_failures: u32,
    /// The backlog limits for each tenant.
    pub backlog: Backlog,
    /// The maximum number of endpoints per tenant.
    pub endpoints: u32,
    /// The free disk space below which no event is accepted, in bytes.
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

/// How long finished deliveries, circuit history and notifications are kept.
#[derive(Clone, PartialEq, Debug)]
pub struct RetentionSettings {
    /// How long finished deliveries and their events are kept.
    pub work: Retention,
    /// How long circuit history is kept.
    pub history: Duration,
    /// How long notifications are kept.
    pub notifications: Duration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        let work = Retention::default();
        Self { work, history: work.failed, notifications: NotifierSettings::default().kept }
    }
}

/// Settings for outgoing requests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Egress {
    /// Networks that may be called although they are not public.
    pub allow: Vec<IpNet>,
    /// Networks that are never called, even if they are public or allowed.
    pub deny: Vec<IpNet>,
    /// The proxy for all outgoing requests. `None` means direct connections.
    pub proxy: Option<Url>,
    /// PEM files with certificate authorities to trust in addition to the system's.
    pub ca_files: Vec<PathBuf>,
}

impl Egress {
    /// Returns the policy that decides which addresses may be called.
    #[must_use]
    pub fn addresses(&self) -> AddressPolicy {
        AddressPolicy::allowing(self.allow.clone()).denying(self.deny.clone())
    }
}

/// The master key, which encrypts stored secrets, and the initial admin key.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Secrets {
    /// The master key itself. It can be set only in the environment.
    pub master_key: Option<Hidden>,
    /// The path of the master key file. `None` means `keys/master.key` in the data directory.
    pub master_key_file: Option<PathBuf>,
    /// The admin key to create at the first start, chosen by the operator.
    pub initial_admin_key: Option<Hidden>,
    /// The file that contains the initial admin key.
    pub initial_admin_key_file: Option<PathBuf>,
    /// The file to which the first start writes the admin key that it generates.
    pub admin_key_file: Option<PathBuf>,
    /// Whether the first start prints the generated admin key. `None` means only to a terminal.
    pub print_admin_key: Option<bool>,
}

/// Limits on the number of circuits and their memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Circuits {
    /// The maximum number of circuits in memory.
    pub max: u32,
    /// The maximum number of circuits per tenant. `None` means a quarter of `max`.
    pub tenant_max: Option<u32>,
    /// The maximum memory for each tenant's circuits, in bytes.
    pub tenant_bytes: u64,
}

impl Default for Circuits {
    fn default() -> Self {
        Self { max: 1_000_000, tenant_max: None, tenant_bytes: 64 << 20 }
    }
}

impl Circuits {
    /// Returns the limits for each tenant.
    #[must_use]
    pub fn tenant_limit(&self) -> TenantLimit {
        let circuits = self.tenant_max.unwrap_or(self.max.div_ceil(4));
        TenantLimit {
            circuits: circuits as usize,
            bytes: usize::try_from(self.tenant_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// Settings for permits in the decision API.
#[derive(Clone, PartialEq, Debug)]
pub struct PermitSettings {
    /// The maximum number of unsettled permits.
    pub max: u32,
    /// The default timeout for a worker's call.
    pub timeout: Duration,
}

impl Default for PermitSettings {
    fn default() -> Self {
        Self { max: 100_000, timeout: Duration::from_secs(60) }
    }
}

/// Decides whether reading `/metrics` needs an API key. By default, it does.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetricsAccess {
    /// Whether `/metrics` may be read without an API key.
    pub public: bool,
}
