//! The label values of metrics. Each set is small and fixed, so that every series exists from startup, and a counter is
//! found without a look-up.

use breakerbox_core::CircuitStatus;
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use breakerbox_model::objects::FailReason;

/// A label with a small, fixed set of values.
pub trait Label: Copy + 'static {
    /// The label's name in metrics.
    const NAME: &'static str;
    /// All values of the label.
    const ALL: &'static [Self];

    /// Returns the value as a string.
    fn word(self) -> &'static str;

    /// Returns the position of the value in [`ALL`](Self::ALL).
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
    /// The reason why an event was refused.
    EventRefusal "reason" {
        /// The tenant reached its backlog limit.
        BacklogFull "backlog_full",
        /// The tenant exceeded its rate limit.
        RateLimited "rate_limited",
        /// The disk is nearly full.
        DiskReserve "disk_reserve",
        /// The request or an event is too large.
        TooLarge "too_large",
        /// The request is invalid.
        Invalid "invalid",
        /// The idempotency key was already used for another request.
        KeyReused "idempotency_key_reused",
        /// The gateway is overloaded.
        Overloaded "overloaded",
        /// The database does not accept writes.
        Unavailable "unavailable",
    }

    /// The effect of an attempt on its delivery.
    Outcome "outcome" {
        /// The receiver accepted the delivery.
        Delivered "delivered",
        /// The delivery will be retried.
        Retried "retried",
        /// The delivery failed, because the receiver rejects the payload.
        Rejected "rejected",
        /// The delivery failed, because no attempts are left.
        Exhausted "exhausted",
        /// The delivery failed, because the receiver responded that the endpoint is gone.
        Gone "gone",
        /// The delivery failed, because it waited longer than `expires_after`.
        Expired "expired",
        /// The delivery failed, because the stored delivery can't be read.
        Unreadable "unreadable",
        /// The delivery was cancelled by a client, or because the endpoint was deleted.
        Cancelled "cancelled",
    }

    /// The result of one HTTP request.
    Class "class" {
        /// A status from 100 to 199, or 600 and above.
        Odd "other",
        /// A status from 200 to 299.
        Success "2xx",
        /// A status from 300 to 399.
        Redirect "3xx",
        /// A status from 400 to 499.
        ClientError "4xx",
        /// A status from 500 to 599.
        ServerError "5xx",
        /// The request timed out.
        Timeout "timeout",
        /// The DNS look-up failed.
        Dns "dns",
        /// The address policy denied the address.
        Denied "address_denied",
        /// No connection was established.
        Connect "connect",
        /// The TLS handshake failed.
        Tls "tls",
        /// The connection broke.
        Reset "reset",
        /// The response was not valid HTTP.
        Protocol "protocol",
        /// A local fault kept the gateway from making the request.
        Local "local",
    }

    /// The result of sending a notification message.
    NotificationResult "result" {
        /// The target accepted the message.
        Sent "sent",
        /// The target did not accept the message, which is retried.
        Failed "failed",
        /// The notification has no attempts left.
        GivenUp "given_up",
    }

    /// The state of a lane.
    LaneState "state" {
        /// Deliveries are waiting or in flight, and no gate refuses the lane.
        Awake "awake",
        /// Deliveries are waiting, and a gate refuses the lane.
        Asleep "asleep",
        /// The lane has no waiting deliveries.
        Idle "idle",
    }

    /// The state of a circuit.
    CircuitState "state" {
        /// Calls are admitted.
        Closed "closed",
        /// Calls are refused.
        Open "open",
        /// One call at a time is admitted as a probe.
        HalfOpen "half_open",
        /// Calls are refused until the circuit is enabled.
        Disabled "disabled",
    }

    /// The place where a delivery waits.
    Waiting "lane" {
        /// The delivery waits in a lane that no gate refuses.
        Moving "moving",
        /// The delivery waits in a lane that a gate refuses, for example an open circuit.
        Parked "parked",
        /// The delivery belongs to a large fan-out, and is not in a lane yet.
        FanningOut "fanning_out",
    }

    /// The gate that refused a lane.
    Gate "gate" {
        /// The tenant or the endpoint is disabled.
        Disabled "disabled",
        /// The in-flight limit is reached.
        InFlight "in_flight",
        /// The rate limit is exceeded.
        Rate "rate",
        /// The throttle sheds calls.
        Throttle "throttle",
        /// The circuit refuses calls.
        Circuit "circuit",
    }

    /// The reason why a permit was refused.
    PermitRefused "reason" {
        /// The circuit is open.
        Open "open",
        /// Another call is already probing the circuit.
        Probing "probing",
        /// The circuit has just closed, and traffic returns gradually.
        Ramping "ramping",
        /// The circuit is about to open.
        TripPending "trip_pending",
        /// The circuit store does not respond.
        StoreLost "store_lost",
        /// An operator forced the circuit open.
        ForcedOpen "forced_open",
        /// The circuit is disabled.
        Disabled "disabled",
        /// The throttle shed the call.
        Shed "shed",
        /// The tenant is disabled.
        TenantDisabled "tenant_disabled",
    }

    /// The result of settling a permit.
    PermitEnd "settled" {
        /// The circuit counted the outcome.
        Counted "counted",
        /// The circuit did not count the outcome, because it is ignored or an override is active.
        Uncounted "uncounted",
        /// The outcome arrived too late for the circuit to count it.
        Late "late",
        /// The circuit store did not respond, so it is unknown whether the outcome was counted.
        Unconfirmed "unconfirmed",
        /// The permit had expired before it was settled.
        Expired "expired",
        /// The permit had already been settled.
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

impl From<CircuitStatus> for CircuitState {
    fn from(status: CircuitStatus) -> Self {
        match status {
            CircuitStatus::Closed => Self::Closed,
            CircuitStatus::Open => Self::Open,
            CircuitStatus::HalfOpen => Self::HalfOpen,
            // The core may add states; none of them would admit calls.
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
