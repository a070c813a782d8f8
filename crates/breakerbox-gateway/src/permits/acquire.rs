//! Gives out permits. Of a delivery's gates, those apply that make sense for a call that a worker makes itself: tenant
//! enabled, throttle by priority, circuit. A probe skips the throttle.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::{KeyError, OwnedPermit, Refusal};
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{PermitId, PermitTerm, Priority};
use breakerbox_model::shares::NoShare;
use breakerbox_storage::TenantEntry;

use super::table::Held;
use super::token::Token;
use super::{LONGEST_PERMIT, Permits};
use crate::telemetry::labels::PermitRefused;

/// The retry delay to return with a refusal whose end is unknown.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A worker's request for a permit to make a call.
pub struct AcquireRequest {
    /// The tenant that the circuit belongs to.
    pub tenant: Arc<TenantEntry>,
    /// The key of the circuit to acquire from.
    pub key: Arc<str>,
    /// The priority of the call. Level 0 is the most important.
    pub priority: Priority,
    /// The timeout of the call, at most an hour. The permit expires after this time, or at the probe's deadline if the
    /// permit is for a probe and the deadline is earlier.
    pub timeout: Duration,
}

/// The result of acquiring a permit.
#[derive(Clone, PartialEq, Debug)]
pub enum Acquired {
    /// The worker may make the call, and must report its outcome.
    Permit(GrantedPermit),
    /// The worker must not make the call.
    Refused(PermitRefusal),
}

/// A permit given to a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct GrantedPermit {
    /// The sealed token that the worker sends back to settle the permit.
    pub token: String,
    /// Whether the call probes a half-open circuit.
    pub is_probe: bool,
    /// The time at which the permit expires.
    pub expires_at: Timestamp,
    /// The time left until `expires_at`.
    pub time_left: Duration,
}

/// A refusal to give a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermitRefusal {
    /// Why the permit was refused: the gate, or the state of the circuit.
    pub reason: Reason,
    /// The time to wait before the next acquire. `None` if waiting does not help, because an operator has to change
    /// something.
    pub retry_in: Option<Duration>,
    /// The time at which to acquire again, which is `retry_in` from now. `None` if `retry_in` is `None`.
    pub retry_at: Option<Timestamp>,
}

/// The reason for a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The circuit is open.
    Open,
    /// Another call is already probing the circuit.
    Probing,
    /// The circuit has just closed, and the ramp currently admits no further concurrent call.
    Ramping,
    /// The counts meet a trip rule, and the decision to open the circuit is pending.
    TripPending,
    /// The circuit store is unavailable, and no call is admitted until it recovers.
    StoreLost,
    /// An operator forced the circuit open.
    ForcedOpen,
    /// The circuit is disabled.
    Disabled,
    /// The destination can't handle all calls, and more important ones go first.
    Shed,
    /// The tenant is disabled.
    TenantDisabled,
}

/// The reason why an acquire could not be decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The maximum number of unsettled permits is reached.
    #[error("the maximum number of unsettled permits is reached; settle some, or raise permits.max")]
    NoRoom,
    /// The tenant has its maximum number of circuits, and none can be evicted.
    #[error(
        "the tenant has reached its circuit limit, and all of its circuits are in use; use fewer keys, or raise \
         circuits.tenant_max and circuits.tenant_bytes"
    )]
    CircuitsFull,
    /// The tenant has used its share of unsettled permits; the rest is reserved for other tenants.
    #[error("the tenant uses its whole share of unsettled permits; settle some, or raise permits.max")]
    ShareUsed,
    /// The key is not valid as a circuit key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl From<NoShare> for AcquireError {
    fn from(why: NoShare) -> Self {
        match why {
            NoShare::OwnerOver => Self::ShareUsed,
            NoShare::AllUsed => Self::NoRoom,
        }
    }
}

impl Permits {
    /// Acquires a permit, if all gates admit the call.
    ///
    /// # Errors
    /// Returns an error if the gates could not decide. A refusal is not an error.
    pub async fn acquire(&self, wanted: AcquireRequest) -> Result<Acquired, AcquireError> {
        let answer = self.try_acquire(&wanted).await?;
        match &answer {
            Acquired::Permit(_) => _ = self.metrics.permits_given.inc(),
            Acquired::Refused(refused) => _ = self.metrics.permits_refused.of(refused.reason).inc(),
        }
        self.update_gauge();
        Ok(answer)
    }

    async fn try_acquire(&self, wanted: &AcquireRequest) -> Result<Acquired, AcquireError> {
        if !wanted.tenant.enabled {
            return Ok(refused(Reason::TenantDisabled, None, self.now()));
        }
        let slot = self.table.slot(&wanted.tenant.id)?;
        let circuit = self.breakers.circuit(&wanted.key)?;
        if !circuit.is_controlled() && self.breakers.tenant_is_full(&wanted.key) {
            return Err(AcquireError::CircuitsFull);
        }
        let permit = match circuit.acquire_owned_within(Duration::ZERO).await {
            Ok(permit) => permit,
            Err(refusal) => return Ok(refused_by(&refusal, self.now())),
        };
        let mut throttle = None;
        if let Some(throttles) = self.throttles.as_ref().filter(|_| !permit.is_probe()) {
            match throttles.throttle(&wanted.key)?.try_acquire_owned(wanted.priority.into()) {
                Ok(pass) => throttle = Some(pass),
                Err(shed) => {
                    permit.ignored();
                    return Ok(refused(Reason::Shed, Some(shed.retry_in()), self.now()));
                }
            }
        }
        let token = self.token(&permit, wanted);
        let given = GrantedPermit {
            token: token.seal(&self.keyring),
            is_probe: permit.is_probe(),
            expires_at: token.term.expires_at,
            time_left: token.term.expires_at.since(self.now()),
        };
        self.table.put(token.term, Held { permit, throttle, slot });
        Ok(Acquired::Permit(given))
    }

    fn token(&self, permit: &OwnedPermit, wanted: &AcquireRequest) -> Token {
        let wait = wanted.timeout.min(LONGEST_PERMIT);
        // The result of a probe after its deadline counts as a failure, so there is no need to wait for it.
        let wait = permit.time_left().map_or(wait, |left| left.min(wait));
        Token {
            term: PermitTerm { id: PermitId::random(), expires_at: self.now() + wait },
            ticket: permit.ticket(),
            priority: wanted.priority,
        }
    }
}

fn refused_by(refusal: &Refusal, now: Timestamp) -> Acquired {
    let reason = match refusal {
        // Only this gateway uses its store, so no circuit is open in one process only.
        Refusal::Open { .. } | Refusal::OpenLocally { .. } => Reason::Open,
        Refusal::Probing { .. } => Reason::Probing,
        Refusal::Ramping { .. } => Reason::Ramping,
        Refusal::StoreLost => Reason::StoreLost,
        Refusal::ForcedOpen => Reason::ForcedOpen,
        Refusal::Disabled => Reason::Disabled,
        _ => Reason::TripPending,
    };
    let retry_in = match reason {
        Reason::ForcedOpen | Reason::Disabled => None,
        Reason::Open => Some(refusal.retry_in().unwrap_or(ASK_AGAIN)),
        // A probe's lease has a latest end. The probe usually ends much earlier, and a worker can't be woken.
        _ => Some(refusal.retry_in().unwrap_or(ASK_AGAIN).min(ASK_AGAIN)),
    };
    refused(reason, retry_in, now)
}

fn refused(reason: Reason, retry_in: Option<Duration>, now: Timestamp) -> Acquired {
    Acquired::Refused(PermitRefusal { reason, retry_in, retry_at: retry_in.map(|wait| now + wait) })
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
