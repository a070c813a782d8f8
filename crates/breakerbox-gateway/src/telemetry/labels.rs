//! The label values of metrics. Each set is small and known in advance, so that every series exists from the start, and
//! a counter is reached without a look-up.

use breakerbox_core::Status;
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use breakerbox_model::objects::FailReason;

/// A label with a small, fixed set of values.
pub trait Label: Copy + 'static {
    /// The name of the label.
    const NAME: &'static str;
    /// All values.
    const ALL: &'static [Self];

    /// The value as text.
    fn word(self) -> &'static str;

    /// The index in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

macro_rules! labels {
    ($($(#[$doc:meta])* $label:ident $name:literal { $($(#[$word_doc:meta])* $word:ident $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $label {
            $($(#[$word_doc])* $word,)*
        }

        impl Label for $label {
            const NAME: &'static str = $name;
            const ALL: &'static [Self] = &[$(Self::$word),*];

            fn word(self) -> &'static str {
                match self { $(Self::$word => $text,)* }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

labels! {
    /// The reason of refused events.
    EventRefusal "reason" {
        /// The backlog limit of the tenant is reached.
        BacklogFull "backlog_full",
        /// The rate limit of the tenant is exceeded.
        RateLimited "rate_limited",
        /// The disk is nearly full.
        DiskReserve "disk_reserve",
        /// The request or an event is too large.
        TooLarge "too_large",
        /// The request is invalid.
        Invalid "invalid",
        /// The idempotency key was used for another request.
        KeyReused "idempotency_key_reused",
        /// The gateway is overloaded.
        Overloaded "overloaded",
        /// The database fails.
        Unavailable "unavailable",
    }

    /// The effect of an attempt on its delivery.
    Outcome "outcome" {
        /// The receiver accepted it.
        Delivered "delivered",
        /// It is retried later.
        Retried "retried",
        /// Failed: the receiver rejects the payload.
        Rejected "rejected",
        /// Failed: all attempts were used up.
        Exhausted "exhausted",
        /// Failed: the endpoint is gone.
        Gone "gone",
        /// Failed: it waited longer than `expires_after`.
        Expired "expired",
        /// Failed: the stored delivery can't be read.
        Unreadable "unreadable",
        /// Cancelled by a client, or because the endpoint was deleted.
        Cancelled "cancelled",
    }

    /// The result of one request.
    Class "class" {
        /// 100 to 199, or 600 and more.
        Odd "other",
        /// 200 to 299.
        Success "2xx",
        /// 300 to 399.
        Redirect "3xx",
        /// 400 to 499.
        ClientError "4xx",
        /// 500 to 599.
        ServerError "5xx",
        /// The deadline passed.
        Timeout "timeout",
        /// The DNS look-up failed.
        Dns "dns",
        /// The address may not be called.
        Denied "address_denied",
        /// No connection was established.
        Connect "connect",
        /// The TLS handshake failed.
        Tls "tls",
        /// The connection broke.
        Reset "reset",
        /// The response was not valid HTTP.
        Protocol "protocol",
        /// A local fault of the gateway.
        Local "local",
    }

    /// The result of a message with notifications, or of a notification.
    NotificationResult "result" {
        /// The target accepted it.
        Sent "sent",
        /// The target did not accept it; it is retried.
        Failed "failed",
        /// A notification has no attempts left.
        GivenUp "given_up",
    }

    /// The state of a lane.
    LaneState "state" {
        /// Deliveries are waiting or in flight, and no gate refuses.
        Awake "awake",
        /// Deliveries are waiting, and a gate refuses.
        Asleep "asleep",
        /// No delivery is waiting.
        Idle "idle",
    }

    /// The state of a circuit.
    CircuitState "state" {
        /// Calls are admitted.
        Closed "closed",
        /// Calls are refused.
        Open "open",
        /// One call at a time probes.
        HalfOpen "half_open",
        /// Calls are refused until the circuit is enabled.
        Disabled "disabled",
    }

    /// The place where a delivery waits.
    Waiting "lane" {
        /// In a lane that no gate refuses.
        Moving "moving",
        /// In a lane that a gate refuses.
        Parked "parked",
        /// Accepted by a large fan-out, and not in a lane yet.
        FanningOut "fanning_out",
    }

    /// The gate that refused a lane.
    Gate "gate" {
        /// The tenant or the endpoint is disabled.
        Disabled "disabled",
        /// The in-flight limit.
        InFlight "in_flight",
        /// The rate limit.
        Rate "rate",
        /// The throttle.
        Throttle "throttle",
        /// The circuit.
        Circuit "circuit",
    }

    /// The reason of a refused permit.
    PermitRefused "reason" {
        /// The circuit is open.
        Open "open",
        /// Another call is probing.
        Probing "probing",
        /// The circuit has closed, and traffic returns step by step.
        Ramping "ramping",
        /// The circuit is about to open.
        TripPending "trip_pending",
        /// The circuit store does not respond.
        StoreLost "store_lost",
        /// An operator forced the circuit open.
        ForcedOpen "forced_open",
        /// The circuit is disabled.
        Disabled "disabled",
        /// The throttle.
        Shed "shed",
        /// The tenant is disabled.
        TenantDisabled "tenant_disabled",
    }

    /// The result of settling a permit.
    PermitEnd "settled" {
        /// The outcome was counted.
        Counted "counted",
        /// The outcome was not counted.
        Uncounted "uncounted",
        /// The outcome was late.
        Late "late",
        /// The circuit store did not respond.
        Unconfirmed "unconfirmed",
        /// The permit had expired.
        Expired "expired",
        /// The permit was settled before.
        Repeated "repeated",
    }
}

impl Label for LocalFault {
    const NAME: &'static str = "cause";
    const ALL: &'static [Self] = &Self::ALL;

    fn word(self) -> &'static str {
        self.name()
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl From<Reply> for Class {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Answered { status, .. } => match status {
                200..=299 => Self::Success,
                300..=399 => Self::Redirect,
                400..=499 => Self::ClientError,
                500..=599 => Self::ServerError,
                _ => Self::Odd,
            },
            Reply::Failed(fault) => match fault {
                Fault::Timeout => Self::Timeout,
                Fault::Dns => Self::Dns,
                Fault::Denied => Self::Denied,
                Fault::Connect => Self::Connect,
                Fault::Tls => Self::Tls,
                Fault::Reset => Self::Reset,
                Fault::Protocol => Self::Protocol,
                Fault::Local(_) => Self::Local,
            },
        }
    }
}

impl From<Status> for CircuitState {
    fn from(status: Status) -> Self {
        match status {
            Status::Closed => Self::Closed,
            Status::Open => Self::Open,
            Status::HalfOpen => Self::HalfOpen,
            // The core may get more states; none of them would admit calls.
            _ => Self::Disabled,
        }
    }
}

impl From<FailReason> for Outcome {
    fn from(reason: FailReason) -> Self {
        match reason {
            FailReason::Rejected => Self::Rejected,
            FailReason::Exhausted => Self::Exhausted,
            FailReason::Gone => Self::Gone,
            FailReason::Expired => Self::Expired,
            FailReason::Unreadable => Self::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_its_own_word_and_the_same_as_elsewhere() {
        let faults = Fault::ALL.into_iter().chain([Fault::Local(LocalFault::Proxy)]);
        for fault in faults {
            assert_eq!(Class::from(Reply::Failed(fault)).word(), fault.name());
        }
    }

    #[test]
    fn statuses_are_told_apart_by_their_hundreds() {
        for (status, word) in
            [(199, "other"), (200, "2xx"), (302, "3xx"), (499, "4xx"), (500, "5xx"), (600, "other")]
        {
            let reply = Reply::Answered { status, retry_after: None };
            assert_eq!(Class::from(reply).word(), word);
        }
    }
}
