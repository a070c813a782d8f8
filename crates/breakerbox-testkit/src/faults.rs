//! A store wrapper that injects faults between a process and the real store: delays, lost requests or
//! responses, refused writes, no change events, or an unreadable record.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, Swap, Swapped, Term, Unreadable,
};
use breakerbox::{Nonce, Record};

/// A fault in the connection to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// No fault.
    None,
    /// Requests are refused immediately.
    Refuses,
    /// Requests are lost, and get no response.
    BlackHole,
    /// Requests are executed, but their responses are lost.
    LosesAnswers,
    /// Reads succeed, but writes are rejected, as when Redis is out of memory.
    RefusesWrites,
}

/// The error message for a rejected write ([`Fault::RefusesWrites`]).
pub const REFUSED_WRITE: &str = "OOM command not allowed when used memory > 'maxmemory'";

/// A store wrapper whose faults can be switched on and off.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    /// Whether the wrapper suppresses all change events.
    is_deaf: bool,
    fault: AtomicU8,
    delay_micros: AtomicU64,
    requests: AtomicU64,
    spoilt: Mutex<Option<Arc<str>>>,
}

impl FaultyStore {
    /// Wraps a store, without a fault initially.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::to(inner, false))
    }

    /// Wraps a store and suppresses all change events, so that a process sees changes only when it reads from
    /// the store.
    #[must_use]
    pub fn deaf(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::to(inner, true))
    }

    fn to(inner: Arc<dyn Store>, is_deaf: bool) -> Self {
        let fault = AtomicU8::new(Fault::None as u8);
        Self {
            inner,
            is_deaf,
            fault,
            delay_micros: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            spoilt: Mutex::default(),
        }
    }

    /// Sets the fault that applies from now on.
    pub fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// Delays every request by this duration from now on.
    pub fn delay(&self, by: Duration) {
        self.delay_micros.store(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Makes this circuit's record unreadable from now on. `None` makes all records readable again.
    pub fn spoil(&self, key: Option<&str>) {
        *self.spoilt() = key.map(Into::into);
    }

    fn spoilt(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.spoilt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the record for a key, or an error if [`spoil`](Self::spoil) made it unreadable.
    fn readable<T>(&self, key: &Arc<str>, found: Readable<T>) -> Readable<T> {
        if self.spoilt().as_ref() == Some(key) {
            return Err(Unreadable { key: key.to_string(), reason: "it was spoilt".into() });
        }
        found
    }

    /// Returns the number of requests so far. Write checks ([`Store::check_write`]) are not counted, because
    /// they are made even without traffic.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Passes a read on to the store, with the current fault applied.
    async fn pass<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.pass_uncounted(request).await
    }

    /// Passes a write on to the store, with the current fault applied.
    async fn pass_write<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.pass_uncounted(self.unless_refused(request)).await
    }

    async fn unless_refused<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.fault.load(Ordering::SeqCst) == Fault::RefusesWrites as u8 {
            return Err(StoreError::Unavailable(REFUSED_WRITE.into()));
        }
        request.await
    }

    async fn pass_uncounted<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let delay = Duration::from_micros(self.delay_micros.load(Ordering::SeqCst));
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let is = |fault: Fault| self.fault.load(Ordering::SeqCst) == fault as u8;
        if is(Fault::Refuses) {
            return Err(StoreError::Unavailable("connection refused".into()));
        }
        if is(Fault::BlackHole) {
            return std::future::pending().await;
        }
        let answer = request.await;
        if is(Fault::LosesAnswers) {
            return std::future::pending().await;
        }
        answer
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        let mut answer = self.pass_write(self.inner.merge(deltas)).await?;
        let keys = deltas.iter().map(|delta| &delta.key);
        answer.value = keys.zip(answer.value).map(|(key, found)| self.readable(key, found)).collect();
        Ok(answer)
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        let mut answer = self.pass(self.inner.read(keys)).await?;
        answer.value = keys.iter().zip(answer.value).map(|(key, found)| self.readable(key, found)).collect();
        Ok(answer)
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.pass_write(self.inner.swap_if(swap)).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        self.pass_write(self.inner.swap_all(swaps)).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.pass(self.inner.call_for_reports(keys)).await
    }

    fn changes(&self) -> Changes {
        if self.is_deaf {
            return Announcer::new().listen();
        }
        self.inner.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.pass(self.inner.list(query)).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.pass_write(self.inner.ramp(request)).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.pass_write(self.inner.lead(name, candidate, ttl)).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.pass_uncounted(self.unless_refused(self.inner.check_write())).await
    }
}
