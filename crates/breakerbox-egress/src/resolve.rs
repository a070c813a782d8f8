//! Bounded DNS look-ups, so that slow names can't delay the others.
//!
//! The system's resolver blocks a thread for each name, for as long as the name's servers keep it waiting, and can't be
//! cancelled. So the number of concurrent look-ups is limited, and each tenant has a share of it ([`LookUpSlots`]);
//! concurrent requests for one name share one look-up; an answer is cached for a few seconds. Half of the slots are for
//! names that were resolved recently. All other names, which may be part of an attack, share the other half. The least
//! recently used names are evicted first.
//!
//! This module does not decide whether an address may be called.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::delivery::{Fault, LocalFault};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use hashlink::LruCache;
use rustix::io::Errno;
use tokio::time::Instant;

use super::look_up_slots::{LookUpSlot, LookUpSlots};
use super::progress::Progress;
use crate::host::{descriptors, local_fault};

/// How long the addresses of a name are cached.
const FRESH: Duration = Duration::from_secs(10);
/// How long a failed look-up is cached. This is long enough for concurrent requests to share the failure.
const FAILED: Duration = Duration::from_secs(1);
/// How long a resolved name counts as known, so that it uses the slots for known names.
const KNOWN: Duration = Duration::from_secs(600);
/// The maximum number of names in the cache.
const MAX_NAMES: usize = 10_000;

/// Resolves host names to addresses.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of a name, best first.
    ///
    /// # Errors
    /// Returns an error if the name has no address, or no server answers.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's own resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let name = name.to_owned();
        let found = move || (name.as_str(), 0).to_socket_addrs();
        let found = tokio::task::spawn_blocking(found).await.map_err(io::Error::other)?;
        // Without a file descriptor the resolver can't send its query, and reports that there is no such name.
        let found =
            found.map_err(|error| if descriptors::are_used_up() { Errno::MFILE.into() } else { error })?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The reason why a name could not be resolved.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum LookUpError {
    #[error("DNS name not found: {0}")]
    NotFound(Arc<str>),
    #[error("too many DNS look-ups in flight")]
    Busy,
    #[error("DNS look-up failed: {detail}")]
    Local { cause: LocalFault, detail: Arc<str> },
}

impl LookUpError {
    /// Maps the error to a fault.
    pub(super) const fn fault(&self) -> Fault {
        match self {
            Self::NotFound(_) => Fault::Dns,
            Self::Busy => Fault::Local(LocalFault::LookUps),
            Self::Local { cause, .. } => Fault::Local(*cause),
        }
    }
}

type Found = Result<Arc<[IpAddr]>, LookUpError>;

/// The DNS look-ups and their cache, shared by all connections.
#[derive(Clone)]
pub(super) struct LookUps(Arc<Inner>);

struct Inner {
    resolver: Arc<dyn Resolve>,
    /// Slots for names that were resolved recently.
    known: LookUpSlots,
    /// Slots for all other names.
    others: LookUpSlots,
    names: Mutex<Names>,
}

struct Names {
    answered: LruCache<Box<str>, CachedAnswer>,
    /// The look-ups in flight, at most as many as there are slots.
    pending: HashMap<Box<str>, PendingLookUp>,
}

/// A look-up in flight. It continues even if its caller stops waiting.
type PendingLookUp = Shared<BoxFuture<'static, Found>>;

struct CachedAnswer {
    answer: Found,
    at: Instant,
    /// The time when the name was last resolved. `None` if it never was.
    found_at: Option<Instant>,
}

/// The state of a name in the cache, which decides whether a look-up is needed.
enum CacheState {
    Cached(Found),
    Pending(PendingLookUp),
    /// The name has to be looked up. `found_at` is set if it was resolved within the last ten minutes.
    Nothing {
        found_at: Option<Instant>,
    },
}

impl LookUps {
    /// Creates an empty cache. At most `at_once` look-ups run concurrently: half of them for known names, half for
    /// others.
    pub(super) fn new(resolver: Arc<dyn Resolve>, at_once: usize) -> Self {
        let half = (at_once / 2).max(1);
        let names = Names { answered: LruCache::new(MAX_NAMES), pending: HashMap::new() };
        Self(Arc::new(Inner {
            resolver,
            known: LookUpSlots::new(half),
            others: LookUpSlots::new(half),
            names: Mutex::new(names),
        }))
    }

    /// Returns the addresses of a name. If the caller stops waiting, the look-up continues for other callers.
    pub(super) async fn of(&self, name: &str, progress: &Progress) -> Found {
        let known = self.0.names().known(name);
        let found_at = match known {
            CacheState::Cached(answer) => return answer,
            CacheState::Pending(pending) => return pending.await,
            CacheState::Nothing { found_at } => found_at,
        };
        let slots = if found_at.is_some() { &self.0.known } else { &self.0.others };
        let slot = {
            let _stage = progress.enter(LocalFault::LookUps);
            slots.take(progress.tenant()).await.map_err(|_| LookUpError::Busy)?
        };
        self.begin(name, found_at, slot).await
    }

    /// Looks up a name, unless another caller did so while this one waited for its slot.
    async fn begin(&self, name: &str, found_at: Option<Instant>, slot: LookUpSlot) -> Found {
        let pending = {
            let mut names = self.0.names();
            match names.known(name) {
                CacheState::Cached(answer) => return answer,
                CacheState::Pending(pending) => pending,
                CacheState::Nothing { .. } => {
                    let pending = self.request(name, found_at, slot);
                    names.pending.insert(name.into(), pending.clone());
                    pending
                }
            }
        };
        pending.await
    }

    fn request(&self, name: &str, found_at: Option<Instant>, slot: LookUpSlot) -> PendingLookUp {
        let inner = Arc::clone(&self.0);
        let name: Box<str> = name.into();
        let task = tokio::spawn(async move {
            let answer = inner.look_up(&name).await;
            drop(slot);
            let at = Instant::now();
            let mut names = inner.names();
            names.pending.remove(&name);
            // A local fault says nothing about the name.
            if !matches!(answer, Err(LookUpError::Local { .. })) {
                let found_at = if answer.is_ok() { Some(at) } else { found_at };
                names.answered.insert(name, CachedAnswer { answer: answer.clone(), at, found_at });
            }
            answer
        });
        task.map(|done| done.unwrap_or(Err(LookUpError::Busy))).boxed().shared()
    }
}

impl Inner {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_up(&self, name: &str) -> Found {
        match self.resolver.resolve(name).await {
            Ok(addresses) if addresses.is_empty() => Err(LookUpError::NotFound("it has no address".into())),
            Ok(addresses) => Ok(addresses.into()),
            Err(error) => Err(match local_fault(&error) {
                Some(cause) => LookUpError::Local { cause, detail: error.to_string().into() },
                None => LookUpError::NotFound(error.to_string().into()),
            }),
        }
    }
}

impl Names {
    fn known(&mut self, name: &str) -> CacheState {
        if let Some(pending) = self.pending.get(name) {
            return CacheState::Pending(pending.clone());
        }
        let now = Instant::now();
        // A read counts as a use.
        match self.answered.get(name) {
            Some(CachedAnswer { answer, at, .. }) if now - *at < good_for(answer) => {
                CacheState::Cached(answer.clone())
            }
            Some(CachedAnswer { found_at, .. }) => {
                CacheState::Nothing { found_at: found_at.filter(|at| now - *at < KNOWN) }
            }
            None => CacheState::Nothing { found_at: None },
        }
    }
}

const fn good_for(answer: &Found) -> Duration {
    match answer {
        Ok(_) => FRESH,
        Err(_) => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tokio::sync::Notify;

    use super::*;

    /// Resolves every name that begins with `ok`. A name that begins with `slow` waits until the test releases it.
    #[derive(Default)]
    struct Scripted {
        asked: Mutex<Vec<String>>,
        now_missing: Mutex<HashSet<String>>,
        let_go: Notify,
        is_without_descriptors: std::sync::atomic::AtomicBool,
    }

    #[async_trait]
    impl Resolve for Scripted {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.asked.lock().unwrap().push(name.to_owned());
            if name.starts_with("slow") {
                self.let_go.notified().await;
            }
            if self.is_without_descriptors.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(Errno::MFILE.into());
            }
            let missing = self.now_missing.lock().unwrap().contains(name);
            match name {
                "none" => Ok(Vec::new()),
                _ if name.starts_with("ok") && !missing => Ok(vec![[192, 0, 2, 1].into()]),
                _ => Err(io::Error::other("no such name")),
            }
        }
    }

    fn scripted(at_once: usize) -> (Arc<Scripted>, LookUps) {
        let resolver = Arc::new(Scripted::default());
        (Arc::clone(&resolver), LookUps::new(resolver, at_once))
    }

    impl LookUps {
        /// Looks up a name for the operator.
        async fn of_default(&self, name: &str) -> Found {
            self.of(name, &Progress::default()).await
        }

        async fn of_tenant(&self, tenant: &str, name: &str) -> Found {
            self.of(name, &Progress::new(Some(tenant.parse().unwrap()))).await
        }
    }

    impl Scripted {
        fn times(&self, name: &str) -> usize {
            self.asked.lock().unwrap().iter().filter(|asked| *asked == name).count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_name_is_looked_up_once_and_its_answer_kept_for_a_while() {
        let (resolver, look_ups) = scripted(4);
        let all = futures_util::future::join_all((0..100).map(|_| look_ups.of_default("ok"))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(resolver.times("ok"), 1);
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        look_ups.of_default("ok").await.unwrap();
        assert_eq!(resolver.times("ok"), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        look_ups.of_default("ok").await.unwrap();
        assert_eq!(resolver.times("ok"), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_kept_for_a_second() {
        let (resolver, look_ups) = scripted(4);
        for name in ["missing", "none"] {
            for _ in 0..3 {
                assert!(matches!(look_ups.of_default(name).await, Err(LookUpError::NotFound(_))));
            }
            tokio::time::advance(FAILED).await;
            assert!(look_ups.of_default(name).await.is_err());
            assert_eq!(resolver.times(name), 2, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_names_do_not_hold_up_names_that_were_found() {
        let (resolver, look_ups) = scripted(64);
        look_ups.of_default("ok").await.unwrap();
        tokio::time::advance(FRESH).await;
        for number in 0..50 {
            let look_ups = look_ups.clone();
            tokio::spawn(async move { look_ups.of_default(&format!("slow{number}")).await });
        }
        tokio::time::timeout(Duration::from_millis(1), async {
            while resolver.asked.lock().unwrap().len() < 25 {
                tokio::task::yield_now().await;
            }
            look_ups.of_default("ok").await.unwrap();
        })
        .await
        .expect("the name that was found has places of its own");
        assert_eq!(resolver.asked.lock().unwrap().len(), 26, "24 slow ones at once, and no more");
        let busy = look_ups.of_default("ok2").await;
        assert_eq!(busy, Err(LookUpError::Busy), "one that was never found has none");
        assert_eq!(
            busy.unwrap_err().fault(),
            Fault::Local(LocalFault::LookUps),
            "which is not the name's fault"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn slow_names_of_one_tenant_do_not_hold_up_another() {
        let (resolver, look_ups) = scripted(64);
        for number in 0..2_000 {
            let look_ups = look_ups.clone();
            tokio::spawn(async move { look_ups.of_tenant("mallory", &format!("slow{number}")).await });
        }
        tokio::time::timeout(Duration::from_millis(1), async {
            while resolver.asked.lock().unwrap().len() < 24 {
                tokio::task::yield_now().await;
            }
            for number in 0..100 {
                look_ups.of_tenant("acme", &format!("ok{number}")).await.unwrap();
            }
        })
        .await
        .expect("each tenant has a share");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_another_tenant_waits_for_is_looked_up_all_the_same() {
        let (_, look_ups) = scripted(64);
        for number in 0..100 {
            let look_ups = look_ups.clone();
            tokio::spawn(async move { look_ups.of_tenant("mallory", &format!("slow{number}")).await });
        }
        let waits = look_ups.clone();
        tokio::spawn(async move { waits.of_tenant("mallory", "ok").await });
        tokio::task::yield_now().await;
        let found = tokio::time::timeout(Duration::from_millis(1), look_ups.of_tenant("acme", "ok")).await;
        assert!(found.expect("it waits in its own line").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_place_waits_for_the_gateway() {
        let (_, look_ups) = scripted(2);
        let slow = look_ups.clone();
        tokio::spawn(async move { slow.of_default("slow").await });
        tokio::task::yield_now().await;
        let progress = Progress::default();
        let waiting = look_ups.of("ok", &progress);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        assert_eq!(progress.local_fault(), Some(LocalFault::LookUps));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_this_host_is_not_kept_as_an_answer() {
        let (resolver, look_ups) = scripted(4);
        resolver.is_without_descriptors.store(true, std::sync::atomic::Ordering::Relaxed);
        let lacking = look_ups.of_default("ok").await.unwrap_err();
        assert_eq!(lacking.fault(), Fault::Local(LocalFault::Descriptors), "{lacking}");
        resolver.is_without_descriptors.store(false, std::sync::atomic::Ordering::Relaxed);
        look_ups.of_default("ok").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_waiting_leaves_the_look_up_to_others() {
        let (resolver, look_ups) = scripted(4);
        assert!(tokio::time::timeout(Duration::from_secs(1), look_ups.of_default("slow")).await.is_err());
        resolver.let_go.notify_one();
        assert!(matches!(look_ups.of_default("slow").await, Err(LookUpError::NotFound(_))));
        assert_eq!(resolver.times("slow"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_names_that_were_used_least_recently_are_forgotten_first() {
        let (resolver, look_ups) = scripted(4);
        look_ups.of_default("ok").await.unwrap();
        look_ups.of_default("ok unused").await.unwrap();
        for number in 0..2 * MAX_NAMES {
            look_ups.of_default(&format!("ok{number}")).await.unwrap();
            if number % 1_000 == 0 {
                look_ups.of_default("ok").await.unwrap();
            }
        }
        assert_eq!(resolver.times("ok"), 1, "what is used stays");
        let mut names = look_ups.0.names();
        assert!(names.answered.len() <= MAX_NAMES && names.pending.is_empty());
        assert!(names.answered.get("ok unused").is_none());
    }
}
