//! Gives permits out. The gates are those of a delivery that make sense for a call that somebody else makes: the tenant is
//! enabled, the throttle by priority, the circuit. A probe skips the throttle.

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

/// When to ask again, at the latest, where a refusal ends by itself and nobody knows when.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A call that somebody wants to make.
pub struct Wanted {
    /// Whose.
    pub tenant: Arc<TenantEntry>,
    /// The key of its circuit.
    pub key: Arc<str>,
    /// How important it is.
    pub priority: Priority,
    /// How long it may take.
    pub timeout: Duration,
}

/// The answer to an ask.
#[derive(Clone, PartialEq, Debug)]
pub enum Acquired {
    /// Make the call, and say how it went.
    Permit(Given),
    /// Do not.
    Refused(Refused),
}

/// A permit.
#[derive(Clone, PartialEq, Debug)]
pub struct Given {
    /// What it is settled with.
    pub token: String,
    /// Whether the call probes a half-open circuit.
    pub is_probe: bool,
    /// Until when it can be settled.
    pub expires_at: Timestamp,
    /// How long that is from now.
    pub time_left: Duration,
}

/// No permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// When to ask again; none: nobody knows, somebody has to change something.
    pub retry_in: Option<Duration>,
    /// The same as a time.
    pub retry_at: Option<Timestamp>,
}

/// Why there is no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The circuit is open.
    Open,
    /// Somebody else is probing.
    Probing,
    /// The circuit has just closed, and as many calls are in flight as it lets through.
    Ramping,
    /// The circuit is about to open, and the fleet is asked.
    TripPending,
    /// The store of circuits is away, and nothing is admitted meanwhile.
    StoreLost,
    /// An operator forced the circuit open.
    ForcedOpen,
    /// The circuit is disabled.
    Disabled,
    /// The destination takes less than is wanted, and more important calls go first.
    Shed,
    /// Nothing is sent for this tenant.
    TenantDisabled,
}

/// Why an ask was not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// As many permits are out as may be.
    #[error("as many permits are out as this gateway gives; settle some, or raise permits.max")]
    NoRoom,
    /// The tenant has as many circuits as it may have, and none can go.
    #[error(
        "the tenant has as many circuits as it may have, and all are in use; use fewer keys, or raise circuits.tenant_max and \
         circuits.tenant_bytes"
    )]
    CircuitsFull,
    /// The tenant has as many permits out as it may have while other tenants are to have theirs.
    #[error(
        "the tenant has its whole share of this gateway's permits out; settle some, or raise permits.max"
    )]
    ShareUsed,
    /// There can be no such circuit.
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
    /// Asks the gates for a permit.
    ///
    /// # Errors
    /// If the gates could not be asked. That there is no permit is no error.
    pub async fn acquire(&self, wanted: Wanted) -> Result<Acquired, AcquireError> {
        let answer = self.try_acquire(&wanted).await?;
        match &answer {
            Acquired::Permit(_) => _ = self.metrics.permits_given.inc(),
            Acquired::Refused(refused) => _ = self.metrics.permits_refused.of(refused.reason).inc(),
        }
        self.note_how_many();
        Ok(answer)
    }

    async fn try_acquire(&self, wanted: &Wanted) -> Result<Acquired, AcquireError> {
        if !wanted.tenant.enabled {
            return Ok(refused(Reason::TenantDisabled, None, self.now()));
        }
        let place = self.table.place(&wanted.tenant.id)?;
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
        let given = Given {
            token: token.seal(&self.keyring),
            is_probe: permit.is_probe(),
            expires_at: token.term.expires_at,
            time_left: token.term.expires_at.since(self.now()),
        };
        self.table.put(token.term, Held { permit, throttle, place });
        Ok(Acquired::Permit(given))
    }

    fn token(&self, permit: &OwnedPermit, wanted: &Wanted) -> Token {
        let wait = wanted.timeout.min(LONGEST_PERMIT);
        // What a probe brings after its deadline is a failure, so it need not be waited for.
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
        // The gateway's store is its own, so no circuit of it is open in one process only.
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
        // A probe's lease says when it ends at the latest. As a rule it ends much earlier, and nobody can be woken here.
        _ => Some(refusal.retry_in().unwrap_or(ASK_AGAIN).min(ASK_AGAIN)),
    };
    refused(reason, retry_in, now)
}

fn refused(reason: Reason, retry_in: Option<Duration>, now: Timestamp) -> Acquired {
    Acquired::Refused(Refused { reason, retry_in, retry_at: retry_in.map(|wait| now + wait) })
}
