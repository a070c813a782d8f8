//! The response to a request, or why there was none.

use std::time::Duration;

pub use breakerbox_core::own_outage::Reach;

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

/// The connection that a request used, as far as it got.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Connection {
    /// The request used a connection that was established before, or needed none.
    #[default]
    Existing,
    /// The request ended before its connection was established.
    Missing,
    /// The connection was established for this request.
    Established,
}

impl Reply {
    /// Returns whether the request reached its receiver, which tells whether the fault may be on the gateway's side.
    /// `None` if the reply does not tell: the gateway did not try to connect, or a connection from before was silent,
    /// which may have been cut on either side.
    #[must_use]
    pub const fn reach(self, connection: Connection) -> Option<Reach> {
        match (self, connection) {
            (Self::Answered { .. }, _) => Some(Reach::Reached),
            (Self::Failed(Fault::Dns | Fault::Connect | Fault::Local(LocalFault::Proxy)), _) => {
                Some(Reach::Unreached)
            }
            (Self::Failed(Fault::Denied | Fault::Local(_)), _) => None,
            (Self::Failed(Fault::Timeout), Connection::Missing) => Some(Reach::Unreached),
            (Self::Failed(_), Connection::Established) => Some(Reach::Reached),
            (Self::Failed(_), Connection::Existing | Connection::Missing) => None,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ended_before_a_connection_stood_did_not_reach_its_receiver() {
        use Connection::{Established, Existing, Missing};
        let answered = Reply::Answered { status: 500, retry_after: None };
        for connection in [Existing, Missing, Established] {
            assert_eq!(answered.reach(connection), Some(Reach::Reached));
            for fault in [Fault::Dns, Fault::Connect, Fault::Local(LocalFault::Proxy)] {
                assert_eq!(Reply::Failed(fault).reach(connection), Some(Reach::Unreached), "{fault:?}");
            }
            // A tenant can cause these at any time, also without a network.
            assert_eq!(Reply::Failed(Fault::Denied).reach(connection), None);
            for cause in LocalFault::ALL.into_iter().filter(|cause| *cause != LocalFault::Proxy) {
                assert_eq!(Reply::Failed(Fault::Local(cause)).reach(connection), None, "{cause:?}");
            }
        }
        for (fault, missing) in [
            (Fault::Timeout, Some(Reach::Unreached)),
            (Fault::Tls, None),
            (Fault::Reset, None),
            (Fault::Protocol, None),
        ] {
            assert_eq!(Reply::Failed(fault).reach(Missing), missing, "{fault:?}");
            assert_eq!(Reply::Failed(fault).reach(Existing), None, "{fault:?}");
            assert_eq!(Reply::Failed(fault).reach(Established), Some(Reach::Reached), "{fault:?}");
        }
    }
}
