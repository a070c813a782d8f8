//! A link: the connection to one server, maintained by a task that reconnects whenever the connection is lost.
//!
//! A caller gets the connection, or at once the reason why there is none; it waits only during the first
//! attempt after a loss. Attempts continue forever, at most about one per second, so a server that recovers is
//! found even without requests. A link never sends a command twice.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::connection::Peer;
use crate::error::ConnectError;

/// The maximum pause after the first failed connection attempt. The maximum doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The maximum pause between connection attempts. A connection that lasted less than this does not reset the
/// pauses.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The connection to one server, with the task that maintains it.
pub(crate) struct Link {
    name: String,
    state: watch::Receiver<State>,
    problems: Arc<Problems>,
    _keeper: Task,
}

/// The state of a [`Link`].
#[derive(Clone)]
pub(crate) enum State {
    /// The first connection attempt, or the first after the connection was lost, is in progress.
    Connecting,
    /// The link has this connection.
    Up(MultiplexedConnection),
    /// The latest connection attempt failed for this reason. Attempts continue.
    Down(ConnectError),
}

/// Reports about a connection, from its users to the task that maintains it.
#[derive(Default)]
struct Problems {
    /// A response did not arrive in time.
    silent: Notify,
    /// The server is no longer the master, so the connection must be replaced.
    wrong: Notify,
}

impl Link {
    pub(crate) fn new(peer: Peer, limit: Duration) -> Self {
        let (sender, state) = watch::channel(State::Connecting);
        let problems = Arc::new(Problems::default());
        let name = peer.name();
        let keeper = Task::spawn(keep(peer, limit, sender, Arc::clone(&problems)));
        Self { name, state, problems, _keeper: keeper }
    }

    /// Returns the server's name for error messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the task that maintains the connection has ended, which happens only when the task's
    /// runtime ends.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.has_changed().is_err()
    }

    /// Returns the connection, or the reason why there is none. Waits while the first connection attempt is in
    /// progress.
    pub(crate) async fn connection(&self) -> Result<MultiplexedConnection, ConnectError> {
        if self.has_ended() {
            return Err(ConnectError::Ended);
        }
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting)).await;
        match settled.as_deref() {
            Ok(State::Up(connection)) => Ok(connection.clone()),
            Ok(State::Down(error)) => Err(error.clone()),
            Ok(State::Connecting) | Err(_) => Err(ConnectError::Ended),
        }
    }

    /// Subscribes to changes of the link's state.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Reports that a response did not arrive in time. The task then tests the connection, and replaces it if
    /// it is dead.
    pub(crate) fn is_silent(&self) {
        self.problems.silent.notify_one();
    }

    /// Reports that the server is no longer the master. The link then reconnects, to find the current master.
    pub(crate) fn is_wrong(&self) {
        self.problems.wrong.notify_one();
    }
}

async fn keep(peer: Peer, limit: Duration, state: watch::Sender<State>, problems: Arc<Problems>) {
    let mut pauses = Pauses::default();
    loop {
        let lost = Arc::new(Notify::new());
        match peer.connect(limit, announce_loss(&lost)).await {
            Ok(connection) => {
                let (alive, since) = (connection.clone(), Instant::now());
                state.send_replace(State::Up(connection));
                until_dead(alive, limit, &lost, &problems).await;
                state.send_replace(State::Connecting);
                pauses.lasted(since.elapsed());
            }
            Err(error) => {
                state.send_replace(State::Down(error));
                pauses.failed();
            }
        }
        pauses.wait().await;
    }
}

/// Waits until the connection can't be used any more.
async fn until_dead(
    mut connection: MultiplexedConnection,
    limit: Duration,
    lost: &Notify,
    problems: &Problems,
) {
    loop {
        tokio::select! {
            () = lost.notified() => return,
            () = problems.wrong.notified() => return,
            () = problems.silent.notified() => {
                if !is_alive(&mut connection, limit).await {
                    return;
                }
            }
        }
    }
}

/// Returns whether the server responds on this connection.
pub(crate) async fn is_alive(connection: &mut MultiplexedConnection, limit: Duration) -> bool {
    let ping = redis::cmd("PING");
    matches!(timeout(limit, connection.send_packed_command(&ping)).await, Ok(Ok(_)))
}

/// Returns a callback for push messages that notifies `lost` when the connection ends.
fn announce_loss(lost: &Arc<Notify>) -> impl Fn(PushInfo) -> Result<(), ()> + use<> {
    let lost = Arc::clone(lost);
    move |push| {
        if push.kind == PushKind::Disconnection {
            lost.notify_one();
        }
        Ok(())
    }
}

/// The pauses between connection attempts. They grow up to a maximum, with jitter, so that a fleet does not
/// reconnect all at once.
#[derive(Default)]
pub(crate) struct Pauses {
    failures: u32,
}

impl Pauses {
    /// Records a failed connection attempt.
    pub(crate) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Records how long a connection lasted. A connection shorter than [`MAX_PAUSE`] counts as a failure.
    pub(crate) fn lasted(&mut self, lasted: Duration) {
        self.failures = if lasted < MAX_PAUSE { self.failures.saturating_add(1) } else { 0 };
    }

    /// Waits before the next connection attempt.
    pub(crate) async fn wait(&self) {
        let jitter = rand::rng().random_range(0.5..1.0);
        sleep(self.longest().mul_f64(jitter)).await;
    }

    /// Returns the maximum length of the next pause. It is zero if the last connection lasted long enough.
    fn longest(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(10)).min(MAX_PAUSE),
        }
    }
}

/// A task that is aborted when the handle is dropped.
pub(crate) struct Task(AbortHandle);

impl Task {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_end_with_a_connection_that_lasts() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.longest(), Duration::ZERO, "the first attempt is made at once");
        let mut longest = || {
            pauses.failed();
            pauses.longest().as_millis()
        };
        assert_eq!([longest(), longest(), longest(), longest(), longest()], [50, 100, 200, 400, 800]);
        assert_eq!((0..1_000).map(|_| longest()).max(), Some(1_000));
        pauses.lasted(Duration::from_millis(999));
        assert_eq!(pauses.longest(), MAX_PAUSE, "lost at once is as good as none");
        pauses.lasted(Duration::from_secs(1));
        assert_eq!(pauses.longest(), Duration::ZERO);
    }
}
