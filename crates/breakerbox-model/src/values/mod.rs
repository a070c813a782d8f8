//! Single values that objects and decisions share: ids, names, times, secrets, limits. [`objects`](crate::objects) exports
//! them.

mod circuit_id;
mod circuit_owner;
mod fail_reason;
mod id;
mod moment;
mod priority;
mod rate_limit;
mod secret;
mod shown_key;
mod tenant_id;

pub use circuit_id::{CircuitId, CircuitIdError};
pub use circuit_owner::{CircuitOwner, Purpose};
pub use fail_reason::FailReason;
pub use id::{
    ApiKeyId, DeliveryId, EndpointId, EventId, Id, IdError, JobId, LaneId, NotificationId, ReminderId,
    TargetId,
};
pub use moment::{Moment, MomentError};
pub use priority::Priority;
pub use rate_limit::{RateLimit, RateLimitError};
pub use secret::{Secret, SecretError, SigningSecret, SigningSecrets};
pub use shown_key::ShownKey;
pub use tenant_id::{DotsOnly, TenantId, TenantIdError, TenantNumber};
