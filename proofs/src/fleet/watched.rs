//! A store wrapper that counts requests, and how often two processes competed for the same lease.
//!
//! All requests are passed on unchanged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store, StoreError,
    Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};

/// A store wrapper that counts a worker's requests.
pub(super) struct Watched {
    inner: Arc<dyn Store>,
    requests: AtomicU64,
    /// The number of merges that the store answered.
    merges: AtomicU64,
    leases: Mutex<HashMap<Arc<str>, Leases>>,
}

/// How many leases for a circuit this process won, and how many it lost to other processes.
#[derive(Clone, Copy, Default)]
pub(super) struct Leases {
    pub(super) won: u64,
    pub(super) lost: u64,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            requests: AtomicU64::new(0),
            merges: AtomicU64::new(0),
            leases: Mutex::default(),
        })
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn merges(&self) -> u64 {
        self.merges.load(Ordering::Relaxed)
    }

    pub(super) fn leases(&self, key: &str) -> Leases {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.get(key).copied().unwrap_or_default()
    }

    fn count(&self) -> &dyn Store {
        self.requests.fetch_add(1, Ordering::Relaxed);
        &*self.inner
    }
}

#[async_trait]
impl Store for Watched {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        let answer = self.count().merge(deltas).await;
        self.merges.fetch_add(u64::from(answer.is_ok()), Ordering::Relaxed);
        answer
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.count().read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        let answer = self.count().swap_if(swap).await;
        if swap.record.lease.is_some()
            && let Ok(answer) = &answer
        {
            let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            let leases = leases.entry(Arc::clone(&swap.key)).or_default();
            match answer.value {
                Swapped::Won => leases.won += 1,
                Swapped::Lost(_) => leases.lost += 1,
                Swapped::TooLate(_) => {}
            }
        }
        answer
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.count().call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.count().list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.count().ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.count().lead(name, candidate, ttl).await
    }

    /// Checks a write without counting the request, because write checks are made even without traffic.
    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.inner.check_write().await
    }
    /// Reopens the inner store without this wrapper, so that reports at shutdown are not counted.
    fn reopen(&self) -> Option<Arc<dyn Store>> {
        self.inner.reopen()
    }
}
