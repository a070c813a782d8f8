//! The list of all settings. File, environment, flags, the printed configuration, the example file and the table in the
//! documentation are all made from it, so that none of them can lack a key.

use std::time::Duration;

use super::error::Wrong;
use super::format::{
    ADDRESS, Count, Format, LEVEL, LOG_FORMAT, List, MAIL_ADDRESS, MAIL_SERVER, MAILBOX, NETWORK,
    NOTICE_KIND, Or, PATH, PROXY, Raw, Secret, Size, Span, Switch, WEBHOOK, Waits,
};
use super::{Config, names};

/// One setting. Those of the `[policy]` table are the policy file's, and not in this list.
pub struct Setting {
    /// Its key, with its table: `delivery.timeout`.
    pub key: &'static str,
    /// What flag and variable are called, if not like the key.
    pub(super) short: Option<&'static str>,
    /// What it means.
    pub what: &'static str,
    /// Said only by a variable.
    pub secret: bool,
    /// A flag without a value means `true`.
    pub switch: bool,
    pub(super) take: fn(&mut Config, &Raw) -> Result<(), Wrong>,
    pub(super) show: fn(&Config) -> String,
    pub(super) expects: fn() -> String,
}

impl Setting {
    /// Its flag, such as `--delivery-timeout`; a secret has none.
    #[must_use]
    pub fn flag(&self) -> Option<String> {
        (!self.secret).then(|| names::flag(self.short.unwrap_or(self.key)))
    }

    /// Its variable, such as `BREAKERBOX_DELIVERY_TIMEOUT`.
    #[must_use]
    pub fn variable(&self) -> String {
        names::variable(self.short.unwrap_or(self.key))
    }

    /// What it accepts, as the end of "must be ...".
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
    setting!("listen", listen, ADDRESS, "Where the API and the dashboard listen."),
    setting!("data", data, PATH, "The folder of the database. It is made if it is not there."),
    setting!(
        "grace",
        grace,
        millis(0, HOUR),
        "After SIGTERM: how long requests that are under way may still take."
    ),
    setting!(
        "delivery.timeout",
        delivery.timeout,
        millis(10, HOUR),
        "How long one request may take, from the name's look-up to the end of the answer. An endpoint may have its own."
    ),
    setting!(
        "delivery.slots",
        delivery.slots,
        count(1, 100_000),
        "Requests in flight at once, for the whole process. Each needs a file descriptor."
    ),
    setting!(
        "delivery.max_in_flight",
        delivery.max_in_flight,
        count(1, 100_000),
        "Requests in flight at once for one endpoint. An endpoint may have its own."
    ),
    setting!(
        "delivery.lease_margin",
        delivery.lease_margin,
        millis(SECOND, HOUR),
        "A delivery is leased for its time limit and this. After a crash elsewhere, others wait so long."
    ),
    setting!(
        "delivery.retry",
        delivery.retry,
        Waits,
        "The waits between attempts; then a delivery has failed. Tenants and endpoints may have their own."
    ),
    setting!(
        "delivery.throttle",
        delivery.throttle,
        Switch,
        "Shed what an endpoint that answers 429, 503 with Retry-After, 504 or too late can't take, the least important first. It is kept and sent later."
    )
    .switch(),
    setting!(
        "delivery.expires_after",
        delivery.expires_after,
        Or(millis(SECOND, 10 * YEAR), "off"),
        "Work that has waited so long has failed, as expired. Tenants, endpoints and events may have their own."
    ),
    setting!(
        "delivery.response_kept",
        delivery.response_kept,
        bytes(0, MIB),
        "How much of an answer is kept with its attempt."
    ),
    setting!(
        "delivery.response_read",
        delivery.response_read,
        bytes(0, 64 * MIB),
        "How much of an answer is read at most; what is longer ends the connection."
    ),
    setting!("limits.payload", limits.payload, bytes(1, 64 * MIB), "The largest payload of an event."),
    setting!(
        "limits.batch_events",
        limits.batch_events,
        count(1, 100_000),
        "The most events in one batch."
    ),
    setting!("limits.batch_bytes", limits.batch_bytes, bytes(KIB, GIB), "The largest body of a batch."),
    setting!(
        "limits.bodies",
        limits.bodies,
        bytes(MIB, TIB),
        "How many bytes of request bodies the API holds in memory at once; more are answered 503. One tenant gets its share of it (limits.tenant_share). Set it to at least 16 times limits.batch_bytes, so that every tenant's share holds a whole batch."
    ),
    setting!(
        "limits.body_timeout",
        limits.body_timeout,
        millis(SECOND, HOUR),
        "How long the body of a request to the API may take to arrive."
    ),
    setting!(
        "limits.tenant_share",
        limits.tenant_share,
        count(1, 100),
        "The share of one tenant in each limit that all tenants share (limits.bodies, permits.max, test sends), in percent; more is answered 429. A tenant alone may use more, up to what leaves one share free for another. 100: no shares."
    ),
    setting!(
        "limits.first_request_timeout",
        limits.first_request_timeout,
        millis(100, HOUR),
        "How long a new connection to the API may take to send the headers of its first request."
    ),
    setting!(
        "limits.header_timeout",
        limits.header_timeout,
        millis(SECOND, HOUR),
        "How long the headers of a request to the API may take to arrive; also how long an idle connection is kept."
    ),
    setting!(
        "limits.connections",
        limits.connections,
        count(1, 1_000_000),
        "Connections to the API at once. Each needs a file descriptor. When they are used up, the oldest idle connection that never sent a valid API key is closed for a new one."
    ),
    setting!(
        "limits.address_share",
        limits.address_share,
        count(1, 100),
        "The share of one client address (of an IPv6 network of 64 bits) in limits.connections, in percent. An address alone may use more, up to what leaves one share free for another. Set it to 100 behind a reverse proxy: all connections come from its address."
    ),
    setting!(
        "limits.auth_failures",
        limits.auth_failures,
        count(1, 1_000_000),
        "Requests in a minute from one address without a valid API key; more are answered 429."
    ),
    setting!(
        "limits.backlog_count",
        limits.backlog.count,
        Count { least: 1, most: 1_000_000_000_000_u64 },
        "How many deliveries of one tenant may wait; more are answered 429. A tenant may have its own."
    ),
    setting!(
        "limits.backlog_bytes",
        limits.backlog.bytes,
        bytes(KIB, 1024 * TIB),
        "How many bytes of payload of one tenant may wait. A tenant may have its own."
    ),
    setting!(
        "limits.endpoints",
        limits.endpoints,
        count(1, 10_000_000),
        "How many endpoints one tenant may have; more are answered 429."
    ),
    setting!(
        "limits.reserve",
        limits.reserve,
        bytes(0, 1024 * TIB),
        "With less free disk space than this nothing more is accepted, so that what was accepted can still be settled."
    ),
    setting!(
        "retention.finished",
        retention.work.finished,
        millis(SECOND, 10 * YEAR),
        "How long delivered and cancelled work is kept."
    ),
    setting!("retention.failed", retention.work.failed, millis(SECOND, 10 * YEAR), "How long dead letters are kept."),
    setting!(
        "retention.history",
        retention.history,
        millis(SECOND, 10 * YEAR),
        "How long it is kept what happened to circuits."
    ),
    setting!(
        "retention.notices",
        retention.notices,
        millis(SECOND, 10 * YEAR),
        "How long it is kept what people were told."
    ),
    setting!(
        "egress.allow",
        egress.allow,
        List { of: NETWORK, most: 1_000 },
        "Networks that may be called although they are private, loopback or otherwise not public. Whoever creates an endpoint can reach what is allowed here."
    )
    .called("allow"),
    setting!(
        "egress.deny",
        egress.deny,
        List { of: NETWORK, most: 1_000 },
        "Networks that are never called, even if they are public or allowed: public ranges of your own, and your own NAT64 prefix."
    )
    .called("deny"),
    setting!(
        "egress.proxy",
        egress.proxy,
        Or(PROXY, "off"),
        "The HTTP proxy through which all deliveries go."
    ),
    setting!(
        "egress.ca_files",
        egress.ca_files,
        List { of: PATH, most: 1_000 },
        "Files (PEM) with certificate authorities that are trusted besides the system's."
    ),
    setting!(
        "secrets.master_key",
        secrets.master_key,
        Secret,
        "The key that seals signing secrets in the database. Only by this variable: flags and files are read by others."
    )
    .called("master_key")
    .secret(),
    setting!(
        "secrets.master_key_file",
        secrets.master_key_file,
        Or(PATH, "auto"),
        "The file with that key, readable by its owner only. \"auto\" is keys/master.key in the data folder, made at the first start. Keep a copy elsewhere: without it, secrets are lost."
    )
    .called("master_key_file"),
    setting!(
        "secrets.initial_admin_key",
        secrets.initial_admin_key,
        Secret,
        "The admin key of the first start, chosen by you: bbx_ and the base64url of 32 random bytes. Used once, when there is no API key yet; then remove it. Only by this variable."
    )
    .called("initial_admin_key")
    .secret(),
    setting!(
        "secrets.initial_admin_key_file",
        secrets.initial_admin_key_file,
        Or(PATH, "off"),
        "The file with the admin key of the first start, readable by its owner only."
    )
    .called("initial_admin_key_file"),
    setting!(
        "secrets.admin_key_file",
        secrets.admin_key_file,
        Or(PATH, "off"),
        "The file to which the first start writes the admin key that it makes (mode 0600), instead of printing it. Move the key to where it belongs, and delete the file."
    )
    .called("admin_key_file"),
    setting!(
        "secrets.print_admin_key",
        secrets.print_admin_key,
        Or(Switch, "auto"),
        "Whether the first start prints the admin key that it makes. \"auto\": only to a terminal, so that it reaches no log; a key that can't be shown is not made."
    )
    .called("print_admin_key")
    .switch(),
    setting!(
        "circuits.max",
        circuits.max,
        count(1, 100_000_000),
        "How many circuits are held in memory; beyond it, idle closed ones go first."
    ),
    setting!(
        "circuits.tenant_max",
        circuits.tenant_max,
        Or(count(1, 100_000_000), "auto"),
        "How many of them one tenant may have; \"auto\" is a quarter. Beyond it the tenant's own idle circuits go first; if none can go, permits for its new keys are answered 429, and deliveries to its new URLs go without a circuit."
    ),
    setting!(
        "circuits.tenant_bytes",
        circuits.tenant_bytes,
        bytes(MIB, TIB),
        "How many bytes the circuits of one tenant may take, at about 2 KiB each and four times the length of its key."
    ),
    setting!(
        "permits.max",
        permits.max,
        count(1, 10_000_000),
        "Permits of the decision API that may be out at once; more are answered 503. One tenant gets its share of them (limits.tenant_share). Each takes about 1 KiB of memory."
    ),
    setting!(
        "permits.timeout",
        permits.timeout,
        millis(10, HOUR),
        "How long a worker's call may take if it says nothing; then its permit has expired, and counts as a failure."
    ),
    setting!(
        "notify.webhook_url",
        notify.webhook_url,
        Or(WEBHOOK, "off"),
        "Where the operator's notices go as signed requests. The address must be one that may be called."
    ),
    setting!(
        "notify.webhook_secret",
        notify.webhook_secret,
        Secret,
        "What they are signed with: whsec_ and the base64 of 24 to 64 bytes. Only by this variable."
    )
    .secret(),
    setting!(
        "notify.slack_url",
        notify.slack_url,
        Secret,
        "Where the operator's notices go as Slack and its kin take them. Only by this variable: whoever knows the URL can write there."
    )
    .secret(),
    setting!(
        "notify.email",
        notify.email,
        List { of: MAIL_ADDRESS, most: 50 },
        "To whom the operator's notices go as mails."
    ),
    setting!(
        "notify.smtp_url",
        notify.smtp_url,
        Or(MAIL_SERVER, "off"),
        "The server that takes mails: smtp:// with STARTTLS, smtps:// with TLS from the start, smtp+plain:// without. It may be at a private address. With one, tenants can have their notices mailed."
    ),
    setting!(
        "notify.smtp_password",
        notify.smtp_password,
        Secret,
        "The password of the user that notify.smtp_url names. Only by this variable."
    )
    .secret(),
    setting!("notify.smtp_from", notify.smtp_from, Or(MAILBOX, "off"), "Who mails are from."),
    setting!(
        "notify.kinds",
        notify.kinds,
        List { of: NOTICE_KIND, most: 50 },
        "Of what the operator is told. A tenant's targets choose for themselves."
    ),
    setting!(
        "notify.burst",
        notify.burst,
        count(1, 100),
        "How many messages may go to one target at once. What is over the limit waits, and goes out together."
    ),
    setting!(
        "notify.interval",
        notify.interval,
        millis(SECOND, DAY),
        "And then one message to it in each of these."
    ),
    setting!(
        "notify.dead_letters",
        notify.dead_letters,
        Or(Count { least: 1, most: 1_000_000_000_u64 }, "off"),
        "How many deliveries of one tenant that failed within an hour are told of; again at ten times as many."
    ),
    setting!("log.level", log.level, LEVEL, "What is logged, by part of the program if need be."),
    setting!("log.format", log.format, LOG_FORMAT, "How a line of the log is written: \"text\" for people, \"json\" for machines."),
    setting!("metrics.public", metrics.public, Switch, "Whether /metrics can be read without an API key.").switch(),
];
