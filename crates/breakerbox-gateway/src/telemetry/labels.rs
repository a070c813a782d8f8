//! The label values of metrics. Each set is small and known in advance, so that every series exists from the start, and
//! a counter is reached without a look-up.

use breakerbox_core::Status;
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use breakerbox_model::objects::{FailReason, SettledAs};

use crate::api::Code;
use crate::permits::{Reason, SettleResponse};

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
    /// Why events were not accepted.
    EventRefusal "reason" {
        /// Too much of the tenant's work waits.
        BacklogFull "backlog_full",
        /// The tenant submits too fast.
        RateLimited "rate_limited",
        /// The disk is nearly full.
        DiskReserve "disk_reserve",
        /// The request or an event is too large.
        TooLarge "too_large",
        /// The request says something that won't do.
        Invalid "invalid",
        /// The idempotency key was used for another request.
        KeyReused "idempotency_key_reused",
        /// More is asked than the gateway can do.
        Overloaded "overloaded",
        /// The database fails.
        Unavailable "unavailable",
    }

    /// What became of a delivery.
    Outcome "outcome" {
        /// The receiver has it.
        Delivered "delivered",
        /// It is tried again later.
        Retried "retried",
        /// Failed: the receiver refuses the payload.
        Rejected "rejected",
        /// Failed: all attempts were used up.
        Exhausted "exhausted",
        /// Failed: the endpoint is gone.
        Gone "gone",
        /// Failed: it waited for too long.
        Expired "expired",
        /// Failed: the stored delivery can't be read.
        Unreadable "unreadable",
        /// Its endpoint was deleted, or its owner said so.
        Cancelled "cancelled",
    }

    /// What came of one request.
    Class "class" {
        /// 100 to 199, or 600 and more: no answer that means anything.
        Odd "odd",
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
        /// The name was not found.
        Dns "dns",
        /// The address may not be called.
        Denied "address_denied",
        /// No connection came about.
        Connect "connect",
        /// No trust came about.
        Tls "tls",
        /// The connection broke.
        Reset "reset",
        /// What came was no HTTP.
        Protocol "protocol",
        /// The gateway itself was unable to make it.
        Local "local",
    }

    /// What became of a message with notices, or of a notice.
    NoticeResult "result" {
        /// Its target took it.
        Sent "sent",
        /// Its target did not; it is tried again.
        Failed "failed",
        /// A notice was tried often enough.
        GivenUp "given_up",
    }

    /// Whether anything waits in a lane, and whether a gate refuses it.
    LaneState "state" {
        /// Something waits or is in flight, and no gate refused.
        Awake "awake",
        /// Something waits, and a gate refused.
        Asleep "asleep",
        /// Nothing waits.
        Idle "idle",
    }

    /// The state of a circuit.
    CircuitState "state" {
        /// Calls go through.
        Closed "closed",
        /// Calls are refused.
        Open "open",
        /// One call at a time probes.
        HalfOpen "half_open",
        /// Refused until somebody enables it.
        Disabled "disabled",
    }

    /// Where work waits.
    Waiting "lane" {
        /// In a lane that no gate refuses.
        Moving "moving",
        /// In a lane that a gate refuses.
        Parked "parked",
        /// Accepted, and still to be written to its lane by a large fan-out.
        FanningOut "fanning_out",
    }

    /// Which gate refused a lane.
    Gate "gate" {
        /// Tenant or endpoint are not enabled.
        Disabled "disabled",
        /// As many are in flight as may be.
        InFlight "in_flight",
        /// The rate limit.
        Rate "rate",
        /// The throttle.
        Throttle "throttle",
        /// The circuit.
        Circuit "circuit",
    }

    /// Why a worker got no permit.
    PermitRefused "reason" {
        /// The circuit is open.
        Open "open",
        /// Somebody else is probing.
        Probing "probing",
        /// The circuit has just closed.
        Ramping "ramping",
        /// The circuit is about to open.
        TripPending "trip_pending",
        /// The store of circuits is away.
        StoreLost "store_lost",
        /// An operator forced the circuit open.
        ForcedOpen "forced_open",
        /// The circuit is disabled.
        Disabled "disabled",
        /// The throttle.
        Shed "shed",
        /// The tenant is not enabled.
        TenantDisabled "tenant_disabled",
    }

    /// What came of a worker's report.
    PermitEnd "settled" {
        /// It counted.
        Counted "counted",
        /// It counts nowhere.
        Uncounted "uncounted",
        /// It came too late for its circuit.
        Late "late",
        /// The store did not answer.
        Unconfirmed "unconfirmed",
        /// The permit had expired.
        Expired "expired",
        /// It was settled before.
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

impl From<Reason> for PermitRefused {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Open => Self::Open,
            Reason::Probing => Self::Probing,
            Reason::Ramping => Self::Ramping,
            Reason::TripPending => Self::TripPending,
            Reason::StoreLost => Self::StoreLost,
            Reason::ForcedOpen => Self::ForcedOpen,
            Reason::Disabled => Self::Disabled,
            Reason::Shed => Self::Shed,
            Reason::TenantDisabled => Self::TenantDisabled,
        }
    }
}

impl From<SettleResponse> for PermitEnd {
    fn from(answered: SettleResponse) -> Self {
        match answered.settled {
            _ if answered.repeated => Self::Repeated,
            None => Self::Expired,
            Some(SettledAs::Counted) => Self::Counted,
            Some(SettledAs::Uncounted) => Self::Uncounted,
            Some(SettledAs::Late) => Self::Late,
            Some(SettledAs::Unconfirmed) => Self::Unconfirmed,
        }
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

impl From<Code> for EventRefusal {
    fn from(code: Code) -> Self {
        match code {
            Code::BacklogFull => Self::BacklogFull,
            Code::RateLimited => Self::RateLimited,
            Code::DiskReserve => Self::DiskReserve,
            Code::BodyTooLarge | Code::PayloadTooLarge => Self::TooLarge,
            Code::IdempotencyKeyReused => Self::KeyReused,
            Code::Overloaded => Self::Overloaded,
            Code::Unavailable | Code::Internal => Self::Unavailable,
            _ => Self::Invalid,
        }
    }
}

impl From<Status> for CircuitState {
    fn from(status: Status) -> Self {
        match status {
            Status::Closed => Self::Closed,
            Status::Open => Self::Open,
            Status::HalfOpen => Self::HalfOpen,
            // The core may have more to say one day; none of it would let calls through.
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
            [(199, "odd"), (200, "2xx"), (302, "3xx"), (499, "4xx"), (500, "5xx"), (600, "odd")]
        {
            let reply = Reply::Answered { status, retry_after: None };
            assert_eq!(Class::from(reply).word(), word);
        }
    }
}
