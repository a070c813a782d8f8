//! The response to a request, or why there was none.

use std::time::Duration;

/// The result of a request to a receiver: the relevant parts of the response, or why there was none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The receiver responded.
    Answered {
        /// The response's HTTP status.
        status: u16,
        /// The delay that the receiver asked for with `Retry-After`, if any.
        retry_after: Option<Duration>,
    },
    /// The request had no response.
    Failed(Fault),
}

/// Why a request had no response.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The request exceeded its timeout.
    Timeout,
    /// The host name was not found, or its name servers did not respond.
    Dns,
    /// The gateway's egress rules do not allow the address.
    Denied,
    /// The connection could not be established.
    Connect,
    /// The TLS handshake failed, or the certificate is not trusted.
    Tls,
    /// The connection was lost before the response was complete.
    Reset,
    /// The response was not valid HTTP.
    Protocol,
    /// The gateway or its host could not make the request. The fault says nothing about the receiver.
    Local(LocalFault),
}

/// The resource that the gateway or its host lacked for a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LocalFault {
    /// No file descriptor was free.
    Descriptors,
    /// Memory or socket buffers were exhausted.
    Memory,
    /// No local port was free for an outgoing connection.
    Ports,
    /// No capacity was free for another DNS lookup.
    LookUps,
    /// The egress proxy could not be reached.
    Proxy,
    /// The process was paused or starved of CPU time while the request was in flight.
    Pause,
}

impl LocalFault {
    /// All local faults, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Descriptors, Self::Memory, Self::Ports, Self::LookUps, Self::Proxy, Self::Pause];

    /// Returns the name used in metrics and logs.
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
    /// All faults that count as the receiver's failure: all except [`Local`](Self::Local).
    pub const ALL: [Self; 7] =
        [Self::Timeout, Self::Dns, Self::Denied, Self::Connect, Self::Tls, Self::Reset, Self::Protocol];

    /// Returns the name used in the API, the database and metrics.
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
