//! The registry of sampled circuits, and a handle to one of them.

use std::fmt;
use std::sync::Arc;

use breakerbox_core::{
    Attribution, Change, CircuitStatus, Key, KeyError, OverrideCommand, PolicyBuilder, Record, Refusal,
};

use super::builder::{SamplingError, policy_for};
use super::check::Checked;
use super::election::LeaderElection;
use super::leader;
use super::report::Report;
use crate::breakerbox::{Breakerbox, Counts};
use crate::circuit::Circuit;
use crate::fleet::OverrideError;
use crate::observe::StoreHealth;

/// Sampled circuits by key. Build one for each service. Clones are cheap and share the circuits. Keep one while the
/// service runs. When the last clone is dropped, a leader ends its term.
#[derive(Clone)]
pub struct Sampling(Arc<Inner>);

struct Inner {
    breakers: Breakerbox,
    election: Arc<LeaderElection>,
}

impl Sampling {
    pub(super) fn start(breakers: Breakerbox, election: Arc<LeaderElection>) -> Self {
        leader::start(&breakers, &election);
        Self(Arc::new(Inner { breakers, election }))
    }

    /// Checks whether a call to this key may be made now. While the circuit is closed, this costs a lookup in memory;
    /// while it is half-open, a request to the store. A refusal is not an error; it states the reason, and when to
    /// check again.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub async fn check(&self, key: &str) -> Result<Result<Checked, Refusal>, KeyError> {
        Ok(self.circuit(key)?.check().await)
    }

    /// Returns the circuit for this key. Keep the handle if you use the same key often.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub fn circuit(&self, key: &str) -> Result<SampledCircuit, KeyError> {
        self.0.breakers.circuit(key).map(SampledCircuit)
    }

    /// Returns the circuit for the key of an endpoint, a host or a tenant.
    #[must_use]
    pub fn circuit_of(&self, key: &Key) -> SampledCircuit {
        SampledCircuit(self.0.breakers.circuit_of(key))
    }

    /// Changes the policy of all keys without a policy of their own. Only policies in the leader's process take effect.
    ///
    /// # Errors
    /// If the policy is not valid, or its window differs from the one with which sampling began.
    pub fn set_policy(&self, policy: &PolicyBuilder) -> Result<(), SamplingError> {
        self.0.breakers.set_policy(policy_for(policy, &self.0.election)?);
        Ok(())
    }

    /// Changes the policy of a tenant's keys. `None` restores the default policy.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy), and if the tenant's name is not valid.
    pub fn set_tenant_policy(
        &self,
        tenant: &str,
        policy: Option<&PolicyBuilder>,
    ) -> Result<(), SamplingError> {
        let policy = policy.map(|policy| policy_for(policy, &self.0.election)).transpose()?;
        Ok(self.0.breakers.set_tenant_policy(tenant, policy)?)
    }

    /// Changes one key's policy. `None` restores the tenant's policy or the default.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy), and if the key is not valid.
    pub fn set_key_policy(&self, key: &str, policy: Option<&PolicyBuilder>) -> Result<(), SamplingError> {
        let policy = policy.map(|policy| policy_for(policy, &self.0.election)).transpose()?;
        Ok(self.0.breakers.set_key_policy(key, policy)?)
    }

    /// Returns whether this process is the leader, and the results of its ticks.
    #[must_use]
    pub fn report(&self) -> Report {
        self.0.election.report()
    }

    /// Returns the store's health. This is never `None`, because sampling requires a store.
    #[must_use]
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.0.breakers.store_health()
    }

    /// Returns counters of events that observers do not receive.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.breakers.counts()
    }

    /// Calls `visit` with each circuit that this process knows.
    pub fn for_each(&self, mut visit: impl FnMut(&SampledCircuit)) {
        self.0.breakers.for_each(|circuit| visit(&SampledCircuit(circuit.clone())));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.election.close();
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

/// A handle to one key's sampled circuit.
#[derive(Clone, Debug)]
pub struct SampledCircuit(Circuit);

impl SampledCircuit {
    /// Checks whether a call may be made now, as [`Sampling::check`] does.
    ///
    /// # Errors
    /// A refusal is not the caller's error: it states the reason, and when to check again.
    pub async fn check(&self) -> Result<Checked, Refusal> {
        self.0.check().await
    }

    /// Returns the key of the circuit.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// Returns the state, as far as this process knows it.
    #[must_use]
    pub fn status(&self) -> CircuitStatus {
        self.0.status()
    }

    /// Returns the circuit's record, which is its stored state.
    #[must_use]
    pub fn record(&self) -> Record {
        self.0.record()
    }

    /// Applies an operator's command, as [`Circuit::apply_override`] does.
    ///
    /// # Errors
    /// If the command cannot be applied, for example while the store is unavailable.
    pub async fn try_override(
        &self,
        command: OverrideCommand,
        by: &Attribution,
    ) -> Result<Option<Change>, OverrideError> {
        self.0.apply_override(command, by).await
    }
}
