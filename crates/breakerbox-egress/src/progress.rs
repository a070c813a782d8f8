//! The progress of a request in flight: its tenant, and whether it is waiting for one of the gateway's own resources.
//!
//! The HTTP client opens connections internally, and passes only a URL to the connector. So a request's progress is a
//! task-local value ([`Progress::scope`]), which the connector reads ([`Progress::current`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use breakerbox_model::delivery::{Connection, LocalFault};
use breakerbox_model::objects::TenantId;

tokio::task_local! {
    static CURRENT: Progress;
}

/// The value of `stage` while the request waits for the receiver.
const NONE: u8 = u8::MAX;

/// What a request is waiting for, which decides whether a timeout is the gateway's or the receiver's fault. Clones
/// refer to the same request.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tenant: Option<TenantId>,
    /// The index of the local fault to blame if the request times out now, or `NONE`.
    stage: AtomicU8,
    is_answered: AtomicBool,
    /// Whether a connection was begun for the request, and whether it was established.
    is_dialing: AtomicBool,
    is_connected: AtomicBool,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            tenant: None,
            stage: AtomicU8::new(NONE),
            is_answered: AtomicBool::new(false),
            is_dialing: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
        }
    }
}

impl Progress {
    /// Creates the progress of a request for this tenant.
    pub(super) fn new(tenant: Option<TenantId>) -> Self {
        Self(Arc::new(Inner { tenant, ..Inner::default() }))
    }

    /// Runs a request. While it runs, [`current`](Self::current) returns this progress.
    pub(super) async fn scope<F: Future>(&self, request: F) -> F::Output {
        CURRENT.scope(self.clone(), request).await
    }

    /// Returns the progress of the current task's request. Outside [`scope`](Self::scope), returns a new default.
    pub(super) fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Returns the tenant that the request is for. `None` means the operator.
    pub(super) fn tenant(&self) -> Option<&TenantId> {
        self.0.tenant.as_ref()
    }

    /// Marks the request as waiting for one of the gateway's own resources, until the guard is dropped.
    pub(super) fn enter(&self, what: LocalFault) -> Stage {
        self.0.stage.store(what as u8, Ordering::Relaxed);
        Stage(self.clone())
    }

    /// Returns the local fault to blame if the request times out now. `None` means that the receiver is to blame.
    pub(super) fn local_fault(&self) -> Option<LocalFault> {
        LocalFault::ALL.get(usize::from(self.0.stage.load(Ordering::Relaxed))).copied()
    }

    /// Records that a new connection is begun for the request.
    pub(super) fn dialing(&self) {
        self.0.is_dialing.store(true, Ordering::Relaxed);
        self.0.is_connected.store(false, Ordering::Relaxed);
    }

    /// Records that the new connection is established.
    pub(super) fn connected(&self) {
        self.0.is_connected.store(true, Ordering::Relaxed);
    }

    /// Returns the connection that the request uses, as far as it got.
    pub(super) fn connection(&self) -> Connection {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        match (is(&self.0.is_dialing), is(&self.0.is_connected)) {
            (false, _) => Connection::Existing,
            (true, false) => Connection::Missing,
            (true, true) => Connection::Established,
        }
    }

    /// Records that the response headers were received.
    pub(super) fn answered(&self) {
        self.0.is_answered.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_answered(&self) -> bool {
        self.0.is_answered.load(Ordering::Relaxed)
    }
}

/// A guard that marks the request as waiting for one of the gateway's own resources.
pub(super) struct Stage(Progress);

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.0.stage.store(NONE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_as_far_as_the_latest_dial_got() {
        let progress = Progress::default();
        assert_eq!(progress.connection(), Connection::Existing);
        for _ in 0..2 {
            progress.dialing();
            assert_eq!(progress.connection(), Connection::Missing);
            progress.connected();
            assert_eq!(progress.connection(), Connection::Established);
        }
    }

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
