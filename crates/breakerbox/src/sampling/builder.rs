//! The builder with which sampled circuits are configured.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{KeyError, Policy, PolicyBuilder, PolicyError, format_duration};

use super::election::LeaderElection;
use super::handle::Sampling;
use super::report::SamplingEvent;
use super::sampler::Sampler;
use crate::builder::BreakerboxBuilder;

/// The default interval between two of the leader's ticks.
pub const DEFAULT_SAMPLE_EVERY: Duration = Duration::from_secs(15);

/// The default timeout for a poll of the sampler.
pub const DEFAULT_POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// Builds a [`Sampling`].
#[must_use]
pub struct SamplingBuilder {
    builder: BreakerboxBuilder,
    policy: PolicyBuilder,
    settings: Settings,
    sampler: Option<Arc<dyn Sampler>>,
    observers: Vec<Observer>,
}

pub(super) type Observer = Box<dyn Fn(&SamplingEvent) + Send + Sync>;

/// A process's settings for sampling as the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) sample_every: Duration,
    pub(super) poll_timeout: Duration,
    /// The length of a leader's term, unless the leader extends it.
    pub(super) term: Duration,
}

/// The minimum length of a term, so that a leader does not lose its term when the store is slow for a moment.
const SHORTEST_TERM: Duration = Duration::from_secs(5);

impl BreakerboxBuilder {
    /// Builds sampled circuits, for outcomes that are already in your database. One process in the fleet, the leader,
    /// reads the outcomes from the database; the circuits do not observe calls. See [`sampling`](crate::sampling).
    /// `policy` replaces the policy set with [`policy`](Self::policy).
    pub fn sampling(self, policy: PolicyBuilder) -> SamplingBuilder {
        SamplingBuilder::new(self, policy)
    }
}

impl SamplingBuilder {
    fn new(builder: BreakerboxBuilder, policy: PolicyBuilder) -> Self {
        let settings = Settings {
            sample_every: DEFAULT_SAMPLE_EVERY,
            poll_timeout: DEFAULT_POLL_TIMEOUT,
            term: Duration::ZERO,
        };
        Self { builder, policy, settings, sampler: None, observers: Vec::new() }
    }

    /// Sets the source of the totals. Every process with a sampler may become the leader. A process without a sampler
    /// only checks circuits.
    pub fn sampler(mut self, sampler: impl Sampler) -> Self {
        self.sampler = Some(Arc::new(sampler));
        self
    }

    /// Sets the interval at which the leader polls the sampler. Default: [`DEFAULT_SAMPLE_EVERY`]. A term is three
    /// times as long, and at least 5 s. If the leader dies, the fleet may be without a leader for the length of a term.
    pub fn sample_every(mut self, every: Duration) -> Self {
        self.settings.sample_every = every;
        self
    }

    /// Sets the timeout for a poll. Default: [`DEFAULT_POLL_TIMEOUT`]. The timeout may be longer than
    /// [`sample_every`](Self::sample_every), because ticks never overlap.
    pub fn poll_timeout(mut self, limit: Duration) -> Self {
        self.settings.poll_timeout = limit;
        self
    }

    /// Adds a function that receives this process's election events, tick results and poll errors. The function should
    /// return quickly.
    pub fn observer(mut self, observer: impl Fn(&SamplingEvent) + Send + Sync + 'static) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Builds the circuits. A process with a sampler becomes a candidate for leader.
    ///
    /// # Errors
    /// If the policy or a setting is not valid, or there is no store.
    ///
    /// # Panics
    /// As [`BreakerboxBuilder::build`].
    pub fn build(self) -> Result<Sampling, SamplingError> {
        // A process without a sampler decides nothing, so it may have any policy that the leader may have.
        let has_runs = self.sampler.as_deref().is_none_or(<dyn Sampler>::returns_runs);
        let policy = build(&self.policy, has_runs)?;
        let mut settings = self.settings;
        for (field, found) in
            [("sample_every", settings.sample_every), ("poll_timeout", settings.poll_timeout)]
        {
            if found < Duration::from_millis(10) || found > Duration::from_secs(24 * 3_600) {
                return Err(SamplingError::Setting { field, reason: "must be between 10 ms and 24 h" });
            }
        }
        settings.term = (settings.sample_every * 3).max(SHORTEST_TERM);
        if self.builder.is_strict() {
            let reason = "is of no use here: nothing is counted by calls; leave it out";
            return Err(SamplingError::Setting { field: "consistency", reason });
        }
        if self.builder.hashes_keys() {
            let reason = "can't be hashed here: the leader judges circuits that only the store knows, by their key; leave it out";
            return Err(SamplingError::Setting { field: "stored_keys", reason });
        }
        if !self.builder.has_store() {
            let reason =
                "is needed: who leads, and what is open, is kept there; for one process MemoryStore will do";
            return Err(SamplingError::Setting { field: "store", reason });
        }
        let election = Arc::new(LeaderElection::new(settings, &policy, self.sampler, self.observers));
        Ok(Sampling::start(self.builder.policy(policy).build(), election))
    }
}

/// The reason why circuits cannot be sampled with these settings.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// The policy is not valid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The key or the tenant's name is not valid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A setting is missing or out of range.
    #[error("{field}: {reason}")]
    Setting {
        /// The setting's name.
        field: &'static str,
        /// The reason why the setting is not valid.
        reason: &'static str,
    },
    /// The value differs from the other keys' value. All keys must have the same value, because one query samples them
    /// all.
    #[error(
        "{field}: must be {expected}, as it was when sampling began, but is {found}: all keys are sampled by one query"
    )]
    OneForAll {
        /// The field's name: `window` or `sample_recent`.
        field: &'static str,
        /// The value that all keys share.
        expected: String,
        /// The value that was given.
        found: String,
    },
}

/// Builds the policy for circuits that the election's leader samples.
pub(super) fn policy_for(
    builder: &PolicyBuilder,
    election: &LeaderElection,
) -> Result<Policy, SamplingError> {
    let policy = build(builder, election.has_runs())?;
    if policy.window() != election.window {
        let (expected, found) = (format_duration(election.window), format_duration(policy.window()));
        return Err(SamplingError::OneForAll { field: "window", expected, found });
    }
    // A key may ignore the recent part of the window, but cannot have a different one.
    if let Some(found) = policy.sample_recent().filter(|_| policy.sample_recent() != election.recent_ticks) {
        let expected = election.recent_ticks.map_or_else(|| "off".to_owned(), |ticks| ticks.to_string());
        return Err(SamplingError::OneForAll { field: "sample_recent", expected, found: found.to_string() });
    }
    Ok(policy)
}

fn build(builder: &PolicyBuilder, has_runs: bool) -> Result<Policy, PolicyError> {
    if has_runs { builder.build_for_sampling_with_runs() } else { builder.build_for_sampling() }
}
