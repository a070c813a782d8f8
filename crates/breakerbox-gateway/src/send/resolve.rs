//! From a name to addresses: bounded, so that slow names can't hold up the others.
//!
//! The system's resolver blocks a thread for each name, for as long as the name's servers keep it waiting, and can't be
//! told to stop. So there is a limit to look-ups at once; one name is looked up once however many ask; an answer is good for
//! a few seconds. Half of the room is for names that were found lately: names that were never found, and may be somebody's
//! trap, share the other half.
//!
//! Nothing here decides whether an address may be called.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(10);
/// How long a failure is: enough for those who ask at once.
const FAILED: Duration = Duration::from_secs(1);
/// How long a name that was found has room of its own.
const KNOWN: Duration = Duration::from_secs(600);
/// How many names are remembered.
const MAX_NAMES: usize = 10_000;
/// How many look-ups may wait for room.
const MAX_WAITING: usize = 2_048;
/// How long one may wait for room.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Finds the addresses of names.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a name, the best first.
    ///
    /// # Errors
    /// If there are none, or nobody says.
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
        let addresses = tokio::task::spawn_blocking(found).await.map_err(io::Error::other)??;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// Why there is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum LookUpError {
    #[error("the name was not found: {0}")]
    NotFound(Arc<str>),
    #[error("too many names are being looked up")]
    Busy,
}

type Found = Result<Arc<[IpAddr]>, LookUpError>;

/// Look-ups, shared by all who connect.
#[derive(Clone)]
pub(super) struct LookUps(Arc<Inner>);

struct Inner {
    resolver: Arc<dyn Resolve>,
    /// Room for names that were found lately.
    known: Semaphore,
    /// Room for all others.
    others: Semaphore,
    waiting: AtomicUsize,
    names: Mutex<HashMap<Box<str>, Entry>>,
}

struct Entry {
    /// When it was last found.
    found_at: Option<Instant>,
    state: State,
}

enum State {
    Asked(Shared<BoxFuture<'static, Found>>),
    Answered { answer: Found, at: Instant },
}

impl LookUps {
    /// At most so many at once.
    pub(super) fn new(resolver: Arc<dyn Resolve>, at_once: usize) -> Self {
        let half = (at_once / 2).max(1);
        Self(Arc::new(Inner {
            resolver,
            known: Semaphore::new(half),
            others: Semaphore::new(half),
            waiting: AtomicUsize::new(0),
            names: Mutex::default(),
        }))
    }

    /// The addresses of a name. Whoever stops waiting leaves the look-up to others.
    pub(super) async fn of(&self, name: &str) -> Found {
        let now = Instant::now();
        let asked = {
            let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = names.get(name);
            match entry.map(|entry| &entry.state) {
                Some(State::Asked(asked)) => asked.clone(),
                Some(State::Answered { answer, at }) if now - *at < good_for(answer) => {
                    return answer.clone();
                }
                _ => {
                    let found_at = entry.and_then(|entry| entry.found_at).filter(|at| now - *at < KNOWN);
                    let asked = self.ask(name, found_at);
                    make_room(&mut names, now);
                    names.insert(name.into(), Entry { found_at, state: State::Asked(asked.clone()) });
                    asked
                }
            }
        };
        asked.await
    }

    /// A look-up that goes on by itself.
    fn ask(&self, name: &str, found_at: Option<Instant>) -> Shared<BoxFuture<'static, Found>> {
        let inner = Arc::clone(&self.0);
        let name: Box<str> = name.into();
        let task = tokio::spawn(async move {
            let answer = inner.look_up(&name, found_at.is_some()).await;
            let at = Instant::now();
            let found_at = if answer.is_ok() { Some(at) } else { found_at };
            let mut names = inner.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.insert(name, Entry { found_at, state: State::Answered { answer: answer.clone(), at } });
            answer
        });
        task.map(|done| done.unwrap_or(Err(LookUpError::Busy))).boxed().shared()
    }
}

impl Inner {
    async fn look_up(&self, name: &str, is_known: bool) -> Found {
        let room = if is_known { &self.known } else { &self.others };
        let _place = match room.try_acquire() {
            Ok(place) => place,
            Err(_) => {
                let waiting = Waiting::new(&self.waiting).ok_or(LookUpError::Busy)?;
                let place = tokio::time::timeout(MAX_WAIT, room.acquire()).await;
                drop(waiting);
                place.ok().and_then(Result::ok).ok_or(LookUpError::Busy)?
            }
        };
        match self.resolver.resolve(name).await {
            Ok(addresses) if addresses.is_empty() => Err(LookUpError::NotFound("it has no address".into())),
            Ok(addresses) => Ok(addresses.into()),
            Err(error) => Err(LookUpError::NotFound(error.to_string().into())),
        }
    }
}

/// One who waits for room, counted as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let waiting = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

const fn good_for(answer: &Found) -> Duration {
    match answer {
        Ok(_) => FRESH,
        Err(_) => FAILED,
    }
}

/// Forgets what is of no use any more; if that is not enough, everything that is not being looked up.
fn make_room(names: &mut HashMap<Box<str>, Entry>, now: Instant) {
    if names.len() < MAX_NAMES {
        return;
    }
    names.retain(|_, entry| match &entry.state {
        State::Asked(_) => true,
        State::Answered { answer, at } => {
            now - *at < good_for(answer) || entry.found_at.is_some_and(|at| now - at < KNOWN)
        }
    });
    if names.len() >= MAX_NAMES {
        names.retain(|_, entry| matches!(entry.state, State::Asked(_)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tokio::sync::Notify;

    use super::*;

    /// Knows every name that begins with `ok`; never answers for one that begins with `slow` until it is told to.
    #[derive(Default)]
    struct Scripted {
        asked: Mutex<Vec<String>>,
        now_missing: Mutex<HashSet<String>>,
        let_go: Notify,
    }

    #[async_trait]
    impl Resolve for Scripted {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.asked.lock().unwrap().push(name.to_owned());
            if name.starts_with("slow") {
                self.let_go.notified().await;
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

    impl Scripted {
        fn times(&self, name: &str) -> usize {
            self.asked.lock().unwrap().iter().filter(|asked| *asked == name).count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_name_is_looked_up_once_and_its_answer_kept_for_a_while() {
        let (resolver, look_ups) = scripted(4);
        let all = futures_util::future::join_all((0..100).map(|_| look_ups.of("ok"))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(resolver.times("ok"), 1);
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        look_ups.of("ok").await.unwrap();
        assert_eq!(resolver.times("ok"), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        look_ups.of("ok").await.unwrap();
        assert_eq!(resolver.times("ok"), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_kept_for_a_second() {
        let (resolver, look_ups) = scripted(4);
        for name in ["missing", "none"] {
            for _ in 0..3 {
                assert!(matches!(look_ups.of(name).await, Err(LookUpError::NotFound(_))));
            }
            tokio::time::advance(FAILED).await;
            assert!(look_ups.of(name).await.is_err());
            assert_eq!(resolver.times(name), 2, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_names_do_not_hold_up_names_that_were_found() {
        let (resolver, look_ups) = scripted(4);
        look_ups.of("ok").await.unwrap();
        tokio::time::advance(FRESH).await;
        for number in 0..50 {
            let look_ups = look_ups.clone();
            tokio::spawn(async move { look_ups.of(&format!("slow{number}")).await });
        }
        tokio::time::timeout(Duration::from_millis(1), async {
            while resolver.asked.lock().unwrap().len() < 3 {
                tokio::task::yield_now().await;
            }
            look_ups.of("ok").await.unwrap();
        })
        .await
        .expect("the name that was found has room of its own");
        assert_eq!(resolver.asked.lock().unwrap().len(), 4, "two slow ones at once, and no more");
        assert_eq!(look_ups.of("ok2").await, Err(LookUpError::Busy), "one that was never found has none");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_waiting_leaves_the_look_up_to_others() {
        let (resolver, look_ups) = scripted(4);
        assert!(tokio::time::timeout(Duration::from_secs(1), look_ups.of("slow")).await.is_err());
        resolver.let_go.notify_one();
        assert!(matches!(look_ups.of("slow").await, Err(LookUpError::NotFound(_))));
        assert_eq!(resolver.times("slow"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_forgotten_before_there_are_too_many() {
        let (_, look_ups) = scripted(4);
        for number in 0..MAX_NAMES + 100 {
            look_ups.of(&format!("ok{number}")).await.unwrap();
        }
        assert!(look_ups.0.names.lock().unwrap().len() <= MAX_NAMES);
    }
}
