//! The list of all settings. The file format, environment variables, flags, the printed configuration, the example file
//! and the table in the documentation are all generated from it, so that none of them can lack a key.

use std::time::Duration;

use super::error::Wrong;
use super::format::{
    ADDRESS, Count, Format, LEVEL, LOG_FORMAT, List, MAIL_ADDRESS, MAIL_SERVER, MAILBOX, NETWORK,
    NOTIFICATION_KIND, Or, PATH, PROXY, Raw, Secret, Size, Span, Switch, WEBHOOK, Waits,
};
use super::{Config, names};

/// A setting of the gateway: its names, its description and its format. The values in the `[policy]` table have no
/// `Setting`, because policy files define them.
pub struct Setting {
    /// The key with its table, such as `delivery.timeout`.
    pub key: &'static str,
    /// The name for the flag and the variable, if it differs from the key.
    pub(super) short: Option<&'static str>,
    /// The description, for `--help` and the documentation.
    pub what: &'static str,
    /// Whether the setting is a secret, which can be set only in an environment variable.
    pub secret: bool,
    /// Whether the flag may be given without a value, which means `true`.
    pub switch: bool,
    pub(super) take: fn(&mut Config, &Raw) -> Result<(), Wrong>,
    pub(super) show: fn(&Config) -> String,
    pub(super) expects: fn() -> String,
}

impl Setting {
    /// Returns the flag, such as `--delivery-timeout`. `None` for a secret.
    #[must_use]
    pub fn flag(&self) -> Option<String> {
        (!self.secret).then(|| names::flag(self.short.unwrap_or(self.key)))
    }

    /// Returns the environment variable, such as `BREAKERBOX_DELIVERY_TIMEOUT`.
    #[must_use]
    pub fn variable(&self) -> String {
        names::variable(self.short.unwrap_or(self.key))
    }

    /// Returns the default value as TOML.
    #[must_use]
    pub fn default_value(&self) -> String {
        (self.show)(&Config::default())
    }

    /// Returns the accepted values, as a phrase that follows "must be".
    #[must_use]
    pub fn expects(&self) -> String {
        (self.expects)()
    }
}

macro_rules! setting {
    ($key:literal, $($field:ident).+, $format:expr, $what:expr) => {
        Setting {
            key: $key,
            short: None,
            what: $what,
            secret: false,
            switch: false,
            take: |config, raw| {
                config.$($field).+ = $format.read(raw)?;
                Ok(())
            },
            show: |config| $format.write(&config.$($field).+),
            expects: || $format.expects(),
        }
    };
}

impl Setting {
    const fn called(self, short: &'static str) -> Self {
        Self { short: Some(short), ..self }
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    const fn switch(self) -> Self {
        Self { switch: true, ..self }
    }
}

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn millis(least: u64, most: u64) -> Span {
    Span { least: Duration::from_millis(least), most: Duration::from_millis(most) }
}

const fn bytes(least: u64, most: u64) -> Size {
    Size { least, most }
}

const fn count(least: u32, most: u32) -> Count<u32> {
    Count { least, most }
}

/// Every setting, table by table.
pub static SETTINGS: &[Setting] = &[
    setting!("listen", listen, ADDRESS, "The address and port of the API."),
    setting!("data", data, PATH, "The data directory, which holds the database. The gateway creates it if it is missing."),
    setting!(
        "grace",
        grace,
        millis(0, HOUR),
        "The grace period of a graceful shutdown: how long requests in flight have to finish after SIGTERM."
    ),
    setting!(
        "dev",
        dev,
        Switch,
        "Trial mode, for a gateway and receivers on one machine: the gateway may call loopback addresses (127.0.0.0/8 and ::1), the first start prints the admin key even if standard output is not a terminal, and /readyz reports the gateway as degraded. Not for production."
    )
    .switch(),
    setting!(
        "delivery.timeout",
        delivery.timeout,
        millis(10, HOUR),
        "The timeout of one request, from the DNS look-up to the end of the response. Endpoints can override it."
    ),
    setting!(
        "delivery.slots",
        delivery.slots,
        count(1, 100_000),
        "The maximum number of requests in flight in this process. Each needs a file descriptor."
    ),
    setting!(
        "delivery.max_in_flight",
        delivery.max_in_flight,
        count(1, 100_000),
        "The maximum number of requests in flight to one endpoint. Endpoints can override it."
    ),
    setting!(
        "delivery.lease_margin",
        delivery.lease_margin,
        millis(SECOND, HOUR),
        "The lease of a delivery lasts for its timeout plus this margin. After a crash, another process can claim the delivery when the lease has expired."
    ),
    setting!(
        "delivery.retry",
        delivery.retry,
        Waits,
        "The delays between attempts. After the last attempt the delivery fails. Tenants and endpoints can override it."
    ),
    setting!(
        "delivery.throttle",
        delivery.throttle,
        Switch,
        "Whether to throttle overloaded endpoints (responses 429, 503 with Retry-After, 504, and timeouts): the gateway sends as much as the endpoint accepts, higher priorities first, and the rest later."
    )
    .switch(),
    setting!(
        "delivery.expires_after",
        delivery.expires_after,
        Or(millis(SECOND, 10 * YEAR), "off"),
        "The maximum time that a delivery waits before it fails as expired. Tenants, endpoints and events can override it."
    ),
    setting!(
        "delivery.response_kept",
        delivery.response_kept,
        bytes(0, MIB),
        "The maximum number of bytes of a response to store with the attempt."
    ),
    setting!(
        "delivery.response_read",
        delivery.response_read,
        bytes(0, 64 * MIB),
        "The maximum number of bytes of a response to read. If the response is longer, the connection is closed."
    ),
    setting!("limits.payload", limits.payload, bytes(1, 64 * MIB), "The maximum payload size of an event."),
    setting!(
        "limits.batch_events",
        limits.batch_events,
        count(1, 100_000),
        "The maximum number of events in one batch."
    ),
    setting!("limits.batch_bytes", limits.batch_bytes, bytes(KIB, GIB), "The maximum body size of a batch request."),
    setting!(
        "limits.body_memory",
        limits.body_memory,
        bytes(MIB, TIB),
        "The maximum number of bytes of request bodies that the API holds in memory; beyond it, the API responds with 503. One tenant may use its share (limits.tenant_share). Set it to at least 16 times limits.batch_bytes, so that each tenant's share holds a whole batch."
    ),
    setting!(
        "limits.body_timeout",
        limits.body_timeout,
        millis(SECOND, HOUR),
        "The timeout for receiving the body of an API request."
    ),
    setting!(
        "limits.tenant_share",
        limits.tenant_share,
        count(1, 100),
        "The share of one tenant in each limit that all tenants share (limits.body_memory, permits.max, test requests), in percent; beyond it, the API responds with 429. While no other tenant uses the limit, a tenant may use more, as long as one share stays free. With 100, one tenant may use everything."
    ),
    setting!(
        "limits.first_request_timeout",
        limits.first_request_timeout,
        millis(100, HOUR),
        "The timeout for receiving the headers of the first request on a new API connection."
    ),
    setting!(
        "limits.header_timeout",
        limits.header_timeout,
        millis(SECOND, HOUR),
        "The timeout for receiving the headers of an API request. Idle connections are closed after the same time."
    ),
    setting!(
        "limits.connections",
        limits.connections,
        count(1, 1_000_000),
        "The maximum number of API connections. Each needs a file descriptor. At the maximum, a new connection replaces the oldest idle connection that never sent a valid API key."
    ),
    setting!(
        "limits.address_share",
        limits.address_share,
        count(1, 100),
        "The share of one client address (for IPv6, of one /64 network) in limits.connections, in percent. While no other address is connected, an address may use more, as long as one share stays free. Set it to 100 behind a reverse proxy, because all connections come from the proxy's address."
    ),
    setting!(
        "limits.auth_failures",
        limits.auth_failures,
        count(1, 1_000_000),
        "The maximum number of requests without a valid API key from one address in a minute; beyond it, the API responds with 429."
    ),
    setting!(
        "limits.backlog_count",
        limits.backlog.count,
        Count { least: 1, most: 1_000_000_000_000_u64 },
        "The maximum number of waiting deliveries of one tenant; beyond it, the API responds with 429. Tenants can override it."
    ),
    setting!(
        "limits.backlog_bytes",
        limits.backlog.bytes,
        bytes(KIB, 1024 * TIB),
        "The maximum number of bytes of waiting payloads of one tenant; beyond it, the API responds with 429. Tenants can override it."
    ),
    setting!(
        "limits.endpoints",
        limits.endpoints,
        count(1, 10_000_000),
        "The maximum number of endpoints of one tenant; beyond it, the API responds with 429."
    ),
    setting!(
        "limits.disk_reserve",
        limits.disk_reserve,
        bytes(0, 1024 * TIB),
        "The free disk space that is kept in reserve, so that accepted deliveries can always be settled. With less free space, the API accepts nothing and responds with 507."
    ),
    setting!(
        "retention.finished",
        retention.work.finished,
        millis(SECOND, 10 * YEAR),
        "How long delivered and cancelled deliveries are kept."
    ),
    setting!("retention.failed", retention.work.failed, millis(SECOND, 10 * YEAR), "How long dead letters are kept."),
    setting!(
        "retention.history",
        retention.history,
        millis(SECOND, 10 * YEAR),
        "How long circuit history is kept."
    ),
    setting!(
        "retention.notifications",
        retention.notifications,
        millis(SECOND, 10 * YEAR),
        "How long notifications are kept."
    ),
    setting!(
        "egress.allow",
        egress.allow,
        List { of: NETWORK, most: 1_000 },
        "Networks that the gateway may call although they are private, loopback or otherwise not public. Every client that can create an endpoint can reach them."
    )
    .called("allow"),
    setting!(
        "egress.deny",
        egress.deny,
        List { of: NETWORK, most: 1_000 },
        "Networks that the gateway never calls, even if they are public or allowed: for example your own public ranges, and your own NAT64 prefix."
    )
    .called("deny"),
    setting!(
        "egress.proxy",
        egress.proxy,
        Or(PROXY, "off"),
        "The HTTP proxy for all deliveries."
    ),
    setting!(
        "egress.ca_files",
        egress.ca_files,
        List { of: PATH, most: 1_000 },
        "PEM files with certificate authorities to trust in addition to the system's."
    ),
    setting!(
        "secrets.master_key",
        secrets.master_key,
        Secret,
        "The master key, which encrypts signing secrets in the database. Only this variable sets it, because others can read flags and files."
    )
    .called("master_key")
    .secret(),
    setting!(
        "secrets.master_key_file",
        secrets.master_key_file,
        Or(PATH, "auto"),
        "The file with the master key, readable by its owner only. \"auto\" is keys/master.key in the data directory, created at the first start. Keep a copy elsewhere: without the key, secrets are lost."
    )
    .called("master_key_file"),
    setting!(
        "secrets.initial_admin_key",
        secrets.initial_admin_key,
        Secret,
        "The admin key that the first start creates: bbx_ and the base64url of 32 random bytes. It is used only while no API key exists; remove it afterwards. Only this variable sets it."
    )
    .called("initial_admin_key")
    .secret(),
    setting!(
        "secrets.initial_admin_key_file",
        secrets.initial_admin_key_file,
        Or(PATH, "off"),
        "A file with the admin key that the first start creates, readable by its owner only."
    )
    .called("initial_admin_key_file"),
    setting!(
        "secrets.admin_key_file",
        secrets.admin_key_file,
        Or(PATH, "off"),
        "The file to which the first start writes a generated admin key (mode 0600), instead of printing it. Store the key safely, and delete the file."
    )
    .called("admin_key_file"),
    setting!(
        "secrets.print_admin_key",
        secrets.print_admin_key,
        Or(Switch, "auto"),
        "Whether the first start prints a generated admin key. \"auto\" prints it only to a terminal, which keeps the key out of logs. A key that can't be shown is not generated."
    )
    .called("print_admin_key")
    .switch(),
    setting!(
        "circuits.max",
        circuits.max,
        count(1, 100_000_000),
        "The maximum number of circuits in memory. Beyond it, idle closed circuits are evicted."
    ),
    setting!(
        "circuits.tenant_max",
        circuits.tenant_max,
        Or(count(1, 100_000_000), "auto"),
        "The maximum number of circuits of one tenant; \"auto\" is a quarter of circuits.max. Beyond it, the tenant's own idle circuits are evicted. If none can be evicted, the API responds with 429 to permit requests for new keys, and deliveries to new URLs use no circuit."
    ),
    setting!(
        "circuits.tenant_bytes",
        circuits.tenant_bytes,
        bytes(MIB, TIB),
        "The maximum memory for the circuits of one tenant. A circuit takes about 2 KiB and four times the length of its key."
    ),
    setting!(
        "permits.max",
        permits.max,
        count(1, 10_000_000),
        "The maximum number of unsettled permits of the decision API; beyond it, the API responds with 503. One tenant may use its share (limits.tenant_share). A permit takes about 1 KiB of memory."
    ),
    setting!(
        "permits.timeout",
        permits.timeout,
        millis(10, HOUR),
        "The default time until a permit of the decision API expires. An expired permit counts as a failure. An acquire request can override it."
    ),
    setting!(
        "notify.webhook_url",
        notify.webhook_url,
        Or(WEBHOOK, "off"),
        "The URL of the webhook for operator notifications. Requests are signed. The address policy (egress.allow) must allow the URL."
    ),
    setting!(
        "notify.webhook_secret",
        notify.webhook_secret,
        Secret,
        "The secret that signs requests to notify.webhook_url: whsec_ and the base64 of 24 to 64 bytes. Only this variable sets it."
    )
    .secret(),
    setting!(
        "notify.slack_url",
        notify.slack_url,
        Secret,
        "The URL for operator notifications in Slack's format. Only this variable sets it, because the URL is a credential."
    )
    .secret(),
    setting!(
        "notify.email",
        notify.email,
        List { of: MAIL_ADDRESS, most: 50 },
        "The e-mail addresses for operator notifications."
    ),
    setting!(
        "notify.smtp_url",
        notify.smtp_url,
        Or(MAIL_SERVER, "off"),
        "The mail server: smtp:// requires STARTTLS, smtps:// uses TLS from the start, smtp+plain:// uses no TLS. It may have a private address. With a mail server, tenants can have e-mail targets."
    ),
    setting!(
        "notify.smtp_password",
        notify.smtp_password,
        Secret,
        "The password of the user in notify.smtp_url. Only this variable sets it."
    )
    .secret(),
    setting!("notify.smtp_from", notify.smtp_from, Or(MAILBOX, "off"), "The sender of e-mails."),
    setting!(
        "notify.kinds",
        notify.kinds,
        List { of: NOTIFICATION_KIND, most: 50 },
        "Notification types sent to the operator. Each target of a tenant has its own list."
    ),
    setting!(
        "notify.after",
        notify.after,
        millis(0, DAY),
        "How long a circuit must not have been closed before its trip is notified. A circuit that closes earlier causes neither a trip nor a recovery. \"0s\" notifies every trip at once, even if an outage on the gateway's side caused it."
    ),
    setting!(
        "notify.burst",
        notify.burst,
        count(1, 100),
        "The maximum burst of messages to one target. Notifications beyond the limit wait, and are sent together as a digest."
    ),
    setting!(
        "notify.interval",
        notify.interval,
        millis(SECOND, DAY),
        "The interval between messages to one target after a burst."
    ),
    setting!(
        "notify.dead_letters",
        notify.dead_letters,
        Or(Count { least: 1, most: 1_000_000_000_u64 }, "off"),
        "The number of dead letters of one tenant within an hour that causes a notification. Each tenfold number causes another one."
    ),
    setting!("log.level", log.level, LEVEL, "The log level, for the whole program or for each module."),
    setting!("log.format", log.format, LOG_FORMAT, "The format of log lines: \"text\" to read, \"json\" to parse."),
    setting!("metrics.public", metrics.public, Switch, "Whether /metrics is readable without an API key.").switch(),
];
