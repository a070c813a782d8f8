//! What is known of a request that is under way: for whom it is made, and whether it waits for something of the gateway's own.
//!
//! A connection is made deep inside the HTTP client, which passes on a URL and nothing else. So a request's progress is a value
//! of its task ([`Progress::scope`]), and the connector picks it up ([`Progress::current`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use breakerbox_model::delivery::LocalFault;
use breakerbox_model::objects::TenantId;

tokio::task_local! {
    static CURRENT: Progress;
}

/// No stage: what is waited for is the receiver.
const NONE: u8 = u8::MAX;

/// One request's progress. Clones are of the same request.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tenant: Option<TenantId>,
    /// The place of the local fault that it is if the time is over now.
    stage: AtomicU8,
    is_answered: AtomicBool,
}

impl Default for Inner {
    fn default() -> Self {
        Self { tenant: None, stage: AtomicU8::new(NONE), is_answered: AtomicBool::new(false) }
    }
}

impl Progress {
    /// Of a request for this tenant.
    pub(super) fn new(tenant: Option<TenantId>) -> Self {
        Self(Arc::new(Inner { tenant, ..Inner::default() }))
    }

    /// Makes a request with this progress.
    pub(super) async fn scope<F: Future>(&self, request: F) -> F::Output {
        CURRENT.scope(self.clone(), request).await
    }

    /// That of the request that this task makes.
    pub(super) fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// The tenant; none: the operator.
    pub(super) fn tenant(&self) -> Option<&TenantId> {
        self.0.tenant.as_ref()
    }

    /// Until the guard is dropped it waits for something of the gateway's own.
    pub(super) fn enter(&self, what: LocalFault) -> Stage {
        self.0.stage.store(what as u8, Ordering::Relaxed);
        Stage(self.clone())
    }

    /// Whose fault it is, if the time is over now and not the receiver's.
    pub(super) fn local_fault(&self) -> Option<LocalFault> {
        LocalFault::ALL.get(usize::from(self.0.stage.load(Ordering::Relaxed))).copied()
    }

    /// The head of the answer is here.
    pub(super) fn answered(&self) {
        self.0.is_answered.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_answered(&self) -> bool {
        self.0.is_answered.load(Ordering::Relaxed)
    }
}

/// Waiting for something of the gateway's own.
pub(super) struct Stage(Progress);

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.0.stage.store(NONE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stage_lasts_as_long_as_its_guard() {
        let progress = Progress::new(Some("acme".parse().unwrap()));
        let seen = progress.scope(async { Progress::current() }).await;
        assert_eq!(seen.tenant().unwrap().as_str(), "acme");
        for fault in LocalFault::ALL {
            let stage = progress.enter(fault);
            assert_eq!(seen.local_fault(), Some(fault));
            drop(stage);
            assert_eq!(seen.local_fault(), None);
        }
        assert!(Progress::current().tenant().is_none(), "outside of a request it is the operator's");
    }
}
