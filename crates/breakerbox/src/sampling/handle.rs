//! The registry of sampled circuits, and a handle to one of them.

use std::fmt;
use std::sync::Arc;

use breakerbox_core::{
    Attribution, Change, Key, KeyError, OverrideCommand, PolicyBuilder, Record, Refusal, Status,
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

/// Sampled circuits by key. Build one per service, clone it freely, and keep it for as long as the service runs. When
/// the last clone is dropped, a leader gives its term back.
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

    /// Checks whether a call to this key may be made now. It costs a lookup while the circuit is closed, and a request
    /// to the store while it is half-open. A refusal is not an error: it states the reason, and when to check again.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub async fn check(&self, key: &str) -> Result<Result<Checked, Refusal>, KeyError> {
        Ok(self.circuit(key)?.check().await)
    }

    /// Returns the circuit of this key. Keep the handle if you need the same key often.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub fn circuit(&self, key: &str) -> Result<SampledCircuit, KeyError> {
        self.0.breakers.circuit(key).map(SampledCircuit)
    }

    /// Returns the circuit of an endpoint, a host or a whole tenant.
    #[must_use]
    pub fn circuit_of(&self, key: &Key) -> SampledCircuit {
        SampledCircuit(self.0.breakers.circuit_of(key))
    }

    /// Changes the policy of all keys that have no policy of their own. Only the policies of the leader's process take
    /// effect.
    ///
    /// # Errors
    /// If the policy is not valid, or has another window than sampling began with.
    pub fn set_policy(&self, policy: &PolicyBuilder) -> Result<(), SamplingError> {
        self.0.breakers.set_policy(policy_for(policy, &self.0.election)?);
        Ok(())
    }

    /// Changes the policy of a tenant's keys. None restores the default policy.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy), and if the tenant name is not valid.
    pub fn set_tenant_policy(
        &self,
        tenant: &str,
        policy: Option<&PolicyBuilder>,
    ) -> Result<(), SamplingError> {
        let policy = policy.map(|policy| policy_for(policy, &self.0.election)).transpose()?;
        Ok(self.0.breakers.set_tenant_policy(tenant, policy)?)
    }

    /// Changes the policy of one key. None restores the policy of its tenant or the default.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy), and if the key is not valid.
    pub fn set_key_policy(&self, key: &str, policy: Option<&PolicyBuilder>) -> Result<(), SamplingError> {
        let policy = policy.map(|policy| policy_for(policy, &self.0.election)).transpose()?;
        Ok(self.0.breakers.set_key_policy(key, policy)?)
    }

    /// Returns whether this process leads, and the results of its ticks.
    #[must_use]
    pub fn report(&self) -> Report {
        self.0.election.report()
    }

    /// Returns the health of the store.
    #[must_use]
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.0.breakers.store_health()
    }

    /// Returns the counters of occurrences that are reported nowhere else.
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

/// The sampled circuit of one key.
#[derive(Clone, Debug)]
pub struct SampledCircuit(Circuit);

impl SampledCircuit {
    /// Checks whether a call may be made now, as [`Sampling::check`] does.
    ///
    /// # Errors
    /// A refusal is not an error of the caller: it states the reason, and when to check again.
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
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Returns the record: the stored state of the circuit.
    #[must_use]
    pub fn record(&self) -> Record {
        self.0.record()
    }

    /// Applies an operator's command, as [`Circuit::apply_override`] does.
    ///
    /// # Errors
    /// If the command can't be applied, for example while the store is unavailable.
    pub async fn try_override(
        &self,
        command: OverrideCommand,
        by: &Attribution,
    ) -> Result<Option<Change>, OverrideError> {
        self.0.apply_override(command, by).await
    }
}
