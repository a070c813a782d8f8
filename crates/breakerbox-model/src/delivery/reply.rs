//! What came back for a request, or why nothing did.

use std::time::Duration;

/// What came back, as far as a decision needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The receiver answered.
    Answered {
        /// With this status.
        status: u16,
        /// And said when to come back.
        retry_after: Option<Duration>,
    },
    /// It did not.
    Failed(Fault),
}

/// Why there was no answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The deadline passed.
    Timeout,
    /// The name was not found, or its servers did not answer.
    Dns,
    /// Its address is not one that may be called.
    Denied,
    /// No connection came about.
    Connect,
    /// No trust came about.
    Tls,
    /// The connection broke.
    Reset,
    /// What came was no HTTP.
    Protocol,
    /// The gateway itself was unable to make the request. It says nothing about the receiver.
    Local(LocalFault),
}

/// What the gateway or its host lacked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LocalFault {
    /// A file descriptor.
    Descriptors,
    /// Memory or socket buffers.
    Memory,
    /// A local port for another connection.
    Ports,
    /// A free DNS look-up.
    LookUps,
    /// The proxy: it can't be reached.
    Proxy,
    /// CPU time: the process was paused or starved while the request was under way.
    Pause,
}

impl LocalFault {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Descriptors, Self::Memory, Self::Ports, Self::LookUps, Self::Proxy, Self::Pause];

    /// Its name, in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::Memory => "memory",
            Self::Ports => "ports",
            Self::LookUps => "look_ups",
            Self::Proxy => "proxy",
            Self::Pause => "pause",
        }
    }
}

impl Fault {
    /// All that count as a failure of the receiver: all but [`Local`](Self::Local).
    pub const ALL: [Self; 7] =
        [Self::Timeout, Self::Dns, Self::Denied, Self::Connect, Self::Tls, Self::Reset, Self::Protocol];

    /// Its name, in the API, the database and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Denied => "address_denied",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::Protocol => "protocol",
            Self::Local(_) => "local",
        }
    }
}
