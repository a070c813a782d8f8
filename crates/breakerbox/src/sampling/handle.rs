//! What a service holds: all its sampled circuits, and a handle to one of them.

use std::fmt;
use std::sync::Arc;

use breakerbox_core::{Attribution, Change, Command, Key, KeyError, PolicyBuilder, Record, Refusal, Status};

use super::builder::{SamplingError, policy_for};
use super::check::Checked;
use super::leader;
use super::office::Office;
use super::report::Report;
use crate::breakerbox::{Breakerbox, Counts};
use crate::circuit::{Circuit, OverrideError};
use crate::fleet::StoreHealth;

/// Sampled circuits by key. Build one for a service, clone it freely, and keep it for as long as the service runs. Once the
/// last clone is gone, a leader gives its term back.
#[derive(Clone)]
pub struct Sampling(Arc<Inner>);

struct Inner {
    breakers: Breakerbox,
    office: Arc<Office>,
}

impl Sampling {
    pub(super) fn start(breakers: Breakerbox, office: Arc<Office>) -> Self {
        leader::start(&breakers, &office);
        Self(Arc::new(Inner { breakers, office }))
    }

    /// Whether a call to this key may be made now. It costs a look-up while the circuit is closed, and a request to the store
    /// where it is half-open. A refusal is not an error: it says why, and when to ask again.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub async fn check(&self, key: &str) -> Result<Result<Checked, Refusal>, KeyError> {
        Ok(self.circuit(key)?.check().await)
    }

    /// The circuit of this key. Keep the handle where the same key is asked for often.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub fn circuit(&self, key: &str) -> Result<SampledCircuit, KeyError> {
        self.0.breakers.circuit(key).map(SampledCircuit)
    }

    /// The circuit of a tenant's endpoint, host, or whole tenant.
    #[must_use]
    pub fn circuit_of(&self, key: &Key) -> SampledCircuit {
        SampledCircuit(self.0.breakers.circuit_of(key))
    }

    /// Changes the policy of all keys that have none of their own. What the leader's process says counts.
    ///
    /// # Errors
    /// If the policy can't be, or has another window than sampling began with.
    pub fn set_policy(&self, policy: &PolicyBuilder) -> Result<(), SamplingError> {
        self.0.breakers.set_policy(policy_for(policy, &self.0.office)?);
        Ok(())
    }

    /// Changes the policy of a tenant's keys; none: the default's again.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy), and if there can be no such tenant.
    pub fn set_tenant_policy(
        &self,
        tenant: &str,
        policy: Option<&PolicyBuilder>,
    ) -> Result<(), SamplingError> {
        let policy = policy.map(|policy| policy_for(policy, &self.0.office)).transpose()?;
        Ok(self.0.breakers.set_tenant_policy(tenant, policy)?)
    }

    /// Changes the policy of one key; none: its tenant's or the default's again.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy), and if there can be no such key.
    pub fn set_key_policy(&self, key: &str, policy: Option<&PolicyBuilder>) -> Result<(), SamplingError> {
        let policy = policy.map(|policy| policy_for(policy, &self.0.office)).transpose()?;
        Ok(self.0.breakers.set_key_policy(key, policy)?)
    }

    /// Whether this process leads, and how its ticks go.
    #[must_use]
    pub fn report(&self) -> Report {
        self.0.office.report()
    }

    /// How the store is doing.
    #[must_use]
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.0.breakers.store_health()
    }

    /// What happened that nobody was told of.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.breakers.counts()
    }

    /// Shows every circuit that this process knows, one after the other.
    pub fn for_each(&self, mut visit: impl FnMut(&SampledCircuit)) {
        self.0.breakers.for_each(|circuit| visit(&SampledCircuit(circuit.clone())));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.office.close();
    }
}

impl fmt::Debug for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampling")
            .field("breakers", &self.0.breakers)
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

/// The sampled circuit of one key.
#[derive(Clone, Debug)]
pub struct SampledCircuit(Circuit);

impl SampledCircuit {
    /// Whether a call may be made now; as [`Sampling::check`].
    ///
    /// # Errors
    /// A refusal is not an error of the caller: it says why, and when to ask again.
    pub async fn check(&self) -> Result<Checked, Refusal> {
        self.0.check().await
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// The state, as this process knows it.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// All that is remembered of the circuit.
    #[must_use]
    pub fn record(&self) -> Record {
        self.0.record()
    }

    /// Does what an operator says; as [`Circuit::apply_override`].
    ///
    /// # Errors
    /// If it can't be done, such as while the store is away.
    pub async fn try_override(
        &self,
        command: Command,
        by: &Attribution,
    ) -> Result<Option<Change>, OverrideError> {
        self.0.apply_override(command, by).await
    }
}
